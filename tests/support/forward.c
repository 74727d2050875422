/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/forward.h"
#include "plan/operand.h"
#include "plan/types.h"
#include "support/compare.h"
#include "support/generate.h"
#include "support/guard.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum tensor { Q, K, V, O, LSE, M, L };

struct reference_problem forward_reference(const struct forward_case *forward)
{
    const struct clattn_problem *problem = &forward->problem;
    return (struct reference_problem){.dtype = problem->dtype,
                                      .types = {(enum clattn_operand_type)problem->q_type,
                                                (enum clattn_operand_type)problem->k_type,
                                                (enum clattn_operand_type)problem->v_type, problem->o_type,
                                                (enum clattn_operand_type)problem->bias_type},
                                      .d = problem->d,
                                      .d_v = problem->d_v ? problem->d_v : problem->d,
                                      .causal = problem->causal,
                                      .scale = (double)problem->scale,
                                      .shape = forward->shape};
}

struct reference_problem forward_reference_of(const struct forward_case *forward, const struct forward_arrays *arrays)
{
    struct reference_problem problem = forward_reference(forward);
    problem.score = score_reference(&forward->problem, &forward->score, &arrays->score);
    return problem;
}

void forward_describe(const struct forward_case *forward, char *text, size_t size)
{
    static const char *const paths[] = {"device", "host", "standard"};
    const struct clattn_problem *problem = &forward->problem;
    const struct clattn_shape *shape = &forward->shape;
    const int length = snprintf(text, size,
                                "%s level, %s, %s, d %d, d_v %d, causal %d, batch %" PRId64 ", heads %" PRId64
                                ":%" PRId64 ", n %" PRId64 " x %" PRId64 ", b_r %d, b_c %d, splits %d, seed %" PRIu64,
                                paths[forward->path], problem->skeleton ? problem->skeleton : "planned",
                                clattn_dtype_name(problem->dtype), problem->d, problem->d_v, (int)problem->causal,
                                shape->batch, shape->heads, shape->kv_heads, shape->n_q, shape->n_kv, problem->b_r,
                                problem->b_c, problem->splits, forward->seed);
    if (length > 0 && (size_t)length < size)
        score_describe(problem, &forward->score, text + length, size - (size_t)length);
}

static bool allocate(const struct forward_case *forward, struct forward_arrays *arrays)
{
    const struct reference_problem problem = forward_reference_of(forward, arrays);
    const size_t rows = reference_row_count(&problem) + 1;
    arrays->q = calloc(reference_q_count(&problem) + 1, sizeof(float));
    arrays->k = calloc(reference_k_count(&problem) + 1, sizeof(float));
    arrays->v = calloc(reference_v_count(&problem) + 1, sizeof(float));
    arrays->o = calloc(reference_o_count(&problem) + 1, sizeof(float));
    arrays->lse = calloc(rows, sizeof(float));
    arrays->m = calloc(rows, sizeof(float));
    arrays->l = calloc(rows, sizeof(float));
    return arrays->q && arrays->k && arrays->v && arrays->o && arrays->lse && arrays->m && arrays->l;
}

bool forward_arrays_make(const struct forward_case *forward, struct forward_arrays *arrays)
{
    *arrays = (struct forward_arrays){0};
    if (!score_arrays_make(&forward->problem, &forward->shape, &forward->score, forward->seed, &arrays->score) ||
        !allocate(forward, arrays)) {
        forward_arrays_free(arrays);
        return test_cl_succeeded(CL_OUT_OF_HOST_MEMORY, "forward_arrays_make");
    }
    generate_inputs(forward, arrays);
    return true;
}

void forward_arrays_free(struct forward_arrays *arrays)
{
    float *const all[] = {arrays->q, arrays->k, arrays->v, arrays->o, arrays->lse, arrays->m, arrays->l};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    score_arrays_free(&arrays->score);
    *arrays = (struct forward_arrays){0};
}

