/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/ceilings.h"
#include "bench/kernel.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { VECTOR = 64, LEAST_BYTES = 1 << 20, MOST_BYTES = 512 << 20, MOST_ROUNDS = 1 << 16 };

struct bench_read {
    const struct session *session;
    struct bench_kernel kernel;
    cl_mem in, out;
    size_t groups, local;
    uint64_t bytes;
};

static cl_int make_buffers(struct bench_read *read)
{
    const cl_int one = 1;
    cl_int code;
    read->out =
        clCreateBuffer(read->session->context, CL_MEM_WRITE_ONLY, read->groups * read->local * sizeof one, NULL, &code);
    if (!code)
        read->in = clCreateBuffer(read->session->context, CL_MEM_READ_WRITE, read->bytes, NULL, &code);
    return code ? code
                : clEnqueueFillBuffer(read->session->queue, read->in, &one, sizeof one, 0, read->bytes, 0, NULL, NULL);
}

static cl_int prepare(struct bench_read *read)
{
    static const char *const files[] = {"peak_read.cl", NULL};
    const struct clattn_capabilities *capabilities = read->session->capabilities;
    const bool cpu = capabilities->type == CLATTN_DEVICE_CPU;
    char defines[128];
    read->local = cpu ? 1 : capabilities->max_work_group_size < 256 ? (size_t)capabilities->max_work_group_size : 256;
    read->groups = capabilities->compute_units * (cpu ? 4u : 16u);
    read->bytes = MOST_BYTES;
    while (read->bytes > LEAST_BYTES &&
           (read->bytes > capabilities->max_allocation_bytes || read->bytes > capabilities->global_memory_bytes / 16))
        read->bytes /= 2;
    snprintf(defines, sizeof defines, "#define CLATTN_CONTIGUOUS %d\n#define CLATTN_WORK_GROUP_SIZE %d\n", cpu,
             (int)read->local);
    cl_int code = bench_kernel_build(read->session, files, defines, "clattn_peak_read", &read->kernel);
    if (!code)
        code = make_buffers(read);
    if (!code)
        code = clSetKernelArg(read->kernel.kernel, 0, sizeof read->in, &read->in);
    if (!code)
        code = clSetKernelArg(read->kernel.kernel, 1, sizeof read->out, &read->out);
    return code;
}

static cl_int time_rounds(const struct bench_read *read, size_t groups, cl_uint count, cl_uint rounds, double *seconds)
{
    const cl_uint shift = (cl_uint)((uint64_t)count * 5 / 13); /* as bench_copy_sample() */
    cl_int code = clSetKernelArg(read->kernel.kernel, 2, sizeof count, &count);
    if (!code)
        code = clSetKernelArg(read->kernel.kernel, 3, sizeof rounds, &rounds);
    if (!code)
        code = clSetKernelArg(read->kernel.kernel, 4, sizeof shift, &shift);
    return code ? code : bench_kernel_time(read->session, &read->kernel, groups, read->local, seconds);
}

double bench_read_sample(const struct bench_read *read, double bytes)
{
    const double wanted = fmin(fmax(bytes, LEAST_BYTES), (double)read->bytes);
    size_t groups = read->groups;
    while (groups > 1 && wanted / VECTOR < (double)(4 * groups * read->local))
        groups /= 2;
    const cl_uint whole = (cl_uint)(4 * groups * read->local), count = (cl_uint)(wanted / VECTOR) / whole * whole;
    double seconds, best = 0.0;
    if (!count || time_rounds(read, groups, count, 1, &seconds) || time_rounds(read, groups, count, 1, &seconds))
        return 0.0;
    const cl_uint rounds = (cl_uint)fmin(fmax(4e-3 / seconds, 1.0), MOST_ROUNDS);
    for (int i = 0; i < 3 && !time_rounds(read, groups, count, rounds, &seconds); i++)
        best = fmax(best, (double)VECTOR * count * rounds / seconds * 1e-9);
    return best;
}

int bench_read_create(const struct session *session, struct bench_read **read, struct failure *failure)
{
    struct bench_read *made = calloc(1, sizeof *made);
    if (!made)
        return fail_code(failure, "measuring the read bandwidth", CL_OUT_OF_HOST_MEMORY);
    made->session = session;
    const cl_int code = prepare(made);
    *read = made;
    if (!code)
        return STATUS_OK;
    bench_read_destroy(read);
    return fail_code(failure, "measuring the read bandwidth (cl/peak_read.cl)", code);
}

void bench_read_destroy(struct bench_read **read)
{
    struct bench_read *old = *read;
    *read = NULL;
    if (!old)
        return;
    if (old->in)
        clReleaseMemObject(old->in);
    if (old->out)
        clReleaseMemObject(old->out);
    bench_kernel_release(&old->kernel);
    free(old);
}
