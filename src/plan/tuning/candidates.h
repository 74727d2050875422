/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_CANDIDATES_H
#define CLA_CANDIDATES_H

#include "plan/planner.h"

/* The configurations that are worth a measurement: first the planner's own choice, then others of its skeleton,
 * cheapest by the model first, at last the own choice of each further skeleton that runs on the device. What the
 * (resolved) problem forces they all have. Fills infos[0 .. *count - 1]; each is what cla_plan() says of a problem that
 * forces its skeleton, sizes and knobs. */
clattn_status cla_candidates(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                             struct clattn_plan_info *infos, int capacity, int *count, struct cla_error *error);

#endif
