/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The planner's side of cl/backward_hopper.cl, and of those kernels of cl/backward_matrix.cl that end its work. The
 * figures are in tests/data/measured/h200-backward-hopper-notes.md. */
#include "plan/skeletons/backward_hopper.h"
#include "plan/checked.h"
#include "plan/matrix_units.h"
#include "plan/planner.h"
#include "plan/problem.h"
#include "plan/sizes.h"
#include "plan/skeletons/backward_sums.h"
#include <stddef.h>

enum {
    WARP_GROUP = 128,   /* items */
    LOADERS = 96,       /* of the producer, where one item adds up dQ, */
    FEWER_LOADERS = 64, /* and where two do */
    CONSUMERS = 2,
    CONSUMER_KEYS = 64,  /* of each, or shared by all */
    ROWS = 64,           /* that pass at a time, where dQ is not turned round */
    LARGEST_OWN_D = 128, /* beyond, dK and dV of a consumer's own keys do not fit its registers */
    ENDING_ITEMS = 128,  /* of a work-group of clattn_dq and clattn_d_bias, */
    AGAIN_ITEMS = 256,   /* of clattn_dk_dv_again, */
    ORDER_ITEMS = 256    /* and of clattn_order */
};

static const char name[] = "backward_hopper";

static bool shares_keys(const struct cla_config *config)
{
    return config->b_c == CONSUMER_KEYS;
}

/* Whether dropout is drawn by way of local memory, in which beyond 128 columns there is no room for that. */
static bool draws(const struct clattn_problem *problem, const struct cla_config *config)
{
    return problem->features & CLATTN_DROPOUT && !shares_keys(config);
}

/* In order, it takes longer than a tile until what an item has added is there for others: so two alternate. Dropout's
 * words want three warps that fill tiles. */
static int loaders(const struct clattn_problem *problem, const struct cla_config *config)
{
    return problem->unordered || draws(problem, config) ? LOADERS : FEWER_LOADERS;
}

/* Whether dQ is formed turned round, columns by rows (TURNED): so that tiles may have other than 64 rows, and all of a
 * tile's dQ leaves at once, however many columns there are. */
static bool is_turned(const struct clattn_problem *problem, const struct cla_config *config)
{
    return config->backward_hopper.tile_rows != ROWS || (!shares_keys(config) && problem->d > LARGEST_OWN_D);
}

/* Pieces of 16 rows and columns that a consumer's part of dQ has. */
static int part_pieces(const struct clattn_problem *problem, const struct cla_config *config)
{
    const int rows = cla_pieces(config->backward_hopper.tile_rows);
    if (!is_turned(problem, config))
        return cla_sum_part_pieces(problem);
    return (rows * cla_panels(problem->d) + 1) / 2;
}

int64_t cla_backward_hopper_sum_floats(const struct clattn_problem *problem, const struct cla_config *config)
{
    return is_turned(problem, config) ? (int64_t)CLA_PANEL * cla_panels(problem->d) * config->backward_hopper.tile_rows
                                      : cla_sum_floats(problem);
}

/* Whether consumers skip tiles of which their halves of the keys see nothing (HOPPER_HALVES). */
static bool skips_tiles(const struct clattn_problem *problem)
{
    return problem->block_q && problem->block_kv % (CONSUMERS * CONSUMER_KEYS) != 0 &&
           cla_widest(problem) <= LARGEST_OWN_D;
}

/* To the byte what the kernel declares (HOPPER_LOCAL_BYTES): K and V; Q, each row's statistics and, for dropout, the
 * numbers of Philox, and ALiBi's slope, and dO; dS, twice; where keys are shared, the factors from one consumer to the
 * other, else what dropout takes of each one's keys, twice; what is added to sums; messages; barriers. */