struct guard_view forward_view(const struct forward_case *forward, const struct forward_arrays *arrays,
                               enum forward_tensor which, const struct clattn_layout *layout)
{
    const struct clattn_shape *shape = &forward->shape;
    const struct clattn_problem *problem = &forward->problem;
    const bool keys = which == FORWARD_K || which == FORWARD_V, packed = (problem->features & CLATTN_VARLEN) != 0;
    const int64_t total = keys ? arrays->score.total_kv : arrays->score.total_q;
    const int d_v = problem->d_v ? problem->d_v : problem->d;
    static const int operands[] = {CLA_Q, CLA_K, CLA_V, CLA_O, 0, CLA_D_O};
    return (struct guard_view){.dtype = which == FORWARD_ROWS ? CLATTN_FP32 : cla_type_of(problem, operands[which]),
                               .sizes = {packed ? 1 : shape->batch,
                                         keys && shape->kv_heads ? shape->kv_heads : shape->heads,
                                         packed ? total
                                         : keys ? shape->n_kv
                                                : shape->n_q,
                                         which == FORWARD_ROWS                      ? 1
                                         : which == FORWARD_Q || which == FORWARD_K ? problem->d
                                                                                    : d_v},
                               .layout = *layout};
}

static void lay_out(const struct forward_case *forward, struct forward_arrays *arrays, struct stage *stage)
{
    static const char *const names[] = {"q", "k", "v", "o", "lse", "m", "l"};
    const struct clattn_layout none = {0}, *rows = forward->path == PATH_HOST ? &none : &forward->rows;
    const struct clattn_layout *const layouts[] = {&forward->q, &forward->k, &forward->v, &forward->o,
                                                   rows,        rows,        rows};
    const float *const inputs[] = {arrays->q, arrays->k, arrays->v, NULL, NULL, NULL, NULL};
    float *const outputs[] = {NULL, NULL, NULL, arrays->o, arrays->lse, arrays->m, arrays->l};
    *stage = (struct stage){0};
    for (int i = Q; i <= L; i++) {
        const struct guard_view view =
            forward_view(forward, arrays, i < LSE ? (enum forward_tensor)i : FORWARD_ROWS, layouts[i]);
        stage_add(stage, names[i], &view, inputs[i], outputs[i]);
        if (forward->packed && (i == K || i == V))
            stage->tensors[i].memory = Q;
    }
}

static struct clattn_forward_args device_args(const struct forward_case *forward, const struct stage *stage)
{
    return (struct clattn_forward_args){.shape = forward->shape,
                                        .q = stage_at(stage, Q),
                                        .k = stage_at(stage, K),
                                        .v = stage_at(stage, V),
                                        .o = stage_at(stage, O),
                                        .lse = stage_at(stage, LSE),
                                        .m = stage_at(stage, M),
                                        .l = stage_at(stage, L)};
}

static void leave_out_m(struct clattn_forward_args *args)
{
    const struct clattn_tensor none = {0};
    args->m = args->l = none;
}

static bool enqueue(const struct test_device *device, const clattn_plan *plan, struct clattn_forward_args *args)
{
    cl_event event = NULL;
    const bool ran =
        test_succeeded(clattn_plan_workspace_bytes(plan, &args->shape, &args->workspace_bytes),
                       "clattn_plan_workspace_bytes") &&
        stage_workspace(device, args->workspace_bytes, &args->workspace) &&
        test_succeeded(clattn_forward_enqueue(plan, device->queue, args, 0, NULL, &event), "clattn_forward_enqueue") &&
        stage_wait(event);
    if (args->workspace)
        clReleaseMemObject(args->workspace);
    return ran;
}

static bool run_device(const struct test_device *device, const clattn_plan *plan, const struct forward_case *forward,
                       const struct forward_arrays *arrays, const struct stage *stage)
{
    struct clattn_forward_args args = device_args(forward, stage);
    struct score_stage score;
    bool ran = score_stage_make(device, &forward->problem, &arrays->score, &score);
    if (arrays->without_m)
        leave_out_m(&args);
    if (ran) {
        args.score = score_args(&forward->problem, &forward->score, &arrays->score, &score);
        ran = enqueue(device, plan, &args) && score_stage_intact(device, &score);
    }
    score_stage_free(&score);
    return ran;
}

static bool run_standard(const struct test_device *device, const struct forward_case *forward,
                         const struct stage *stage)
{
    struct clattn_forward_args args = device_args(forward, stage);
    cl_event event = NULL;
    const bool ran =
        test_succeeded(clattn_standard_workspace_bytes(device->clattn, &forward->problem, &args, &args.workspace_bytes),
                       "clattn_standard_workspace_bytes") &&
        stage_workspace(device, args.workspace_bytes, &args.workspace) &&
        test_succeeded(
            clattn_standard_enqueue(device->clattn, &forward->problem, device->queue, &args, 0, NULL, &event),
            "clattn_standard_enqueue") &&
        stage_wait(event);
    if (args.workspace)
        clReleaseMemObject(args.workspace);
    return ran;
}

