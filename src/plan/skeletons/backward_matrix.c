/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The planner's side of cl/backward_matrix.cl, over NVIDIA's tensor cores and over the emulation. */
#include "plan/skeletons/backward_matrix.h"
#include "plan/matrix_units.h"
#include "plan/planner.h"
#include "plan/problem.h"
#include "plan/sizes.h"
#include "plan/skeletons/backward_sums.h"
#include "plan/traffic.h"
#include <stddef.h>

static const char matrix_name[] = "backward_matrix", emulated_name[] = "backward_matrix_emulated";

/* Each kernel has a fixed side (b_r rows, or b_c keys) and a moving one, with constants of its own. */
enum { DQ, DK_DV, SIDES };
enum { SUM_ROWS = 64, MOST_SUMMED_D = 128 }; /* of a block of sums of dQ; columns */
enum { SHORT = 64, SHORT_MOST_D = 64 };      /* blocks; columns */
enum { FEW_ROWS = 32 };

static const char *name_of(const struct cla_config *config)
{
    return config->unit->devices ? matrix_name : emulated_name;
}

/* The sizes that were the fastest (plan/sizes.h). */
static void take_timed(enum cla_family family, const struct clattn_problem *problem, struct cla_config *config)
{
    const struct cla_size_wish stored = {.fp32 = problem->dtype == CLATTN_FP32};
    struct cla_config timed = cla_size_find(matrix_name, family, cla_widest(problem), &stored)->config;
    cla_matrix_keep_unit(&timed, config);
    timed.work_group_size = timed.work_group_size / CLA_NVIDIA_LANES * config->lanes;
    *config = timed;
}

/* Rows (and keys) that the sub-groups own at least. */
static int least_fixed(const struct cla_config *config, int side)
{
    return cla_backward_matrix_sub_groups(config) * CLA_PIECE / config->backward_matrix.side[side].split;
}

static bool divides(const struct cla_config *config)
{
    const int split = config->backward_matrix.side[DK_DV].split;
    return cla_backward_matrix_sub_groups(config) % split == 0 && config->b_r % least_fixed(config, DQ) == 0 &&
           config->b_c % least_fixed(config, DK_DV) == 0;
}

/* Forced block sizes are spread over as many of the sub-groups as divide them. */
static bool take_forced(const struct clattn_problem *problem, struct cla_config *config)
{
    const int lanes = config->lanes, step = config->backward_matrix.side[DK_DV].split * lanes;
    if (problem->b_r)
        config->b_r = problem->b_r;
    if (problem->b_c)
        config->b_c = problem->b_c;
    if (problem->work_group_size)
        config->work_group_size = problem->work_group_size;
    if (config->work_group_size % lanes)
        return false;
    while (!problem->work_group_size && config->work_group_size > step && !divides(config))
        config->work_group_size -= step;
    return divides(config);
}

/* Blocks no larger than a block mask's, as far as they may shrink, so that what it hides is skipped whole. */
static void suit_blocks(const struct clattn_problem *problem, struct cla_config *config)
{
    while (!problem->b_r && problem->block_q && config->b_r > problem->block_q &&
           config->b_r / 2 >= least_fixed(config, DQ))
        config->b_r /= 2;
    while (!problem->b_c && problem->block_kv && config->b_c > problem->block_kv &&
           config->b_c / 2 >= least_fixed(config, DK_DV))
        config->b_c /= 2;
}

/* Half the sub-groups, each with as much as it had of larger blocks, where these have shrunk and a compute unit holds
 * several groups (tests/data/measured/h200-backward-matrix-notes.md). */
static void suit_short_blocks(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                              struct cla_config *config)
{
    const bool forced = problem->b_r || problem->b_c || problem->work_group_size;
    const int items = config->work_group_size / 2, lanes = config->lanes;
    if (!forced && problem->block_q && cla_widest(problem) <= SHORT_MOST_D && config->b_r == SHORT &&
        config->b_c == SHORT && items >= 2 * lanes && cla_usable_local_bytes(capabilities) >= CLA_MUCH_LOCAL_BYTES)
        config->work_group_size = items;
}

