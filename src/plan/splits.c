/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/splits.h"
#include "plan/checked.h"
#include "plan/matrix_units.h"
#include "plan/packing.h"
#include "plan/planner.h"
#include "plan/sizes.h"
#include <math.h>

/* The model counts in keys that a block of rows meets (plan/sizes.h). Fewer tiles than
 * LEAST_TILES a split are not worth it, nor is a gain below GAIN. */
enum { LEAST_TILES = 2 };
#define GAIN 0.05

static const struct cla_split_weights *weights_of(const struct cla_split_rule *rule)
{
    return rule->joins        ? &cla_joined_split_weights
           : rule->persistent ? &cla_persistent_split_weights
           : rule->tiled      ? &cla_tiled_split_weights
                              : &cla_split_weights;
}

/* More work-groups than so many for each that runs at a time even out nothing any more. */
enum { WAVES = 16 };

/* GPUs hide latency by more than one work-group a compute unit; a skeleton with persistent work-groups does it by
 * itself. Small ones are as many as local memory has room for. */
enum { GPU_GROUPS_A_UNIT = 2, MOST_GROUPS_A_UNIT = 8, SMALL_GROUP = 64 };

static int64_t groups_a_unit(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                             const struct cla_skeleton *skeleton, const struct cla_config *config)
{
    const int sharers = cla_joins(skeleton, config), held = skeleton->held ? skeleton->held(config) : 0;
    if (sharers)
        return held >= sharers ? held / sharers : 1;
    if (!config->work_group_size || config->work_group_size > SMALL_GROUP)
        return GPU_GROUPS_A_UNIT;
    const uint64_t each = skeleton->local_bytes(problem, config), all = cla_usable_local_bytes(capabilities);
    const int64_t room = each ? (int64_t)(all / each) : MOST_GROUPS_A_UNIT;
    return room < GPU_GROUPS_A_UNIT ? GPU_GROUPS_A_UNIT : room > MOST_GROUPS_A_UNIT ? MOST_GROUPS_A_UNIT : room;
}

static int64_t slots_of(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                        const struct cla_skeleton *skeleton, const struct cla_config *config)
{
    const int64_t units = cla_machine_of(capabilities).units;
    return capabilities->type == CLATTN_DEVICE_CPU || skeleton->persistent
               ? units * (config->pipelines ? config->pipelines : 1)
               : units * groups_a_unit(capabilities, problem, skeleton, config);
}

/* What was timed: elements of 16 bits, and more rows than few. */
static bool is_tiled(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                     const struct cla_config *config)
{
    enum { FEW_ROWS = 64 };
    const int64_t rows = problem->expected_n_q * (config->packs ? cla_expected_pack(problem) : 1);
    return config->unit && config->unit->devices && capabilities->nv_compute_capability &&
           problem->dtype != CLATTN_FP32 && (!rows || rows > FEW_ROWS);
}

int64_t cla_split_keys(const struct clattn_problem *problem, const struct cla_config *config)
{
    return cla_ceil_div(problem->split_keys, config->b_c) * config->b_c;
}

struct cla_split_rule cla_split_rule(const struct clattn_capabilities *capabilities,
                                     const struct clattn_problem *problem, const struct cla_skeleton *skeleton,
                                     const struct cla_config *config)
{
    const int sharers = cla_joins(skeleton, config);
    struct cla_split_rule rule = {.slots = slots_of(capabilities, problem, skeleton, config),
                                  .units = cla_machine_of(capabilities).units,
                                  .tiled = is_tiled(capabilities, problem, config),
                                  .b_r = config->b_r,
                                  .b_c = config->b_c * (sharers ? sharers : 1),
                                  .joins = sharers,
                                  .causal = problem->causal,
                                  .persistent = skeleton->persistent,
                                  .key_bytes = (int64_t)cla_skeleton_element_bytes(skeleton, problem) *
                                               (problem->d + problem->d_v),
                                  .windowed = problem->features & CLATTN_WINDOW,
                                  .pack = config->packs ? cla_expected_pack(problem) : 1,
                                  .split_keys = cla_split_keys(problem, config),
                                  .splits = problem->pass == CLATTN_FORWARD ? problem->splits : 1};
    if (rule.splits || rule.split_keys)
        return rule;
    const struct clattn_shape expected = {
        .batch = 1, .heads = problem->expected_heads, .n_q = problem->expected_n_q, .n_kv = problem->expected_n_kv};
    rule.splits = cla_would_split(&rule, &expected) ? CLATTN_SPLITS_BY_SHAPE : 1;
    return rule;
}

