/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The planner's side of cl/forward_matrix.cl, over NVIDIA's tensor cores and over the emulation: what a configuration
 * costs, and which one to take. The figures are in tests/data/measured/h200-forward-matrix-notes.md. */
#include "plan/skeletons/forward_matrix.h"
#include "plan/checked.h"
#include "plan/packing.h"
#include "plan/planner.h"
#include "plan/problem.h"
#include "plan/recipe.h"
#include "plan/sizes.h"
#include "plan/types.h"
#include <stddef.h>

enum {
    MOST_ROW_TILES = 4,  /* that the kernel takes; planned are 1 and 2 */
    MOST_SHARERS = 16,   /* likewise; planned are as plan/sizes.h says */
    MOST_REGISTERS = 256 /* of an item, as they are dealt out */
};

static const char matrix_name[] = CLA_FORWARD_MATRIX, emulated_name[] = "forward_matrix_emulated";

static const char *name_of(const struct cla_config *config)
{
    return config->unit->devices ? matrix_name : emulated_name;
}

static int joins(const struct cla_config *config)
{
    return config->matrix.streams ? config->matrix.sharers : 0;
}

static int held(const struct cla_config *config)
{
    return cla_stream_sizes.unit_registers / (config->matrix.registers ? config->matrix.registers : MOST_REGISTERS);
}

static bool take_forced_rows(const struct clattn_problem *problem, struct cla_config *config)
{
    const int sub_groups = problem->work_group_size / config->lanes;
    if (problem->work_group_size % config->lanes)
        return false;
    if (config->matrix.streams)
        return !sub_groups || sub_groups <= MOST_SHARERS;
    if (problem->b_r % CLA_PIECE)
        return false;
    if (problem->b_r)
        config->b_r = problem->b_r;
    else if (sub_groups)
        config->b_r = CLA_PIECE * config->matrix.row_tiles * sub_groups;
    if (sub_groups)
        config->matrix.row_tiles = config->b_r / CLA_PIECE / sub_groups;
    else
        while (config->b_r / CLA_PIECE % config->matrix.row_tiles)
            config->matrix.row_tiles--;
    return config->matrix.row_tiles >= 1 && config->matrix.row_tiles <= MOST_ROW_TILES &&
           (!sub_groups || cla_forward_matrix_items(config) == problem->work_group_size) &&
           config->b_r % (CLA_PIECE * config->matrix.row_tiles) == 0;
}

static bool take_forced_keys(const struct clattn_problem *problem, struct cla_config *config)
{
    if (problem->b_c % CLA_PIECE)
        return false;
    if (problem->b_c)
        config->b_c = problem->b_c;
    cla_forward_matrix_hold_whole_keys(config);
    return true;
}

/* Half, or what whole pieces come to: a mask's blocks of 48 or 80 have left odd numbers of them. */
static bool halve_keys(const struct clattn_problem *problem, struct cla_config *config)
{
    if (problem->b_c || config->b_c <= CLA_PIECE)
        return false;
    config->b_c = config->b_c / CLA_PIECE / 2 * CLA_PIECE;
    cla_forward_matrix_hold_whole_keys(config);
    return true;
}

/* As many sub-groups as were forced must stay, so that each gives up a row tile; else there are fewer of them. */
static bool halve_rows(const struct clattn_problem *problem, struct cla_config *config)
{
    const int row_tiles = config->matrix.row_tiles, pieces = config->b_r / CLA_PIECE;
    if (problem->b_r || pieces <= 1 || (problem->work_group_size && row_tiles == 1))
        return false;
    config->matrix.row_tiles = problem->work_group_size ? row_tiles / 2 : (int)cla_smaller(row_tiles, pieces / 2);
    const int sub_groups = problem->work_group_size ? pieces / row_tiles : pieces / 2 / config->matrix.row_tiles;
    config->b_r = sub_groups * config->matrix.row_tiles * CLA_PIECE;
    return true;
}

