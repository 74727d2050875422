/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_BACKWARD_MATRIX_H
#define CLA_BACKWARD_MATRIX_H

#include "plan/matrix_units.h"

/* The planner of backward_matrix, in two files. Its kernels' sides are CLA_DQ, whose fixed rows are those of Q, and
 * CLA_DK_DV, whose are keys. */
int cla_backward_matrix_sub_groups(const struct cla_config *config);

/* To the byte what a side's kernel declares (MATRIX_LOCAL_BYTES), where d_bias is as dq; and the most of both. */
uint64_t cla_backward_matrix_side_bytes(const struct clattn_problem *problem, const struct cla_config *config,
                                        int side);
uint64_t cla_backward_matrix_local_bytes(const struct clattn_problem *problem, const struct cla_config *config);

/* What an item holds: gradients, scores and dP of a slice, the fixed side's operands where they stay. */
uint64_t cla_backward_matrix_private_bytes(const struct clattn_problem *problem, const struct cla_config *config);

/* What 16 x 16 pairs cost, in products of 16 x 16 pieces; smaller is better. */
double cla_backward_matrix_estimate(const struct clattn_capabilities *capabilities,
                                    const struct clattn_problem *problem, const struct cla_config *config);

#endif
