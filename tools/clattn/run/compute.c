/* SPDX-License-Identifier: BSD-2-Clause */
#include "progress.h"
#include "run/job.h"
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static enum clattn_operand_type as_type(int type)
{
    return (enum clattn_operand_type)(type + CLATTN_AS_FP32);
}

/* Numbers that were given, in the struct whose they are: the second of a pair is the next row's. */
static void give_numbers(const struct cla_feature_number *(*row_at)(int, const struct cla_feature **),
                         const struct option_number *given, void *to)
{
    const struct cla_feature *of;
    const struct cla_feature_number *row;
    const struct option_number *pair = NULL;
    for (int i = 0; (row = row_at(i, &of)); i++) {
        const struct option_number *number = row->option.name ? &given[i] : pair;
        if (number && number->given)
            cla_feature_number_set(row, number->whole[number == pair], number->real, (char *)to + row->array);
        pair = row->option.two ? number : NULL;
    }
}

/* Of all batch elements; 0, unknown, of more than a plan counts. */
static int64_t all_heads(int64_t batch, int64_t heads)
{
    return heads && batch > INT32_MAX / heads ? 0 : batch * heads;
}

struct clattn_problem run_problem(const struct run *run, enum clattn_pass pass)
{
    const struct values *values = run->values;
    const struct arrays *arrays = &run->arrays;
    const struct score_options *score = &values->score;
    const bool for_gradients = pass == CLATTN_FORWARD && run_wants_gradients(values);
    struct clattn_problem problem = {.pass = pass,
                                     .dtype = arrays->dtype,
                                     .k_type = as_type(arrays->k_type),
                                     .v_type = as_type(arrays->v_type),
                                     .o_type = (enum clattn_operand_type)values->o_type,
                                     .d = arrays->d,
                                     .d_v = arrays->d_v,
                                     .causal = (enum clattn_causal)values->causal,
                                     .scale = (float)values->scale,
                                     .features = cla_features_of_pass(score_features(score), pass == CLATTN_BACKWARD),
                                     .dropout_p = (float)score->features.numbers[SCORE_DROPOUT].real,
                                     .score_mod = run->score.score_mod,
                                     .score_mod_grad = run->score.score_mod_grad,
                                     .mask_mod = run->score.mask_mod,
                                     /* Left out before gradients: no kernel for few rows (clattn/plan.h). */
                                     .expected_n_q = for_gradients ? 0 : arrays->shape.n_q,
                                     .expected_n_kv = arrays->shape.n_kv,
                                     .expected_heads = all_heads(arrays->shape.batch, arrays->shape.heads),
                                     .expected_kv_heads = all_heads(arrays->shape.batch, arrays->shape.kv_heads),
                                     .unordered = pass == CLATTN_BACKWARD && values->unordered,
                                     .splits = pass == CLATTN_FORWARD ? (int)values->splits : 0,
                                     .split_keys = pass == CLATTN_FORWARD ? values->split_keys : 0,
                                     .skeleton =
                                         pass == CLATTN_BACKWARD ? values->backward_skeleton : values->skeleton};
    give_numbers(cla_feature_setting, score->features.settings, &problem);
    problem.page_keys = arrays->page_keys;
    problem.k_scale_group = run->score.groups[SCORE_K_SCALES];
    problem.v_scale_group = run->score.groups[SCORE_V_SCALES];
    problem.zero_points = (run->score.values[SCORE_K_ZEROS] ? CLATTN_K_ZEROS : 0) |
                          (run->score.values[SCORE_V_ZEROS] ? CLATTN_V_ZEROS : 0);
    if (run->score.values[SCORE_BIAS]) /* npy_type has the order of the types */
        problem.bias_type = as_type((int)run->score.files[SCORE_BIAS].header.type);
    return problem;
}

/* Arrays and their layouts, as the table of features has them. */
static void give_arrays(const struct score_files *score, bool backward, struct clattn_host_kv_scales *scales,
                        struct clattn_host_score_args *args)
{
    const struct cla_feature *of;
    const struct cla_feature_tensor *row;
    for (int i = 0; (row = cla_feature_tensor(i, &of)); i++) {
        char *const to = row->home == CLA_IN_SCALES ? (char *)scales : (char *)args;
        if (!cla_features_of_pass(of->bit, backward))
            continue;
        memcpy(to + row->array, &score->values[i], sizeof score->values[i]);
        if (row->layout)
            memcpy(to + row->layout, &score->layouts[i], sizeof score->layouts[i]);
    }
    args->kv_scales = scales;
}

struct clattn_host_score_args run_score_args(const struct run *run, bool backward, struct clattn_host_kv_scales *scales)
{
    const struct score_options *options = &run->values->score;
    const struct score_files *score = &run->score;
    struct clattn_host_score_args args = {.block_count = score->block_count,
                                          .total_q = score->total_q,
                                          .total_kv = score->total_kv,
                                          .pool_pages = run->arrays.pool_pages,
                                          .page_count = score->page_count,
                                          .data_count = score->data_count};
    give_arrays(score, backward, scales, &args);
    give_numbers(cla_feature_number, options->features.numbers, &args);
    return args;
}

