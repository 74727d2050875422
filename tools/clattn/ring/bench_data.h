/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_RING_BENCH_DATA_H
#define CLATTN_TOOL_RING_BENCH_DATA_H

#include <clattn/ring.h>
#include <stdbool.h>

/* What one rank has of the arrays of a ring: random inputs, and outputs of a forward and a backward pass. */
enum ring_array {
    RING_Q,
    RING_K,
    RING_V,
    RING_D_O,
    RING_O,
    RING_LSE,
    RING_M,
    RING_L,
    RING_D_Q,
    RING_D_K,
    RING_D_V,
    RING_ARRAYS
};

struct ring_data {
    void *arrays[RING_ARRAYS]; /* of gradients only where they are asked for */
};

/* False without memory; nothing is left to free then. */
bool ring_data_make(const struct clattn_problem *problem, const struct clattn_shape *shape, int64_t rows, int64_t keys,
                    bool gradients, int rank, struct ring_data *data);
void ring_data_free(struct ring_data *data);

#endif
