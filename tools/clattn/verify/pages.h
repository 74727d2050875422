/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_VERIFY_PAGES_H
#define CLATTN_TOOL_VERIFY_PAGES_H

#include "reference/reference.h"

/* Keys and values of a case in pages (CLATTN_PAGES), in random order, among some that are nobody's. What no key lies in
 * holds NaN. */
struct verify_pages {
    int64_t keys;     /* of a page; 0: there are no pages */
    int64_t pool;     /* pages */
    int64_t each;     /* of a batch element */
    float *k, *v;     /* [pool, kv_heads, keys, d] and d_v */
    int32_t *table;   /* [batch, each]; a compressed one holds the same */
    int32_t *offsets; /* NULL: the table is dense */
};

/* Lays them out. False without memory. */
bool verify_pages_make(const struct reference_problem *problem, int64_t keys, bool compressed, const float *k,
                       const float *v, struct verify_pages *pages);
void verify_pages_free(struct verify_pages *pages);

#endif
