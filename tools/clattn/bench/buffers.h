/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_BENCH_BUFFERS_H
#define CLATTN_TOOL_BENCH_BUFFERS_H

#include "bench/bench.h"

/* The device's side of one row: dense tensors, Q, K, V and dO filled with N(0, 1). */
struct bench_buffers {
    struct clattn_forward_args
        args; /* with an LSE, of a backward row with m and l; the workspace is whoever's turn it is */
    struct clattn_backward_args backward; /* of a row of that pass; the tensors of `args` among its own */
    struct clattn_kv_scales scales;       /* of K and V */
    struct clattn_score_more more;        /* of the features */
    uint64_t o_elements, q_elements, k_elements, v_elements;
};

/* Bytes: of Q, K, V and O, in a backward pass of dO and the gradients too; of the largest of them; of LSE, or m and l.
 */
uint64_t bench_tensor_bytes(const struct bench_shape *shape);
uint64_t bench_largest_tensor(const struct bench_shape *shape);
uint64_t bench_vector_bytes(const struct bench_shape *shape);

/* A buffer of so many bytes, which repeats what is given. */
int bench_fill(const struct session *session, const char *name, const void *pool, size_t pool_bytes, uint64_t bytes,
               cl_mem *buffer, struct failure *failure);

int bench_buffers_create(const struct session *session, const struct bench_shape *shape, struct bench_buffers *buffers,
                         struct failure *failure);
void bench_buffers_destroy(struct bench_buffers *buffers);

/* Reads O, or the gradients, back: a kernel that was fast because it did not compute leaves NaN or infinities more
 * often than not. */
int bench_check_finite(const struct session *session, const struct bench_shape *shape,
                       const struct bench_buffers *buffers, struct failure *failure);

#endif
