/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_BACKWARD_HOPPER_H
#define CLA_BACKWARD_HOPPER_H

#include "plan/recipe.h"

/* Items of a work-group of clattn_shares. */
enum { CLA_SHARE_ITEMS = 128 };

/* Whether blocks of keys come in an order of their own. */
bool cla_backward_hopper_orders(const struct clattn_problem *problem);

/* Floats that the sums of a tile of rows take. */
int64_t cla_backward_hopper_sum_floats(const struct clattn_problem *problem, const struct cla_config *config);

/* The skeleton's recipe(). */
void cla_backward_hopper_recipe(const struct cla_run *run, struct cla_recipe *out);

#endif