bool cla_forward_matrix_hides_waits(const struct clattn_capabilities *capabilities,
                                    const struct clattn_problem *problem, const struct cla_config *config)
{
    return cla_matrix_hides_waits(capabilities, config, cla_forward_matrix_local_bytes(problem, config),
                                  cla_forward_matrix_items(config) / config->lanes);
}

/* Fewer keys, where a compute unit then holds work-groups enough. */
static void make_room(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                      struct cla_config *config)
{
    struct cla_config fewer = *config;
    while (!cla_forward_matrix_hides_waits(capabilities, problem, &fewer))
        if (!halve_keys(problem, &fewer))
            return;
    *config = fewer;
}

/* Keys before rows: each row that shares a tile saves reading it once more. */
static bool fit(const struct cla_matrix_limits *limits, const struct clattn_problem *problem, struct cla_config *config)
{
    while (cla_forward_matrix_items(config) > limits->items)
        if (!halve_rows(problem, config))
            return false;
    while (cla_forward_matrix_local_bytes(problem, config) > limits->local_bytes)
        if (!halve_keys(problem, config) && !halve_rows(problem, config))
            return false;
    config->work_group_size = cla_forward_matrix_items(config);
    return true;
}

static bool find(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                 struct cla_config *config)
{
    const struct cla_matrix_limits limits = cla_matrix_limits_of(capabilities);
    cla_forward_matrix_wish(capabilities, problem, config);
    if (!take_forced_rows(problem, config) || !take_forced_keys(problem, config))
        return false;
    config->matrix.streams = config->matrix.streams && cla_forward_matrix_may_stream(problem, config);
    if (config->b_r % CLA_PIECE && !config->matrix.streams)
        return false;
    if (!fit(&limits, problem, config))
        return false;
    make_room(capabilities, problem, config);
    return true;
}

/* For 16 x 16 scores. An operand of K or V serves each row tile; one of Q, unless it stays in registers, a slab. What
 * the sub-groups bring to local memory serves all of a block's rows. */
static struct cla_matrix_work work_of(const struct clattn_problem *problem, const struct cla_config *config)
{
    const double d = cla_pieces(problem->d), d_v = cla_pieces(problem->d_v), rows = config->matrix.row_tiles;
    const double slabs = (double)CLA_PIECE / config->matrix.keys;
    const double operands = (d + d_v) / rows + (config->matrix.q_registers ? 0 : d * slabs);
    const double chunks = (d + d_v) * 2 * CLA_PIECE * CLA_PIECE / (config->b_r * cla_matrix_lanes(config));
    return (struct cla_matrix_work){.products = d + d_v,
                                    .weights = 1,
                                    .words = operands * cla_matrix_operand_words(config) + 4 * chunks,
                                    .chunks = chunks,
                                    .slabs = config->matrix.stale_max ? 0 : slabs,
                                    .stale_slabs = config->matrix.stale_max ? slabs : 0,
                                    .tiles = CLA_PIECE / (rows * config->b_c),
                                    .slab_waits = slabs / rows,
                                    .chained = d * slabs / rows};
}

double cla_forward_matrix_estimate(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                                   const struct cla_config *config)
{
    const struct cla_matrix_work work = work_of(problem, config);
    return cla_matrix_cost(capabilities, config, &work, (int)(cla_forward_matrix_private_bytes(problem, config) / 4),
                           cla_forward_matrix_local_bytes(problem, config)) *
           cla_matrix_excess(problem, config->b_r, config->b_c);
}

/* How many sub-groups may share the keys of a block of the rows that are forced; 0: none may. */
static int most_sharers(const struct cla_matrix_limits *limits, const struct clattn_problem *problem,
                        const struct cla_config *config)
{
    struct cla_config one = *config;
    one.b_r = problem->b_r;
    one.b_c = one.matrix.keys = problem->b_c ? problem->b_c : CLA_PIECE;
    one.matrix.row_tiles = one.matrix.streams = 1;
    for (one.matrix.sharers = MOST_SHARERS; one.matrix.sharers; one.matrix.sharers--)
        if (cla_forward_matrix_may_stream(problem, &one) && cla_forward_matrix_items(&one) <= limits->items &&
            cla_forward_matrix_local_bytes(problem, &one) <= limits->local_bytes)
            break;
    return one.matrix.sharers;
}