struct clattn_host_forward_args run_forward_args(const struct run *run, struct clattn_host_kv_scales *scales)
{
    const struct arrays *arrays = &run->arrays;
    return (struct clattn_host_forward_args){.shape = arrays->shape,
                                             .q = run->inputs[ARRAYS_Q].data,
                                             .k = run->inputs[ARRAYS_K].data,
                                             .v = run->inputs[ARRAYS_V].data,
                                             .o = run->results[RUN_O],
                                             .q_layout = arrays->q,
                                             .k_layout = arrays->k,
                                             .v_layout = arrays->v,
                                             .o_layout = arrays->o,
                                             .lse = run->results[RUN_LSE],
                                             .m = run->results[RUN_M],
                                             .l = run->results[RUN_L],
                                             .score = run_score_args(run, false, scales),
                                             .kv_chunk = run->values->kv_chunk,
                                             .max_device_bytes = (uint64_t)run->values->memory};
}

struct clattn_host_backward_args run_backward_args(const struct run *run, struct clattn_host_kv_scales *scales)
{
    const struct arrays *arrays = &run->arrays;
    return (struct clattn_host_backward_args){.shape = arrays->shape,
                                              .q = run->inputs[ARRAYS_Q].data,
                                              .k = run->inputs[ARRAYS_K].data,
                                              .v = run->inputs[ARRAYS_V].data,
                                              .o = run->results[RUN_O],
                                              .d_o = run->inputs[ARRAYS_D_O].data,
                                              .m = run->results[RUN_M],
                                              .l = run->results[RUN_L],
                                              .d_q = run->results[RUN_D_Q],
                                              .d_k = run->results[RUN_D_K],
                                              .d_v = run->results[RUN_D_V],
                                              .d_bias = run->results[RUN_D_BIAS],
                                              .d_sinks = run->results[RUN_D_SINKS],
                                              .q_layout = arrays->q,
                                              .k_layout = arrays->k,
                                              .v_layout = arrays->v,
                                              .o_layout = arrays->o,
                                              .d_o_layout = arrays->o,
                                              .d_q_layout = arrays->q,
                                              .d_k_layout = arrays->k,
                                              .d_v_layout = arrays->v,
                                              .d_bias_layout = run->score.layouts[SCORE_BIAS],
                                              .score = run_score_args(run, true, scales),
                                              .kv_chunk = run->values->kv_chunk,
                                              .max_device_bytes = (uint64_t)run->values->memory};
}

/* A bar that begins with the first piece of the keys, which tells how many there will be: the library may have chosen
 * its size. Where they do not come in pieces, there is none. */
struct key_progress {
    struct progress bar;
    bool begun, quiet;
};

static void show_keys(void *user, int64_t done, int64_t keys)
{
    struct key_progress *progress = user;
    char text[64];
    if (!progress->begun) {
        const int64_t pieces = done ? (keys + done - 1) / done : 1;
        progress_start(&progress->bar, pieces > INT_MAX ? INT_MAX : (int)pieces, progress->quiet);
        progress->begun = true;
    }
    snprintf(text, sizeof text, "%" PRId64 " of %" PRId64 " keys", done, keys);
    progress_step(&progress->bar, text);
}

static void end_progress(const struct key_progress *progress)
{
    if (progress->begun)
        progress_clear(&progress->bar);
}

static clattn_status forward(struct run *run, clattn_host *host)
{
    const struct clattn_problem problem = run_problem(run, CLATTN_FORWARD);
    struct key_progress progress = {.quiet = run->values->quiet};
    struct clattn_host_kv_scales scales = {.k_scales = NULL};
    struct clattn_host_forward_args args = run_forward_args(run, &scales);
    args.progress = show_keys;
    args.progress_user = &progress;
    const clattn_status code = clattn_host_forward(host, &problem, &args);
    end_progress(&progress);
    return code ? code : clattn_host_last(host, &run->plan, &run->info);
}

static clattn_status backward(struct run *run, clattn_host *host)
{
    const struct clattn_problem problem = run_problem(run, CLATTN_BACKWARD);
    struct key_progress progress = {.quiet = run->values->quiet};
    struct clattn_host_kv_scales scales = {.k_scales = NULL};
    struct clattn_host_backward_args args = run_backward_args(run, &scales);
    args.progress = show_keys;
    args.progress_user = &progress;
    const clattn_status code = clattn_host_backward(host, &problem, &args);
    end_progress(&progress);
    return code ? code : clattn_host_last(host, &run->backward_plan, &run->backward_info);
}

static clattn_status open_host(struct run_shared *shared)
{
    const struct clattn_host_params params = {.context = shared->session.clattn, .queue = shared->session.queue};
    return shared->host ? CLATTN_SUCCESS : clattn_host_create(&shared->host, &params);
}

int run_compute(struct run *run, struct failure *failure)
{
    const char *what = "attention";
    clattn_status code = open_host(run->shared);
    if (!code)
        code = forward(run, run->shared->host);
    if (!code && run_wants_gradients(run->values)) {
        what = "gradients";
        code = backward(run, run->shared->host);
    }
    return code ? fail_library(failure, what, code) : STATUS_OK;
}
