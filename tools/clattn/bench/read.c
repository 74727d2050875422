/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/ceilings.h"
#include "bench/memory.h"
#include <stdlib.h>

enum {
    VECTOR = 64,
    LEAST_BYTES = 1 << 20, /* it has no buffer of its own */
    GROUPS = 4             /* a compute unit: with 2 to 8 of 256 items a GPU reads fastest */
};

struct bench_read {
    struct bench_memory memory;
};

static cl_int prepare(const struct session *session, struct bench_memory *memory)
{
    static const char *const files[] = {"peak_read.cl", NULL};
    cl_int code = bench_memory_create(session, files, "clattn_peak_read", LEAST_BYTES, memory);
    memory->groups = session->capabilities->compute_units * (size_t)GROUPS;
    if (!code)
        memory->out = clCreateBuffer(session->context, CL_MEM_WRITE_ONLY,
                                     memory->groups * memory->local * sizeof(cl_int), NULL, &code);
    return code ? code : clSetKernelArg(memory->kernel.kernel, 1, sizeof memory->out, &memory->out);
}

/* All of a buffer but for what is no multiple of four vectors an item; the bytes that were read. */
static double read_buffer(const struct bench_memory *memory, cl_mem buffer, double *seconds)
{
    size_t bytes = 0, groups = memory->groups, once = 4 * VECTOR * memory->local;
    if (clGetMemObjectInfo(buffer, CL_MEM_SIZE, sizeof bytes, &bytes, NULL))
        return 0.0;
    while (groups > 1 && bytes < groups * once)
        groups /= 2;
    const size_t whole = bytes / (groups * once) * groups * once;
    const cl_uint count = (cl_uint)(whole / VECTOR);
    if (!whole || whole / VECTOR > INT32_MAX / 2)
        return 0.0;
    cl_int code = clSetKernelArg(memory->kernel.kernel, 0, sizeof buffer, &buffer);
    if (!code)
        code = clSetKernelArg(memory->kernel.kernel, 2, sizeof count, &count);
    return code || bench_kernel_time(memory->session, &memory->kernel, groups, memory->local, seconds) ? 0.0
                                                                                                       : (double)whole;
}

double bench_read_once(const struct bench_read *read, const cl_mem *buffers, int count)
{
    double bytes = 0.0, seconds = 0.0;
    for (int i = 0; i < count; i++) {
        double took = 0.0;
        const double of_one = read_buffer(&read->memory, buffers[i], &took);
        if (of_one <= 0.0)
            return 0.0;
        bytes += of_one;
        seconds += took;
    }
    return seconds > 0.0 ? bytes / seconds * 1e-9 : 0.0;
}

int bench_read_create(const struct session *session, struct bench_read **read, struct failure *failure)
{
    struct bench_read *made = calloc(1, sizeof *made);
    if (!made)
        return fail_code(failure, "measuring the read bandwidth", CL_OUT_OF_HOST_MEMORY);
    const cl_int code = prepare(session, &made->memory);
    *read = made;
    if (!code)
        return STATUS_OK;
    bench_read_destroy(read);
    return fail_code(failure, "measuring the read bandwidth (cl/peak_read.cl)", code);
}

void bench_read_destroy(struct bench_read **read)
{
    if (*read)
        bench_memory_destroy(&(*read)->memory);
    free(*read);
    *read = NULL;
}