/* Blocks of few rows and keys, where that is all that there is of a head: 21 rows of 2048 heads at d 32 were 1.3 times as
 * fast by them, 20 of 8 at d 64 1.05 times (tests/data/measured/h200-backward-matrix-notes.md). */
static void suit_few_rows(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                          struct cla_config *config)
{
    const bool forced = problem->b_r || problem->b_c || problem->work_group_size;
    const bool plain = !problem->features && !problem->score_mod && !problem->mask_mod;
    if (forced || !plain || problem->dtype == CLATTN_FP32 || cla_widest(problem) > SHORT_MOST_D ||
        cla_matrix_family(capabilities, config) != CLA_NVIDIA || problem->expected_n_q < 1 ||
        problem->expected_n_q > FEW_ROWS || problem->expected_n_kv < 1 || problem->expected_n_kv > FEW_ROWS)
        return;
    config->b_r = FEW_ROWS;
    config->b_c = 2 * FEW_ROWS;
    config->work_group_size = 2 * config->lanes;
    config->backward_matrix.side[DQ] = (struct cla_backward_side){FEW_ROWS, FEW_ROWS, 1, 2, 1};
    config->backward_matrix.side[DK_DV] = (struct cla_backward_side){FEW_ROWS, FEW_ROWS, 0, 2, 1};
}

/* One step smaller: one stage instead of two, then fewer moving rows, then fewer fixed ones. */
static bool shrink_side(struct cla_backward_side *side)
{
    if (side->stages == 2) {
        side->stages = 1;
        return true;
    }
    if (side->moving == CLA_PIECE)
        return false;
    side->moving /= 2;
    if (side->slice > side->moving)
        side->slice = side->moving;
    return true;
}

static bool shrink_rows(const struct clattn_problem *problem, struct cla_config *config)
{
    const int lanes = config->lanes;
    if (problem->b_r || problem->b_c || problem->work_group_size)
        return false;
    const bool rows = config->b_r > least_fixed(config, DQ), keys = config->b_c > least_fixed(config, DK_DV);
    if (rows || keys) {
        config->b_r = rows ? config->b_r / 2 : config->b_r;
        config->b_c = keys ? config->b_c / 2 : config->b_c;
        return true;
    }
    if (cla_backward_matrix_sub_groups(config) <= config->backward_matrix.side[DK_DV].split)
        return false;
    config->work_group_size = cla_backward_matrix_sub_groups(config) / 2 * lanes;
    config->b_r /= 2;
    config->b_c /= 2;
    return true;
}

static bool hides_waits(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                        const struct cla_config *config, int side)
{
    return cla_matrix_hides_waits(capabilities, config, cla_backward_matrix_side_bytes(problem, config, side),
                                  cla_backward_matrix_sub_groups(config));
}

/* Less of the moving side, where a compute unit then holds work-groups enough. */
static void make_room(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                      struct cla_config *config, int side)
{
    struct cla_config smaller = *config;
    while (!hides_waits(capabilities, problem, &smaller, side))
        if (!shrink_side(&smaller.backward_matrix.side[side]))
            return;
    *config = smaller;
}

static bool fit(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                struct cla_config *config)
{
    const struct cla_matrix_limits limits = cla_matrix_limits_of(capabilities);
    while (config->work_group_size > limits.items)
        if (!shrink_rows(problem, config))
            return false;
    for (int side = DQ; side < SIDES; side++)
        while (cla_backward_matrix_side_bytes(problem, config, side) > limits.local_bytes)
            if (!shrink_side(&config->backward_matrix.side[side]) && !shrink_rows(problem, config))
                return false;
    for (int side = DQ; side < SIDES; side++)
        make_room(capabilities, problem, config, side);
    return true;
}

/* Whether one kernel may form all gradients, and add up dQ in any order: 5 products in place of 7, of which each costs
 * three. In 16 bits backward_fused does. */
static bool may_add(const struct clattn_problem *problem, const struct cla_config *config)
{
    return problem->unordered && problem->dtype == CLATTN_FP32 && config->unit->adds &&
           cla_widest(problem) <= MOST_SUMMED_D && !cla_problem_accumulates(problem);
}

