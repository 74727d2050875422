/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_KERNEL_PARAMS_H
#define CLA_KERNEL_PARAMS_H

#include "plan/divisor.h"
#include "plan/features/softcap.h"
#include "plan/layout.h"
#include "plan/philox.h"
#include "plan/problem.h"
#include <stddef.h>

/* Words of a TMA descriptor; it lies on a multiple of its size
 * (cl/unit/nvidia_wgmma.clh). */
enum { CLA_DESCRIPTOR_WORDS = 32 };

/* The argument block of the forward kernels, to the byte as cl/common/types.clh has it (its clattn_layout is struct
 * cla_layout): 64-bit fields first, then an even number of 32-bit ones, so that no compiler pads it. */
struct cla_forward_params {
    struct cla_layout q, k, v, o, lse, m, l;
    int64_t descriptors;
    int64_t states, counters; /* where they lie in the workspace, in 4-byte words, where a kernel merges its splits */
    int64_t call;             /* a multiple of 2^16 unlike those of other calls */
    int32_t batch, heads, kv_heads, n_q, n_kv;
    float scale, scale_log2e;
    int32_t splits;          /* of the keys: as many states; 0 where a kernel is not one of splits */
    int32_t exact_m;         /* whether m, or l, is wanted: m is then a row's largest score, else it may be less */
    struct cla_divisor pack; /* with CLATTN_PACKS, query heads to a packed one, of which heads and n_q tell; else 1 */
    struct cla_divisor by_heads, by_splits;
    struct cla_divisor by_group; /* heads / kv_heads */
    struct cla_divisor by_part;  /* blocks of rows of all heads: work-groups of a split */
};

_Static_assert(sizeof(struct cla_forward_params) == 7 * 40 + 4 * 8 + 9 * 4 + 5 * 12, "the kernels expect this size");

/* Makes the divisors of a call with blocks of so many rows, whose other numbers are known. */
void cla_forward_params_divide(struct cla_forward_params *params, int b_r);

/* Floats that a backward pass keeps of each row in its workspace (cl/common/types.clh). */
enum { CLA_STATISTICS = 4 };

/* That of the backward kernels. */
struct cla_backward_params {
    struct cla_layout q, k, v, d_o, d_q, d_k, d_v, statistics;
    int64_t sums, counters, flags, tickets, descriptors, order, share_sums;
    int32_t batch, heads, kv_heads, n_q, n_kv;
    float scale, scale_log2e;
    int32_t heads_together, shares, group;
};

_Static_assert(sizeof(struct cla_backward_params) == 8 * 40 + 7 * 8 + 40, "the kernels expect this size");

/* Words of 8 bytes for the places and numbers of later features. */
enum { CLA_SCORE_MORE = 64 };

/* That of the score features: cl/common/view.clh. What it does not name lies in `more`, in the order of the table
 * (plan/features/feature.h), and kernels take so much of it as that fills. */
struct cla_score_params {
    struct cla_layout bias, mask, block_mask;
    int64_t alibi_offset, alibi_batch, alibi_head;
    int64_t sinks_offset, sinks_head;
    int64_t key_lengths_offset, cu_q_offset, cu_kv_offset;
    int32_t total_q, total_kv;
    int32_t first_key, key_count, keys;
    int32_t window_left, window_right;
    float softcap;
    float dropout_scale;
    uint32_t seed_low, seed_high, dropout_offset;
    uint32_t dropout_digits[CLA_DROPOUT_DIGITS];
    struct cla_softcap_curve curve;
    struct cla_softcap_polynomial polynomial;
    struct cla_softcap_low low;
    uint32_t dropout_line; /* of the first row */
    int64_t more[CLA_SCORE_MORE];
};

_Static_assert(offsetof(struct cla_score_params, more) == 3 * 40 + 8 * 8 + (30 + CLA_DROPOUT_DIGITS) * 4,
               "the kernels expect this size");

#endif
