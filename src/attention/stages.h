/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_STAGES_H
#define CLA_STAGES_H

#include "attention/chain.h"
#include "attention/plan.h"

/* The recipe of a call (plan/recipe.h): asked of the plan's skeleton, counted and carried out. */

/* For a call of this shape (resolved), its regions placed from byte `first` of the workspace on. `call` says what is
 * wanted of it; NULL: everything. */
clattn_status cla_recipe_make(const struct clattn_plan *plan, const struct clattn_shape *shape,
                              const struct cla_call *call, size_t first, struct cla_recipe *recipe,
                              struct cla_error *error);

/* Counts the work-groups of each stage, where the device can launch them at once. */
clattn_status cla_stages_count(const struct clattn_plan *plan, struct cla_recipe *recipe, struct cla_error *error);

/* Enqueues the stages, one after the other. `block` is the kernels' argument block, in which the recipe's numbers
 * stand. Where `ends`, the call ends with the last of them. */
struct cla_stage_call {
    const struct cla_call *call;
    const void *block;
    size_t block_bytes;
    bool ends;
};
clattn_status cla_stages_run(const struct clattn_plan *plan, struct cla_chain *chain, const struct cla_recipe *recipe,
                             const struct cla_stage_call *of, struct cla_error *error);

#endif
