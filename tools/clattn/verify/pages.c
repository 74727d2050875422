/* SPDX-License-Identifier: BSD-2-Clause */
#include "verify/pages.h"
#include "random.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SPARE = 3 };

/* The rows of one page, of all heads; `values` is [batch, kv_heads, n_kv, d]. */
static void fill_page(const struct clattn_shape *shape, int64_t keys, int d, const float *values, int64_t b,
                      int64_t first, float *page)
{
    for (int64_t h = 0; h < shape->kv_heads; h++)
        for (int64_t j = first; j < first + keys && j < shape->n_kv; j++)
            memcpy(page + (h * keys + j - first) * d, values + ((b * shape->kv_heads + h) * shape->n_kv + j) * d,
                   (size_t)d * sizeof *page);
}

static void shuffle(int32_t *numbers, int64_t count)
{
    struct random random = {.state = (uint64_t)count ^ 0x9a9e5};
    for (int64_t i = 0; i < count; i++) {
        const int64_t other = random_below(&random, i + 1);
        numbers[i] = numbers[other];
        numbers[other] = (int32_t)i;
    }
}

static bool allocate(const struct reference_problem *problem, bool compressed, struct verify_pages *pages)
{
    const struct clattn_shape *shape = &problem->shape;
    const size_t rows = (size_t)(pages->pool * shape->kv_heads * pages->keys);
    pages->k = malloc(rows * (size_t)problem->d * sizeof *pages->k);
    pages->v = malloc(rows * (size_t)problem->d_v * sizeof *pages->v);
    pages->table = malloc((size_t)pages->pool * sizeof *pages->table);
    pages->offsets = compressed ? malloc((size_t)(shape->batch + 1) * sizeof *pages->offsets) : NULL;
    if (!pages->k || !pages->v || !pages->table || (compressed && !pages->offsets))
        return false;
    for (size_t i = 0; i < rows * (size_t)problem->d; i++)
        pages->k[i] = NAN;
    for (size_t i = 0; i < rows * (size_t)problem->d_v; i++)
        pages->v[i] = NAN;
    return true;
}

bool verify_pages_make(const struct reference_problem *problem, int64_t keys, bool compressed, const float *k,
                       const float *v, struct verify_pages *pages)
{
    const struct clattn_shape *shape = &problem->shape;
    *pages = (struct verify_pages){.keys = keys, .each = (shape->n_kv + keys - 1) / keys};
    pages->pool = shape->batch * pages->each + SPARE;
    if (!allocate(problem, compressed, pages)) {
        verify_pages_free(pages);
        return false;
    }
    shuffle(pages->table, pages->pool);
    for (int64_t i = 0; i < shape->batch * pages->each; i++) {
        const int64_t b = i / pages->each, first = i % pages->each * keys,
                      at = pages->table[i] * shape->kv_heads * keys;
        fill_page(shape, keys, problem->d, k, b, first, pages->k + at * problem->d);
        fill_page(shape, keys, problem->d_v, v, b, first, pages->v + at * problem->d_v);
    }
    for (int64_t b = 0; compressed && b <= shape->batch; b++)
        pages->offsets[b] = (int32_t)(b * pages->each);
    return true;
}

void verify_pages_free(struct verify_pages *pages)
{
    free(pages->k);
    free(pages->v);
    free(pages->table);
    free(pages->offsets);
    *pages = (struct verify_pages){0};
}
