/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The planner's side of cl/forward_hopper.cl: what a configuration costs, and which one to take, of the sizes of
 * plan/skeletons/hopper_sizes.h as far as they fit. */
#include "plan/checked.h"
#include "plan/matrix_units.h"
#include "plan/planner.h"
#include "plan/problem.h"
#include "plan/recipe.h"
#include "plan/sizes.h"
#include "plan/skeletons/hopper_sizes.h"
#include "plan/splits.h"
#include <stddef.h>

enum {
    MOST_CONSUMERS = 4,
    MOST_KEYS = 256,  /* columns of one product */
    FEWEST_ROWS = 65, /* below, forward_matrix shares them out better */

    /* Of an item. 264 were kept by four consumers whose results were wrong (ptxas 13.0, optimised; right with 0 and 1
     * for its -cl-nv-opt-level). The most of some 30 planned kernels was 208, by libnvvm and ptxas 12.8. */
    MOST_SPILLED_BYTES = 240
};

static const char name[] = "forward_hopper";

/* Of all pipelines. */
static int consumers(const struct cla_config *config)
{
    return config->b_r / CLA_WARP_GROUP_ROWS * config->pipelines;
}

/* Whether each tile lies within the keys that a call of Philox serves (cl/common/philox.clh). */
static bool keeps_philox(const struct cla_config *config)
{
    enum { PHILOX_KEYS = 512 };
    return PHILOX_KEYS % config->b_c == 0;
}

/* To the byte what the kernel declares (HOPPER_LOCAL_BYTES), with or without a panel for ALiBi's linear part. Tiles of
 * a mask in blocks are noted. Each pipeline begins with a multiple of 1024. */
static uint64_t bytes_with(const struct clattn_problem *problem, const struct cla_config *config, bool linear)
{
    const int k = cla_panels(problem->d), v = cla_panels(problem->d_v), rows = k > v ? k : v;
    const int64_t q_bytes = (int64_t)rows * config->b_r * 128, stage_bytes = (int64_t)(k + v) * config->b_c * 128;
    const int rises = CLA_WARP_GROUP_ROWS * config->hopper.q_stages;
    const int64_t barriers = problem->block_q && problem->block_kv ? 48 : 32;
    const int64_t linear_bytes = linear ? (int64_t)(config->b_c > rises ? config->b_c : rises) * 128 : 0;
    const int64_t pipeline =
        config->hopper.q_stages * (q_bytes + 32) + config->hopper.stages * (stage_bytes + barriers) + linear_bytes;
    const int count = config->pipelines, ended_bytes = count > 1 ? 16 : 0;
    return (uint64_t)((count - 1) * (cla_ceil_div(pipeline, 1024) * 1024) + pipeline + ended_bytes);
}

static uint64_t local_bytes(const struct clattn_problem *problem, const struct cla_config *config)
{
    return bytes_with(problem, config, config->hopper.alibi_linear);
}

/* ALiBi alone, where the tiles leave room for the panel: scores that a cap, a bias or the user's function changes
 * beside it have to be worked on all the same. Beyond these dimensions consumers have no registers to spare. */
static bool takes_linear(const struct cla_matrix_limits *limits, const struct clattn_problem *problem,
                         const struct cla_config *config)
{
    const unsigned alone = problem->features & (CLATTN_ALIBI | CLATTN_SOFTCAP | CLATTN_BIAS);
    return alone == CLATTN_ALIBI && config->pipelines == 1 && !problem->score_mod && problem->d <= 128 &&
           problem->d_v <= 128 && bytes_with(problem, config, true) <= limits->local_bytes;
}

/* Registers of a consumer's item: scores, weights at half their size, outputs. */
static int tile_registers(const struct clattn_problem *problem, const struct cla_config *config)
{
    return cla_pieces(config->b_c) * 12 + cla_pieces(problem->d_v) * 8;
}

static uint64_t private_bytes(const struct clattn_problem *problem, const struct cla_config *config)
{
    return 4 * (uint64_t)(tile_registers(problem, config) + 32); /* and a few figures */
}

/* Registers that producer and consumers hand to each other. A work-group has 65536, and an item at most 255; one
 * consumer has enough of them as it is (0). */
static const struct {
    int producer, consumer;
    int tiles; /* of a consumer's, what scores, weights and outputs may take */
} registers[MOST_CONSUMERS + 1] = {{0, 0, 0}, {0, 0, 200}, {40, 232, 200}, {32, 160, 128}, {32, 112, 80}};