/* Whether its sizes are such that the kernel of dQ, which takes the sums, has blocks as these are. */
static bool adds_well(const struct cla_config *config)
{
    return config->b_r == SUM_ROWS && config->backward_matrix.side[DK_DV].split == 1 &&
           config->backward_matrix.side[DK_DV].fixed_registers != 2;
}

static bool find_adding(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                        struct cla_config *config)
{
    take_timed(cla_matrix_family(capabilities, config), problem, config);
    config->b_r = SUM_ROWS;
    config->backward_matrix.adds = 1;
    config->backward_matrix.side[DQ] =
        (struct cla_backward_side){.moving = 2 * CLA_PIECE, .slice = CLA_PIECE, .stages = 1, .split = 1};
    config->backward_matrix.side[DK_DV].stages = 1; /* the next tile comes while dQ is formed */
    if (cla_widest(problem) <= SHORT_MOST_D)
        config->backward_matrix.side[DK_DV].slice = 2 * CLA_PIECE;
    return take_forced(problem, config) && fit(capabilities, problem, config) && adds_well(config);
}

static bool find(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                 struct cla_config *config)
{
    struct cla_config adding = *config;
    if (may_add(problem, config) && find_adding(capabilities, problem, &adding)) {
        *config = adding;
        return true;
    }
    take_timed(cla_matrix_family(capabilities, config), problem, config);
    suit_few_rows(capabilities, problem, config);
    if (!take_forced(problem, config))
        return false;
    suit_blocks(problem, config);
    suit_short_blocks(capabilities, problem, config);
    return fit(capabilities, problem, config);
}

static clattn_status nothing_fits(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                                  const struct cla_config *config, struct cla_error *error)
{
    const struct cla_matrix_limits limits = cla_matrix_limits_of(capabilities);
    return cla_fail(error, CLATTN_NOTHING_FITS,
                    "%s with d = %d, d_v = %d does not fit %llu bytes of local memory and %lld work-items%s",
                    name_of(config), problem->d, problem->d_v, (unsigned long long)limits.local_bytes,
                    (long long)limits.items,
                    problem->b_r || problem->b_c || problem->work_group_size
                        ? " with the forced sizes: problem.b_r and b_c are multiples of 16 times the sub-groups of "
                          "work_group_size"
                        : ", not even with 16 rows and keys");
}

static void explain(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                    const struct cla_config *config, struct clattn_plan_info *info)
{
    const struct cla_backward_side *dq = &config->backward_matrix.side[DQ],
                                   *dk_dv = &config->backward_matrix.side[DK_DV];
    const struct cla_matrix_limits limits = cla_matrix_limits_of(capabilities);
    info->estimate = cla_backward_matrix_estimate(capabilities, problem, config);
    info->sums = config->backward_matrix.adds;
    if (config->backward_matrix.adds)
        cla_plan_step(info, "one kernel", config->b_r, config->b_c,
                      "sub-groups keep %d keys while %d rows pass, and form dQ, too, which is added to sums in device "
                      "memory, in any order",
                      config->b_c, dk_dv->moving);
    cla_plan_step(info, "sub-groups", config->b_r, config->b_c,
                  "on %s, %d sub-groups keep %d rows of Q and dO while %d keys at a time pass (dQ), or %d keys while "
                  "%d rows pass "
                  "(dK, dV)",
                  config->unit->name, cla_backward_matrix_sub_groups(config), config->b_r, dq->moving, config->b_c,
                  dk_dv->moving);
    cla_plan_step(
        info, "local memory", config->b_r, config->b_c,
        "%s the moving side %s (dQ) and %s (dK, dV): %llu of %llu bytes",
        dq->fixed_registers == 2 && dk_dv->fixed_registers == 2 ? "not the fixed side:" : "the fixed side, and",
        dq->stages == 2 ? "twice" : "once", dk_dv->stages == 2 ? "twice" : "once",
        (unsigned long long)cla_backward_matrix_local_bytes(problem, config), (unsigned long long)limits.local_bytes);
}

static clattn_status take(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                          struct cla_config *config, struct clattn_plan_info *info, struct cla_error *error)
{
    if (!find(capabilities, problem, config))
        return nothing_fits(capabilities, problem, config, error);
    explain(capabilities, problem, config, info);
    return CLATTN_SUCCESS;
}

