/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/forward.h"
#include "support/compare.h"
#include "support/generate.h"
#include "support/guard.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum tensor { Q, K, V, O, LSE, M, L, TENSORS };
static const char *const names[TENSORS] = {"q", "k", "v", "o", "lse", "m", "l"};

/* A case laid out in memory. With `packed`, K and V lie in Q's memory. */
struct stage {
    struct guard_view views[TENSORS];
    struct guarded memory[TENSORS];
    int memory_of[TENSORS];
};

struct reference_problem forward_reference(const struct forward_case *forward)
{
    const struct clattn_problem *problem = &forward->problem;
    return (struct reference_problem){.dtype = problem->dtype,
                                      .d = problem->d,
                                      .d_v = problem->d_v ? problem->d_v : problem->d,
                                      .causal = problem->causal,
                                      .scale = (double)problem->scale,
                                      .shape = forward->shape};
}

void forward_describe(const struct forward_case *forward, char *text, size_t size)
{
    static const char *const paths[] = {"device", "host", "standard"};
    const struct clattn_problem *problem = &forward->problem;
    const struct clattn_shape *shape = &forward->shape;
    snprintf(text, size,
             "%s level, %s, %s, d %d, d_v %d, causal %d, batch %" PRId64 ", heads %" PRId64 ":%" PRId64 ", n %" PRId64
             " x %" PRId64 ", b_r %d, b_c %d, seed %" PRIu64,
             paths[forward->path], problem->skeleton ? problem->skeleton : "planned", clattn_dtype_name(problem->dtype),
             problem->d, problem->d_v, (int)problem->causal, shape->batch, shape->heads, shape->kv_heads, shape->n_q,
             shape->n_kv, problem->b_r, problem->b_c, forward->seed);
}

bool forward_arrays_make(const struct forward_case *forward, struct forward_arrays *arrays)
{
    const struct reference_problem problem = forward_reference(forward);
    const size_t rows = reference_row_count(&problem) + 1;
    *arrays = (struct forward_arrays){.q = calloc(reference_q_count(&problem) + 1, sizeof(float)),
                                      .k = calloc(reference_k_count(&problem) + 1, sizeof(float)),
                                      .v = calloc(reference_v_count(&problem) + 1, sizeof(float)),
                                      .o = calloc(reference_o_count(&problem) + 1, sizeof(float)),
                                      .lse = calloc(rows, sizeof(float)),
                                      .m = calloc(rows, sizeof(float)),
                                      .l = calloc(rows, sizeof(float))};
    if (!arrays->q || !arrays->k || !arrays->v || !arrays->o || !arrays->lse || !arrays->m || !arrays->l) {
        forward_arrays_free(arrays);
        return test_cl_succeeded(CL_OUT_OF_HOST_MEMORY, "forward_arrays_make");
    }
    generate_inputs(forward, arrays);
    return true;
}

void forward_arrays_free(struct forward_arrays *arrays)
{
    float *const all[] = {arrays->q, arrays->k, arrays->v, arrays->o, arrays->lse, arrays->m, arrays->l};
    for (int i = 0; i < TENSORS; i++)
        free(all[i]);
    *arrays = (struct forward_arrays){0};
}

static void lay_out(const struct forward_case *forward, struct stage *stage)
{
    const struct reference_problem problem = forward_reference(forward);
    const struct clattn_shape *shape = &forward->shape;
    const int64_t kv_heads = shape->kv_heads ? shape->kv_heads : shape->heads;
    const struct clattn_layout layouts[TENSORS] = {forward->q,    forward->k,    forward->v,   forward->o,
                                                   forward->rows, forward->rows, forward->rows};
    *stage = (struct stage){0};
    for (int i = 0; i < TENSORS; i++) {
        const bool keys = i == K || i == V;
        stage->views[i] = (struct guard_view){
            .dtype = i < LSE ? problem.dtype : CLATTN_FP32,
            .sizes = {shape->batch, keys ? kv_heads : shape->heads, keys ? shape->n_kv : shape->n_q,
                      i >= LSE           ? 1
                      : i == Q || i == K ? problem.d
                                         : problem.d_v},
            .layout = i >= LSE && forward->path == PATH_HOST ? (struct clattn_layout){0} : layouts[i]};
        stage->memory_of[i] = forward->packed && keys ? Q : i;
    }
}

static bool make_memory(struct stage *stage, const struct forward_arrays *arrays)
{
    const float *const inputs[] = {arrays->q, arrays->k, arrays->v};
    size_t bytes[TENSORS] = {0};
    for (int i = 0; i < TENSORS; i++) {
        const size_t end = guard_end(&stage->views[i]);
        size_t *most = &bytes[stage->memory_of[i]];
        *most = end > *most ? end : *most;
    }
    for (int i = 0; i < TENSORS; i++)
        if (stage->memory_of[i] == i && !guard_make(&stage->memory[i], bytes[i]))
            return false;
    for (int i = Q; i <= V; i++)
        guard_put(&stage->memory[stage->memory_of[i]], &stage->views[i], inputs[i]);
    return true;
}

static void stage_free(struct stage *stage)
{
    for (int i = 0; i < TENSORS; i++)
        guard_free(&stage->memory[i]);
}

static bool upload(const struct test_device *device, struct stage *stage)
{
    for (int i = 0; i < TENSORS; i++)
        if (stage->memory_of[i] == i && !guard_upload(&stage->memory[i], device))
            return false;
    return true;
}

