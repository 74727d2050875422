/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_PACKING_H
#define CLA_PACKING_H

#include "plan/skeleton.h"

/* Query heads that share a head of K and V may go through a forward kernel together: `pack` of them are one packed
 * head, whose n_q * pack rows are (row, head) with the head running fastest (cl/score/view.clh). K and V are then read
 * once for all, and blocks of rows are full where n_q is small. */

/* Whether a kernel of the skeleton can serve the problem so; else why not. */
bool cla_may_pack(const struct cla_skeleton *skeleton, const struct clattn_problem *problem);
clattn_status cla_packing_check(const struct cla_skeleton *skeleton, const struct clattn_problem *problem,
                                struct cla_error *error);

/* Whether the plan packs: as the problem says, or where the expected sizes gain by it. */
bool cla_plans_to_pack(const struct cla_skeleton *skeleton, const struct clattn_problem *problem);

/* The problem as a planner of sizes is to see it: expected rows and heads are packed ones. */
struct clattn_problem cla_problem_packed(const struct clattn_problem *problem);

/* Heads to a packed one, at the expected sizes and of a call; 1: none are packed. */
int cla_expected_pack(const struct clattn_problem *problem);
int cla_pack_of(const struct cla_config *config, const struct clattn_shape *shape);

#endif