/* The pipelines that make up the caller's work-group of so many rows each. */
static int forced_pipelines(const struct clattn_problem *problem, const struct cla_config *config)
{
    const int all = (problem->work_group_size / CLA_WARP_GROUP - 1) * CLA_WARP_GROUP_ROWS;
    return config->b_r > 0 && all >= config->b_r ? all / config->b_r : 1;
}

static bool take_forced(const struct clattn_problem *problem, struct cla_config *config)
{
    if (cla_hopper_forced_rows(problem))
        config->b_r = cla_hopper_forced_rows(problem);
    if (problem->work_group_size)
        config->pipelines = forced_pipelines(problem, config);
    while (config->pipelines > 1 && consumers(config) > MOST_CONSUMERS)
        config->pipelines /= 2;
    if (problem->b_c)
        config->b_c = problem->b_c;
    return !problem->work_group_size || problem->work_group_size == CLA_WARP_GROUP * (consumers(config) + 1);
}

/* What follows from the rest. */
static void complete(const struct cla_matrix_limits *limits, const struct clattn_problem *problem,
                     struct cla_config *config)
{
    const int count = consumers(config);
    config->work_group_size = CLA_WARP_GROUP * (count + 1);
    config->hopper.ping_pong = config->hopper.ping_pong && count > 1;
    config->hopper.producer_registers = registers[count].producer;
    config->hopper.consumer_registers = registers[count].consumer;
    config->hopper.alibi_linear = takes_linear(limits, problem, config);
}

static bool is_possible(const struct cla_config *config)
{
    return config->b_r % CLA_WARP_GROUP_ROWS == 0 && config->pipelines != 3 && consumers(config) >= 1 &&
           consumers(config) <= MOST_CONSUMERS && config->b_c % CLA_PIECE == 0 && config->b_c >= CLA_PIECE &&
           config->b_c <= MOST_KEYS;
}

static bool has_room(const struct cla_matrix_limits *limits, const struct clattn_problem *problem,
                     const struct cla_config *config)
{
    return bytes_with(problem, config, false) <= limits->local_bytes &&
           tile_registers(problem, config) <= registers[consumers(config)].tiles;
}

static bool has_items(const struct cla_matrix_limits *limits, const struct cla_config *config)
{
    return CLA_WARP_GROUP * (consumers(config) + 1) <= limits->items;
}

static bool drop_consumer(const struct clattn_problem *problem, struct cla_config *config)
{
    if (problem->b_r || problem->work_group_size || consumers(config) == 1)
        return false;
    if (config->pipelines > 1)
        config->pipelines /= 2;
    else
        config->b_r -= CLA_WARP_GROUP_ROWS;
    return true;
}

/* A third stage of K and V before the second of Q, that before keys, keys before rows: each row that shares a tile
 * saves reading it once more. */
static bool shrink(const struct clattn_problem *problem, struct cla_config *config)
{
    const bool in_registers = tile_registers(problem, config) <= registers[consumers(config)].tiles;
    if (in_registers && config->hopper.stages > 2)
        config->hopper.stages--;
    else if (in_registers && config->hopper.q_stages > 1)
        config->hopper.q_stages--;
    else if (!problem->b_c && config->b_c > CLA_PIECE)
        config->b_c -= CLA_PIECE;
    else
        return drop_consumer(problem, config);
    return true;
}

/* For 16 x 16 scores, in products of 16 x 16 pieces by forward_matrix's measure, which warp groups do faster; and
 * exponentials hide behind the other consumers' products. Then what a tile costs whatever the rows that share it, and
 * what whatever its keys: 96 of them were slower than 128, and 176 no faster; without turns three consumers were 0.86
 * times as fast; four hide more of it. Q's operands come from local memory with each product: below 64 keys they take
 * longer than it. */
static double estimate(const struct clattn_problem *problem, const struct cla_config *config)
{
    const double d = cla_pieces(problem->d), d_v = cla_pieces(problem->d_v);
    const double operands =
        config->b_c < CLA_WARP_GROUP_ROWS ? (CLA_WARP_GROUP_ROWS + config->b_c) / (2.0 * config->b_c) : 1;
    const double products = cla_rates.mma / cla_rates.wgmma * (d * operands + d_v);
    const double weights = 8.0 / consumers(config), wait = consumers(config) > 3 ? 96 : 128;
    const double waits = (config->hopper.ping_pong ? wait : 2.5 * wait) / config->b_c;
    return products + weights + 16 * products / config->b_r + waits;
}

