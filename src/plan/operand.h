/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_OPERAND_H
#define CLA_OPERAND_H

#include "plan/features/feature.h"

/* Everything that a call may read or write. Those before CLA_FORWARD_OPERANDS are in the order of the forward kernels'
 * arguments, from CLA_LSE on vectors. */
enum {
    CLA_Q,
    CLA_K,
    CLA_V,
    CLA_O,
    CLA_LSE,
    CLA_M,
    CLA_L,
    CLA_FORWARD_OPERANDS,
    CLA_D_O = CLA_FORWARD_OPERANDS,
    CLA_D_Q,
    CLA_D_K,
    CLA_D_V,
    CLA_BIAS_GRAD,
    CLA_SINKS_GRAD,
    CLA_SCORE, /* the tensors of the score features, in the order of their table (plan/features/feature.h) */
    CLA_BIAS = CLA_SCORE + 1,
    CLA_MASK,
    CLA_BLOCK_MASK,
    CLA_BLOCK_OFFSETS,
    CLA_BLOCK_COLUMNS,
    CLA_KEY_LENGTHS,
    CLA_CU_Q,
    CLA_CU_KV,
    CLA_SINKS,
    CLA_DATA,
    CLA_PAGES,
    CLA_PAGE_OFFSETS,
    CLA_K_SCALES,
    CLA_K_ZEROS,
    CLA_V_SCALES,
    CLA_V_ZEROS,
    CLA_D_LSE,
    CLA_ROW_SHIFTS,
    CLA_QUERY_LENGTHS,
    CLA_TREE_MASK,
    CLA_BIAS_SLOPES,
    CLA_RNG_STATE,
    CLA_SCORE_END = CLA_SCORE + CLA_SCORE_TENSORS,
    CLA_STATE = CLA_SCORE_END,
    CLA_FROM, /* the state that is merged into the other */
    CLA_WORKSPACE,
    CLA_NEW_K, /* what clattn_append_enqueue has beside Q, K and V */
    CLA_NEW_V,
    CLA_ROTATED_Q,
    CLA_POSITIONS,
    CLA_ROPE_COS,
    CLA_ROPE_SIN,
    CLA_OPERANDS
};

#endif