static uint64_t local_bytes(const struct clattn_problem *problem, const struct cla_config *config)
{
    const int64_t k = cla_panels(problem->d), v = cla_panels(problem->d_v),
                  tile_rows = config->backward_hopper.tile_rows, row = tile_rows * 128, key = config->b_c * 128;
    const int64_t stages = config->backward_hopper.stages, d_o_stages = config->backward_hopper.d_o_stages;
    const int64_t words = draws(problem, config) ? 32 * tile_rows : 0,
                  dropped = draws(problem, config) ? 2 * CONSUMERS * 8 * tile_rows : 0;
    const bool in_bulk = !shares_keys(config) && !skips_tiles(problem) && !(problem->features & CLATTN_DROPOUT);
    const int64_t slope = problem->features & CLATTN_ALIBI ? 16 : 0;
    const int64_t keys = config->backward_hopper.kv_stages * ((k + v) * key + 24);
    const int64_t rows = stages * (k * row + words + tile_rows * (in_bulk ? CLA_STATISTICS * 4 : 8) + slope + 16) +
                         d_o_stages * (v * row + 16);
    const int64_t ds = is_turned(problem, config) ? 2 * row : key;
    const int64_t weights = 2 * (ds + 16) + (shares_keys(config) ? 4 * tile_rows * config->b_c : 0);
    const int64_t part = is_turned(problem, config)
                             ? 4 * cla_backward_hopper_sum_floats(problem, config)
                             : 4 * CONSUMERS * (int64_t)cla_sum_part_pieces(problem) * CLA_PIECE * ROWS;
    const int64_t dq_parts = part + 24 + (problem->unordered ? 0 : 8),
                  messages = ((stages + config->backward_hopper.sum_stages > 4 ? 16 : 8) + 2) * 16 + 2 * 16;
    return (uint64_t)(keys + rows + weights + dropped + config->backward_hopper.sum_stages * dq_parts + messages +
                      (shares_keys(config) ? 16 : 0));
}

static uint64_t private_bytes(const struct clattn_problem *problem, const struct cla_config *config)
{
    const int d = cla_pieces(problem->d), d_v = cla_pieces(problem->d_v),
              rows = cla_pieces(config->backward_hopper.tile_rows);
    const int results = shares_keys(config) ? (d > d_v ? d : d_v) + cla_sum_part_pieces(problem) : d + d_v;
    return 4 * (uint64_t)(8 * (results + (shares_keys(config) ? 1 : 2) * rows) + 32);
}

/* Blocks of keys of which a mask leaves different numbers of tiles are taken in an order of their own. In order with
 * two sums, where consumers skip tiles, it was no faster. */
bool cla_backward_hopper_orders(const struct clattn_problem *problem)
{
    return problem->block_q && (problem->unordered || !skips_tiles(problem));
}

/* In order, blocks of keys of which a mask leaves different numbers of tiles wait for each other: less, if every other
 * one has sums of its own. Beyond a panel the cache would keep these for half as many heads, which takes as much where
 * consumers skip tiles. */
static int dq_sums_of(const struct clattn_problem *problem)
{
    const bool waits = problem->block_q && !problem->unordered && !cla_problem_is_mostly_seen(problem);
    const int most_d = skips_tiles(problem) ? CLA_PANEL : LARGEST_OWN_D;
    return waits && cla_widest(problem) <= most_d ? 2 : 1;
}

/* The sizes that were the fastest (plan/sizes.h). Other numbers of stages, also where there is room beyond, are for the
 * tuner to try. */
static struct cla_config sizes(const struct clattn_problem *problem, bool is_light, int stages)
{
    const struct cla_size_wish wish = {is_light ? CLA_BACKWARD_LIGHT : CLA_BACKWARD_OTHER, 0, problem->b_c};
    const int widest = cla_widest(problem);
    const struct cla_size *size =
        cla_size_find(name, CLA_ANY_FAMILY, widest < CLA_MATRIX_LARGEST_D ? widest : CLA_MATRIX_LARGEST_D, &wish);
    if (!size)
        size = cla_size_find(name, CLA_ANY_FAMILY, CLA_MATRIX_LARGEST_D, &(struct cla_size_wish){0});
    struct cla_config config = size->config;
    config.work_group_size = WARP_GROUP * (CONSUMERS + 1);
    config.lanes = CLA_NVIDIA_LANES;
    config.level = 90;
    config.backward_hopper.stages = stages;
    config.backward_hopper.d_o_stages = shares_keys(&config) ? 1 : stages;
    config.backward_hopper.dq_sums = dq_sums_of(problem);
    config.backward_hopper.sum_stages = 1;
    return config;
}

/* Whether registers suffice for larger tiles, and for dK and dV of a consumer's own keys where there are more than 128
 * columns: nothing else is kept of a pair's score or weight. Beyond a panel the producer has too few of them for tiles
 * that TMA cannot load. */
