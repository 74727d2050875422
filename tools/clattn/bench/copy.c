/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/bench.h"
#include "bench/memory.h"
#include <stdlib.h>

enum { VECTOR = 16, MOST_BYTES = 256 << 20 };

struct bench_copy {
    struct bench_memory memory;
};

static cl_int prepare(const struct session *session, struct bench_memory *memory)
{
    static const char *const files[] = {"peak_copy.cl", NULL};
    const cl_float one = 1.0f;
    cl_int code = bench_memory_create(session, files, "clattn_peak_copy", MOST_BYTES, memory);
    if (!code)
        code = bench_memory_fill(memory, &one, &memory->in);
    if (!code)
        code = bench_memory_fill(memory, &one, &memory->out);
    return code ? code : bench_memory_bind(memory);
}

double bench_copy_sample(const struct bench_copy *copy, double moved)
{
    const cl_uint count = (cl_uint)(bench_memory_within(&copy->memory, moved / 2.0) / VECTOR);
    return bench_memory_sample(&copy->memory, copy->memory.groups, count, 2.0 * VECTOR);
}

int bench_copy_create(const struct session *session, struct bench_copy **copy, struct failure *failure)
{
    struct bench_copy *made = calloc(1, sizeof *made);
    if (!made)
        return fail_code(failure, "measuring the copy bandwidth", CL_OUT_OF_HOST_MEMORY);
    const cl_int code = prepare(session, &made->memory);
    *copy = made;
    if (!code)
        return STATUS_OK;
    bench_copy_destroy(copy);
    return fail_code(failure, "measuring the copy bandwidth (cl/peak_copy.cl)", code);
}

void bench_copy_destroy(struct bench_copy **copy)
{
    if (*copy)
        bench_memory_destroy(&(*copy)->memory);
    free(*copy);
    *copy = NULL;
}