/* Downloads where the memory is the device's, takes the outputs, and looks whether anything else has changed. */
static bool collect(const struct test_device *device, struct stage *stage, struct forward_arrays *arrays)
{
    float *const outputs[TENSORS] = {[O] = arrays->o, [LSE] = arrays->lse, [M] = arrays->m, [L] = arrays->l};
    bool intact = true;
    for (int i = 0; i < TENSORS; i++) {
        struct guarded *memory = &stage->memory[i];
        if (stage->memory_of[i] != i)
            continue;
        if (memory->buffer && !guard_download(memory, device))
            return false;
        if (outputs[i]) {
            guard_get(memory, &stage->views[i], outputs[i]);
            guard_forgive(memory, &stage->views[i]);
        }
        intact = guard_intact(memory, names[i]) && intact;
    }
    return intact;
}

static struct clattn_tensor tensor_at(const struct stage *stage, enum tensor which)
{
    return (struct clattn_tensor){.buffer = stage->memory[stage->memory_of[which]].buffer,
                                  .layout = guard_layout(&stage->views[which])};
}

static struct clattn_forward_args device_args(const struct forward_case *forward, const struct stage *stage)
{
    return (struct clattn_forward_args){.shape = forward->shape,
                                        .q = tensor_at(stage, Q),
                                        .k = tensor_at(stage, K),
                                        .v = tensor_at(stage, V),
                                        .o = tensor_at(stage, O),
                                        .lse = tensor_at(stage, LSE),
                                        .m = tensor_at(stage, M),
                                        .l = tensor_at(stage, L)};
}

/* Waits on the call's own event, so that an event that does not complete with the work is found. */
static bool wait_for(cl_event event)
{
    const cl_int code = clWaitForEvents(1, &event);
    clReleaseEvent(event);
    return test_cl_succeeded(code, "clWaitForEvents");
}

static bool make_workspace(const struct test_device *device, struct clattn_forward_args *args)
{
    cl_int code = CL_SUCCESS;
    if (args->workspace_bytes)
        args->workspace = clCreateBuffer(device->context, CL_MEM_READ_WRITE, args->workspace_bytes, NULL, &code);
    return test_cl_succeeded(code, "clCreateBuffer");
}

static bool run_device(const struct test_device *device, const clattn_plan *plan, const struct forward_case *forward,
                       const struct stage *stage)
{
    struct clattn_forward_args args = device_args(forward, stage);
    cl_event event = NULL;
    const bool ran =
        test_succeeded(clattn_plan_workspace_bytes(plan, &args.shape, &args.workspace_bytes),
                       "clattn_plan_workspace_bytes") &&
        make_workspace(device, &args) &&
        test_succeeded(clattn_forward_enqueue(plan, device->queue, &args, 0, NULL, &event), "clattn_forward_enqueue") &&
        wait_for(event);
    if (args.workspace)
        clReleaseMemObject(args.workspace);
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
        make_workspace(device, &args) &&
        test_succeeded(
            clattn_standard_enqueue(device->clattn, &forward->problem, device->queue, &args, 0, NULL, &event),
            "clattn_standard_enqueue") &&
        wait_for(event);
    if (args.workspace)
        clReleaseMemObject(args.workspace);
    return ran;
}

static void *array_at(const struct stage *stage, enum tensor which)
{
    return stage->memory[stage->memory_of[which]].after;
}

static bool run_host(const struct test_device *device, const struct forward_case *forward, const struct stage *stage)
{
    const struct clattn_host_params params = {.context = device->clattn};
    const struct clattn_host_forward_args args = {
        .shape = forward->shape,
        .q = array_at(stage, Q),
        .k = array_at(stage, K),
        .v = array_at(stage, V),
        .o = array_at(stage, O),
        .q_layout = guard_layout(&stage->views[Q]),
        .k_layout = guard_layout(&stage->views[K]),
        .v_layout = guard_layout(&stage->views[V]),
        .o_layout = guard_layout(&stage->views[O]),
        .lse = (float *)array_at(stage, LSE) + GUARD_BYTES / sizeof(float),
        .m = (float *)array_at(stage, M) + GUARD_BYTES / sizeof(float),
        .l = (float *)array_at(stage, L) + GUARD_BYTES / sizeof(float),
    };
    clattn_host *host = NULL;
    const bool ran = test_succeeded(clattn_host_create(&host, &params), "clattn_host_create") &&
                     test_succeeded(clattn_host_forward(host, &forward->problem, &args), "clattn_host_forward");
    clattn_host_destroy(&host);
    return ran;
}

static bool run_path(const struct test_device *device, const clattn_plan *plan, const struct forward_case *forward,
                     struct stage *stage)
{
    if (forward->path == PATH_HOST)
        return run_host(device, forward, stage);
    if (!upload(device, stage))
        return false;
    if (forward->path == PATH_STANDARD)
        return run_standard(device, forward, stage);
    if (plan)
        return run_device(device, plan, forward, stage);
    clattn_plan *own = NULL;
    const bool ran =
        test_succeeded(clattn_plan_create(&own, device->clattn, &forward->problem), "clattn_plan_create") &&
        run_device(device, own, forward, stage);
    clattn_plan_destroy(&own);
    return ran;
}

bool forward_run(const struct test_device *device, const clattn_plan *plan, const struct forward_case *forward,
                 struct forward_arrays *arrays)
{
    struct stage stage;
    lay_out(forward, &stage);
    const bool ran =
        make_memory(&stage, arrays) && run_path(device, plan, forward, &stage) && collect(device, &stage, arrays);
    stage_free(&stage);
    return ran;
}

bool forward_check(const struct test_device *device, const struct forward_case *forward)
{
    struct forward_arrays arrays;
    char text[256];
    if (!forward_arrays_make(forward, &arrays))
        return false;
    const bool right = forward_run(device, NULL, forward, &arrays) && compare_outputs(forward, &arrays);
    forward_arrays_free(&arrays);
    if (!right) {
        forward_describe(forward, text, sizeof text);
        fprintf(stderr, "failed: %s\n", text);
    }
    return right;
}