static bool is_light(const struct clattn_problem *problem)
{
    enum { MOST_PIECES = 20 };
    const unsigned lengths = CLATTN_KEY_LENGTHS | CLATTN_VARLEN | CLATTN_QUERY_LENGTHS,
                   by_place = CLATTN_WINDOW | CLATTN_SINKS | (cla_widest(problem) > CLA_PANEL ? 0 : lengths);
    return !(problem->features & ~by_place) && !problem->score_mod && !problem->mask_mod &&
           cla_pieces(problem->d) + cla_pieces(problem->d_v) <= MOST_PIECES;
}

/* Beyond so many columns a tile's dQ comes in two passes. */
static bool two_passes(const struct clattn_problem *problem, const struct cla_config *config)
{
    return problem->d > LARGEST_OWN_D && !is_turned(problem, config);
}

/* Consumers that are each at a tile of their own hold two stages: then a third, where there is room for it. Two
 * passes have a stage each, lest the second wait until the first has been read. */
static struct cla_config first_choice(const struct clattn_capabilities *capabilities,
                                      const struct clattn_problem *problem)
{
    const uint64_t most = cla_matrix_limits_of(capabilities).local_bytes;
    struct cla_config light = sizes(problem, true, 2);
    if (local_bytes(problem, &light) > most)
        light.backward_hopper.d_o_stages = 1;
    if (is_light(problem) && !shares_keys(&light) && local_bytes(problem, &light) <= most)
        return light;
    const struct cla_config three = sizes(problem, false, 3), two = sizes(problem, false, 2);
    struct cla_config apart = two;
    apart.backward_hopper.sum_stages = 2;
    if (skips_tiles(problem) && local_bytes(problem, &three) <= most)
        return three;
    return two_passes(problem, &two) && local_bytes(problem, &apart) <= most ? apart : two;
}

static bool suits(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                  const struct cla_config *config)
{
    const struct cla_matrix_limits limits = cla_matrix_limits_of(capabilities);
    return (!problem->b_r || problem->b_r == config->b_r) && (!problem->b_c || problem->b_c == config->b_c) &&
           (!problem->work_group_size || problem->work_group_size == config->work_group_size) &&
           config->work_group_size <= limits.items && local_bytes(problem, config) <= limits.local_bytes;
}

/* For 16 x 16 pairs, in products by backward_matrix's measure, which warp groups do faster. */
static double estimate(const struct clattn_problem *problem, const struct cla_config *config)
{
    const double d = cla_pieces(problem->d), d_v = cla_pieces(problem->d_v);
    return cla_rates.mma / cla_rates.wgmma * (3 * d + 2 * d_v) + 8 +
           16 * (d + d_v) * (1.0 / config->backward_hopper.tile_rows + 1.0 / config->b_c);
}

static void explain(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                    const struct cla_config *config, struct clattn_plan_info *info)
{
    info->estimate = estimate(problem, config);
    info->sums = 1;
    cla_plan_step(info, "warp groups", config->b_r, config->b_c,
                  "a producer brings %d rows of Q and dO to %d consumers %s, who hold dK and dV and add "
                  "to sums of dQ, %s%s; work-groups are persistent, one to a compute unit",
                  config->backward_hopper.tile_rows, CONSUMERS,
                  shares_keys(config) ? "that share 64 keys, one for P and dV, one for dS and dK" : "of 64 keys",
                  problem->unordered ? "in any order" : "always in the same order",
                  skips_tiles(problem) ? ", and skip tiles that theirs do not see" : "");
    if (cla_backward_hopper_orders(problem))
        cla_plan_step(info, "order", config->b_r, config->b_c,
                      "of blocks of keys a mask leaves different numbers of tiles: the %s come first",
                      problem->unordered ? "longest" : "shortest");
    if (config->backward_hopper.dq_sums > 1)
        cla_plan_step(info, "sums", config->b_r, config->b_c,
                      "each has %d sums, each for its share of the blocks of keys, so that fewer wait for each other",
                      config->backward_hopper.dq_sums);
    if (config->backward_hopper.shares > 1)
        cla_plan_step(info, "shares", config->b_r, config->b_c, "%d work-groups share out each block of keys",
                      config->backward_hopper.shares);
    cla_plan_step(info, "local memory", config->b_r, config->b_c,
                  "K and V in %d stage%s, Q in %d, dO in %d, dS in 2%s: %llu of %llu bytes",
                  config->backward_hopper.kv_stages, config->backward_hopper.kv_stages == 1 ? "" : "s",
                  config->backward_hopper.stages, config->backward_hopper.d_o_stages,
                  draws(problem, config) ? ", and what dropout draws" : "",
                  (unsigned long long)local_bytes(problem, config),
                  (unsigned long long)cla_matrix_limits_of(capabilities).local_bytes);
}