#define SIDE_KNOBS(name, index)                                                                                         \
    {name "_fixed_registers",                                                                                           \
     offsetof(struct cla_config, backward_matrix.side[index].fixed_registers),                                          \
     0,                                                                                                                 \
     2,                                                                                                                 \
     {0, 1},                                                                                                            \
     2},                                                                                                                \
        {name "_moving", offsetof(struct cla_config, backward_matrix.side[index].moving), CLA_PIECE, 256, {32, 64}, 2}, \
    {                                                                                                                   \
        name "_slice", offsetof(struct cla_config, backward_matrix.side[index].slice), CLA_PIECE, 256, {16, 32}, 2      \
    }

#define KNOBS                                                                                                          \
    SIDE_KNOBS("dk_dv", DK_DV),                                                                                        \
        {"dk_dv_split", offsetof(struct cla_config, backward_matrix.side[DK_DV].split), 1, 2, {0}, 0},                 \
        {"dk_dv_stages", offsetof(struct cla_config, backward_matrix.side[DK_DV].stages), 1, 2, {0}, 0},               \
        SIDE_KNOBS("dq", DQ),                                                                                          \
    {                                                                                                                  \
        "dq_stages", offsetof(struct cla_config, backward_matrix.side[DQ].stages), 1, 2, {0}, 0                        \
    }
static const struct cla_knob knobs[] = {KNOBS, {NULL, 0, 0, 0, {0}, 0}};

/* And which emulation. */
static const struct cla_knob emulated_knobs[] = {KNOBS, CLA_EMULATION_KNOBS, {NULL, 0, 0, 0, {0}, 0}};

static bool side_is_whole(const struct cla_matrix_limits *limits, const struct clattn_problem *problem,
                          const struct cla_config *config, int side)
{
    const struct cla_backward_side *at = &config->backward_matrix.side[side];
    return at->moving % CLA_PIECE == 0 && at->slice % CLA_PIECE == 0 && at->moving % at->slice == 0 &&
           cla_backward_matrix_side_bytes(problem, config, side) <= limits->local_bytes;
}

static clattn_status adopt(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                           struct cla_config *config, struct clattn_plan_info *info, struct cla_error *error)
{
    const struct cla_matrix_limits limits = cla_matrix_limits_of(capabilities);
    const clattn_status named = cla_matrix_take_emulation(problem, name_of(config), config, error);
    if (named)
        return named;
    if (!divides(config) || !side_is_whole(&limits, problem, config, DQ) ||
        !side_is_whole(&limits, problem, config, DK_DV) || (config->backward_matrix.adds && !adds_well(config)))
        return cla_fail(
            error, CLATTN_NOTHING_FITS,
            "problem.knobs \"%s\" do not fit %s with b_r = %d, b_c = %d and %d work-items: moving and slice "
            "are multiples of 16, slice divides moving, dk_dv_split divides the sub-groups, whose pieces of 16 divide "
            "b_r and b_c, and the tiles fit %llu bytes of local memory%s",
            problem->knobs ? problem->knobs : "", name_of(config), config->b_r, config->b_c, config->work_group_size,
            (unsigned long long)limits.local_bytes,
            config->backward_matrix.adds
                ? "; as problem.unordered is 1, b_r is 64, dk_dv_split 1 and dk_dv_fixed_registers 0 or 1"
                : "");
    explain(capabilities, problem, config, info);
    return CLATTN_SUCCESS;
}

static clattn_status choose(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                            struct cla_config *config, struct clattn_plan_info *info, struct cla_error *error)
{
    return cla_matrix_choose(capabilities, problem, matrix_name, take, config, info, error);
}

/* Sizes that a caller forces and it cannot take leave the problem to the others. */
static bool prefers(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem)
{
    struct cla_error unused;
    if (!cla_matrix_is_trusted(capabilities, problem->dtype) ||
        cla_matrix_check(capabilities, problem, matrix_name, &unused) ||
        cla_widest(problem) > cla_matrix_planned_d(cla_matrix_unit_of(capabilities, problem->dtype), problem))
        return false;
    struct cla_config config = cla_matrix_config(capabilities, problem->dtype);
    return find(capabilities, problem, &config) && hides_waits(capabilities, problem, &config, DQ) &&
           hides_waits(capabilities, problem, &config, DK_DV);
}

