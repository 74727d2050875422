/* SPDX-License-Identifier: BSD-2-Clause */
#include "verify/judged.h"
#include "verify/stage.h"
#include <stdlib.h>
#include <string.h>

/* The backward pass: gradients against those of the float64 reference. */

static struct clattn_tensor keys_from(struct clattn_tensor tensor, int64_t first)
{
    tensor.layout.offset += first * tensor.layout.row;
    return tensor;
}

/* All keys at once, or chunk by chunk; once where there are none. */
static clattn_status enqueue(const struct session *session, const clattn_plan *plan, const struct verify_case *item,
                             const struct clattn_backward_args *whole)
{
    const bool packed = item->problem.score.features & CLATTN_VARLEN;
    const int64_t keys = packed ? item->problem.score.total_kv : item->problem.shape.n_kv;
    if (item->kind == VERIFY_BACKWARD)
        return clattn_backward_enqueue(plan, session->queue, whole, 0, NULL, NULL);
    clattn_status code = CLATTN_SUCCESS;
    int64_t first = 0;
    do {
        struct clattn_backward_args args = *whole;
        args.first_key = first;
        args.key_count = keys - first < item->chunk ? keys - first : item->chunk;
        args.k = keys_from(whole->k, first);
        args.v = keys_from(whole->v, first);
        args.d_k = keys_from(whole->d_k, first);
        args.d_v = keys_from(whole->d_v, first);
        code = clattn_backward_enqueue(plan, session->queue, &args, 0, NULL, NULL);
        first += item->chunk;
    } while (!code && first < keys);
    return code;
}

static bool launch(const struct session *session, const clattn_plan *plan, const struct verify_case *item,
                   struct stage *stage, struct verify_result *result)
{
    struct clattn_backward_args args = {.shape = stage->problem->shape,
                                        .q = stage_tensor(stage, STAGE_Q),
                                        .k = stage_tensor(stage, STAGE_K),
                                        .v = stage_tensor(stage, STAGE_V),
                                        .o = stage_tensor(stage, STAGE_O),
                                        .d_o = stage_tensor(stage, STAGE_D_O),
                                        .m = stage_tensor(stage, STAGE_M),
                                        .l = stage_tensor(stage, STAGE_L),
                                        .d_q = stage_tensor(stage, STAGE_D_Q),
                                        .d_k = stage_tensor(stage, STAGE_D_K),
                                        .d_v = stage_tensor(stage, STAGE_D_V),
                                        .d_bias = stage_tensor(stage, STAGE_D_BIAS),
                                        .d_sinks = stage_tensor(stage, STAGE_D_SINKS),
                                        .score = stage_score(stage)};
    cl_int code = verify_workspace(session, plan, &args.shape, &args.workspace, &args.workspace_bytes);
    if (!code)
        code = enqueue(session, plan, item, &args);
    const char *text = code ? clattn_error_message() : "";
    if (!code)
        code = clFinish(session->queue);
    if (!code && item->kind == VERIFY_BACKWARD) {
        code = clattn_backward_check(plan, session->queue, &args, 0, NULL);
        text = code ? clattn_error_message() : "";
    }
    if (args.workspace)
        clReleaseMemObject(args.workspace);
    return code ? verify_error(result, "backward: %s %s", clattn_status_name(code), text) : true;
}

bool verify_backward(const struct session *session, const clattn_plan *plan, const struct verify_case *item,
                     struct verify_data *data, struct verify_result *result)
{
    struct stage stage;
    const bool good = stage_open(session, item, &item->problem, verify_pass(item), data, &stage, result) &&
                      launch(session, plan, item, &stage, result) && stage_collect(session, &stage, result);
    stage_close(&stage);
    return good;
}

enum { D_Q, D_K, D_V, D_BIAS, D_SINKS, GRADIENTS };

static struct judged gradient(const char *name, float *answer, size_t count, size_t columns)
{
    return (struct judged){
        .name = name, .answer = answer, .count = count, .columns = columns, .is_gradient = true, .has_naive = true};
}