static clattn_status check(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                           struct cla_error *error)
{
    const clattn_status status = cla_matrix_check_warp_groups(capabilities, problem, name, error);
    if (status)
        return status;
    if (cla_problem_accumulates(problem))
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "problem.pass is CLATTN_BACKWARD_ACCUMULATE: %s has no such pass: take backward_matrix", name);
    return CLATTN_SUCCESS;
}

static clattn_status nothing_fits(const struct clattn_problem *problem, const struct cla_config *config,
                                  struct cla_error *error)
{
    return cla_fail(
        error, CLATTN_NOTHING_FITS,
        "the forced sizes (problem.b_r %d, b_c %d, work_group_size %d, knobs \"%s\"; 0 is planned) do not fit "
        "%s with d = %d, d_v = %d: b_r is %d, b_c %d, work_group_size %d, and tiles have to fit local memory",
        problem->b_r, problem->b_c, problem->work_group_size, problem->knobs ? problem->knobs : "", name, problem->d,
        problem->d_v, config->b_r, config->b_c, config->work_group_size);
}

/* What dQ that is turned round has no code for; NULL: nothing that is there. */
static const char *unturned(const struct clattn_problem *problem, const struct cla_config *config)
{
    if (shares_keys(config))
        return "consumers share keys (b_c is 64)";
    if (skips_tiles(problem))
        return "consumers skip blocks of keys (block_kv is no multiple of 128)";
    return problem->features & CLATTN_DROPOUT ? "there is dropout" : NULL;
}

static clattn_status check_rows(const struct clattn_problem *problem, const struct cla_config *config,
                                struct cla_error *error)
{
    const int rows = config->backward_hopper.tile_rows;
    const char *const why = is_turned(problem, config) ? unturned(problem, config) : NULL;
    if (rows % CLA_PIECE)
        return cla_fail(error, CLATTN_NOTHING_FITS, "problem.knobs: tile_rows is %d: it has to be a multiple of %d",
                        rows, CLA_PIECE);
    if (why)
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "problem.knobs: tile_rows is %d: where %s it has to be %d: take tile_rows=%d", rows, why, ROWS,
                        ROWS);
    return CLATTN_SUCCESS;
}

static clattn_status adopt(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                           struct cla_config *config, struct clattn_plan_info *info, struct cla_error *error)
{
    if (problem->unordered && config->backward_hopper.dq_sums > 1)
        return cla_fail(
            error, CLATTN_NOTHING_FITS,
            "problem.knobs: dq_sums is %d: where problem.unordered is 1 no block of keys waits for another, "
            "and there is one sum of each tile: take dq_sums=1",
            config->backward_hopper.dq_sums);
    if (config->backward_hopper.sum_stages > 1 && !two_passes(problem, config))
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "problem.knobs: sum_stages is %d: up to d = %d a tile's part of dQ takes one stage: take "
                        "sum_stages=1",
                        config->backward_hopper.sum_stages, LARGEST_OWN_D);
    const clattn_status status = check_rows(problem, config, error);
    if (status)
        return status;
    if (config->backward_hopper.d_o_stages > 1)
        config->backward_hopper.d_o_stages = config->backward_hopper.stages;
    if (!suits(capabilities, problem, config))
        return nothing_fits(problem, config, error);
    explain(capabilities, problem, config, info);
    return CLATTN_SUCCESS;
}

static clattn_status choose(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                            struct cla_config *config, struct clattn_plan_info *info, struct cla_error *error)
{
    const clattn_status status = check(capabilities, problem, error);
    *config = (struct cla_config){0};
    if (status)
        return status;
    *config = first_choice(capabilities, problem);
    return adopt(capabilities, problem, config, info, error);
}

/* So few blocks, which are so short, that what a work-group does before and after its tiles is most of a call. */
static bool is_short(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                     const struct cla_config *config)
{
    const int64_t n_q = problem->expected_n_q, n_kv = problem->expected_n_kv;
    const int64_t heads = problem->expected_kv_heads ? problem->expected_kv_heads : problem->expected_heads;
    return n_q && n_kv && heads && cla_larger(n_q, n_kv) <= cla_hopper_lengths.short_backward &&
           cla_widest(problem) <= 2 * CLA_PANEL &&
           heads <= capabilities->compute_units / cla_ceil_div(n_kv, config->b_c);
}