/* Keys that the last row sees, and a row on average. */
static double longest_row(const struct cla_split_rule *rule, int64_t n_q, int64_t n_kv)
{
    return (double)(rule->causal == CLATTN_CAUSAL_TOP_LEFT && n_q < n_kv ? n_q : n_kv);
}

static double average_row(const struct cla_split_rule *rule, int64_t n_q, int64_t n_kv)
{
    const double rows = (double)n_q, keys = (double)n_kv;
    switch (rule->causal) {
    case CLATTN_FULL:
        break;
    case CLATTN_CAUSAL_BOTTOM_RIGHT:
        return n_q <= n_kv ? keys - (rows - 1) / 2 : keys * (keys + 1) / 2 / rows;
    case CLATTN_CAUSAL_TOP_LEFT:
        return n_q <= n_kv ? (rows + 1) / 2 : keys - keys * (keys - 1) / 2 / rows;
    }
    return keys;
}

/* What is left of so many keys to a split, in whole tiles, and with what a work-group costs. */
static double share(const struct cla_split_rule *rule, double keys, int splits)
{
    const struct cla_split_weights *weights = weights_of(rule);
    return ceil(ceil(keys / (double)rule->b_c) / splits) * (double)rule->b_c +
           (splits > 1 ? weights->split_start : weights->start) * (rule->joins ? rule->joins : 1);
}

static int pack_of(const struct cla_split_rule *rule)
{
    return rule->pack ? rule->pack : 1;
}

int64_t cla_split_blocks(const struct cla_split_rule *rule, int64_t heads, int64_t n_q)
{
    return cla_ceil_div(n_q * pack_of(rule), rule->b_r) * (heads / pack_of(rule));
}

/* (The kernel counts the heads of K and V, which no one has told the planner.) */
static bool go_together(const struct cla_split_rule *rule, int64_t heads, int64_t n_q, int64_t n_kv)
{
    const double groups = (double)cla_split_blocks(rule, heads, n_q);
    const double bytes = (double)heads * (double)n_kv * (double)rule->key_bytes;
    return rule->persistent && groups <= cla_together_sizes.forward_hopper_rounds * (double)rule->slots &&
           bytes <= (double)cla_together_sizes.forward_hopper_bytes;
}

/* Blocks of rows in the order of their lengths, in keys, which fall evenly. */
struct lengths {
    int64_t count;
    double longest, average;
};

/* What work-group `slot` has of them, taken in turn, forth and back. */
static double load_of(const struct cla_split_rule *rule, const struct lengths *blocks, int64_t slot)
{
    const double fall = 2 * (blocks->longest - blocks->average) / (double)blocks->count;
    double load = 0;
    for (int64_t first = 0; first < blocks->count; first += rule->slots) {
        const int64_t at = first + (first / rule->slots % 2 ? rule->slots - 1 - slot : slot);
        if (at < blocks->count)
            load += share(rule, fmax(blocks->longest - fall * ((double)at + 0.5), 0), 1);
    }
    return load;
}

/* The largest load: they change evenly from work-group to work-group, but where the last round begins or ends. */
static double together_cost(const struct cla_split_rule *rule, const struct lengths *blocks)
{
    const int64_t last = rule->slots - 1, rest = blocks->count % rule->slots;
    const int64_t slots[] = {0, last, rest, rest - 1, last - rest, last - rest + 1};
    double most = 0;
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
        if (slots[i] >= 0 && slots[i] <= last)
            most = fmax(most, load_of(rule, blocks, slots[i]));
    return most;
}

/* What follows the work on keys. Where a work-group does it, that is for the rows of one block, and counts in what so
 * many sub-groups would have met in that time. */
