/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/bench_data.h"
#include "random_pool.h"
#include <stdlib.h>

/* What each array has: how many of what, in rows or in keys. */
static const struct {
    bool of_keys, columns_of_v, vector, input, of_gradients;
} kinds[RING_ARRAYS] = {
    [RING_Q] = {.input = true},
    [RING_K] = {.input = true, .of_keys = true},
    [RING_V] = {.input = true, .of_keys = true, .columns_of_v = true},
    [RING_D_O] = {.input = true, .columns_of_v = true, .of_gradients = true},
    [RING_O] = {.columns_of_v = true},
    [RING_LSE] = {.vector = true},
    [RING_M] = {.vector = true},
    [RING_L] = {.vector = true},
    [RING_D_Q] = {.of_gradients = true},
    [RING_D_K] = {.of_keys = true, .of_gradients = true},
    [RING_D_V] = {.of_keys = true, .columns_of_v = true, .of_gradients = true},
};

bool ring_data_make(const struct clattn_problem *problem, const struct clattn_shape *shape, int64_t rows, int64_t keys,
                    bool gradients, int rank, struct ring_data *data)
{
    const size_t size = (size_t)clattn_dtype_size(problem->dtype);
    bool whole = true;
    *data = (struct ring_data){.arrays = {NULL}};
    for (int i = 0; i < RING_ARRAYS && whole; i++) {
        const int64_t heads = kinds[i].of_keys ? shape->kv_heads : shape->heads, n = kinds[i].of_keys ? keys : rows;
        const size_t vectors = (size_t)(shape->batch * heads * n);
        const size_t elements = vectors * (size_t)(kinds[i].columns_of_v ? problem->d_v : problem->d);
        if (kinds[i].of_gradients && !gradients)
            continue;
        data->arrays[i] = kinds[i].input    ? random_array(problem->dtype, (uint64_t)(rank * RING_ARRAYS + i), elements)
                          : kinds[i].vector ? calloc(vectors + 1, sizeof(float))
                                            : calloc(elements + 1, size);
        whole = data->arrays[i];
    }
    if (!whole)
        ring_data_free(data);
    return whole;
}

void ring_data_free(struct ring_data *data)
{
    for (int i = 0; i < RING_ARRAYS; i++)
        free(data->arrays[i]);
    *data = (struct ring_data){.arrays = {NULL}};
}
