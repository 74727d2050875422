/* SPDX-License-Identifier: BSD-2-Clause */
#include <clattn/clattn.h>
#include <stdio.h>

/* The device level as README shows it (test_documents.py compares), and around it what makes it a program whose result
 * is known: all values are 0.5, and so is O. */

enum { BATCH = 1, HEADS = 4, KV_HEADS = 2, N = 96, D = 64 };

/* Q, K, V and O are [batch, n, heads, d], on the device. The plan comes from
 * clattn_plan_create(&plan, context, &(struct clattn_problem){.d = D, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT}),
 * which compiles. Enqueueing allocates nothing and does not wait for the device. */
static clattn_status attend(const clattn_plan *plan, cl_command_queue queue, cl_mem q, cl_mem k, cl_mem v, cl_mem o,
                            cl_mem workspace, size_t workspace_bytes, cl_event *done)
{
    const struct clattn_forward_args args = {
        .shape = {.batch = BATCH, .heads = HEADS, .kv_heads = KV_HEADS, .n_q = N, .n_kv = N},
        .q = {q, clattn_layout_bnhd(HEADS, N, D)},
        .k = {k, clattn_layout_bnhd(KV_HEADS, N, D)},
        .v = {v, clattn_layout_bnhd(KV_HEADS, N, D)},
        .o = {o, clattn_layout_bnhd(HEADS, N, D)},
        .workspace = workspace, /* of clattn_plan_workspace_bytes() bytes; NULL where that says 0 */
        .workspace_bytes = workspace_bytes};
    return clattn_forward_enqueue(plan, queue, &args, 0, NULL, done);
}

/* A buffer of floats, 0.5 each. */
static cl_mem make_buffer(cl_context cl, size_t count)
{
    static float values[BATCH * HEADS * N * D];
    for (size_t i = 0; i < count; i++)
        values[i] = 0.5f;
    return clCreateBuffer(cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, count * sizeof *values, values, NULL);
}

/* Makes a plan and its workspace, calls, and reads the last element of O. */
static clattn_status compute(clattn_context *context, cl_context cl, cl_command_queue queue, float *last)
{
    enum { COUNT = BATCH * HEADS * N * D, KV_COUNT = BATCH * KV_HEADS * N * D };
    const struct clattn_shape shape = {.batch = BATCH, .heads = HEADS, .kv_heads = KV_HEADS, .n_q = N, .n_kv = N};
    clattn_plan *plan = NULL;
    size_t bytes = 0;
    cl_event done = NULL;
    cl_mem q = make_buffer(cl, COUNT), k = make_buffer(cl, KV_COUNT), v = make_buffer(cl, KV_COUNT);
    cl_mem o = clCreateBuffer(cl, CL_MEM_READ_WRITE, COUNT * sizeof *last, NULL, NULL), workspace = NULL;
    clattn_status status =
        clattn_plan_create(&plan, context, &(struct clattn_problem){.d = D, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT});
    if (!status)
        status = clattn_plan_workspace_bytes(plan, &shape, &bytes);
    if (!status && bytes)
        workspace = clCreateBuffer(cl, CL_MEM_READ_WRITE, bytes, NULL, NULL);
    if (!status)
        status = attend(plan, queue, q, k, v, o, workspace, bytes, &done);
    if (!status)
        status = clEnqueueReadBuffer(queue, o, CL_TRUE, (COUNT - 1) * sizeof *last, sizeof *last, last, 1, &done, NULL);
    if (done)
        clReleaseEvent(done);
    if (workspace)
        clReleaseMemObject(workspace);
    clReleaseMemObject(q);
    clReleaseMemObject(k);
    clReleaseMemObject(v);
    clReleaseMemObject(o);
    clattn_plan_destroy(&plan);
    return status;
}

int main(void)
{
    cl_platform_id platform;
    cl_device_id device;
    float last = 0.0f;
    if (clGetPlatformIDs(1, &platform, NULL) || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL))
        return 1;
    cl_context cl = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    cl_command_queue queue = clCreateCommandQueue(cl, device, 0, NULL);
    clattn_context *context = NULL;
    if (clattn_context_create(&context, &(struct clattn_context_params){.context = cl, .device = device}) ||
        compute(context, cl, queue, &last))
        fprintf(stderr, "%s\n", clattn_error_message());
    printf("the last element of O is %.3f (the mean of equal values: 0.500)\n", (double)last);
    clattn_context_destroy(&context);
    clReleaseCommandQueue(queue);
    clReleaseContext(cl);
    return last < 0.499f || last > 0.501f;
}
