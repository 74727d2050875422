/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TRAFFIC_H
#define CLATTN_TRAFFIC_H

#include <clattn/plan.h>

CLATTN_BEGIN_DECLS

/* The bytes that a pass moves between device memory and the chip: a model, as FlashAttention's paper counts them
 * (arXiv:2205.14135, section 3.2 and appendix B). What a device's caches then keep from its memory is not in it.
 *
 * Standard attention writes the n_q x n_kv matrix S and reads it, writes P and reads that: Theta(N d + N^2) elements
 * (Theorem 2). FlashAttention reads Q once, and K and V once for each block of B_r rows (here a block of rows stays and
 * the keys pass; in the paper's Algorithm 1 it is the other way round, with the same product): with n_q / B_r blocks
 * that is
 *
 *     n_q d + n_q d_v + n_q / B_r * n_kv * (d + d_v)
 *
 * and Theta(N^2 d^2 / M) with B_r as large as the M elements on the chip allow, B_r ~ M / d. Counted are Q, K, V and O,
 * their gradients, LSE, m, l and a backward pass's statistics of rows, each pair's tile where any of its pairs is
 * seen; not what score modifications read. */

struct clattn_traffic_params {
    struct clattn_shape shape;         /* where keys come in pieces, n_kv is that of one */
    int64_t window_left, window_right; /* with CLATTN_WINDOW; -1: unlimited */
    double block_share;                /* with CLATTN_BLOCK_MASK: the share of its blocks that is kept; 0: all */
    uint64_t reserved[8];              /* 0: clattn/version.h */
};

/* Bytes. */
struct clattn_traffic {
    double flash;         /* by the planned kernels */
    double keys;          /* of these, reads of K and V */
    double standard;      /* by standard attention of the same pass, its matrices in fp32 (clattn_standard_enqueue) */
    double paper;         /* n_q * n_kv * d^2 / M elements: what the paper's Theta is of, so without its factor */
    double least;         /* inputs and outputs once each: what no implementation goes below */
    uint64_t reserved[8]; /* 0: clattn/version.h */
};

/* For a problem and what clattn_plan_preview or clattn_plan_get_info answered for it. Pure. Any thread.
 *
 * Errors: CLATTN_INVALID_ARGUMENT, CLATTN_INVALID_SHAPE, CLATTN_INVALID_TYPE, CLATTN_TOO_LARGE. */
CLATTN_API clattn_status clattn_plan_traffic(const struct clattn_problem *problem, const struct clattn_plan_info *info,
                                             const struct clattn_traffic_params *params,
                                             struct clattn_traffic *traffic);

CLATTN_END_DECLS

#endif
