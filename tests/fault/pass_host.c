/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault/pass_scene.h"
#include "fault/passes.h"
#include <stdio.h>
#include <stdlib.h>

clattn_status pass_make_host(struct scene *scene)
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
    pass_place_results(pass, at);
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

clattn_status pass_stream_host(struct scene *scene)
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
    pass_place_gradients(pass, at);
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

clattn_status pass_run_host_backward(struct scene *scene)
{
    return host_backward(scene, 0);
}

clattn_status pass_stream_host_backward(struct scene *scene)
{
    return host_backward(scene, 11);
}

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
                !scene_make_context(&scene) && !pass_make_host(&scene);
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
