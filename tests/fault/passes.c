/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault/passes.h"
#include "support/backward_parts.h"
#include "support/compare.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { Q, K, V, O, D_O, LSE, INPUTS, BYTES = 1 << 16 };

/* Arguments of every kind: a number, arrays by head, by pair, and a block mask that takes workspace. */
static const struct forward_case pass_case = {.problem = {.d = 16,
                                                          .causal = CLATTN_CAUSAL_BOTTOM_RIGHT,
                                                          .features = CLATTN_WINDOW | CLATTN_ALIBI | CLATTN_BIAS |
                                                                      CLATTN_BLOCK_MASK | CLATTN_SINKS | CLATTN_DROPOUT,
                                                          .block_q = 16,
                                                          .block_kv = 16},
                                              .shape = {.batch = 1, .heads = 2, .kv_heads = 1, .n_q = 18, .n_kv = 33},
                                              .score = {.window_left = 25,
                                                        .window_right = 3,
                                                        .dropout_p = 0.25f,
                                                        .dropout_seed = 5,
                                                        .dropout_offset = 1,
                                                        .density = 0.7,
                                                        .csr = true},
                                              .seed = 52};

/* What a scene has beside the forward pass's. */
struct pass_scene {
    struct backward_arrays arrays;
    struct score_stage score;
    void *bias; /* in the problem's type */
    cl_mem inputs[INPUTS], states[2], workspace;
    cl_mem output; /* all outputs, one behind the other, as in scene->output */
};

static cl_mem buffer_of(const struct scene *scene, size_t bytes, const void *from)
{
    cl_int code = CL_SUCCESS;
    cl_mem buffer = clCreateBuffer(scene->device->context, CL_MEM_READ_WRITE | (from ? CL_MEM_COPY_HOST_PTR : 0), bytes,
                                   (void *)(uintptr_t)from, &code);
    return test_cl_succeeded(code, "clCreateBuffer") ? buffer : NULL;
}

static bool fill_buffers(struct scene *scene)
{
    struct pass_scene *pass = scene->pass;
    const struct forward_arrays *in = &pass->arrays.forward;
    const struct reference_problem problem = forward_reference_of(&pass_case, in);
    const float *const values[INPUTS] = {in->q, in->k, in->v, in->o, pass->arrays.d_o, in->lse};
    const size_t counts[INPUTS] = {reference_q_count(&problem), reference_k_count(&problem),
                                   reference_v_count(&problem), reference_o_count(&problem),
                                   reference_o_count(&problem), reference_row_count(&problem)};
    bool made = true;
    for (int i = 0; i < INPUTS; i++)
        made = (pass->inputs[i] = buffer_of(scene, counts[i] * sizeof(float), values[i])) && made;
    for (int i = 0; i < 2; i++)
        made = (pass->states[i] = buffer_of(scene, BYTES, NULL)) && made;
    made = (pass->workspace = buffer_of(scene, BYTES, NULL)) && made;
    made = (pass->output = buffer_of(scene, scene->outputs * sizeof(float), scene->output)) && made;
    scene->results = pass->output;
    return made && score_stage_make(scene->device, &pass_case.problem, &in->score, &pass->score);
}

/* Where the outputs of a pass lie: offsets[i] in elements; answers how many there are in all. */
static size_t place_gradients(const struct pass_scene *pass, size_t offsets[GRADIENTS])
{
    const struct gradients gradients = backward_gradients(&pass_case, &pass->arrays);
    size_t at = 0;
    for (int i = 0; i < GRADIENTS; i++) {
        offsets[i] = at;
        at += gradients.counts[i];
    }
    return at;
}

enum { OUT_O, OUT_LSE, OUT_M, OUT_L, OUTS };
static size_t place_results(const struct pass_scene *pass, size_t offsets[OUTS])
{
    const struct reference_problem problem = forward_reference_of(&pass_case, &pass->arrays.forward);
    const size_t rows = reference_row_count(&problem);
    offsets[OUT_O] = 0;
    for (int i = OUT_LSE; i <= OUT_L; i++)
        offsets[i] = reference_o_count(&problem) + (size_t)(i - OUT_LSE) * rows;
    return offsets[OUT_L] + rows;
}

