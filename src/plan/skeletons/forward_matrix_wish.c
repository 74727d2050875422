/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Which sizes forward_matrix would have, by what was timed and what a problem is, before forced ones and the device's
 * limits come in. */
#include "plan/checked.h"
#include "plan/operand.h"
#include "plan/planner.h"
#include "plan/problem.h"
#include "plan/sizes.h"
#include "plan/skeletons/forward_matrix.h"
#include "plan/types.h"

/* Where bounds of the tile before were faster (plan/sizes.h): not with a mask, whose every tile may hide pairs; nor
 * beyond narrow rows where a row's first tile, of which nothing is known, is one of few. */
static bool gains_by_stale_max(const struct clattn_problem *problem)
{
    const bool few_keys = problem->expected_n_kv && problem->expected_n_kv < cla_stale_max_sizes.few_keys;
    return cla_widest(problem) <= cla_stale_max_sizes.most_d && !(problem->features & CLATTN_MASK) &&
           !(few_keys && cla_widest(problem) > cla_stale_max_sizes.narrow_d);
}

/* What is asked of each pair has registers of its own. With bounds of the tile before, whose kernel has every step
 * twice, more would be in use than a SIMD's two waves leave to each (clang 19; tests/simulator). */
static bool asks_pairs(const struct clattn_problem *problem)
{
    return problem->features & (CLATTN_TREE_MASK | CLATTN_BIAS_SLOPES) || problem->score_mod || problem->mask_mod;
}

/* Takes one that the device has room for, if it costs less than the best so far. */
static void offer(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                  struct cla_config *one, struct cla_config *best, double *least)
{
    const struct cla_matrix_limits limits = cla_matrix_limits_of(capabilities);
    one->work_group_size = one->b_r / (CLA_PIECE * one->matrix.row_tiles) * one->lanes;
    if (one->work_group_size > limits.items || cla_forward_matrix_local_bytes(problem, one) > limits.local_bytes ||
        !cla_forward_matrix_hides_waits(capabilities, problem, one))
        return;
    const double cost = cla_forward_matrix_estimate(capabilities, problem, one);
    if (*least > 0 && cost >= *least)
        return;
    *least = cost;
    *best = *one;
}

/* Where nothing was timed: those that cost least by the model, of sizes that were the fastest somewhere. */
static void take_cheapest(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                          struct cla_config *config)
{
    static const struct {
        int b_r, keys, row_tiles;
    } sizes[] = {{64, 16, 1}, {64, 32, 1}, {64, 64, 1},  {128, 16, 1}, {128, 32, 1}, {128, 64, 1},
                 {64, 32, 2}, {64, 64, 2}, {128, 32, 2}, {128, 64, 2}, {32, 32, 1},  {32, 16, 1}};
    struct cla_config one = *config;
    double least = 0;
    one.matrix.stale_max = gains_by_stale_max(problem) && !asks_pairs(problem);
    one.matrix.sharers = 1;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int held = 0; held < 2; held++) {
            one.b_r = sizes[i].b_r;
            one.b_c = one.matrix.keys = sizes[i].keys;
            one.matrix.row_tiles = sizes[i].row_tiles;
            one.matrix.q_registers = held;
            offer(capabilities, problem, &one, config, &least);
        }
}

/* The sizes that were the fastest (plan/sizes.h). */
static void take_timed(enum cla_family family, const struct clattn_problem *problem, struct cla_config *config)
{
    const struct cla_size_wish stored = {.fp32 = problem->dtype == CLATTN_FP32};
    struct cla_config timed = cla_size_find(CLA_FORWARD_MATRIX, family, cla_widest(problem), &stored)->config;
    cla_matrix_keep_unit(&timed, config);
    timed.matrix.stale_max = gains_by_stale_max(problem);
    timed.matrix.sharers = 1;
    if (family == CLA_INTEL && problem->features & CLATTN_DROPOUT)
        timed.matrix.keys = CLA_PIECE; /* with 32 registers go to memory: 26 accesses at d 64 (ocloc 22.43) */
    *config = timed;
}

bool cla_forward_matrix_may_stream(const struct clattn_problem *problem, const struct cla_config *config)
{
    const bool rows = config->b_r == CLA_PIECE || config->b_r == config->unit->stream_rows;
    return config->unit->stream_rows && rows && problem->dtype != CLATTN_FP32 && problem->d % 32 == 0 &&
           problem->d_v % 64 == 0 && cla_widest(problem) <= 128 && !(problem->features & CLATTN_DROPOUT) &&
           config->matrix.row_tiles == 1 && config->b_c <= 2 * CLA_PIECE && config->matrix.keys == config->b_c &&
           (config->matrix.sharers == 1 || !cla_problem_accumulates(problem));
}