/* What a call of the expected sizes takes, by the models of a tile and of the grid. */
static double expected_time(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                            const struct cla_config *config)
{
    const struct cla_split_rule rule = cla_split_rule(capabilities, problem, &cla_forward_hopper, config);
    const int64_t heads = problem->expected_heads, n_q = problem->expected_n_q, n_kv = problem->expected_n_kv;
    const int splits = cla_splits_of(&rule, heads, n_q, n_kv);
    return cla_split_cost(&rule, heads, n_q, n_kv, splits) * config->b_r * estimate(problem, config);
}

static bool fit(const struct cla_matrix_limits *limits, const struct clattn_problem *problem,
                enum cla_hopper_situation situation, struct cla_config *config)
{
    cla_hopper_take_sizes(problem, situation, config);
    if (!take_forced(problem, config) || !is_possible(config))
        return false;
    while (!has_items(limits, config))
        if (!drop_consumer(problem, config))
            return false;
    while (!has_room(limits, problem, config))
        if (!shrink(problem, config))
            return false;
    complete(limits, problem, config);
    return true;
}

/* Where blocks of rows are few, those of another size may share out better what they do more slowly. */
static bool shares_out_better(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                              const struct cla_config *other, const struct cla_config *config)
{
    return other->b_r != config->b_r &&
           expected_time(capabilities, problem, other) < 0.97 * expected_time(capabilities, problem, config);
}

/* Descriptors take a work-group as long as it gains by them with a few tiles. */
static bool gains_by_tma(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                         const struct cla_config *config)
{
    const double blocks = (double)problem->expected_heads * (double)cla_ceil_div(problem->expected_n_q, config->b_r);
    const double tiles = blocks * (double)cla_ceil_div(problem->expected_n_kv, config->b_c);
    return tiles > cla_hopper_lengths.few_tiles * (double)capabilities->compute_units;
}

static bool suits_few_tiles(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                            struct cla_config *config)
{
    const struct cla_matrix_limits limits = cla_matrix_limits_of(capabilities);
    if (!cla_hopper_suit_few_tiles(capabilities->compute_units, problem, config) || !has_items(&limits, config) ||
        !has_room(&limits, problem, config))
        return false;
    complete(&limits, problem, config);
    return true;
}

/* The sizes of one situation, and of those of others whatever shares out better. */
static void share_out(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                      enum cla_hopper_situation situation, struct cla_config *config)
{
    static const enum cla_hopper_situation others[] = {CLA_HOPPER_PLAIN, CLA_HOPPER_FEW};
    const struct cla_matrix_limits limits = cla_matrix_limits_of(capabilities);
    for (int i = situation == CLA_HOPPER_PLAIN_LONG ? 0 : 1; i < 2; i++) {
        struct cla_config other = *config;
        if (fit(&limits, problem, others[i], &other) && shares_out_better(capabilities, problem, &other, config))
            *config = other;
    }
}

/* Whether tiles of 64 keys are as few as those of a wide head's, and so less empty: 161 causal keys at d 256 were 1.14
 * times as fast by them (tests/data/measured/h200-forward-hopper-notes.md). */
static bool pads_less_by_64(const struct clattn_problem *problem, const struct cla_config *config)
{
    const int64_t n_kv = problem->expected_n_kv;
    return problem->d_v > 192 && !problem->b_c && !problem->features && !problem->score_mod && !problem->mask_mod &&
           config->b_c > 64 && n_kv <= 256 && cla_ceil_div(n_kv, 64) == cla_ceil_div(n_kv, config->b_c);
}

enum found { NOTHING, SIZES, FEW_TILES };

static enum found find(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                       struct cla_config *config)
{
    const struct cla_matrix_limits limits = cla_matrix_limits_of(capabilities);
    const enum cla_hopper_situation situation = cla_hopper_situation_of(problem);
    if (!fit(&limits, problem, situation, config))
        return NOTHING;
    struct cla_config other = *config;
    if (suits_few_tiles(capabilities, problem, &other)) {
        if (problem->expected_n_kv) /* else they may be many */
            *config = other;
        return FEW_TILES;
    }
    if (!problem->expected_heads || !problem->expected_n_q || !problem->expected_n_kv)
        return SIZES;
    if (consumers(config) > 2 && config->pipelines <= 1)
        share_out(capabilities, problem, situation, config);
    config->hopper.tma = config->hopper.tma && gains_by_tma(capabilities, problem, config);
    /* A tile that is all of a narrow head's keys would be waited for as a whole. */
    if (config->hopper.tma && !problem->b_c && problem->d_v <= CLA_HOPPER_NARROW && config->b_c == 128 &&
        problem->expected_n_kv <= config->b_c)
        config->b_c /= 2;
    if (pads_less_by_64(problem, config))
        config->b_c = 64;
    return SIZES;
}

