/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Which of the sizes of forward_hopper that were timed (plan/sizes.c) a problem takes. */
#include "plan/skeletons/hopper_sizes.h"
#include "plan/checked.h"
#include "plan/matrix_units.h"
#include "plan/packing.h"
#include "plan/problem.h"
#include "plan/sizes.h"

enum { NARROW = CLA_HOPPER_NARROW };

static bool is_narrow(const struct clattn_problem *problem)
{
    return problem->d <= NARROW && problem->d_v <= NARROW;
}

/* What each modification of scores or weights takes of the registers that a consumer has beside its tiles, in steps of
 * about 16: a bias has addresses of its own for each row. What hides pairs only by their places takes none to speak of.
 */
static const struct wanted {
    unsigned feature;
    int steps;
} wanted[] = {{CLATTN_SOFTCAP, 1}, {CLATTN_ALIBI, 1}, {CLATTN_BIAS, 2}, {CLATTN_MASK, 1}, {CLATTN_DROPOUT, 1}};

static bool has_functions(const struct clattn_problem *problem)
{
    return problem->score_mod || problem->mask_mod;
}

struct wants {
    int count, steps;
};

static struct wants wanted_of(const struct clattn_problem *problem)
{
    struct wants all = {has_functions(problem), has_functions(problem)};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (problem->features & wanted[i].feature) {
            all.count++;
            all.steps += wanted[i].steps;
        }
    return all;
}

/* Whether so many consumers have registers for what the problem modifies; else their items keep hundreds of bytes in
 * memory. The assembler has been seen to make wrong code for four of them (ptxas 13.0: a block
 * mask with all else that there is). Any one modification is fast with three and with four. */
static bool has_registers(const struct clattn_problem *problem, int consumers)
{
    const struct wants wants = wanted_of(problem);
    const bool cuts = problem->features & (CLATTN_WINDOW | CLATTN_KEY_LENGTHS | CLATTN_VARLEN | CLATTN_QUERY_LENGTHS);
    if (consumers < 3 || (wants.count <= 1 && !cuts))
        return true;
    return wants.steps <= (consumers == 3 ? 2 : 1);
}

/* Hidden pairs and what modifies the others leave three consumers too few registers. Two that draw want Q in two
 * stages, and a third one of K and V leaves ALiBi's linear part no room. */
static bool is_crowded(const struct clattn_problem *problem)
{
    if (problem->d_v > NARROW)
        return problem->features & (CLATTN_ALIBI | CLATTN_DROPOUT);
    return (problem->causal != CLATTN_FULL && problem->features & CLATTN_ALIBI) || !has_registers(problem, 3);
}

/* Whether what was timed of scores that only such features modify holds: sinks are met at a block's end alone. */
static bool has_at_most(const struct clattn_problem *problem, unsigned features)
{
    return !(problem->features & ~(CLATTN_SINKS | features)) && problem->d <= (problem->d_v <= NARROW ? NARROW : 128);
}
static bool is_plain(const struct clattn_problem *problem)
{
    return has_at_most(problem, 0) && !has_functions(problem);
}

/* Whether two consumers' rows meet more than one block of a mask. */
static bool has_small_blocks(const struct clattn_problem *problem)
{
    return problem->block_q % (2 * CLA_WARP_GROUP_ROWS) != 0;
}

/* Whether tiles span blocks of a mask, as if there were none: it would cost more to skip the few small ones that
 * are hidden. */
static bool spans_blocks(const struct clattn_problem *problem)
{
    return has_small_blocks(problem) && cla_problem_is_mostly_seen(problem);
}

/* Whether four consumers have registers for that: the user's functions, softcap's polynomials, or what a mask hides of
 * tiles that lie in several of its blocks. */
static bool suits_four(const struct clattn_problem *problem)
{
    const unsigned alone = has_functions(problem) ? 0 : spans_blocks(problem) ? CLATTN_BLOCK_MASK : CLATTN_SOFTCAP;
    return problem->d_v <= NARROW && has_at_most(problem, alone);
}