static bool open_pass(struct scene *scene, bool backward)
{
    size_t offsets[GRADIENTS];
    struct pass_scene *pass = scene->pass = calloc(1, sizeof *scene->pass);
    if (!pass || !backward_arrays_make(&pass_case, &pass->arrays))
        return false;
    const struct clattn_host_score_args args =
        score_host_args(&pass_case.problem, &pass_case.score, &pass->arrays.forward.score, &pass->bias);
    scene->outputs = backward ? place_gradients(pass, offsets) : place_results(pass, offsets);
    scene->output = malloc(scene->outputs * sizeof(float));
    if (!scene->output || !args.bias)
        return false;
    scene_poison(scene);
    return fill_buffers(scene);
}

static bool open_backward(struct scene *scene)
{
    return open_pass(scene, true);
}

static bool open_state(struct scene *scene)
{
    return open_pass(scene, false);
}

static void release(cl_mem buffer)
{
    if (buffer)
        clReleaseMemObject(buffer);
}

static void close_pass(struct scene *scene)
{
    struct pass_scene *pass = scene->pass;
    if (!pass)
        return;
    for (int i = 0; i < INPUTS; i++)
        release(pass->inputs[i]);
    release(pass->states[0]);
    release(pass->states[1]);
    release(pass->workspace);
    release(pass->output);
    score_stage_free(&pass->score);
    backward_arrays_free(&pass->arrays);
    free(pass->bias);
    free(pass);
}

/* Steps */

static clattn_status make_plan(struct scene *scene, enum clattn_pass which)
{
    struct clattn_problem problem = pass_case.problem;
    problem.pass = which;
    const clattn_status status = clattn_plan_create(&scene->plan, scene->context, &problem);
    return status && scene->plan ? 1 : status;
}

static clattn_status make_backward_plan(struct scene *scene)
{
    return make_plan(scene, CLATTN_BACKWARD);
}

static clattn_status make_state_plan(struct scene *scene)
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

static clattn_status run_backward(struct scene *scene)
{
    struct pass_scene *pass = scene->pass;
    const struct clattn_layout dense = {0};
    const struct score_arrays *score = &pass->arrays.forward.score;
    size_t at[GRADIENTS];
    place_gradients(pass, at);
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
                                        .workspace_bytes = BYTES};
    const clattn_status status =
        clattn_backward_enqueue(scene->plan, scene->device->queue, &args, 0, NULL, &scene->event);
    scene->done = !status;
    return status;
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
    place_results(pass, at);
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
static clattn_status run_state(struct scene *scene)
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

static clattn_status make_host(struct scene *scene)
{
    const struct clattn_host_params params = {.context = scene->context};
    const clattn_status status = clattn_host_create(&scene->host, &params);
    return status && scene->host ? 1 : status;
}

static struct clattn_host_score_args host_score_of(const struct pass_scene *pass)
{
    void *bias = NULL;
    struct clattn_host_score_args args =
        score_host_args(&pass_case.problem, &pass_case.score, &pass->arrays.forward.score, &bias);
    free(bias);
    args.bias = pass->bias; /* which lives longer */
    return args;
}

static clattn_status stream_with(struct scene *scene, const struct clattn_host_score_args *score)
{
    const struct pass_scene *pass = scene->pass;
    const struct forward_arrays *in = &pass->arrays.forward;
    size_t at[OUTS];
    place_results(pass, at);
    const struct clattn_host_forward_args args = {.shape = pass_case.shape,
                                                  .q = in->q,
                                                  .k = in->k,
                                                  .v = in->v,
                                                  .o = scene->output + at[OUT_O],
                                                  .lse = scene->output + at[OUT_LSE],
                                                  .m = scene->output + at[OUT_M],
                                                  .l = scene->output + at[OUT_L],
                                                  .score = *score,
                                                  .kv_chunk = 11};
    return clattn_host_forward(scene->host, &pass_case.problem, &args);
}