/* As many as were timed (plan/sizes.h); a state has one's sums alone. */
static int sharers_of(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                      const struct cla_config *config)
{
    const int64_t blocks = problem->expected_heads, units = capabilities->compute_units;
    const bool few = blocks && blocks <= units && config->unit->devices &&
                     (problem->expected_n_q > cla_stream_sizes.few_rows || 2 * blocks > units);
    if (cla_problem_accumulates(problem))
        return 1;
    return few ? cla_stream_sizes.more : cla_stream_sizes.sub_groups;
}

/* Whether K and V of the whole call come from the second-level cache. */
static bool is_cached(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem)
{
    const uint64_t cached =
        cla_machine_of(capabilities).cache_bytes / 100 * (uint64_t)cla_stream_sizes.cached_hundredths;
    int64_t keys;
    return cla_multiply(problem->expected_heads, problem->expected_n_kv, &keys) &&
           (uint64_t)keys <= cached / (2 * (uint64_t)(problem->d + problem->d_v));
}

/* How many of the work-groups that run at a time have a split, with so many of them for each block. */
static int64_t filled(int64_t groups, int64_t blocks)
{
    return groups / blocks * blocks;
}

/* Whether blocks have several splits each, as many as suit them, and work-groups of more sub-groups, of which a compute
 * unit holds one, leave hardly more of them idle than those of half as many. Then half the states are merged. */
static bool has_fewer_splits(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem)
{
    const int64_t units = capabilities->compute_units, blocks = problem->expected_heads;
    const bool chosen = !problem->split_keys && (!problem->splits || problem->splits == CLATTN_SPLITS_BY_SHAPE);
    return chosen && !cla_problem_accumulates(problem) && units / blocks >= cla_stream_sizes.sub_groups &&
           40 * filled(units, blocks) >= 19 * filled(2 * units, blocks);
}

/* Each compute unit has a block or a share of one, and a call is so short that fewer rows, whose kernel has half the
 * registers and sums, are faster; or it has many splits. */
static bool is_short(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                     const struct cla_config *config)
{
    return config->unit->devices && problem->expected_n_q <= config->unit->stream_rows && problem->expected_heads &&
           problem->expected_heads <= capabilities->compute_units && problem->expected_n_kv &&
           (is_cached(capabilities, problem) || has_fewer_splits(capabilities, problem));
}

static void suit_short(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                       struct cla_config *streamed)
{
    const int64_t splits = capabilities->compute_units / problem->expected_heads;
    const int64_t least = cla_ceil_div(cla_stream_sizes.block_elements, problem->d + problem->d_v);
    const bool more = splits >= cla_stream_sizes.sub_groups && problem->expected_n_kv / splits >= least;
    streamed->b_r = streamed->unit->stream_rows;
    if (!cla_problem_accumulates(problem))
        streamed->matrix.sharers = more ? cla_stream_sizes.more : cla_stream_sizes.sub_groups;
}

static bool is_bytes(const struct clattn_problem *problem, int operand)
{
    const struct cla_type *type = cla_type((int)cla_type_of(problem, operand));
    return type->block == 1 && type->bytes == 1;
}

/* Of formats whose elements are bytes half as much is on its way to a sub-group for each key. So it takes 32 keys at a
 * time, for which blocks of 8 rows leave registers. Pages have them, too: their places take registers, and more
 * sub-groups then hide the look-up. */
static void suit_fewer_rows(const struct clattn_problem *problem, struct cla_config *streamed)
{
    const bool bytes = is_bytes(problem, CLA_K) && is_bytes(problem, CLA_V);
    const bool pages = problem->page_keys && problem->expected_n_q;
    const int rows = streamed->unit->stream_rows;
    if (problem->b_r ? problem->b_r != rows : !(bytes || pages) || problem->expected_n_q > rows)
        return;
    streamed->b_r = rows;
    if (!bytes || !streamed->unit->devices)
        return;
    streamed->matrix.q_registers = 0;
    if (!problem->b_c)
        streamed->b_c = streamed->matrix.keys = 2 * CLA_PIECE;
}

/* K and V in pages or in formats come straight from device memory or not at all: then rows are few for each block,
 * however many there are. */
static bool are_apart(const struct clattn_problem *problem)
{
    struct cla_error unused;
    return cla_types_check_plain(problem, CLA_FORWARD_MATRIX, &unused) != CLATTN_SUCCESS;
}

