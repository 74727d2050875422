/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a call of backward_hopper runs, and between how many work-groups it shares out blocks of keys. */
#include "plan/checked.h"
#include "plan/matrix_units.h"
#include "plan/planner.h"
#include "plan/skeletons/backward_hopper.h"
#include "plan/skeletons/backward_sums.h"
#include "plan/skeletons/heads_together.h"
#include "plan/skeletons/shares.h"
#include <stddef.h>

/* Query heads that share a head of K and V. */
static int64_t group_of(const struct clattn_shape *shape)
{
    return shape->kv_heads ? shape->heads / shape->kv_heads : 0;
}

/* Rows that see a key, on average, and those that see the first. */
static double average_rows(const struct clattn_problem *problem, double rows, double keys)
{
    switch (problem->causal) {
    case CLATTN_FULL:
        break;
    case CLATTN_CAUSAL_BOTTOM_RIGHT:
        return rows <= keys ? rows - rows * rows / 2 / keys : keys / 2;
    case CLATTN_CAUSAL_TOP_LEFT:
        return rows <= keys ? rows * rows / 2 / keys : rows - keys / 2;
    }
    return rows;
}
static double most_rows(const struct clattn_problem *problem, double rows, double keys)
{
    return problem->causal == CLATTN_CAUSAL_BOTTOM_RIGHT && keys < rows ? keys : rows;
}

/* Blocks of keys that come in their own order, of which a causal mask leaves the first the longest. */
static bool is_uneven(const struct clattn_problem *problem)
{
    return problem->causal != CLATTN_FULL && !(problem->features & (CLATTN_BLOCK_MASK | CLATTN_WINDOW));
}

/* Bytes of dK and dV of a block of keys, as registers hold them. */
static int64_t share_bytes(const struct cla_run *run)
{
    return 4 * (int64_t)run->config->b_c * CLA_PIECE * (cla_pieces(run->problem->d) + cla_pieces(run->problem->d_v));
}

/* Of all keys of the shape, whatever a call looks at: so that the workspace of the shape has room for any. */
static int32_t shares_of(const struct cla_run *run, int64_t units)
{
    const struct clattn_shape *shape = &run->shape;
    const struct clattn_problem *problem = run->problem;
    const int b_r = run->config->backward_hopper.tile_rows, b_c = run->config->b_c;
    const double rows = (double)shape->n_q, keys = (double)shape->n_kv, group = (double)group_of(shape);
    const int64_t blocks = shape->batch * shape->kv_heads * cla_ceil_div(shape->n_kv, b_c);
    const struct cla_share_work work = {.blocks = blocks,
                                        .heads = shape->batch * shape->kv_heads,
                                        .groups = units > 0 ? units : 1,
                                        .share_bytes = share_bytes(run),
                                        .longest = group * most_rows(problem, rows, keys) / b_r,
                                        .tiles = group * (double)blocks * average_rows(problem, rows, keys) / b_r,
                                        .tile_products = (double)b_r * b_c * (3.0 * problem->d + 2.0 * problem->d_v)};
    return run->config->backward_hopper.shares ? run->config->backward_hopper.shares : cla_shares(&work);
}

/* Heads whose blocks of keys are worked on together, by what they read and add to. */
static int32_t heads_together(const struct cla_run *run, int64_t units, int32_t shares)
{
    const struct clattn_shape *shape = &run->shape;
    const struct clattn_problem *problem = run->problem;
    const int64_t blocks = cla_run_key_blocks(run) * shares;
    const int64_t row_bytes =
        2 * ((int64_t)problem->d + problem->d_v) + 4 * (int64_t)run->config->backward_hopper.dq_sums * problem->d;
    const int64_t all = shape->batch * shape->kv_heads * blocks;
    struct cla_together work = {.heads = shape->batch * shape->kv_heads,
                                .blocks = blocks,
                                .groups = units && units < all ? units : all,
                                .uneven = is_uneven(problem)};
    if (!cla_multiply(shape->n_q, group_of(shape) * row_bytes, &work.bytes))
        work.bytes = INT64_MAX;
    return cla_heads_together(&work);
}

