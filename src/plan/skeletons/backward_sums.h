/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_BACKWARD_SUMS_H
#define CLA_BACKWARD_SUMS_H

#include "plan/recipe.h"

/* What backward_hopper and backward_fused have in common: their kernel of K and V adds up dQ in the workspace, and
 * kernels of cl/backward_matrix.cl end its work. */

/* backward_matrix's kernels and their constants; whether they end what another has begun, and which. */
enum cla_summed {
    CLA_NOT_SUMMED,
    CLA_SUMMED_BY_HOPPER,
    CLA_SUMMED_BY_FUSED,
    CLA_SUMMED_TURNED,
    CLA_SUMS_ITSELF /* its own kernel of K and V adds up dQ */
};
void cla_backward_matrix_define(const struct cla_matrix_unit *unit, int level, const struct cla_backward_units *units,
                                enum cla_summed summed, int dq_sums, struct cla_text *text);

/* The sums of a block of 64 rows, as those kernels take them: two parts, or four beyond d = 128, of so many pieces of
 * 16 columns. */
int cla_sum_part_pieces(const struct clattn_problem *problem);
int64_t cla_sum_floats(const struct clattn_problem *problem);

/* How many blocks there are of so many rows and of keys, of all heads. Sets too_large where a kernel cannot count
 * them. */
struct cla_sum_blocks {
    int64_t rows, keys;
};
struct cla_sum_blocks cla_sum_blocks_of(const struct cla_run *run, int rows, struct cla_recipe *recipe);

/* Regions: a flag for each block of keys whose dK and dV are to be computed again, and `chains` sums for each block of
 * rows. */
void cla_sum_flags(const struct cla_sum_blocks *blocks, struct cla_recipe *recipe);
void cla_sum_sums(const struct cla_sum_blocks *blocks, int64_t floats, int dq_sums, bool zeroed,
                  struct cla_recipe *recipe);

/* Stages: the kernel of K and V, as cla_recipe_over_keys() has it; and those that end its work. */
bool cla_sum_wanted(const struct cla_run *run);
void cla_sum_begin(const struct cla_run *run, int64_t shares, int64_t groups, struct cla_recipe *recipe);
void cla_sum_end(const struct cla_run *run, struct cla_recipe *recipe);

#endif