static bool run_host(const struct test_device *device, const struct forward_case *forward,
                     const struct forward_arrays *arrays, const struct stage *stage)
{
    const struct clattn_host_params params = {.context = device->clattn};
    void *bias = NULL;
    const struct clattn_host_forward_args args = {
        .shape = forward->shape,
        .q = stage_array(stage, Q),
        .k = stage_array(stage, K),
        .v = stage_array(stage, V),
        .o = stage_array(stage, O),
        .q_layout = stage_at(stage, Q).layout,
        .k_layout = stage_at(stage, K).layout,
        .v_layout = stage_at(stage, V).layout,
        .o_layout = stage_at(stage, O).layout,
        .lse = (float *)stage_array(stage, LSE) + GUARD_BYTES / sizeof(float),
        .m = (float *)stage_array(stage, M) + GUARD_BYTES / sizeof(float),
        .l = (float *)stage_array(stage, L) + GUARD_BYTES / sizeof(float),
        .score = score_host_args(&forward->problem, &forward->score, &arrays->score, &bias),
        .kv_chunk = forward->kv_chunk,
    };
    clattn_host *host = NULL;
    const bool ran = test_succeeded(clattn_host_create(&host, &params), "clattn_host_create") &&
                     test_succeeded(clattn_host_forward(host, &forward->problem, &args), "clattn_host_forward");
    clattn_host_destroy(&host);
    free(bias);
    return ran;
}

static bool run_path(const struct test_device *device, const clattn_plan *plan, const struct forward_case *forward,
                     const struct forward_arrays *arrays, struct stage *stage)
{
    if (forward->path == PATH_HOST)
        return run_host(device, forward, arrays, stage);
    if (!stage_upload(stage, device))
        return false;
    if (forward->path == PATH_STANDARD)
        return run_standard(device, forward, stage);
    if (plan)
        return run_device(device, plan, forward, arrays, stage);
    clattn_plan *own = NULL;
    const bool ran =
        test_succeeded(clattn_plan_create(&own, device->clattn, &forward->problem), "clattn_plan_create") &&
        run_device(device, own, forward, arrays, stage);
    clattn_plan_destroy(&own);
    return ran;
}

bool forward_repeats(const struct test_device *device, const clattn_plan *plan, const struct forward_case *forward,
                     struct forward_arrays *arrays, int runs)
{
    struct stage stage;
    lay_out(forward, arrays, &stage);
    bool same = stage_make(&stage) && run_path(device, plan, forward, arrays, &stage) && stage_collect(&stage, device);
    for (int i = 1; i < runs && same; i++)
        same = stage_poison(&stage, device) && run_device(device, plan, forward, arrays, &stage) &&
               stage_same(&stage, device);
    stage_free(&stage);
    return same;
}

bool forward_run(const struct test_device *device, const clattn_plan *plan, const struct forward_case *forward,
                 struct forward_arrays *arrays)
{
    return forward_repeats(device, plan, forward, arrays, 1);
}

bool forward_holds(const struct test_device *device, const struct forward_case *forward, struct forward_arrays *arrays)
{
    bool right = forward_run(device, NULL, forward, arrays) && compare_outputs(forward, arrays);
    if (right && forward->path == PATH_DEVICE) {
        arrays->without_m = true;
        right = forward_run(device, NULL, forward, arrays) && compare_outputs(forward, arrays);
        arrays->without_m = false;
        if (!right)
            fprintf(stderr, "without m and l:\n");
    }
    return right;
}

bool forward_check(const struct test_device *device, const struct forward_case *forward)
{
    struct forward_arrays arrays;
    char text[512];
    if (!forward_arrays_make(forward, &arrays))
        return false;
    const bool right = forward_holds(device, forward, &arrays);
    forward_arrays_free(&arrays);
    if (!right) {
        forward_describe(forward, text, sizeof text);
        fprintf(stderr, "failed: %s\n", text);
    }
    return right;
}
