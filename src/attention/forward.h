/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_FORWARD_H
#define CLA_FORWARD_H

#include "attention/stages.h"

/* clattn_forward_enqueue() and clattn_forward_record() without the report. `plan` is not NULL. */
clattn_status cla_forward_dispatch(const struct clattn_plan *plan, const struct clattn_forward_args *args,
                                   const struct cla_dispatch *to, struct cla_error *error);

/* The last checks of every call, those that ask OpenCL. */
clattn_status cla_dispatch_checks(const struct clattn_context *context, const struct cla_dispatch *to,
                                  struct cla_call *call, struct cla_error *error);

/* Makes the states that an operand holds what the forward kernel writes as O, m and l; there is no LSE then. */
void cla_point_into_states(struct cla_call *call, int which, const struct cla_state_places *places);

/* Dispatches the forward kernels of a checked call: a pass, or in a plan of CLATTN_ACCUMULATE the accumulation. A block
 * mask is expanded before them. `recipe` is the call's, counted. */
clattn_status cla_forward_launch(const struct clattn_plan *plan, const struct cla_dispatch *to,
                                 const struct cla_call *call, const struct cla_recipe *recipe, struct cla_error *error);

#endif
