/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_SCORE_H
#define CLA_SCORE_H

#include "attention/operands.h"
#include "device/launch.h"

/* The score modifications of a call: struct clattn_score_args, checked, becomes what the kernels get. Asks OpenCL
 * nothing. */

/* The most arguments that CLATTN_SCORE_PARAMETERS of cl/score/view.clh can be. */
#define CLA_SCORE_ARGUMENTS (CLA_SCORE_TENSORS + 1)

/* Checks all that is no tensor against the call's features and shape, and fills these fields of call->score. */
clattn_status cla_score_check(struct cla_call *call, const struct clattn_score_args *args, struct cla_error *error);

/* Sets the sizes of the modifications' tensors, d_bias and d_sinks included. */
void cla_score_sizes(struct cla_call *call);

/* Of the table of pages, for so many keys. */
struct cla_sizes cla_pages_sizes(const struct cla_call *call, int64_t keys);

/* Places these tensors and fills the rest of call->score. A block mask that comes as CSR is given its place at
 * call->workspace_bytes, which grows. */
clattn_status cla_score_place(struct cla_call *call, const struct clattn_score_args *args, struct cla_error *error);

/* Whether there is a block mask to expand, and to how many rows of blocks. */
bool cla_score_is_csr(const struct cla_call *call);

/* The bytes that the block masks of a shape take as CSR at most; 0 without CLATTN_BLOCK_MASK. */
clattn_status cla_score_workspace(const struct clattn_problem *problem, unsigned features,
                                  const struct clattn_shape *shape, int64_t *bytes, struct cla_error *error);

/* Adds the kernel arguments of `features` in the order of CLATTN_SCORE_PARAMETERS, which the call must outlive; answers
 * their number. `state`: the kernel has CLATTN_STATE. */
cl_uint cla_score_arguments(const struct cla_call *call, unsigned features, bool state, struct cla_argument *arguments);

#endif
