/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/ceilings.h"
#include "bench/memory.h"
#include <stdlib.h>

enum { VECTOR = 64, MOST_BYTES = 512 << 20 };

struct bench_read {
    struct bench_memory memory;
};

static cl_int prepare(const struct session *session, struct bench_memory *memory)
{
    static const char *const files[] = {"peak_read.cl", NULL};
    const cl_int one = 1;
    cl_int code = bench_memory_create(session, files, "clattn_peak_read", MOST_BYTES, memory);
    if (!code)
        memory->out = clCreateBuffer(session->context, CL_MEM_WRITE_ONLY, memory->groups * memory->local * sizeof one,
                                     NULL, &code);
    if (!code)
        code = bench_memory_fill(memory, &one, &memory->in);
    return code ? code : bench_memory_bind(memory);
}

double bench_read_sample(const struct bench_read *read, double bytes)
{
    const struct bench_memory *memory = &read->memory;
    const double wanted = bench_memory_within(memory, bytes);
    size_t groups = memory->groups;
    while (groups > 1 && wanted / VECTOR < (double)(4 * groups * memory->local))
        groups /= 2;
    const cl_uint whole = (cl_uint)(4 * groups * memory->local);
    return bench_memory_sample(memory, groups, (cl_uint)(wanted / VECTOR) / whole * whole, VECTOR);
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