static clattn_status stream_host(struct scene *scene)
{
    const struct clattn_host_score_args score = host_score_of(scene->pass);
    scene_poison(scene);
    const clattn_status status = stream_with(scene, &score);
    scene->done = !status;
    return status;
}

static clattn_status host_backward(struct scene *scene, int64_t kv_chunk)
{
    const struct pass_scene *pass = scene->pass;
    const struct forward_arrays *in = &pass->arrays.forward;
    struct clattn_problem problem = pass_case.problem;
    size_t at[GRADIENTS];
    place_gradients(pass, at);
    problem.pass = CLATTN_BACKWARD;
    scene_poison(scene);
    const struct clattn_host_backward_args args = {.shape = pass_case.shape,
                                                   .q = in->q,
                                                   .k = in->k,
                                                   .v = in->v,
                                                   .o = in->o,
                                                   .d_o = pass->arrays.d_o,
                                                   .lse = in->lse,
                                                   .d_q = scene->output + at[D_Q],
                                                   .d_k = scene->output + at[D_K],
                                                   .d_v = scene->output + at[D_V],
                                                   .d_bias = scene->output + at[D_BIAS],
                                                   .d_sinks = scene->output + at[D_SINKS],
                                                   .d_bias_layout = in->score.pair_at,
                                                   .score = host_score_of(pass),
                                                   .kv_chunk = kv_chunk};
    const clattn_status status = clattn_host_backward(scene->host, &problem, &args);
    scene->done = !status;
    return status;
}

static clattn_status run_host_backward(struct scene *scene)
{
    return host_backward(scene, 0);
}

static clattn_status stream_host_backward(struct scene *scene)
{
    return host_backward(scene, 11);
}

/* Verdicts */

static bool fetch(struct scene *scene)
{
    return scene->host ||
           (test_cl_succeeded(clWaitForEvents(1, &scene->event), "clWaitForEvents") &&
            test_cl_succeeded(clEnqueueReadBuffer(scene->device->queue, scene->pass->output, CL_TRUE, 0,
                                                  scene->outputs * sizeof(float), scene->output, 0, NULL, NULL),
                              "clEnqueueReadBuffer"));
}

static bool gradients_right(struct scene *scene)
{
    const struct gradients to = backward_gradients(&pass_case, &scene->pass->arrays);
    size_t at[GRADIENTS];
    place_gradients(scene->pass, at);
    if (!fetch(scene))
        return false;
    for (int i = 0; i < GRADIENTS; i++)
        memcpy(to.values[i], scene->output + at[i], to.counts[i] * sizeof(float));
    return backward_judge(&pass_case, BACKWARD_ALL, &scene->pass->arrays);
}

static bool results_right(struct scene *scene)
{
    struct forward_arrays *arrays = &scene->pass->arrays.forward;
    float *const to[OUTS] = {arrays->o, arrays->lse, arrays->m, arrays->l};
    size_t at[OUTS];
    const size_t end = place_results(scene->pass, at);
    if (!fetch(scene))
        return false;
    for (int i = 0; i < OUTS; i++)
        memcpy(to[i], scene->output + at[i], ((i + 1 < OUTS ? at[i + 1] : end) - at[i]) * sizeof(float));
    return compare_outputs(&pass_case, arrays);
}

static const struct step backward_steps[] = {{"clattn_context_create", scene_make_context},
                                             {"clattn_plan_create", make_backward_plan},
                                             {"clattn_backward_enqueue", run_backward},
                                             {0}};
static const struct step state_steps[] = {{"clattn_context_create", scene_make_context},
                                          {"clattn_plan_create", make_state_plan},
                                          {"clattn_state_..._enqueue", run_state},
                                          {0}};
static const struct step host_backward_steps[] = {{"clattn_context_create", scene_make_context},
                                                  {"clattn_host_create", make_host},
                                                  {"clattn_host_backward", run_host_backward},
                                                  {"clattn_host_backward again", run_host_backward},
                                                  {0}};