/* Whether blocks of 128 rows, which take 1.2 times as long for each, leave so much less of the last one empty. */
static bool halves_fit(int64_t n_q)
{
    return 5 * cla_ceil_div(n_q, 128) < 8 * cla_ceil_div(n_q, 256);
}

/* Of a sequence whose rows have as many keys: at the end of many keys they have as many tiles as those of a long one.
 */
static int64_t length_of(const struct clattn_problem *problem)
{
    const int64_t n_q = problem->expected_n_q, n_kv = problem->expected_n_kv;
    switch (n_kv > n_q ? problem->causal : CLATTN_CAUSAL_TOP_LEFT) {
    case CLATTN_FULL:
        return n_kv;
    case CLATTN_CAUSAL_BOTTOM_RIGHT:
        return n_kv < INT32_MAX ? 2 * n_kv - n_q : n_kv;
    case CLATTN_CAUSAL_TOP_LEFT:
        break;
    }
    return n_q;
}

static bool is_short(const struct clattn_problem *problem)
{
    const bool is_causal = problem->causal != CLATTN_FULL;
    const int64_t n_q = problem->expected_n_q;
    const struct cla_hopper_lengths *lengths = &cla_hopper_lengths;
    if (suits_four(problem))
        return n_q <= (is_causal ? lengths->four_causal : lengths->narrow) && halves_fit(n_q);
    return length_of(problem) <= (is_causal                ? lengths->causal
                                  : problem->d_v <= NARROW ? lengths->narrow
                                                           : lengths->wide);
}

enum cla_hopper_situation cla_hopper_situation_of(const struct clattn_problem *problem)
{
    const bool is_long = problem->expected_n_q && length_of(problem) >= cla_hopper_lengths.longest;
    if (is_crowded(problem) || (problem->expected_n_q && is_short(problem)))
        return CLA_HOPPER_FEW;
    if (!is_plain(problem))
        return suits_four(problem) ? CLA_HOPPER_CHANGED : CLA_HOPPER_OTHER;
    if (problem->causal != CLATTN_FULL)
        return is_long ? CLA_HOPPER_CAUSAL_LONG : CLA_HOPPER_CAUSAL;
    return is_long ? CLA_HOPPER_PLAIN_LONG : CLA_HOPPER_PLAIN;
}

int cla_hopper_forced_rows(const struct clattn_problem *problem)
{
    if (problem->b_r || !problem->work_group_size)
        return problem->b_r;
    return (problem->work_group_size / CLA_WARP_GROUP - 1) * CLA_WARP_GROUP_ROWS;
}

/* Of blocks of the rows that the caller asks for, those that suit them whatever the situation. */
static void take_timed(const struct clattn_problem *problem, enum cla_hopper_situation situation,
                       struct cla_config *config)
{
    const int rows = cla_hopper_forced_rows(problem);
    const struct cla_size_wish wish = {rows ? CLA_HOPPER_ANY : (unsigned)situation, rows, 0, false},
                               few = {CLA_HOPPER_FEW, 0, 0};
    const struct cla_size *size = cla_size_find("forward_hopper", CLA_ANY_FAMILY, problem->d_v, &wish);
    if (!size)
        size = cla_size_find("forward_hopper", CLA_ANY_FAMILY, problem->d_v, &few);
    *config = size->config;
}

/* A window cuts tiles at two ends: those of one consumer's rows by 64 keys have the least that is hidden. So it was
 * where a compute unit has four of them, but not of causal rows. */
static bool has_window_alone(const struct clattn_problem *problem)
{
    return problem->features & CLATTN_WINDOW && has_at_most(problem, CLATTN_WINDOW) && !has_functions(problem) &&
           problem->causal == CLATTN_FULL && is_narrow(problem);
}