static void explain(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                    const struct cla_config *config, struct clattn_plan_info *info)
{
    cla_plan_step(
        info, "warp groups", config->b_r, config->b_c,
        "a producer brings tiles for %d consumer%s of %d rows%s, who hold the scores of %d keys%s; work-groups "
        "stay, one to a compute unit",
        consumers(config), consumers(config) == 1 ? "" : "s", CLA_WARP_GROUP_ROWS,
        config->pipelines == 4   ? " in four pipelines"
        : config->pipelines == 2 ? " in two pipelines"
                                 : "",
        config->b_c, config->hopper.ping_pong ? " and ping-pong" : "");
    if (problem->expected_heads && problem->expected_n_q)
        cla_plan_step(info, "grid", config->b_r, config->b_c, "%lld blocks of rows for %u compute units",
                      (long long)(problem->expected_heads * cla_ceil_div(problem->expected_n_q, config->b_r)),
                      (unsigned)capabilities->compute_units);
    cla_plan_step(info, "local memory", config->b_r, config->b_c,
                  "Q in %d stage%s, K and V in %d%s: %llu of %llu bytes", config->hopper.q_stages,
                  config->hopper.q_stages == 1 ? "" : "s", config->hopper.stages,
                  config->hopper.alibi_linear ? ", and ALiBi's linear part" : "",
                  (unsigned long long)local_bytes(problem, config),
                  (unsigned long long)cla_matrix_limits_of(capabilities).local_bytes);
}

static clattn_status nothing_fits(const struct clattn_problem *problem, struct cla_error *error)
{
    return cla_fail(
        error, CLATTN_NOTHING_FITS,
        "the forced sizes (problem.b_r %d, b_c %d, work_group_size %d, knobs \"%s\"; 0 is planned) do not fit "
        "%s with d = %d, d_v = %d: b_r is 64, 128, 192 or 256, of all pipelines (1, 2 or 4) no more than 256, b_c a "
        "multiple of 16 up to 256, "
        "work_group_size 128 and 2 * pipelines * b_r, and tiles of Q, K and V have to fit local memory, a "
        "tile's scores and O the registers",
        problem->b_r, problem->b_c, problem->work_group_size, problem->knobs ? problem->knobs : "", name, problem->d,
        problem->d_v);
}

static clattn_status check(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                           struct cla_error *error)
{
    const clattn_status status = cla_matrix_check_warp_groups(capabilities, problem, name, error);
    if (status)
        return status;
    if (cla_problem_accumulates(problem))
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "problem.pass is CLATTN_ACCUMULATE: %s has no such pass: take forward_matrix", name);
    return CLATTN_SUCCESS;
}

static clattn_status choose(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                            struct cla_config *config, struct clattn_plan_info *info, struct cla_error *error)
{
    const clattn_status status = check(capabilities, problem, error);
    *config = (struct cla_config){0};
    if (status)
        return status;
    if (find(capabilities, problem, config) == NOTHING)
        return nothing_fits(problem, error);
    info->estimate = estimate(problem, config);
    explain(capabilities, problem, config, info);
    return CLATTN_SUCCESS;
}

static const struct cla_knob knobs[] = {{"stages", offsetof(struct cla_config, hopper.stages), 2, 8, {2, 3}, 2},
                                        {"q_stages", offsetof(struct cla_config, hopper.q_stages), 1, 2, {1, 2}, 2},
                                        {"ping_pong", offsetof(struct cla_config, hopper.ping_pong), 0, 1, {0, 1}, 2},
                                        {"tma", offsetof(struct cla_config, hopper.tma), 0, 1, {0, 1}, 2},
                                        {"stale_max", offsetof(struct cla_config, hopper.stale_max), 0, 1, {0, 1}, 2},
                                        {"pipelines", offsetof(struct cla_config, pipelines), 1, 4, {0}, 0},
                                        {NULL, 0, 0, 0, {0}, 0}};

