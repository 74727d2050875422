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
    return code ? code : clSetKernelArg(memory->kernel.kernel, 2, sizeof memory->out, &memory->out);
}

/* Vectors of so many bytes that items have, four or a multiple of that each. */
static cl_uint vectors_of(const struct bench_memory *memory, size_t groups, size_t bytes)
{
    const size_t once = groups * memory->local * 4;
    const size_t vectors = bytes / VECTOR / once * once;
    return vectors > INT32_MAX / 2 ? 0 : (cl_uint)vectors;
}

static cl_int bind(const struct bench_memory *memory, const cl_mem buffers[2], const cl_uint counts[2])
{
    const cl_kernel kernel = memory->kernel.kernel;
    cl_int code = CL_SUCCESS;
    for (cl_uint i = 0; i < 2 && !code; i++) {
        code = clSetKernelArg(kernel, i, sizeof buffers[i], &buffers[i]);
        if (!code)
            code = clSetKernelArg(kernel, 3 + i, sizeof counts[i], &counts[i]);
    }
    return code;
}

/* Launches one after the other, from when the first one starts to the last one's end. */
static cl_int time_launches(const struct bench_memory *memory, size_t groups, int launches, double *seconds)
{
    const size_t global = groups * memory->local;
    cl_event ends[2] = {NULL, NULL}; /* of the first and of the last, where that is another */
    cl_ulong start = 0, end = 0;
    cl_int code = CL_SUCCESS;
    for (int i = 0; i < launches && !code; i++)
        code = clEnqueueNDRangeKernel(memory->session->queue, memory->kernel.kernel, 1, NULL, &global, &memory->local,
                                      0, NULL,
                                      !i                 ? &ends[0]
                                      : i + 1 < launches ? NULL
                                                         : &ends[1]);
    const cl_event last = ends[1] ? ends[1] : ends[0];
    if (!code)
        code = clWaitForEvents(1, &last);
    if (!code)
        code = clGetEventProfilingInfo(ends[0], CL_PROFILING_COMMAND_START, sizeof start, &start, NULL);
    if (!code)
        code = clGetEventProfilingInfo(last, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL);
    for (int i = 0; i < 2; i++)
        if (ends[i])
            clReleaseEvent(ends[i]);
    *seconds = end > start ? (double)(end - start) * 1e-9 : 1e-9;
    return code;
}

double bench_read_sample(const struct bench_read *read, const cl_mem buffers[2], int launches)
{
    const struct bench_memory *memory = &read->memory;
    size_t bytes[2], groups = memory->groups;
    double seconds;
    for (int i = 0; i < 2; i++) {
        if (clGetMemObjectInfo(buffers[i], CL_MEM_SIZE, sizeof bytes[i], &bytes[i], NULL))
            return 0.0;
        while (groups > 1 && bytes[i] < groups * memory->local * 4 * VECTOR)
            groups /= 2;
    }
    const cl_uint counts[2] = {vectors_of(memory, groups, bytes[0]), vectors_of(memory, groups, bytes[1])};
    if (!counts[0] || !counts[1] || bind(memory, buffers, counts) || time_launches(memory, groups, launches, &seconds))
        return 0.0;
    return (double)VECTOR * ((double)counts[0] + counts[1]) * launches / seconds * 1e-9;
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
