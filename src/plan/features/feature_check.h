/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_FEATURE_CHECK_H
#define CLA_FEATURE_CHECK_H

#include "plan/features/feature.h"

/* What a call gives its features, checked but for where tensors lie: nothing for a feature that the problem has not,
 * numbers within their ranges, and what the features' own checks ask. Fills in what kernels get of the numbers. */
clattn_status cla_features_check(const struct cla_feature_call *call, struct cla_error *error);

/* The features' own, for their table: numbers that depend on a shape or on each other, and those that kernels get in
 * another form. */
clattn_status cla_check_window(const struct cla_feature_call *call, struct cla_error *error);
clattn_status cla_check_softcap(const struct cla_feature_call *call, struct cla_error *error);
clattn_status cla_check_block_mask(const struct cla_feature_call *call, struct cla_error *error);
clattn_status cla_check_totals(const struct cla_feature_call *call, struct cla_error *error);
clattn_status cla_check_dropout(const struct cla_feature_call *call, struct cla_error *error);
clattn_status cla_check_pages(const struct cla_feature_call *call, struct cla_error *error);
clattn_status cla_check_row_shifts(const struct cla_feature_call *call, struct cla_error *error);
clattn_status cla_check_tree_mask(const struct cla_feature_call *call, struct cla_error *error);
clattn_status cla_check_rng_state(const struct cla_feature_call *call, struct cla_error *error);

/* What a problem says of its features: cla_features_check_problem for all, then the features' own. `there`: the problem
 * has the feature; what is its alone has to be 0 where it is not. */
clattn_status cla_features_check_problem(const struct clattn_problem *problem, struct cla_error *error);
clattn_status cla_check_window_problem(const struct clattn_problem *problem, bool there, struct cla_error *error);
clattn_status cla_check_block_mask_problem(const struct clattn_problem *problem, bool there, struct cla_error *error);
clattn_status cla_check_dropout_problem(const struct clattn_problem *problem, bool there, struct cla_error *error);
clattn_status cla_check_user_problem(const struct clattn_problem *problem, bool there, struct cla_error *error);
clattn_status cla_check_pages_problem(const struct clattn_problem *problem, bool there, struct cla_error *error);
clattn_status cla_check_rng_state_problem(const struct clattn_problem *problem, bool there, struct cla_error *error);

#endif