#define STREAMED_PROBLEM "d is a multiple of 32 and d_v of 64, both up to 128, "

static clattn_status no_stream_fits(const struct clattn_capabilities *capabilities,
                                    const struct clattn_problem *problem, const struct cla_config *config,
                                    struct cla_error *error)
{
    const struct cla_matrix_limits limits = cla_matrix_limits_of(capabilities);
    const int most = most_sharers(&limits, problem, config), lanes = config->lanes;
    if (most)
        return cla_fail(
            error, CLATTN_NOTHING_FITS,
            "problem.work_group_size is %d: with problem.b_r %d sub-groups of %d work-items share a block's "
            "keys in %s, from 1 to %d of them with d = %d, d_v = %d here: a multiple of %d up to %d",
            problem->work_group_size, problem->b_r, lanes, name_of(config), most, problem->d, problem->d_v, lanes,
            most * lanes);
    return cla_fail(error, CLATTN_NOTHING_FITS,
                    "problem.b_r is %d, problem.b_c %d, problem.work_group_size %d (0 is planned): %s has blocks of %d "
                    "rows%s where " STREAMED_PROBLEM "but they are %d and %d, b_c is 16 or 32, elements have 16 bits "
                    "and there is no dropout%s",
                    problem->b_r, problem->b_c, problem->work_group_size, name_of(config), problem->b_r,
                    problem->b_r == CLA_PIECE ? " that sub-groups share" : "", problem->d, problem->d_v,
                    problem->b_r == CLA_PIECE ? "; elsewhere work_group_size is that of one sub-group" : "");
}

static clattn_status nothing_fits(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                                  const struct cla_config *config, struct cla_error *error)
{
    const struct cla_matrix_limits limits = cla_matrix_limits_of(capabilities);
    const int lanes = config->lanes;
    if (cla_forward_matrix_forces_streams(problem, config))
        return no_stream_fits(capabilities, problem, config, error);
    if (problem->b_r || problem->b_c || problem->work_group_size)
        return cla_fail(
            error, CLATTN_NOTHING_FITS,
            "the forced sizes (problem.b_r %d, b_c %d, work_group_size %d; 0 is planned) do not fit %s "
            "with d = %d, d_v = %d, %llu bytes of local memory and %lld work-items: b_r and b_c are "
            "multiples of 16 (b_r 8 for few rows), and work_group_size is b_r / 16 * %d, or a half, third or quarter "
            "of it",
            problem->b_r, problem->b_c, problem->work_group_size, name_of(config), problem->d, problem->d_v,
            (unsigned long long)limits.local_bytes, (long long)limits.items, lanes);
    return cla_fail(error, CLATTN_NOTHING_FITS,
                    "%s with d = %d, d_v = %d: not even a 16 x 16 block with %d work-items fits %llu bytes of local "
                    "memory and %lld work-items",
                    name_of(config), problem->d, problem->d_v, lanes, (unsigned long long)limits.local_bytes,
                    (long long)limits.items);
}

static void explain(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                    const struct cla_config *config, struct clattn_plan_info *info)
{
    const int row_tiles = config->matrix.row_tiles, keys = config->matrix.keys;
    cla_plan_step(
        info, "sub-groups", config->b_r, config->b_c,
        "on %s, %d sub-groups of %d item%s each own %d rows: an operand loaded from K or V serves %d product%s, "
        "and scores are held for %d keys at a time",
        config->unit->name, config->work_group_size / config->lanes, config->lanes, config->lanes == 1 ? "" : "s",
        cla_forward_matrix_piece_rows(config) * row_tiles, row_tiles, row_tiles == 1 ? "" : "s", keys);
    if (config->matrix.streams) {
        cla_plan_step(info, "streams", config->b_r, config->b_c,
                      "few rows: K and V come straight from device memory into operands, the next keys while these are "
                      "used, and no sub-group waits for another");
        return;
    }
    cla_plan_step(info, "local memory", config->b_r, config->b_c,
                  "Q %s, and K and V twice, so that a tile arrives while the one before is used: %llu of %llu bytes",
                  config->matrix.q_registers ? "passes through to registers" : "stays",
                  (unsigned long long)cla_forward_matrix_local_bytes(problem, config),
                  (unsigned long long)cla_matrix_limits_of(capabilities).local_bytes);
}