static bool prefers(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem)
{
    struct cla_error unused;
    const struct cla_config config = first_choice(capabilities, problem);
    if (!problem->unordered && is_short(capabilities, problem, &config))
        return false;
    return !check(capabilities, problem, &unused) && problem->d % 8 == 0 && problem->d_v % 8 == 0 &&
           suits(capabilities, problem, &config);
}

static const struct cla_knob knobs[] = {
    {"dq_sums", offsetof(struct cla_config, backward_hopper.dq_sums), 1, 4, {1, 2}, 2},
    {"kv_stages", offsetof(struct cla_config, backward_hopper.kv_stages), 1, 2, {1, 2}, 2},
    {"late_d_v", offsetof(struct cla_config, backward_hopper.late_d_v), 0, 1, {0, 1}, 2},
    {"shares", offsetof(struct cla_config, backward_hopper.shares), 0, 32, {0}, 0},
    {"stages", offsetof(struct cla_config, backward_hopper.stages), 2, 4, {2, 3}, 2},
    {"sum_stages", offsetof(struct cla_config, backward_hopper.sum_stages), 1, 2, {1, 2}, 2},
    {"tile_rows", offsetof(struct cla_config, backward_hopper.tile_rows), 32, 128, {48, 64, 80}, 3},
    {NULL, 0, 0, 0, {0}, 0}};

static void define(const struct clattn_problem *problem, const struct cla_config *config, struct cla_text *text)
{
    const struct cla_define defines[] = {
        {"TMA", 1},
        {"CONSUMER_REGISTERS", config->backward_hopper.consumer_registers},
        {"DO_STAGES", config->backward_hopper.d_o_stages},
        {"D_PIECES", cla_pieces(problem->d)},
        {"LOADERS", loaders(problem, config)},
        {"KV_STAGES", config->backward_hopper.kv_stages},
        {"LATE_D_V", config->backward_hopper.late_d_v},
        {"ORDERS_BLOCKS", cla_backward_hopper_orders(problem)},
        {"PART_PIECES", part_pieces(problem, config)},
        {"PRODUCER_REGISTERS", config->backward_hopper.producer_registers},
        {"ROW_PIECES", cla_pieces(config->backward_hopper.tile_rows)},
        {"STAGES", config->backward_hopper.stages},
        {"SUM_STAGES", config->backward_hopper.sum_stages},
        {"TILE_ROWS", config->backward_hopper.tile_rows},
        {"UNORDERED", problem->unordered},
        {"V_PIECES", cla_pieces(problem->d_v)},
    };
    cla_text_define(text, defines, sizeof defines / sizeof *defines);
    cla_backward_matrix_define(&cla_matrix_units[CLA_NVIDIA_MMA], config->level, &config->backward_hopper.ending,
                               is_turned(problem, config) ? CLA_SUMMED_TURNED : CLA_SUMMED_BY_HOPPER,
                               config->backward_hopper.dq_sums, text);
}

static const char *const files[] = {"backward_hopper.cl", NULL};

static const char *const order_files[] = {"backward_order.cl", NULL};
static const char *const share_files[] = {"backward_shares.cl", NULL};

static const struct cla_kernel_form kernels[CLA_MOST_KERNELS + 1] = {
    [CLA_DQ] = {"clattn_dq", cla_nvidia_mma_files[CLA_UNIT_BACKWARD], ENDING_ITEMS},
    [CLA_DK_DV] = {.entry = "clattn_dk_dv", .retargeted = true},
    [CLA_D_BIAS] = {"clattn_d_bias", cla_nvidia_mma_files[CLA_UNIT_BACKWARD], ENDING_ITEMS},
    [CLA_DK_DV_AGAIN] = {"clattn_dk_dv_again", cla_nvidia_mma_files[CLA_UNIT_BACKWARD], AGAIN_ITEMS},
    [CLA_ORDER] = {"clattn_order", order_files, ORDER_ITEMS},
    [CLA_SHARES] = {"clattn_shares", share_files, CLA_SHARE_ITEMS},
};

const struct cla_skeleton cla_backward_hopper = {
    .name = name,
    .backward = true,
    .files = files,
    .kernels = kernels,
    .declines = true,
    .no_chunks = true,
    .largest_d = 256,
    .tile_element_bytes = 2,
    .persistent = true,
    .prefers = prefers,
    .choose = choose,
    .knobs = knobs,
    .adopt = adopt,
    .local_bytes = local_bytes,
    .private_bytes = private_bytes,
    .recipe = cla_backward_hopper_recipe,
    .define = define,
};