static clattn_status adopt(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                           struct cla_config *config, struct clattn_plan_info *info, struct cla_error *error)
{
    const struct cla_matrix_limits limits = cla_matrix_limits_of(capabilities);
    if (!is_possible(config) || !has_items(&limits, config) || !has_room(&limits, problem, config))
        return nothing_fits(problem, error);
    complete(&limits, problem, config);
    info->estimate = estimate(problem, config);
    explain(capabilities, problem, config, info);
    return CLATTN_SUCCESS;
}

/* To two consumers, which have twice the registers of four, and then to one. */
static bool step_down(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                      struct cla_config *config)
{
    const struct cla_matrix_limits limits = cla_matrix_limits_of(capabilities);
    const int before = consumers(config), after = before > 2 ? 2 : 1;
    if (before == 1)
        return false;
    while (consumers(config) > after)
        if (config->pipelines > 1)
            config->pipelines /= 2;
        else
            config->b_r -= CLA_WARP_GROUP_ROWS;
    complete(&limits, problem, config);
    return true;
}

/* Rows of elements that are not whole 16-byte chunks are brought one by one: forward_matrix's groups do that no slower.
 */
static bool prefers(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem)
{
    struct cla_error unused;
    struct cla_config config = {0};
    if (check(capabilities, problem, &unused) || problem->d % 8 || problem->d_v % 8)
        return false;
    const enum found found = find(capabilities, problem, &config);
    const bool has_rows = !problem->expected_n_q || problem->expected_n_q >= FEWEST_ROWS;
    return has_rows ? found != NOTHING : found == FEW_TILES;
}

static void define(const struct clattn_problem *problem, const struct cla_config *config, struct cla_text *text)
{
    const struct cla_define defines[] = {
        {"TMA", config->hopper.tma},
        {"COMPUTE_CAPABILITY", 90},
        {"CONSUMER_REGISTERS", config->hopper.consumer_registers},
        {"LOADERS", CLA_WARP_GROUP / config->pipelines},
        {"KEEPS_PHILOX", keeps_philox(config)},
        {"KEYS", config->b_c},
        {"KEY_PIECES", cla_pieces(config->b_c)},
        {"PRODUCER_REGISTERS", config->hopper.producer_registers},
        {"Q_STAGES", config->hopper.q_stages},
        {"ALIBI_LINEAR", config->hopper.alibi_linear},
        {"ROW_TILES", 1},
        {"SET_BYTES", (int)cla_together_sizes.forward_matrix_bytes},
        {"STAGES", config->hopper.stages},
        {"STALE_MAX", config->hopper.stale_max},
        {"PIPELINES", config->pipelines},
        {"TOGETHER_BYTES", (int)cla_together_sizes.forward_hopper_bytes},
        {"TOGETHER_ROUNDS", cla_together_sizes.forward_hopper_rounds},
        {"PING_PONG", config->hopper.ping_pong},
        {"VALUE_PIECES", cla_pieces(problem->d_v)},
    };
    cla_text_define(text, defines, sizeof defines / sizeof *defines);
}

static const char *const files[] = {"forward_hopper.cl", NULL};

#define KERNEL                                                                                                         \
    {                                                                                                                  \
        .entry = "clattn_forward", .retargeted = true, .most_spilled_bytes = MOST_SPILLED_BYTES                        \
    }
static const struct cla_kernel_form kernels[CLA_SPLIT + 2] = {[CLA_WHOLE] = KERNEL, [CLA_SPLIT] = KERNEL};

/* Persistent work-groups; and in the workspace, for each of them, TMA descriptors of Q, K and V for each pipeline. */
static void recipe(const struct cla_run *run, struct cla_recipe *out)
{
    const struct clattn_shape *shape = &run->shape;
    const bool has_rows = shape->batch && shape->heads && shape->n_q;
    const int64_t units = run->capabilities->compute_units;
    cla_recipe_forward(run, out);
    out->stages[0].most_groups = units;
    if (!run->config->hopper.tma)
        return;
    out->stages[0].arguments = cla_forward_workspace_list;
    if (has_rows)
        cla_recipe_region(out, "TMA descriptors", 3 * run->config->pipelines * units, CLA_DESCRIPTOR_WORDS * 4, false,
                          offsetof(struct cla_forward_params, descriptors));
}

const struct cla_skeleton cla_forward_hopper = {
    .name = name,
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
    .step_down = step_down,
    .local_bytes = local_bytes,
    .private_bytes = private_bytes,
    .recipe = recipe,
    .define = define,
};