/* Whether it takes K and V as they lie. */
static clattn_status reads(const struct clattn_problem *problem, const struct cla_config *config,
                           struct cla_error *error)
{
    return config->matrix.streams ? CLATTN_SUCCESS : cla_types_check_plain(problem, name_of(config), error);
}

static clattn_status take(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                          struct cla_config *config, struct clattn_plan_info *info, struct cla_error *error)
{
    if (!find(capabilities, problem, config))
        return nothing_fits(capabilities, problem, config, error);
    /* A knob may still say streams=1. */
    const clattn_status status = problem->knobs ? CLATTN_SUCCESS : reads(problem, config, error);
    if (status)
        return status;
    info->estimate = cla_forward_matrix_estimate(capabilities, problem, config);
    explain(capabilities, problem, config, info);
    return CLATTN_SUCCESS;
}

/* Row tiles follow from b_r and work_group_size. */
#define KNOBS                                                                                                          \
    {"keys", offsetof(struct cla_config, matrix.keys), CLA_PIECE, 256, {32, 64, 128}, 3},                              \
        {"q_registers", offsetof(struct cla_config, matrix.q_registers), 0, 1, {0, 1}, 2},                             \
        {"stale_max", offsetof(struct cla_config, matrix.stale_max), 0, 1, {0, 1}, 2},                                 \
        {"streams", offsetof(struct cla_config, matrix.streams), 0, 1, {0}, 0},                                        \
        {"registers", offsetof(struct cla_config, matrix.registers), 0, 255, {0}, 0},                                  \
    {                                                                                                                  \
        "sharers", offsetof(struct cla_config, matrix.sharers), 1, MOST_SHARERS, {1, 2, 4, 8, 12, 16}, 6               \
    }
static const struct cla_knob knobs[] = {KNOBS, {NULL, 0, 0, 0, {0}, 0}};

/* And which emulation. */
static const struct cla_knob emulated_knobs[] = {KNOBS, CLA_EMULATION_KNOBS, {NULL, 0, 0, 0, {0}, 0}};

/* An emulation that is one sub-group has all rows. */
static clattn_status give_all_rows(const struct clattn_problem *problem, struct cla_config *config,
                                   struct cla_error *error)
{
    config->matrix.row_tiles = config->b_r / CLA_PIECE;
    if (config->matrix.row_tiles <= MOST_ROW_TILES)
        return CLATTN_SUCCESS;
    return cla_fail(error, CLATTN_NOTHING_FITS,
                    "b_r = %d: %s by problem.knobs \"%s\" runs on the emulation %s, which is one sub-group: b_r is "
                    "up to %d",
                    config->b_r, name_of(config), problem->knobs, config->unit->name, CLA_PIECE * MOST_ROW_TILES);
}

/* Options that limit an item's registers, so that more sub-groups fit a compute unit of NVIDIA's. NULL: there is none
 * for so many. */
static const char *register_option(const struct cla_config *config)
{
    static const struct {
        int registers;
        const char *option;
    } limits[] = {{0, ""}, {128, " -cl-nv-maxrregcount=128"}, {168, " -cl-nv-maxrregcount=168"}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i].registers == config->matrix.registers)
            return limits[i].option;
    return NULL;
}

static const char *build_options(const struct clattn_capabilities *capabilities, const struct cla_config *config)
{
    return config->matrix.registers ? register_option(config) : cla_matrix_build_options(capabilities, config);
}

