/* SPDX-License-Identifier: BSD-2-Clause */
#include "verify/pages.h"
#include "random.h"
#include <stdlib.h>
#include <string.h>

enum { SPARE = 3 };

/* The rows of one page, of all heads. */
static void fill_page(const struct clattn_shape *shape, int64_t keys, size_t bytes, const char *rows, int64_t b,
                      int64_t first, char *page)
{
    for (int64_t h = 0; h < shape->kv_heads; h++)
        for (int64_t j = first; j < first + keys && j < shape->n_kv; j++)
            memcpy(page + (size_t)(h * keys + j - first) * bytes,
                   rows + (size_t)((b * shape->kv_heads + h) * shape->n_kv + j) * bytes, bytes);
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

bool verify_pages_make(const struct reference_problem *problem, int64_t keys, bool compressed,
                       struct verify_pages *pages)
{
    const struct clattn_shape *shape = &problem->shape;
    *pages = (struct verify_pages){.keys = keys, .each = (shape->n_kv + keys - 1) / keys};
    pages->pool = shape->batch * pages->each + SPARE;
    pages->table = malloc((size_t)pages->pool * sizeof *pages->table);
    pages->offsets = compressed ? malloc((size_t)(shape->batch + 1) * sizeof *pages->offsets) : NULL;
    if (!pages->table || (compressed && !pages->offsets)) {
        verify_pages_free(pages);
        return false;
    }
    shuffle(pages->table, pages->pool);
    for (int64_t b = 0; compressed && b <= shape->batch; b++)
        pages->offsets[b] = (int32_t)(b * pages->each);
    return true;
}

bool verify_pages_lay(const struct reference_problem *problem, enum verify_paged which, const void *rows, size_t bytes,
                      struct verify_pages *pages)
{
    const struct clattn_shape *shape = &problem->shape;
    const size_t page = (size_t)(shape->kv_heads * pages->keys) * bytes, all = (size_t)pages->pool * page;
    char *const laid = pages->rows[which] = malloc(all + 1);
    if (!laid)
        return false;
    memset(laid, 0xff, all);
    for (int64_t i = 0; i < shape->batch * pages->each; i++)
        fill_page(shape, pages->keys, bytes, rows, i / pages->each, i % pages->each * pages->keys,
                  laid + (size_t)pages->table[i] * page);
    return true;
}

void verify_pages_free(struct verify_pages *pages)
{
    for (int i = 0; i < VERIFY_PAGED; i++)
        free(pages->rows[i]);
    free(pages->table);
    free(pages->offsets);
    *pages = (struct verify_pages){0};
}
