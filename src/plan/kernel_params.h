/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_KERNEL_PARAMS_H
#define CLA_KERNEL_PARAMS_H

#include <clattn/problem.h>

/* The argument block of the forward kernels, to the byte as cl/common/types.clh has it (its clattn_layout is struct
 * clattn_layout): 64-bit fields first, then an even number of 32-bit ones, so that no compiler pads it. */
struct cla_forward_params {
    struct clattn_layout q, k, v, o, lse, m, l;
    int32_t batch, heads, kv_heads, n_q, n_kv;
    float scale, scale_log2e;
    int32_t reserved;
};

_Static_assert(sizeof(struct cla_forward_params) == 7 * 40 + 32, "the kernels expect this size");

#endif