static clattn_status check_streams(const struct clattn_problem *problem, const struct cla_config *config,
                                   struct cla_error *error)
{
    if (config->matrix.streams && !cla_forward_matrix_may_stream(problem, config))
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "problem.knobs \"%s\" do not fit %s with d = %d, d_v = %d, b_r = %d, b_c = %d: with "
                        "streams=1 " STREAMED_PROBLEM "b_r is 8 or 16, keys and b_c are both 16 or both 32, there is "
                        "no dropout, and sharers is 1 where a state is added to",
                        problem->knobs ? problem->knobs : "", name_of(config), problem->d, problem->d_v, config->b_r,
                        config->b_c);
    if (!config->matrix.streams && (config->matrix.sharers != 1 || config->b_r % CLA_PIECE))
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "problem.knobs \"%s\" do not fit %s with b_r = %d: unless streams is 1, sharers is, and b_r a "
                        "multiple of 16",
                        problem->knobs ? problem->knobs : "", name_of(config), config->b_r);
    if (config->matrix.registers &&
        (!config->matrix.streams || config->unit->lanes != CLA_NVIDIA_LANES || !register_option(config)))
        return cla_fail(
            error, CLATTN_NOTHING_FITS,
            "problem.knobs \"%s\" do not fit %s: registers is 0, or, with streams=1 on NVIDIA's devices, 128 "
            "or 168",
            problem->knobs ? problem->knobs : "", name_of(config));
    return CLATTN_SUCCESS;
}

static clattn_status adopt(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                           struct cla_config *config, struct clattn_plan_info *info, struct cla_error *error)
{
    clattn_status status = cla_matrix_take_emulation(problem, name_of(config), config, error);
    if (!status && config->unit->one_sub_group)
        status = give_all_rows(problem, config, error);
    if (status)
        return status;
    if (config->matrix.keys % CLA_PIECE || config->b_c % config->matrix.keys)
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "problem.knobs \"%s\" do not fit %s with b_c = %d: keys is a multiple of 16 that divides b_c",
                        problem->knobs ? problem->knobs : "", name_of(config), config->b_c);
    const clattn_status fits = check_streams(problem, config, error);
    if (fits)
        return fits;
    config->work_group_size = cla_forward_matrix_items(config);
    if (problem->work_group_size && config->work_group_size != problem->work_group_size)
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "problem.work_group_size is %d: problem.knobs \"%s\" of %s come to %d work-items with b_r = %d",
                        problem->work_group_size, problem->knobs ? problem->knobs : "", name_of(config),
                        config->work_group_size, config->b_r);
    info->estimate = cla_forward_matrix_estimate(capabilities, problem, config);
    explain(capabilities, problem, config, info);
    return reads(problem, config, error);
}

/* Few rows read K and V in pages, and in formats, which become elements of the problem's type in registers: the problem
 * as it would be without these. */
static struct clattn_problem plain_of(const struct clattn_problem *problem)
{
    struct clattn_problem plain = *problem;
    plain.features &= ~(unsigned)CLATTN_PAGES;
    if (cla_type_of(problem, CLA_K) > CLATTN_BF16)
        plain.k_type = CLATTN_AS_DTYPE;
    if (cla_type_of(problem, CLA_V) > CLATTN_BF16)
        plain.v_type = CLATTN_AS_DTYPE;
    return plain;
}

static clattn_status choose(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                            struct cla_config *config, struct clattn_plan_info *info, struct cla_error *error)
{
    const struct clattn_problem plain = plain_of(problem);
    const clattn_status status = cla_matrix_check(capabilities, &plain, matrix_name, error);
    if (status)
        return status;
    *config = cla_matrix_config(capabilities, problem->dtype);
    return take(capabilities, problem, config, info, error);
}

/* Of 16 bits it is the fastest wherever it runs: 7 times forward_simt at d = 256, more below. Sizes that a caller
 * forces and it cannot take leave the problem to the others. */