static void list(const struct verify_case *item, const struct verify_data *data, struct judged all[GRADIENTS])
{
    const struct reference_problem *p = &item->problem;
    const size_t columns = p->shape.n_kv ? (size_t)p->shape.n_kv : 1, heads = (size_t)p->shape.heads;
    all[D_Q] = gradient("d_q", data->d_q, reference_q_count(p), (size_t)p->d);
    all[D_K] = gradient("d_k", data->d_k, reference_k_count(p), (size_t)p->d);
    all[D_V] = gradient("d_v", data->d_v, reference_v_count(p), (size_t)p->d_v);
    all[D_BIAS] = gradient("d_bias", data->d_bias, reference_d_bias_count(p), columns);
    all[D_SINKS] = gradient("d_sinks", data->d_sinks, heads, 1);
}

static bool expect(const struct reference_problem *problem, const struct verify_data *data,
                   struct judged all[GRADIENTS])
{
    struct reference_gradient_floor floor;
    if (!judged_create(all, GRADIENTS))
        return false;
    const struct reference_gradients exact = {.d_q = all[D_Q].expected,
                                              .d_k = all[D_K].expected,
                                              .d_v = all[D_V].expected,
                                              .d_bias = all[D_BIAS].expected,
                                              .d_sinks = all[D_SINKS].expected};
    const struct reference_naive_gradients naive = {.d_q = all[D_Q].naive,
                                                    .d_k = all[D_K].naive,
                                                    .d_v = all[D_V].naive,
                                                    .d_bias = all[D_BIAS].naive,
                                                    .d_sinks = all[D_SINKS].naive};
    if (!reference_backward(problem, data->q, data->k, data->v, data->d_o, &exact, &floor) ||
        !reference_naive_backward(problem, data->q, data->k, data->v, data->d_o, &naive))
        return false;
    all[D_Q].floor = floor.d_q;
    all[D_K].floor = floor.d_k;
    all[D_V].floor = floor.d_v;
    all[D_BIAS].floor = floor.d_bias;
    all[D_SINKS].floor = floor.d_sinks;
    return true;
}

static bool same_bits(const struct judged all[GRADIENTS], float *const first[GRADIENTS], struct verify_result *result)
{
    bool good = true;
    for (int i = 0; good && i < GRADIENTS; i++)
        good = !all[i].answer || verify_same_bits(all[i].name, first[i], all[i].answer, all[i].count, result);
    return good;
}

/* The same plan gives the same bits; where sums may have any order, gradients as good as the first. */
static bool repeat(const struct session *session, const clattn_plan *plan, const struct verify_case *item,
                   struct verify_data *data, const struct judged all[GRADIENTS], struct verify_result *result)
{
    float *first[GRADIENTS] = {NULL};
    bool good = true;
    for (int i = 0; good && i < GRADIENTS; i++) {
        if (!all[i].answer)
            continue;
        first[i] = malloc((all[i].count + 1) * sizeof(float));
        good = first[i] || verify_error(result, "no memory for its arrays");
        if (good)
            memcpy(first[i], all[i].answer, all[i].count * sizeof(float));
    }
    for (int run = 1; good && run < item->runs; run++)
        good = verify_backward(session, plan, item, data, result) &&
               (item->unordered ? judged_close(all, GRADIENTS, result) : same_bits(all, first, result));
    for (int i = 0; i < GRADIENTS; i++)
        free(first[i]);
    return good;
}

static bool forward(const struct session *session, const struct verify_case *item, struct verify_data *data,
                    struct verify_result *result)
{
    clattn_plan *plan = NULL;
    const clattn_status code = verify_plan(session, item, CLATTN_FORWARD, &plan);
    const bool good = code ? verify_error(result, "%s: %.900s", clattn_status_name(code), clattn_error_message())
                           : verify_forward(session, plan, item, &item->problem, data, result);
    clattn_plan_destroy(&plan);
    return good;
}

bool verify_gradients(const struct session *session, const clattn_plan *plan, const struct verify_case *item,
                      struct verify_data *data, struct verify_result *result)
{
    struct judged all[GRADIENTS];
    list(item, data, all);
    const bool good = forward(session, item, data, result) && verify_backward(session, plan, item, data, result) &&
                      (expect(&item->problem, data, all) || verify_error(result, "no memory for the reference")) &&
                      judged_close(all, GRADIENTS, result) && repeat(session, plan, item, data, all, result);
    judged_free(all, GRADIENTS);
    return good;
}