/* Pipelines of so many consumers each, as many as have registers. */
static void take_pipelines(const struct clattn_problem *problem, int each, struct cla_config *config)
{
    const bool four = is_narrow(problem) && has_registers(problem, 4);
    config->b_r = each * CLA_WARP_GROUP_ROWS;
    config->b_c = CLA_WARP_GROUP_ROWS;
    config->pipelines = (four ? 4 : 2) / each;
    config->hopper.stages = each == 1 ? 2 : 4;
    config->hopper.q_stages = each == 1 && four ? 1 : 2;
    config->hopper.ping_pong = each > 1;
}

/* A tile that lies in one block of a mask is skipped whenever the block is hidden. For blocks that two consumers
 * would meet halves of, each is a pipeline; where there are registers for four, as many as have rows of one block are.
 * */
static void suit_block_mask(const struct clattn_problem *problem, struct cla_config *config)
{
    if (!problem->block_q || !problem->block_kv || spans_blocks(problem))
        return;
    if (has_small_blocks(problem) && problem->d <= 128 && problem->d_v <= 128) {
        take_pipelines(problem, 1, config);
        return;
    }
    if (is_narrow(problem) && !has_small_blocks(problem) && has_registers(problem, 4)) {
        take_pipelines(problem, problem->block_q % (4 * CLA_WARP_GROUP_ROWS) ? 2 : 4, config);
        return;
    }
    while (config->b_r > 2 * CLA_WARP_GROUP_ROWS && problem->block_q % config->b_r)
        config->b_r -= CLA_WARP_GROUP_ROWS;
    while (config->b_c > CLA_WARP_GROUP_ROWS && problem->block_kv % config->b_c)
        config->b_c -= CLA_PIECE;
}

void cla_hopper_take_sizes(const struct clattn_problem *problem, enum cla_hopper_situation situation,
                           struct cla_config *config)
{
    take_timed(problem, situation, config);
    if (has_window_alone(problem) && !cla_hopper_forced_rows(problem) && !problem->b_c)
        take_pipelines(problem, 1, config);
    suit_block_mask(problem, config);
}

/* How many consumers each pipeline would have where blocks of rows have few tiles: while one pipeline begins or ends a
 * block another computes. 0: all of a work-group's consumers go together. */
static int pipeline_of(const struct clattn_problem *problem)
{
    const struct cla_hopper_lengths *lengths = &cla_hopper_lengths;
    const int64_t n_q = problem->expected_n_q, n_kv = problem->expected_n_kv;
    if (problem->b_r || problem->b_c || problem->work_group_size || !is_plain(problem) || problem->d_v > 128)
        return 0;
    if (n_q <= CLA_WARP_GROUP_ROWS)
        return n_q > lengths->single_rows && n_kv <= lengths->single_keys && cla_expected_pack(problem) == 1;
    if (!is_narrow(problem))
        return n_q <= lengths->single_keys && n_kv <= lengths->single_keys;
    if (problem->causal != CLATTN_FULL)
        return n_q <= lengths->paired_causal && n_kv <= lengths->paired_causal ? 2 : 0;
    const int64_t pairs = cla_ceil_div(n_q, 2 * CLA_WARP_GROUP_ROWS),
                  fours = cla_ceil_div(n_q, 4 * CLA_WARP_GROUP_ROWS);
    return lengths->paired_cost * pairs < 100 * 2 * fours ? 2 : 0;
}

bool cla_hopper_suit_few_tiles(int64_t units, const struct clattn_problem *problem, struct cla_config *config)
{
    const int each = pipeline_of(problem);
    if (!each || !problem->expected_heads)
        return false;
    take_pipelines(problem, each, config);
    const int64_t blocks = problem->expected_heads * cla_ceil_div(problem->expected_n_q, config->b_r);
    if (blocks < cla_hopper_lengths.pipeline_blocks * config->pipelines * units)
        return false;
    config->hopper.stages = problem->expected_n_kv > 2 * config->b_c && each > 1 ? 4 : 2;
    config->hopper.ping_pong = config->hopper.tma = 1;
    return true;
}