static bool prefers(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem)
{
    struct cla_error unused;
    const struct clattn_problem plain = plain_of(problem);
    if (!cla_matrix_is_trusted(capabilities, problem->dtype) ||
        cla_matrix_check(capabilities, &plain, matrix_name, &unused) ||
        cla_widest(problem) > cla_matrix_planned_d(cla_matrix_unit_of(capabilities, problem->dtype), problem))
        return false;
    const bool packs = cla_plans_to_pack(&cla_forward_matrix, problem);
    const struct clattn_problem planned = packs ? cla_problem_packed(problem) : *problem;
    struct cla_config config = cla_matrix_config(capabilities, problem->dtype);
    return find(capabilities, &planned, &config) && reads(&planned, &config, &unused) == CLATTN_SUCCESS &&
           cla_forward_matrix_hides_waits(capabilities, &planned, &config);
}

static clattn_status choose_emulated(const struct clattn_capabilities *capabilities,
                                     const struct clattn_problem *problem, struct cla_config *config,
                                     struct clattn_plan_info *info, struct cla_error *error)
{
    const struct clattn_problem plain = plain_of(problem);
    const clattn_status status = cla_matrix_check_problem(&plain, emulated_name, error);
    (void)capabilities;
    *config = (struct cla_config){.unit = &cla_matrix_units[CLA_EMULATED], .lanes = CLA_EMULATED_LANES};
    return status ? status : take(capabilities, problem, config, info, error);
}

/* The device refused: half the keys, which takes registers as well as local memory, then half the rows. */
static bool step_down(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                      struct cla_config *config)
{
    (void)capabilities;
    const bool fewer = halve_keys(problem, config) || halve_rows(problem, config);
    config->work_group_size = cla_forward_matrix_items(config);
    return fewer;
}

static void define(const struct clattn_problem *problem, const struct cla_config *config, struct cla_text *text)
{
    cla_matrix_unit_define(config->unit, config->level, text);
    if (cla_forward_matrix_stores_words(problem, config))
        cla_text_printf(text, "#define CLATTN_KEEPS_PHILOX 2\n");
    const bool keeps_scores = cla_widest(problem) > cla_stale_max_sizes.formed_again_d && !problem->mask_mod;
    const struct cla_define defines[] = {{"KEEPS_SCORES", keeps_scores},
                                         {"KEYS", config->matrix.keys},
                                         {"Q_REGISTERS", config->matrix.q_registers},
                                         {"ROW_TILES", config->matrix.row_tiles},
                                         {"SET_BYTES", (int)cla_together_sizes.forward_matrix_bytes},
                                         {"STALE_MAX", config->matrix.stale_max},
                                         {"STREAMS", config->matrix.streams}};
    const struct cla_define sharers = {"SHARERS", config->matrix.sharers},
                            registers = {"REGISTERS", config->matrix.registers};
    cla_text_define(text, defines, sizeof defines / sizeof *defines);
    if (config->matrix.streams)
        cla_text_define(text, &sharers, 1);
    if (config->matrix.registers)
        cla_text_define(text, &registers, 1);
}

static void recipe(const struct cla_run *run, struct cla_recipe *out)
{
    (joins(run->config) ? cla_recipe_joined_forward : cla_recipe_forward)(run, out);
}

/* What it and its emulation have alike. */
#define OF_BOTH                                                                                                        \
    .packs = true, .kernels = cla_forward_kernels, .declines = true, .largest_d = 256, .adopt = adopt,                 \
    .step_down = step_down, .local_bytes = cla_forward_matrix_local_bytes,                                             \
    .private_bytes = cla_forward_matrix_private_bytes, .joins = joins, .held = held, .build_options = build_options,   \
    .recipe = recipe, .define = define

const struct cla_skeleton cla_forward_matrix = {
    .name = matrix_name,
    .files = cla_nvidia_mma_files[CLA_UNIT_FORWARD],
    .prefers = prefers,
    .choose = choose,
    .knobs = knobs,
    OF_BOTH,
};

const struct cla_skeleton cla_forward_matrix_emulated = {
    .name = emulated_name,
    .files = cla_emulated_files[CLA_UNIT_FORWARD],
    .emulated = true,
    .prefers = cla_matrix_emulation_preferred,
    .choose = choose_emulated,
    .knobs = emulated_knobs,
    OF_BOTH,
};
