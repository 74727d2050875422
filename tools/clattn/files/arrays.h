/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_ARRAYS_H
#define CLATTN_TOOL_ARRAYS_H

#include "files/npy.h"
#include <clattn/problem.h>
#include <stdbool.h>

/* How the arrays of `clattn run` make up one attention problem. */

/* [batch, heads, n, d], [heads, n, d] or [n, d]; with `bnhd`, [batch, n, heads, d] and [n, heads, d]. With `packed`,
 * [heads, total, d] or [total, d] (bnhd: [total, heads, d]): n_q and n_kv are then the totals, batch is 1. */
struct arrays {
    struct clattn_shape shape;
    enum clattn_dtype dtype;
    int k_type, v_type; /* enum clattn_operand_type less 1 */
    int d, d_v;
    int64_t pool_pages, page_keys; /* of K and V in pages; else 0 */
    struct clattn_layout q, k, v, o;
    int64_t keys[3];              /* batch, or pages; heads; rows of K and V */
    struct npy_header o_header;   /* of O: like Q, with d_v */
    struct npy_header row_header; /* of LSE, m and l: [batch, heads, n_q] */
};

enum { ARRAYS_Q, ARRAYS_K, ARRAYS_V, ARRAYS_D_O, ARRAYS_MOST };

struct arrays_request {
    const char *names[ARRAYS_MOST];                /* files of Q, K, V and dO, for messages */
    const struct npy_header *headers[ARRAYS_MOST]; /* that of dO may be NULL */
    bool bnhd;
    bool packed; /* sequences of different lengths, end to end */
    bool pages;  /* K and V are [pages, heads, keys of a page, d], or with `bnhd` [pages, keys of a page, heads, d] */
    int dtype, k_format, v_format; /* of --dtype, --k-format, --v-format; -1 where they were not given */
};

/* STATUS_FILE with a message naming the file, its shape and what would be right. Pure. */
int arrays_match(const struct arrays_request *request, struct arrays *arrays, struct failure *failure);

#endif