/* TMA descriptors of a work-group; words of a block of keys: its position, and its cost */
enum { DESCRIPTORS = 4, ORDER = 2 };

static void regions(const struct cla_run *run, const struct cla_sum_blocks *blocks, int64_t units, int32_t shares,
                    struct cla_recipe *out)
{
    const int dq_sums = run->config->backward_hopper.dq_sums;
    out->stuck_region = 0;
    out->stuck_word = 1; /* behind the one that counts tickets */
    cla_recipe_region(out, "tickets", 2, sizeof(uint32_t), true, offsetof(struct cla_backward_params, tickets));
    cla_recipe_region(out, "counters", cla_recipe_times(out, blocks->rows, dq_sums), sizeof(uint32_t), true,
                      offsetof(struct cla_backward_params, counters));
    cla_sum_flags(blocks, out);
    cla_recipe_region(out, "TMA descriptors", DESCRIPTORS * units, CLA_DESCRIPTOR_WORDS * sizeof(uint32_t), false,
                      offsetof(struct cla_backward_params, descriptors));
    if (cla_backward_hopper_orders(run->problem))
        cla_recipe_region(out, "order", blocks->keys, ORDER * sizeof(uint32_t), false,
                          offsetof(struct cla_backward_params, order));
    if (shares > 1)
        cla_recipe_region(out, "shares of dK and dV", cla_recipe_times(out, blocks->keys, shares), share_bytes(run),
                          false, offsetof(struct cla_backward_params, share_sums));
    cla_sum_sums(blocks, cla_backward_hopper_sum_floats(run->problem, run->config), dq_sums, false, out);
}

static void numbers(const struct cla_run *run, int64_t units, int32_t shares, struct cla_recipe *out)
{
    cla_recipe_number(out, offsetof(struct cla_backward_params, heads_together), heads_together(run, units, shares));
    cla_recipe_number(out, offsetof(struct cla_backward_params, shares), shares);
    cla_recipe_number(out, offsetof(struct cla_backward_params, group), (int32_t)group_of(&run->shape));
}

static void order_stage(const struct cla_run *run, const struct cla_sum_blocks *blocks, struct cla_recipe *out)
{
    if (cla_backward_hopper_orders(run->problem) && cla_sum_wanted(run))
        cla_recipe_stage(out, (struct cla_stage){.kernel = CLA_ORDER,
                                                 .batch = run->shape.batch,
                                                 .heads = run->shape.kv_heads,
                                                 .blocks = blocks->keys > 0,
                                                 .counted = "one",
                                                 .arguments = cla_backward_inputs_list});
}

/* With one share it is named, and does not run. */
static void shares_stage(const struct cla_run *run, int32_t shares, struct cla_recipe *out)
{
    enum { CHUNK_BYTES = 32 }; /* of an item: 8 columns */
    const int64_t groups = share_bytes(run) / (CHUNK_BYTES * CLA_SHARE_ITEMS);
    if (cla_run_wants_keys(run))
        cla_recipe_stage(out, (struct cla_stage){.kernel = CLA_SHARES,
                                                 .batch = run->shape.batch,
                                                 .heads = run->shape.kv_heads,
                                                 .blocks = shares > 1 ? cla_run_key_blocks(run) * groups : 0,
                                                 .counted = "n_kv / B_c",
                                                 .arguments = cla_backward_keys_list});
}

void cla_backward_hopper_recipe(const struct cla_run *run, struct cla_recipe *out)
{
    const struct cla_sum_blocks blocks = cla_sum_blocks_of(run, run->config->backward_hopper.tile_rows, out);
    const int64_t units = run->capabilities->compute_units;
    const int32_t shares = out->too_large ? 1 : shares_of(run, units);
    regions(run, &blocks, units, shares, out);
    if (out->too_large)
        return;
    numbers(run, units, shares, out);
    order_stage(run, &blocks, out);
    cla_sum_begin(run, shares, units, out);
    shares_stage(run, shares, out);
    cla_sum_end(run, out);
}
