/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/skeletons/backward_sums.h"
#include "plan/checked.h"
#include "plan/matrix_units.h"

enum { AGAIN_GROUPS = 1 }; /* of clattn_dk_dv_again, on a compute unit */

int cla_sum_part_pieces(const struct clattn_problem *problem)
{
    enum { MOST = 4 };
    const int pieces = cla_pieces(problem->d);
    return pieces > MOST ? MOST : (pieces + 1) / 2;
}

int64_t cla_sum_floats(const struct clattn_problem *problem)
{
    enum { ROWS = 64, TWO_PARTS_D = 128 };
    return (int64_t)(problem->d > TWO_PARTS_D ? 4 : 2) * cla_sum_part_pieces(problem) * CLA_PIECE * ROWS;
}

struct cla_sum_blocks cla_sum_blocks_of(const struct cla_run *run, int rows, struct cla_recipe *recipe)
{
    const struct clattn_shape *shape = &run->shape;
    const int64_t heads = cla_recipe_times(recipe, shape->batch, shape->heads),
                  kv_heads = cla_recipe_times(recipe, shape->batch, shape->kv_heads);
    const struct cla_sum_blocks blocks = {cla_recipe_times(recipe, heads, cla_ceil_div(shape->n_q, rows)),
                                          cla_recipe_times(recipe, kv_heads, cla_run_key_blocks(run))};
    /* Tickets go on behind the last block of keys, one for each work-group. */
    if (blocks.rows > INT32_MAX || blocks.keys > INT32_MAX - INT16_MAX)
        recipe->too_large = true;
    return blocks;
}

void cla_sum_flags(const struct cla_sum_blocks *blocks, struct cla_recipe *recipe)
{
    cla_recipe_region(recipe, "flags", blocks->keys, sizeof(uint32_t), true,
                      offsetof(struct cla_backward_params, flags));
}

void cla_sum_sums(const struct cla_sum_blocks *blocks, int64_t floats, int dq_sums, bool zeroed,
                  struct cla_recipe *recipe)
{
    const int64_t count = cla_recipe_times(recipe, blocks->rows, dq_sums);
    if (count > INT32_MAX)
        recipe->too_large = true;
    cla_recipe_region(recipe, "sums of dQ", count, floats * (int64_t)sizeof(float), zeroed,
                      offsetof(struct cla_backward_params, sums));
}

bool cla_sum_wanted(const struct cla_run *run)
{
    return cla_run_wants_keys(run) || cla_run_wants(run, CLA_D_Q);
}

void cla_sum_begin(const struct cla_run *run, int64_t shares, int64_t groups, struct cla_recipe *recipe)
{
    if (cla_sum_wanted(run))
        cla_recipe_over_keys(run, CLA_DK_DV, shares, groups, recipe);
}

void cla_sum_end(const struct cla_run *run, struct cla_recipe *recipe)
{
    /* Of few groups, each of which looks at many blocks: mostly there is nothing to do. */
    const int64_t groups = AGAIN_GROUPS * (int64_t)run->capabilities->compute_units;
    if (cla_run_wants_keys(run))
        cla_recipe_over_keys(run, CLA_DK_DV_AGAIN, 1, groups, recipe);
    cla_recipe_dq(run, recipe);
    cla_recipe_d_bias(run, recipe);
}
