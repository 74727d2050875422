/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/memory.h"
#include <math.h>

enum { LEAST_BYTES = 1 << 20, MOST_ROUNDS = 1 << 16 };

/* As large as the device takes well. */
static uint64_t bytes_of(const struct clattn_capabilities *capabilities, uint64_t most)
{
    uint64_t bytes = most;
    while (bytes > LEAST_BYTES &&
           (bytes > capabilities->max_allocation_bytes || bytes > capabilities->global_memory_bytes / 16))
        bytes /= 2;
    return bytes;
}

cl_int bench_memory_create(const struct session *session, const char *const *files, const char *entry, uint64_t most,
                           struct bench_memory *memory)
{
    const struct clattn_capabilities *capabilities = session->capabilities;
    const bool cpu = capabilities->type == CLATTN_DEVICE_CPU;
    char defines[128];
    memory->session = session;
    memory->local = cpu ? 1 : capabilities->max_work_group_size < 256 ? (size_t)capabilities->max_work_group_size : 256;
    memory->groups = capabilities->compute_units * (cpu ? 4u : 16u);
    memory->bytes = bytes_of(capabilities, most);
    snprintf(defines, sizeof defines, "#define CLATTN_CONTIGUOUS %d\n#define CLATTN_WORK_GROUP_SIZE %d\n", cpu,
             (int)memory->local);
    return bench_kernel_build(session, files, defines, entry, &memory->kernel);
}

cl_int bench_memory_fill(const struct bench_memory *memory, const void *one, cl_mem *buffer)
{
    cl_int code;
    *buffer = clCreateBuffer(memory->session->context, CL_MEM_READ_WRITE, memory->bytes, NULL, &code);
    return code ? code : clEnqueueFillBuffer(memory->session->queue, *buffer, one, 4, 0, memory->bytes, 0, NULL, NULL);
}

cl_int bench_memory_bind(const struct bench_memory *memory)
{
    const cl_int code = clSetKernelArg(memory->kernel.kernel, 0, sizeof memory->in, &memory->in);
    return code ? code : clSetKernelArg(memory->kernel.kernel, 1, sizeof memory->out, &memory->out);
}

static cl_int time_rounds(const struct bench_memory *memory, size_t groups, cl_uint count, cl_uint rounds,
                          double *seconds)
{
    const cl_uint shift = (cl_uint)((uint64_t)count * 5 / 13); /* far off, and back only after many rounds */
    cl_int code = clSetKernelArg(memory->kernel.kernel, 2, sizeof count, &count);
    if (!code)
        code = clSetKernelArg(memory->kernel.kernel, 3, sizeof rounds, &rounds);
    if (!code)
        code = clSetKernelArg(memory->kernel.kernel, 4, sizeof shift, &shift);
    return code ? code : bench_kernel_time(memory->session, &memory->kernel, groups, memory->local, seconds);
}

double bench_memory_sample(const struct bench_memory *memory, size_t groups, cl_uint count, double bytes_each)
{
    double seconds, best = 0.0;
    if (!count || time_rounds(memory, groups, count, 1, &seconds) || time_rounds(memory, groups, count, 1, &seconds))
        return 0.0;
    const cl_uint rounds = (cl_uint)fmin(fmax(4e-3 / seconds, 1.0), MOST_ROUNDS);
    for (int i = 0; i < 3 && !time_rounds(memory, groups, count, rounds, &seconds); i++)
        best = fmax(best, bytes_each * (double)count * rounds / seconds * 1e-9);
    return best;
}

double bench_memory_within(const struct bench_memory *memory, double bytes)
{
    return fmin(fmax(bytes, LEAST_BYTES), (double)memory->bytes);
}

void bench_memory_destroy(struct bench_memory *memory)
{
    if (memory->in)
        clReleaseMemObject(memory->in);
    if (memory->out)
        clReleaseMemObject(memory->out);
    bench_kernel_release(&memory->kernel);
}
