/* SPDX-License-Identifier: BSD-2-Clause */
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

/* The gradients, in one order for all that is done with each of them. */
enum { GRADIENTS = 5 };

struct gradient {
    const char *name;
    float *answer;
    size_t count, columns;
    double *expected;
    float *naive;
    double floor;
};

static void list(const struct verify_case *item, const struct verify_data *data, struct gradient all[GRADIENTS])
{
    const struct reference_problem *p = &item->problem;
    const size_t columns = (size_t)p->shape.n_kv;
    const struct gradient gradients[GRADIENTS] = {
        {.name = "d_q", .answer = data->d_q, .count = reference_q_count(p), .columns = (size_t)p->d},
        {.name = "d_k", .answer = data->d_k, .count = reference_k_count(p), .columns = (size_t)p->d},
        {.name = "d_v", .answer = data->d_v, .count = reference_v_count(p), .columns = (size_t)p->d_v},
        {.name = "d_bias",
         .answer = data->d_bias,
         .count = reference_d_bias_count(p),
         .columns = columns ? columns : 1},
        {.name = "d_sinks", .answer = data->d_sinks, .count = (size_t)p->shape.heads, .columns = 1}};
    memcpy(all, gradients, sizeof gradients);
}

static void release(struct gradient all[GRADIENTS])
{
    for (int i = 0; i < GRADIENTS; i++) {
        free(all[i].expected);
        free(all[i].naive);
    }
}

static bool expect(const struct reference_problem *problem, const struct verify_data *data,
                   struct gradient all[GRADIENTS])
{
    for (int i = 0; i < GRADIENTS; i++) {
        if (!all[i].answer)
            continue;
        all[i].expected = calloc(all[i].count + 1, sizeof(double));
        all[i].naive = calloc(all[i].count + 1, sizeof(float));
        if (!all[i].expected || !all[i].naive)
            return false;
    }
    const struct reference_gradients exact = {all[0].expected, all[1].expected, all[2].expected, all[3].expected,
                                              all[4].expected};
    const struct reference_naive_gradients naive = {all[0].naive, all[1].naive, all[2].naive, all[3].naive,
                                                    all[4].naive};
    struct reference_gradient_floor floor;
    if (!reference_backward(problem, data->q, data->k, data->v, data->d_o, &exact, &floor) ||
        !reference_naive_backward(problem, data->q, data->k, data->v, data->d_o, &naive))
        return false;
    const double floors[GRADIENTS] = {floor.d_q, floor.d_k, floor.d_v, floor.d_bias, floor.d_sinks};
    for (int i = 0; i < GRADIENTS; i++)
        all[i].floor = floors[i];
    return true;
}

static bool judge(const struct gradient all[GRADIENTS], struct verify_result *result)
{
    bool good = true;
    for (int i = 0; good && i < GRADIENTS; i++)
        good = !all[i].answer || verify_gradient_close(all[i].name, all[i].answer, all[i].expected, all[i].naive,
                                                       all[i].count, all[i].columns, all[i].floor, result);
    return good;
}

static bool same_bits(const struct gradient all[GRADIENTS], float *const first[GRADIENTS], struct verify_result *result)
{
    bool good = true;
    for (int i = 0; good && i < GRADIENTS; i++)
        good = !all[i].answer || verify_same_bits(all[i].name, first[i], all[i].answer, all[i].count, result);
    return good;
}

/* The same plan gives the same bits; where sums may have any order, gradients as good as the first. */
static bool repeat(const struct session *session, const clattn_plan *plan, const struct verify_case *item,
                   struct verify_data *data, const struct gradient all[GRADIENTS], struct verify_result *result)
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
               (item->unordered ? judge(all, result) : same_bits(all, first, result));
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
    struct gradient all[GRADIENTS];
    list(item, data, all);
    const bool good = forward(session, item, data, result) && verify_backward(session, plan, item, data, result) &&
                      (expect(&item->problem, data, all) || verify_error(result, "no memory for the reference")) &&
                      judge(all, result) && repeat(session, plan, item, data, all, result);
    release(all);
    return good;
}
