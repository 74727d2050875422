/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/bench.h"
#include "bench/kernel.h"
#include <math.h>
#include <stdlib.h>

enum { VECTOR = 16, LEAST_BYTES = 1 << 20, MOST_BYTES = 256 << 20, MOST_ROUNDS = 1 << 16 };

struct bench_copy {
    const struct session *session;
    struct bench_kernel kernel;
    cl_mem in, out;
    size_t groups, local;
    uint64_t bytes; /* of each buffer */
};

static cl_int make_buffer(const struct bench_copy *copy, cl_mem *buffer)
{
    cl_int code;
    const cl_float one = 1.0f;
    *buffer = clCreateBuffer(copy->session->context, CL_MEM_READ_WRITE, copy->bytes, NULL, &code);
    return code ? code
                : clEnqueueFillBuffer(copy->session->queue, *buffer, &one, sizeof one, 0, copy->bytes, 0, NULL, NULL);
}

static cl_int prepare(struct bench_copy *copy)
{
    static const char *const files[] = {"peak_copy.cl", NULL};
    const struct clattn_capabilities *capabilities = copy->session->capabilities;
    const bool cpu = capabilities->type == CLATTN_DEVICE_CPU;
    char defines[128];
    copy->local = cpu ? 1 : capabilities->max_work_group_size < 256 ? (size_t)capabilities->max_work_group_size : 256;
    copy->groups = capabilities->compute_units * (cpu ? 4u : 16u);
    copy->bytes = MOST_BYTES;
    while (copy->bytes > LEAST_BYTES &&
           (copy->bytes > capabilities->max_allocation_bytes || copy->bytes > capabilities->global_memory_bytes / 16))
        copy->bytes /= 2;
    snprintf(defines, sizeof defines, "#define CLATTN_CONTIGUOUS %d\n#define CLATTN_WORK_GROUP_SIZE %d\n", cpu,
             (int)copy->local);
    cl_int code = bench_kernel_build(copy->session, files, defines, "clattn_peak_copy", &copy->kernel);
    if (!code)
        code = make_buffer(copy, &copy->in);
    if (!code)
        code = make_buffer(copy, &copy->out);
    if (!code)
        code = clSetKernelArg(copy->kernel.kernel, 0, sizeof copy->in, &copy->in);
    if (!code)
        code = clSetKernelArg(copy->kernel.kernel, 1, sizeof copy->out, &copy->out);
    return code;
}

static cl_int time_rounds(const struct bench_copy *copy, cl_uint count, cl_uint rounds, double *seconds)
{
    const cl_uint shift = (cl_uint)((uint64_t)count * 5 / 13); /* far off, and back only after many rounds */
    cl_int code = clSetKernelArg(copy->kernel.kernel, 2, sizeof count, &count);
    if (!code)
        code = clSetKernelArg(copy->kernel.kernel, 3, sizeof rounds, &rounds);
    if (!code)
        code = clSetKernelArg(copy->kernel.kernel, 4, sizeof shift, &shift);
    return code ? code : bench_kernel_time(copy->session, &copy->kernel, copy->groups, copy->local, seconds);
}

double bench_copy_sample(const struct bench_copy *copy, double moved)
{
    const double half = fmin(fmax(moved / 2.0, LEAST_BYTES), (double)copy->bytes);
    const cl_uint count = (cl_uint)(half / VECTOR);
    double seconds, best = 0.0;
    if (time_rounds(copy, count, 1, &seconds) || time_rounds(copy, count, 1, &seconds))
        return 0.0;
    const cl_uint rounds = (cl_uint)fmin(fmax(4e-3 / seconds, 1.0), MOST_ROUNDS);
    for (int i = 0; i < 3 && !time_rounds(copy, count, rounds, &seconds); i++)
        best = fmax(best, 2.0 * VECTOR * (double)count * rounds / seconds * 1e-9);
    return best;
}

int bench_copy_create(const struct session *session, struct bench_copy **copy, struct failure *failure)
{
    struct bench_copy *made = calloc(1, sizeof *made);
    if (!made)
        return fail_code(failure, "measuring the copy bandwidth", CL_OUT_OF_HOST_MEMORY);
    made->session = session;
    const cl_int code = prepare(made);
    *copy = made;
    if (!code)
        return STATUS_OK;
    bench_copy_destroy(copy);
    return fail_code(failure, "measuring the copy bandwidth (cl/peak_copy.cl)", code);
}

void bench_copy_destroy(struct bench_copy **copy)
{
    struct bench_copy *old = *copy;
    *copy = NULL;
    if (!old)
        return;
    if (old->in)
        clReleaseMemObject(old->in);
    if (old->out)
        clReleaseMemObject(old->out);
    bench_kernel_release(&old->kernel);
    free(old);
}