static const struct step backward_stream_steps[] = {{"clattn_context_create", scene_make_context},
                                                    {"clattn_host_create", make_host},
                                                    {"clattn_host_backward with kv_chunk", stream_host_backward},
                                                    {"clattn_host_backward with kv_chunk again", stream_host_backward},
                                                    {0}};
static const struct step stream_steps[] = {{"clattn_context_create", scene_make_context},
                                           {"clattn_host_create", make_host},
                                           {"clattn_host_forward with kv_chunk", stream_host},
                                           {"clattn_host_forward with kv_chunk again", stream_host},
                                           {0}};

/* Programs are built, kept and found again by the code that the forward pass's scenarios watch. */
const struct scenario pass_scenarios[] = {
    {.name = "backward",
     .steps = backward_steps,
     .warm_only = true,
     .open = open_backward,
     .close = close_pass,
     .right = gradients_right},
    {.name = "backward, host level",
     .steps = host_backward_steps,
     .warm_only = true,
     .open = open_backward,
     .close = close_pass,
     .right = gradients_right},
    {.name = "state",
     .steps = state_steps,
     .warm_only = true,
     .open = open_state,
     .close = close_pass,
     .right = results_right},
    {.name = "gradients with keys in pieces, host level",
     .steps = backward_stream_steps,
     .sparse = true, /* programs and way of "backward, host level", chunks of "keys in pieces" */
     .warm_only = true,
     .open = open_backward,
     .close = close_pass,
     .right = gradients_right},
    {.name = "keys in pieces, host level",
     .steps = stream_steps,
     .warm_only = true,
     .open = open_state,
     .close = close_pass,
     .right = results_right},
};
const int pass_scenario_count = sizeof pass_scenarios / sizeof pass_scenarios[0];

/* Wrong arguments */

static const int32_t falling_offsets[] = {0, 2, 1, 2, 3, 4}, far_columns[] = {0, 1, 2, 99};

static void no_softcap(struct clattn_host_score_args *score)
{
    score->softcap = 3.0f; /* of a feature that the problem does not have */
}

static void no_bias(struct clattn_host_score_args *score)
{
    score->bias = NULL;
}

static void window_below(struct clattn_host_score_args *score)
{
    score->window_left = -2;
}

static void dropout_of_one(struct clattn_host_score_args *score)
{
    score->dropout_p = 1.0f;
}

static void offsets_fall(struct clattn_host_score_args *score)
{
    score->block_offsets = falling_offsets;
}

static void column_beyond(struct clattn_host_score_args *score)
{
    score->block_columns = far_columns;
    score->block_count = 4;
}

static void negative_stride(struct clattn_host_score_args *score)
{
    score->alibi_layout.head = -1;
}

bool pass_refuses_wrong_arguments(struct test_device *device, long (*calls)(void))
{
    static void (*const changes[])(struct clattn_host_score_args *) = {
        no_softcap, no_bias, window_below, dropout_of_one, offsets_fall, column_beyond, negative_stride};
    struct scene scene;
    bool good = scene_open(&scene, device, "", scenario_named("keys in pieces, host level")) &&
                !scene_make_context(&scene) && !make_host(&scene);
    for (size_t i = 0; good && i < sizeof changes / sizeof changes[0]; i++) {
        struct clattn_host_score_args score = host_score_of(scene.pass);
        changes[i](&score);
        const long before = calls();
        const clattn_status status = stream_with(&scene, &score);
        good = (status == CLATTN_INVALID_ARGUMENT || status == CLATTN_INVALID_LAYOUT) && calls() == before &&
               scene_untouched(&scene) && clattn_error_message()[0];
        if (!good)
            fprintf(stderr, "wrong argument %zu: %s after %ld calls: %s\n", i, clattn_status_name(status),
                    calls() - before, clattn_error_message());
    }
    scene_close(&scene);
    return good;
}
