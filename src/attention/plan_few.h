/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_PLAN_FEW_H
#define CLA_PLAN_FEW_H

#include "attention/plan.h"

/* The plan that a forward call of this shape runs: `plan`, or the one for few rows that it keeps beside, where the
 * planner prefers another skeleton for so few. The first such call compiles it. Without a shape, or with one that the
 * call's checks refuse, it is `plan`.
 *
 * statistics: m or l is asked for, as for gradients. It is `plan` then: the backward pass computes scores again, and is
 * most exact where they have the forward pass's very bits. */
clattn_status cla_plan_for(const struct clattn_plan *plan, const struct clattn_shape *shape, bool statistics,
                           const struct clattn_plan **chosen, struct cla_error *error);

#endif
