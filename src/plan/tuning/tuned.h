/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_TUNED_H
#define CLA_TUNED_H

#include "plan/planner.h"
#include "plan/tuning/tuning_db.h"

/* As cla_plan(), but a problem that forces nothing is looked up first: in `user` (NULL: none), then in the library's
 * own table, unless the expected sizes are a grid too small for what that was measured with. A record that does not fit
 * leaves a step that says why, and the model plans. */
clattn_status cla_plan_tuned(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                             const struct cla_tuning_db *user, cla_kernels_function kernels, struct cla_choice *choice,
                             struct clattn_plan_info *info, struct cla_error *error);

#endif
