/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_VERIFY_PAGES_H
#define CLATTN_TOOL_VERIFY_PAGES_H

#include "reference/reference.h"

/* What a case has of each key, in pages (CLATTN_PAGES) in random order, among some that are nobody's. What no key lies
 * in holds bytes 0xff: NaN as floats. */
enum verify_paged {
    VERIFY_PAGED_K,
    VERIFY_PAGED_V,
    VERIFY_PAGED_K_SCALES,
    VERIFY_PAGED_K_ZEROS,
    VERIFY_PAGED_V_SCALES,
    VERIFY_PAGED_V_ZEROS,
    VERIFY_PAGED
};

struct verify_pages {
    int64_t keys;             /* of a page; 0: there are no pages */
    int64_t pool;             /* pages */
    int64_t each;             /* of a batch element */
    char *rows[VERIFY_PAGED]; /* [pool, kv_heads, keys] rows; NULL: none */
    int32_t *table;           /* [batch, each]; a compressed one holds the same */
    int32_t *offsets;         /* NULL: the table is dense */
};

/* Numbers pages. Lays rows out, of so many bytes, which lie [batch, kv_heads, n_kv] before. False without memory. */
bool verify_pages_make(const struct reference_problem *problem, int64_t keys, bool compressed,
                       struct verify_pages *pages);
bool verify_pages_lay(const struct reference_problem *problem, enum verify_paged which, const void *rows, size_t bytes,
                      struct verify_pages *pages);
void verify_pages_free(struct verify_pages *pages);

#endif