static clattn_status choose_emulated(const struct clattn_capabilities *capabilities,
                                     const struct clattn_problem *problem, struct cla_config *config,
                                     struct clattn_plan_info *info, struct cla_error *error)
{
    return cla_matrix_choose_emulated(capabilities, problem, emulated_name, take, config, info, error);
}

/* The device refused: what takes registers first. */
static bool step_down(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                      struct cla_config *config)
{
    (void)capabilities;
    struct cla_backward_side *sides = config->backward_matrix.side;
    return shrink_rows(problem, config) || shrink_side(&sides[DQ]) || shrink_side(&sides[DK_DV]);
}

static void streams(const struct cla_config *config, struct clattn_plan_stream streams[2])
{
    cla_streams_plain(config, streams);
    for (int side = DQ; side < SIDES; side++)
        streams[side].tile = config->backward_matrix.side[side].moving;
    streams[DK_DV].resident = 2;
}

void cla_backward_matrix_define(const struct cla_matrix_unit *unit, int level, const struct cla_backward_units *units,
                                enum cla_summed summed, int dq_sums, struct cla_text *text)
{
    cla_text_printf(text, "#define CLATTN_SUMMED %d\n#define CLATTN_DQ_SUMS %d\n", (int)summed, dq_sums);
    cla_matrix_unit_define(unit, level, text);
    static const char *const names[SIDES] = {"DQ", "DK_DV"};
    for (int i = 0; i < SIDES; i++) {
        const struct cla_backward_side *side = &units->side[i];
        cla_text_printf(
            text,
            "#define CLATTN_%s_FIXED_REGISTERS %d\n#define CLATTN_%s_MOVING %d\n#define CLATTN_%s_SLICE %d\n"
            "#define CLATTN_%s_SPLIT %d\n#define CLATTN_%s_STAGES %d\n",
            names[i], side->fixed_registers, names[i], side->moving, names[i], side->slice, names[i], side->split,
            names[i], side->stages);
    }
}

static void define(const struct clattn_problem *problem, const struct cla_config *config, struct cla_text *text)
{
    (void)problem;
    cla_backward_matrix_define(config->unit, config->level, &config->backward_matrix,
                               config->backward_matrix.adds ? CLA_SUMS_ITSELF : CLA_NOT_SUMMED, 1, text);
}

/* In fp32 the kernel of dQ mends deltas for the others, or comes behind the one that adds it up. */
static void recipe(const struct cla_run *run, struct cla_recipe *out)
{
    if (run->config->backward_matrix.adds) {
        const struct cla_sum_blocks blocks = cla_sum_blocks_of(run, SUM_ROWS, out);
        cla_sum_sums(&blocks, cla_sum_floats(run->problem), 1, true, out);
        cla_sum_begin(run, 1, 0, out);
        cla_recipe_dq(run, out);
        cla_recipe_d_bias(run, out);
        return;
    }
    (run->problem->dtype == CLATTN_FP32 ? cla_recipe_mended_backward : cla_recipe_backward)(run, out);
}

/* What it and its emulation have alike. */
#define OF_BOTH                                                                                                        \
    .backward = true, .kernels = cla_backward_kernels, .declines = true, .largest_d = 256, .adopt = adopt,             \
    .step_down = step_down, .local_bytes = cla_backward_matrix_local_bytes,                                            \
    .private_bytes = cla_backward_matrix_private_bytes, .build_options = cla_matrix_build_options, .streams = streams, \
    .recipe = recipe, .define = define

const struct cla_skeleton cla_backward_matrix = {
    .name = matrix_name,
    .files = cla_nvidia_mma_files[CLA_UNIT_BACKWARD],
    .prefers = prefers,
    .choose = choose,
    .knobs = knobs,
    OF_BOTH,
};

const struct cla_skeleton cla_backward_matrix_emulated = {
    .name = emulated_name,
    .files = cla_emulated_files[CLA_UNIT_BACKWARD],
    .emulated = true,
    .prefers = cla_matrix_emulation_preferred,
    .choose = choose_emulated,
    .knobs = emulated_knobs,
    OF_BOTH,
};