static double merge_cost(const struct cla_split_rule *rule, int64_t heads, int64_t n_q, int splits)
{
    const struct cla_split_weights *weights = weights_of(rule);
    const double rows = (double)(n_q * pack_of(rule)), most = (double)rule->b_r;
    if (rule->joins)
        return weights->launch * rule->joins + fmin(rows, most) * splits * weights->merge / rule->joins;
    const double launch = weights->launch * (weights->key_bytes > 0 ? weights->key_bytes / (double)rule->key_bytes : 1);
    return launch + (double)heads * (double)n_q * splits * weights->merge / ((double)rule->slots * most);
}

double cla_split_cost(const struct cla_split_rule *rule, int64_t heads, int64_t n_q, int64_t n_kv, int splits)
{
    const int64_t blocks = cla_ceil_div(n_q * pack_of(rule), rule->b_r), packed_heads = heads / pack_of(rule);
    const double slots = (double)rule->slots, groups = (double)blocks * (double)packed_heads * splits;
    const double average = share(rule, average_row(rule, n_q, n_kv), splits);
    double cost;
    if (rule->causal == CLATTN_FULL || blocks == 1) {
        cost = ceil(groups / slots) * average;
    } else if (rule->persistent && groups <= slots) {
        cost = share(rule, longest_row(rule, n_q, n_kv), splits);
    } else if (splits == 1 && go_together(rule, heads, n_q, n_kv)) {
        const struct lengths lengths = {blocks * packed_heads, longest_row(rule, n_q, n_kv),
                                        average_row(rule, n_q, n_kv)};
        cost = together_cost(rule, &lengths);
    } else if (rule->persistent) {
        cost = ceil((double)cla_ceil_div(blocks, 2) * (double)packed_heads * splits / slots) * 2 * average;
    } else {
        /* The longest come first, and the others fill the gaps. */
        cost = fmax(share(rule, longest_row(rule, n_q, n_kv), splits), (groups / slots + 0.5) * average);
    }
    if (weights_of(rule)->alone > 0 && groups <= (double)rule->units)
        cost *= weights_of(rule)->alone;
    return splits > 1 ? cost + merge_cost(rule, heads, n_q, splits) : cost;
}

int cla_splits_of(const struct cla_split_rule *rule, int64_t heads, int64_t n_q, int64_t n_kv)
{
    /* Two at least: a kernel that splits may round otherwise than one that does not. */
    if (rule->split_keys)
        return (int)(n_kv > rule->split_keys ? cla_ceil_div(n_kv, rule->split_keys) : 2);
    if (rule->splits != CLATTN_SPLITS_BY_SHAPE)
        return rule->splits;
    if (heads <= 0 || n_q <= 0 || n_kv <= 0)
        return 1;
    heads = heads < INT32_MAX ? heads : INT32_MAX; /* no call has more, and products stay within 64 bits */
    const int64_t least = rule->joins ? 1 : LEAST_TILES;
    const int64_t tiles = cla_ceil_div((int64_t)longest_row(rule, n_q, n_kv), rule->b_c) / least;
    const double groups = (double)cla_split_blocks(rule, heads, n_q);
    const double enough = fmin(WAVES * (double)rule->slots / groups, CLATTN_MAX_SPLITS);
    const int most = (int)fmin((double)tiles, enough);
    const double whole = cla_split_cost(rule, heads, n_q, n_kv, 1);
    double best = whole * (1 - GAIN);
    int splits = 1;
    for (int n = 2; n <= most; n++) {
        const double cost = cla_split_cost(rule, heads, n_q, n_kv, n);
        if (cost < best) {
            best = cost;
            splits = n;
        }
    }
    return splits;
}

bool cla_would_split(const struct cla_split_rule *rule, const struct clattn_shape *shape)
{
    struct cla_split_rule by_shape = *rule;
    by_shape.splits = CLATTN_SPLITS_BY_SHAPE;
    return !rule->windowed && cla_splits_of(&by_shape, shape->batch * shape->heads, shape->n_q, shape->n_kv) > 1;
}
