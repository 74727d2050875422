/* SPDX-License-Identifier: BSD-2-Clause */
#include "random_pool.h"
#include "random.h"
#include "reference/reference.h"
#include <stdlib.h>
#include <string.h>

void *random_pool(enum clattn_dtype dtype, uint64_t seed)
{
    const int64_t sizes[4] = {1, 1, 1, RANDOM_POOL};
    const struct clattn_layout dense = {.offset = 0};
    struct random random = {.state = seed};
    float *values = malloc(RANDOM_POOL * sizeof *values);
    void *stored = malloc((size_t)RANDOM_POOL * (size_t)clattn_dtype_size(dtype));
    if (values && stored) {
        random_normal(&random, 1.0, values, RANDOM_POOL);
        reference_scatter(dtype, sizes, &dense, values, stored);
    } else {
        free(stored);
        stored = NULL;
    }
    free(values);
    return stored;
}

void *random_array(enum clattn_dtype dtype, uint64_t seed, size_t elements)
{
    const size_t size = (size_t)clattn_dtype_size(dtype), pool_bytes = RANDOM_POOL * size, bytes = elements * size;
    void *const pool = random_pool(dtype, seed);
    char *array = pool ? malloc(bytes + 1) : NULL;
    for (size_t at = 0; array && at < bytes; at += pool_bytes)
        memcpy(array + at, pool, bytes - at < pool_bytes ? bytes - at : pool_bytes);
    free(pool);
    return array;
}
