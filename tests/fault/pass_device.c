/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault/pass_scene.h"

static clattn_status make_plan(struct scene *scene, enum clattn_pass which)
{
    struct clattn_problem problem = pass_case.problem;
    problem.pass = which;
    const clattn_status status = clattn_plan_create(&scene->plan, scene->context, &problem);
    return status && scene->plan ? 1 : status;
}

clattn_status pass_make_backward_plan(struct scene *scene)
{
    return make_plan(scene, CLATTN_BACKWARD);
}

clattn_status pass_make_state_plan(struct scene *scene)
{
    return make_plan(scene, CLATTN_ACCUMULATE);
}

static struct clattn_score_args score_of(const struct pass_scene *pass)
{
    return score_args(&pass_case.problem, &pass_case.score, &pass->arrays.forward.score, &pass->score);
}

static struct clattn_tensor input(const struct pass_scene *pass, int which)
{
    return (struct clattn_tensor){.buffer = pass->inputs[which]};
}

static struct clattn_tensor output(const struct pass_scene *pass, size_t offset, struct clattn_layout layout)
{
    layout.offset = (int64_t)offset;
    return (struct clattn_tensor){pass->output, layout};
}

clattn_status pass_run_backward(struct scene *scene)
{
    struct pass_scene *pass = scene->pass;
    const struct clattn_layout dense = {0};
    const struct score_arrays *score = &pass->arrays.forward.score;
    size_t at[GRADIENTS];
    cl_event first = NULL;
    pass_place_gradients(pass, at);
    struct clattn_backward_args args = {.shape = pass_case.shape,
                                        .q = input(pass, Q),
                                        .k = input(pass, K),
                                        .v = input(pass, V),
                                        .o = input(pass, O),
                                        .d_o = input(pass, D_O),
                                        .lse = input(pass, LSE),
                                        .d_q = output(pass, at[D_Q], dense),
                                        .d_k = output(pass, at[D_K], dense),
                                        .d_v = output(pass, at[D_V], dense),
                                        .d_bias = output(pass, at[D_BIAS], score->pair_at),
                                        .d_sinks = output(pass, at[D_SINKS], dense),
                                        .score = score_of(pass),
                                        .workspace = pass->workspace,
                                        .workspace_bytes = BYTES,
                                        .first_event = &first};
    const clattn_status status =
        clattn_backward_enqueue(scene->plan, scene->device->queue, &args, 0, NULL, &scene->event);
    scene->done = !status;
    if (!first)
        return status ? status : 1; /* a call that succeeds gives both events, */
    clReleaseEvent(first);
    return status ? 1 : CLATTN_SUCCESS; /* one that fails none */
}

/* Each call waits for the one before; the last one's event stays. */
struct chain {
    struct scene *scene;
    clattn_status status;
    cl_event event;
};

static void follow(struct chain *chain, clattn_status status, cl_event next)
{
    if (chain->event)
        clReleaseEvent(chain->event);
    chain->event = next;
    chain->status = status && next ? 1 : status;
}

static void begin(struct chain *chain, int which)
{
    cl_event next = NULL;
    if (chain->status)
        return;
    const clattn_status status = clattn_state_begin_enqueue(
        chain->scene->plan, chain->scene->device->queue, &pass_case.shape, chain->scene->pass->states[which],
        chain->event != NULL, chain->event ? &chain->event : NULL, &next);
    follow(chain, status, next);
}

static void accumulate(struct chain *chain, int which, int64_t first, int64_t count)
{
    const struct pass_scene *pass = chain->scene->pass;
    const int64_t d = pass_case.problem.d;
    struct clattn_layout keys = clattn_layout_bhnd(pass_case.shape.kv_heads, pass_case.shape.n_kv, d);
    cl_event next = NULL;
    if (chain->status)
        return;
    keys.offset = first * d;
    const struct clattn_accumulate_args args = {.shape = pass_case.shape,
                                                .first_key = first,
                                                .key_count = count,
                                                .q = input(pass, Q),
                                                .k = {pass->inputs[K], keys},
                                                .v = {pass->inputs[V], keys},
                                                .state = pass->states[which],
                                                .score = score_of(pass),
                                                .workspace = pass->workspace,
                                                .workspace_bytes = BYTES};
    const clattn_status status = clattn_state_accumulate_enqueue(chain->scene->plan, chain->scene->device->queue, &args,
                                                                 1, &chain->event, &next);
    follow(chain, status, next);
}

static void merge(struct chain *chain)
{
    cl_event next = NULL;
    if (chain->status)
        return;
    const clattn_status status = clattn_state_merge_enqueue(chain->scene->plan, chain->scene->device->queue,
                                                            &pass_case.shape, chain->scene->pass->states[0],
                                                            chain->scene->pass->states[1], 1, &chain->event, &next);
    follow(chain, status, next);
}

static void finish(struct chain *chain)
{
    const struct clattn_layout dense = {0};
    const struct pass_scene *pass = chain->scene->pass;
    size_t at[OUTS];
    cl_event next = NULL;
    if (chain->status)
        return;
    pass_place_results(pass, at);
    const struct clattn_finish_args args = {.shape = pass_case.shape,
                                            .state = pass->states[0],
                                            .o = output(pass, at[OUT_O], dense),
                                            .lse = output(pass, at[OUT_LSE], dense),
                                            .m = output(pass, at[OUT_M], dense),
                                            .l = output(pass, at[OUT_L], dense),
                                            .score = score_of(pass)};
    const clattn_status status =
        clattn_state_finish_enqueue(chain->scene->plan, chain->scene->device->queue, &args, 1, &chain->event, &next);
    follow(chain, status, next);
}

/* From the beginning each time: what a call that failed has left of a state is not known. */
clattn_status pass_run_state(struct scene *scene)
{
    struct chain chain = {.scene = scene};
    begin(&chain, 0);
    begin(&chain, 1);
    accumulate(&chain, 0, 0, 7);
    accumulate(&chain, 0, 7, 10);
    accumulate(&chain, 1, 17, 16);
    merge(&chain);
    finish(&chain);
    scene->done = !chain.status;
    if (scene->done)
        scene->event = chain.event;
    else if (chain.event)
        clReleaseEvent(chain.event);
    return chain.status;
}