bool cla_forward_matrix_forces_streams(const struct clattn_problem *problem, const struct cla_config *config)
{
    return problem->b_r && (problem->b_r == config->unit->stream_rows ||
                            (problem->b_r == CLA_PIECE && problem->work_group_size > config->lanes));
}

/* Few rows: no more of them than there are, shared by as many sub-groups, which take K and V straight from device
 * memory. */
static void suit_few_rows(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                          struct cla_config *config)
{
    const bool forced = cla_forward_matrix_forces_streams(problem, config),
               apart = problem->expected_n_q && are_apart(problem);
    if (!forced && !apart && (!problem->expected_n_q || problem->expected_n_q > 64))
        return;
    config->b_r = apart ? CLA_PIECE : problem->expected_n_q > 32 ? 64 : problem->expected_n_q > 16 ? 32 : CLA_PIECE;
    config->matrix.row_tiles = 1;
    config->matrix.q_registers = problem->d <= 128;
    struct cla_config streamed = *config;
    streamed.b_c = streamed.matrix.keys = forced && problem->b_c ? problem->b_c : CLA_PIECE;
    streamed.matrix.stale_max = 0;
    streamed.matrix.sharers = forced && problem->work_group_size ? problem->work_group_size / config->lanes
                                                                 : sharers_of(capabilities, problem, config);
    if (forced)
        streamed.b_r = problem->b_r;
    else if (!apart && is_short(capabilities, problem, config))
        suit_short(capabilities, problem, &streamed);
    suit_fewer_rows(problem, &streamed);
    streamed.matrix.streams = 1; /* as local_bytes counts */
    while (!(forced && problem->work_group_size) && streamed.matrix.sharers > 1 &&
           cla_forward_matrix_local_bytes(problem, &streamed) > cla_matrix_limits_of(capabilities).local_bytes)
        streamed.matrix.sharers /= 2;
    const bool few = apart || problem->expected_n_q <= cla_stream_sizes.most_rows;
    const bool planned = !problem->b_r && !problem->b_c && !problem->work_group_size && few;
    streamed.matrix.streams = (forced || planned) && cla_forward_matrix_may_stream(problem, &streamed);
    if (streamed.matrix.streams)
        *config = streamed;
}

/* The largest multiple of `step` that divides a mask's block and is not above `size`; `size` where it would be below
 * `least`, for then tiles cost more than the pairs that a smaller one would skip. */
static int dividing(int block, int size, int step, int least)
{
    for (int x = size - size % step; x >= least; x -= step)
        if (block % x == 0)
            return x;
    return size;
}

void cla_forward_matrix_hold_whole_keys(struct cla_config *config)
{
    if (config->matrix.keys > config->b_c)
        config->matrix.keys = config->b_c;
    while (config->b_c % config->matrix.keys)
        config->matrix.keys -= CLA_PIECE;
}

/* Rows of a tile that lie in one block of a mask are skipped together: else a sub-group skips its own, and
 * waits for others, which is worth it where few are hidden. Beyond d = 64 two sub-groups have 64 rows, 32 each, with 32
 * keys at a time, where a compute unit holds several such groups; where it does not, they would not hide each other's
 * waits. Timed on an H100: tests/data/measured/h200-forward-matrix-notes.md. */
static void suit_block_mask(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                            struct cla_config *config)
{
    if (!problem->block_q || !problem->block_kv)
        return;
    if (!cla_problem_is_mostly_seen(problem))
        config->b_r = dividing(problem->block_q, config->b_r, CLA_PIECE * config->matrix.row_tiles, 64);
    const bool short_rows = config->b_r <= 64 && cla_widest(problem) > 64;
    const bool many_fit = cla_widest(problem) <= 128 && cla_usable_local_bytes(capabilities) >= CLA_MUCH_LOCAL_BYTES;
    if (short_rows && !many_fit)
        config->matrix.row_tiles = 1;
    config->b_c = dividing(problem->block_kv, short_rows && many_fit ? 32 : config->b_c, CLA_PIECE, 32);
    cla_forward_matrix_hold_whole_keys(config);
}

void cla_forward_matrix_wish(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                             struct cla_config *config)
{
    const enum cla_family family = cla_matrix_family(capabilities, config);
    if (family == CLA_AMD || family == CLA_AMD_WIDE)
        take_cheapest(capabilities, problem, config);
    if (!config->b_r)
        take_timed(family, problem, config);
    suit_few_rows(capabilities, problem, config);
    suit_block_mask(capabilities, problem, config);
}
