/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_BENCH_MEMORY_H
#define CLATTN_TOOL_BENCH_MEMORY_H

#include "bench/kernel.h"

/* What measures the speed of device memory: a kernel that goes through `in`, with arguments (in, out, vectors, rounds,
 * shift), each round from another place on. */
struct bench_memory {
    const struct session *session;
    struct bench_kernel kernel;
    cl_mem in, out;
    size_t groups, local;
    uint64_t bytes; /* of `in` */
};

/* Builds the kernel and chooses the sizes, at most so many bytes; *memory is zero before, and bench_memory_destroy() is
 * called also after a failure. The caller makes the buffers, then binds them. */
cl_int bench_memory_create(const struct session *session, const char *const *files, const char *entry, uint64_t most,
                           struct bench_memory *memory);
cl_int bench_memory_bind(const struct bench_memory *memory);
void bench_memory_destroy(struct bench_memory *memory);

/* A buffer of memory->bytes that holds a 4-byte value everywhere. */
cl_int bench_memory_fill(const struct bench_memory *memory, const void *one, cl_mem *buffer);

/* As many bytes, as far as the buffers have them. */
double bench_memory_within(const struct bench_memory *memory, double bytes);

/* GB/s, the best of three times of a few ms, where `count` vectors are gone through that stand for so many bytes each;
 * 0 where it failed. */
double bench_memory_sample(const struct bench_memory *memory, size_t groups, cl_uint count, double bytes_each);

#endif
