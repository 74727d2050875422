/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The planner's side of cl/backward_fused.cl, over NVIDIA's tensor cores and over the emulation, and of those kernels
 * of cl/backward_matrix.cl that end its work. */
#include "plan/matrix_units.h"
#include "plan/planner.h"
#include "plan/problem.h"
#include "plan/sizes.h"
#include "plan/skeletons/backward_sums.h"
#include <stddef.h>

enum {
    NARROW = 64,           /* columns of a tile, */
    WIDE = 128,            /* and where a head dimension is larger */
    KEYS = 128,            /* of a work-group, */
    FEW_KEYS = 64,         /* and where a mask's blocks are shorter */
    CAPABILITY = 80,       /* the first with what the kernel takes, times 10 */
    ENDING_GROUPS = 4,     /* sub-groups of a work-group of clattn_dq, */
    AGAIN_GROUPS = 8,      /* and of clattn_dk_dv_again */
    RESERVED_BYTES = 1024, /* of local memory by the driver, for each work-group */
    ALIGNING_BYTES = 256   /* the emulation's, to align its tiles by itself (FUSED_SPARE) */
};

static const char fused_name[] = "backward_fused", emulated_name[] = "backward_fused_emulated";

static const char *name_of(const struct cla_config *config)
{
    return config->level ? fused_name : emulated_name;
}

static int sub_groups(const struct cla_config *config)
{
    return config->work_group_size / config->lanes;
}

static int columns(const struct clattn_problem *problem)
{
    return cla_widest(problem) > NARROW ? WIDE : NARROW;
}

static int ds_places(const struct clattn_problem *problem, const struct cla_config *config)
{
    return columns(problem) == WIDE && config->b_c == FEW_KEYS ? 1 : 2;
}

/* To the byte what the kernel declares (FUSED_LOCAL_BYTES): K and V; places for Q and dO with each row's statistics
 * and, for dropout, a bit of each pair; dS twice, and where warps share keys P as well; of few keys dS once where there
 * would else be no room for a second work-group. */
static uint64_t local_bytes(const struct clattn_problem *problem, const struct cla_config *config)
{
    const int64_t row = 2 * (int64_t)columns(problem);
    const int64_t stage = config->b_r * (2 * row + 8 + (config->backward_fused.dropout_once ? config->b_c / 8 : 0));
    const int64_t weights = 2 * (int64_t)config->b_r * config->b_c;
    const int places = ds_places(problem, config);
    return (uint64_t)(2 * config->b_c * row +
                      (config->backward_fused.own_keys ? 2 * stage + places * weights : 3 * stage + 4 * weights) +
                      (config->level ? 0 : ALIGNING_BYTES));
}

/* Gradients, scores and dP, addresses. */
static uint64_t private_bytes(const struct clattn_problem *problem, const struct cla_config *config)
{
    const int d = cla_pieces(problem->d), d_v = cla_pieces(problem->d_v);
    const int keys = config->b_c / sub_groups(config) / CLA_PIECE;
    const int gradients = config->backward_fused.own_keys ? keys * (d + d_v) : 16;
    return 4 * (uint64_t)(CLA_PIECE * CLA_PIECE / config->lanes * (gradients + 8) + 48);
}

static bool fits(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                 const struct cla_config *config)
{
    return local_bytes(problem, config) <= cla_matrix_limits_of(capabilities).local_bytes;
}

/* The keys of each sub-group that has keys of its own; where sub-groups share keys there are as many. */
static int keys_each(const struct clattn_problem *problem)
{
    return columns(problem) == WIDE ? CLA_PIECE : 2 * CLA_PIECE;
}

/* So many keys, and what follows from that. */
static void set_keys(const struct clattn_problem *problem, struct cla_config *config, int keys)
{
    config->b_c = keys;
    config->work_group_size = keys / keys_each(problem) * config->lanes;
    config->backward_fused.ending.side[CLA_DK_DV].split = KEYS / keys; /* that AGAIN_GROUPS have work */
}

/* Tiles of KEYS keys are met for the sake of a block of a mask that is shorter: three of four, where half of 64 x 64
 * are hidden at random. Where few blocks are hidden, few tiles are met in vain. */
static bool has_short_blocks(const struct clattn_problem *problem)
{
    return problem->features & CLATTN_BLOCK_MASK && problem->block_kv % KEYS != 0 &&
           !cla_problem_is_mostly_seen(problem);
}

/* Whether a compute unit holds two of its work-groups: one of few keys would leave half the sub-groups that there were.
 * The emulation is to do as the largest devices do. */
static bool two_fit(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                    const struct cla_config *config)
{
    return !config->level || 2 * (local_bytes(problem, config) + CLA_ADDED_BYTES + RESERVED_BYTES) <=
                                 cla_most_compiled_local_bytes(capabilities) + RESERVED_BYTES;
}

/* The shape that takes less local memory; and where it is still too much, as dropout takes none. */
static void take_less(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                      struct cla_config *config)
{
    config->backward_fused.own_keys = 1;
    config->backward_fused.dropout_once = (problem->features & CLATTN_DROPOUT) != 0;
    if (!fits(capabilities, problem, config))
        config->backward_fused.dropout_once = 0;
}

/* The sizes that were the fastest (plan/sizes.h), of so many keys. A level of 0 is the emulation's. */
static struct cla_config sizes(const struct clattn_problem *problem, int level, int keys)
{
    const struct cla_size_wish wish = {.b_c = keys};
    struct cla_config config = cla_size_find(fused_name, CLA_ANY_FAMILY, columns(problem), &wish)->config;
    config.lanes = level ? CLA_NVIDIA_LANES : CLA_EMULATED_LANES;
    config.level = level;
    if (!(problem->features & CLATTN_DROPOUT))
        config.backward_fused.dropout_once = 0;
    set_keys(problem, &config, keys);
    return config;
}

/* Few keys where they are asked for, or a work-group of as many sub-groups; and for short blocks. */
static bool takes_few(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                      const struct cla_config *few)
{
    if (problem->b_c)
        return problem->b_c == few->b_c;
    if (problem->work_group_size)
        return problem->work_group_size == few->work_group_size;
    return has_short_blocks(problem) && fits(capabilities, problem, few) && two_fit(capabilities, problem, few);
}

static struct cla_config config_of(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                                   int level)
{
    struct cla_config config = sizes(problem, level, FEW_KEYS);
    if (!takes_few(capabilities, problem, &config))
        config = sizes(problem, level, KEYS);
    if (!fits(capabilities, problem, &config))
        take_less(capabilities, problem, &config);
    return config;
}

static bool suits(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                  const struct cla_config *config)
{
    const struct cla_matrix_limits limits = cla_matrix_limits_of(capabilities);
    return (!problem->b_r || problem->b_r == config->b_r) && (!problem->b_c || problem->b_c == config->b_c) &&
           (!problem->work_group_size || problem->work_group_size == config->work_group_size) &&
           (config->backward_fused.own_keys || (columns(problem) == WIDE && config->b_c == KEYS)) &&
           (!config->backward_fused.dropout_once ||
            (config->backward_fused.own_keys && (problem->features & CLATTN_DROPOUT))) &&
           limits.items >= AGAIN_GROUPS * config->lanes && fits(capabilities, problem, config);
}

/* For 16 x 16 pairs, in products by backward_matrix's measure. */
static double estimate(const struct clattn_problem *problem, const struct cla_config *config)
{
    const double d = cla_pieces(problem->d), d_v = cla_pieces(problem->d_v);
    return 3 * d + 2 * d_v + 8 + 16 * (d + d_v) * (1.0 / config->b_r + 1.0 / config->b_c);
}

static void explain(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                    const struct cla_config *config, struct clattn_plan_info *info)
{
    info->estimate = estimate(problem, config);
    info->sums = 1;
    cla_plan_step(
        info, "sub-groups", config->b_r, config->b_c,
        "%d sub-groups %s, whose dK and dV they hold while %d rows of Q and dO pass at a time; dQ is added to sums "
        "in device memory, in any order%s",
        sub_groups(config), config->backward_fused.own_keys ? "have keys of their own" : "share all keys", config->b_r,
        config->b_c == FEW_KEYS && !problem->b_c && has_short_blocks(problem)
            ? "; few keys, as blocks of the mask are short"
            : "");
    cla_plan_step(info, "local memory", config->b_r, config->b_c,
                  "K and V once, Q and dO in %d places, %s: %llu of %llu bytes",
                  config->backward_fused.own_keys ? 2 : 3,
                  !config->backward_fused.own_keys  ? "P and dS in 2"
                  : ds_places(problem, config) == 1 ? "dS in 1"
                                                    : "dS in 2",
                  (unsigned long long)local_bytes(problem, config),
                  (unsigned long long)cla_matrix_limits_of(capabilities).local_bytes);
}

static clattn_status check_problem(const struct clattn_problem *problem, const char *name, struct cla_error *error)
{
    if (cla_problem_accumulates(problem))
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "problem.pass is CLATTN_BACKWARD_ACCUMULATE: %s has no such pass: take backward_matrix", name);
    if (!problem->unordered)
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "problem.unordered is 0: %s adds up dQ in any order: set it to 1, or take backward_matrix",
                        name);
    if (cla_widest(problem) > WIDE)
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "problem.%s is %d: %s takes head dimensions from 1 to %d: take backward_matrix",
                        problem->d > WIDE ? "d" : "d_v", cla_widest(problem), name, WIDE);
    return CLATTN_SUCCESS;
}

static clattn_status check_nvidia(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                                  struct cla_error *error)
{
    clattn_status status = cla_matrix_check_16_bits(problem, fused_name, error);
    if (!status)
        status = cla_matrix_check(capabilities, problem, fused_name, error);
    if (!status)
        status = check_problem(problem, fused_name, error);
    if (!status && cla_matrix_capability(capabilities) < CAPABILITY)
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "problem.skeleton is \"%s\": it runs on NVIDIA devices from 8.0 on, and the device %s has "
                        "compute capability %d.%d: take backward_matrix",
                        fused_name, capabilities->device_name, cla_matrix_capability(capabilities) / 10,
                        cla_matrix_capability(capabilities) % 10);
    return status;
}

/* Keys that no one asked for give way to a knob: shared keys are many. */
static void settle(const struct clattn_problem *problem, struct cla_config *config)
{
    if (!config->backward_fused.own_keys && !problem->b_c && !problem->work_group_size)
        set_keys(problem, config, KEYS);
}

static clattn_status adopt(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                           struct cla_config *config, struct clattn_plan_info *info, struct cla_error *error)
{
    settle(problem, config);
    if (!suits(capabilities, problem, config))
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "the forced sizes (problem.b_r %d, b_c %d, work_group_size %d, knobs \"%s\"; 0 is planned) do "
                        "not fit %s with d = %d, d_v = %d: b_r is %d, b_c %d or %d, work_group_size %d for %d keys, "
                        "own_keys 1 up to %d columns and with b_c %d, dropout_once 0 without dropout or own keys, and "
                        "tiles of %llu bytes have to fit %llu of local memory",
                        problem->b_r, problem->b_c, problem->work_group_size, problem->knobs ? problem->knobs : "",
                        name_of(config), problem->d, problem->d_v, config->b_r, FEW_KEYS, KEYS, config->work_group_size,
                        config->b_c, NARROW, FEW_KEYS, (unsigned long long)local_bytes(problem, config),
                        (unsigned long long)cla_matrix_limits_of(capabilities).local_bytes);
    explain(capabilities, problem, config, info);
    return CLATTN_SUCCESS;
}

static clattn_status choose_nvidia(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                                   struct cla_config *config, struct clattn_plan_info *info, struct cla_error *error)
{
    const clattn_status status = check_nvidia(capabilities, problem, error);
    *config = config_of(capabilities, problem, cla_matrix_capability(capabilities));
    return status ? status : adopt(capabilities, problem, config, info, error);
}

static bool prefers_nvidia(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem)
{
    struct cla_error unused;
    if (check_nvidia(capabilities, problem, &unused))
        return false;
    const struct cla_config config = config_of(capabilities, problem, cla_matrix_capability(capabilities));
    return suits(capabilities, problem, &config);
}

static clattn_status choose_emulated(const struct clattn_capabilities *capabilities,
                                     const struct clattn_problem *problem, struct cla_config *config,
                                     struct clattn_plan_info *info, struct cla_error *error)
{
    clattn_status status = cla_matrix_check_16_bits(problem, emulated_name, error);
    if (!status)
        status = check_problem(problem, emulated_name, error);
    *config = config_of(capabilities, problem, 0);
    return status ? status : adopt(capabilities, problem, config, info, error);
}

static const struct cla_knob knobs[] = {
    {"dropout_once", offsetof(struct cla_config, backward_fused.dropout_once), 0, 1, {0, 1}, 2},
    {"own_keys", offsetof(struct cla_config, backward_fused.own_keys), 0, 1, {0, 1}, 2},
    {NULL, 0, 0, 0, {0}, 0}};

static void define(const struct clattn_problem *problem, const struct cla_config *config, struct cla_text *text)
{
    const struct cla_define defines[] = {
        {"COLUMNS", columns(problem)},
        {"D_PIECES", cla_pieces(problem->d)},
        {"DROPOUT_ONCE", config->backward_fused.dropout_once},
        {"OWN_KEYS", config->backward_fused.own_keys},
        {"V_PIECES", cla_pieces(problem->d_v)},
    };
    cla_text_define(text, defines, sizeof defines / sizeof *defines);
    cla_backward_matrix_define(&cla_matrix_units[config->level ? CLA_NVIDIA_MMA : CLA_EMULATED], config->level,
                               &config->backward_fused.ending, CLA_SUMMED_BY_FUSED, 1, text);
}

static const char *const files[] = {"unit/nvidia_fused.clh", "backward_fused.cl", NULL};
static const char *const emulated_files[] = {"unit/emulated_fused.clh", "backward_fused.cl", NULL};

#define KERNELS(ending_files, lanes)                                                                                   \
    {                                                                                                                  \
        [CLA_DQ] = {"clattn_dq", ending_files, ENDING_GROUPS * (lanes)},                                               \
        [CLA_DK_DV] = {.entry = "clattn_dk_dv", .any_order = true},                                                    \
        [CLA_D_BIAS] = {"clattn_d_bias", ending_files, ENDING_GROUPS * (lanes)},                                       \
        [CLA_DK_DV_AGAIN] = {"clattn_dk_dv_again", ending_files, AGAIN_GROUPS * (lanes)},                              \
    }
static const struct cla_kernel_form kernels[CLA_MOST_KERNELS + 1] =
    KERNELS(cla_nvidia_mma_files[CLA_UNIT_BACKWARD], CLA_NVIDIA_LANES);
static const struct cla_kernel_form emulated_kernels[CLA_MOST_KERNELS + 1] =
    KERNELS(cla_emulated_files[CLA_UNIT_BACKWARD], CLA_EMULATED_LANES);

static void recipe(const struct cla_run *run, struct cla_recipe *out)
{
    const struct cla_sum_blocks blocks = cla_sum_blocks_of(run, run->config->b_r, out);
    cla_sum_flags(&blocks, out);
    cla_sum_sums(&blocks, cla_sum_floats(run->problem), 1, true, out);
    cla_sum_begin(run, 1, 0, out);
    cla_sum_end(run, out);
}

/* No kernel of the emulations' waits for others: but this one has a word for it, so that what is made of such a word is
 * tested. */
static void emulated_recipe(const struct cla_run *run, struct cla_recipe *out)
{
    recipe(run, out);
    out->stuck_region = out->region_count;
    cla_recipe_region(out, "given up", 1, sizeof(uint32_t), true, CLA_UNTOLD);
}

/* The device refused: the shape that takes less local memory. */
static bool step_down(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                      struct cla_config *config)
{
    if (config->backward_fused.own_keys)
        return false;
    take_less(capabilities, problem, config);
    return suits(capabilities, problem, config);
}

/* What it and its emulation have alike. */
#define OF_BOTH                                                                                                        \
    .backward = true, .declines = true, .no_chunks = true, .largest_d = 128, .tile_element_bytes = 2, .knobs = knobs,  \
    .adopt = adopt, .step_down = step_down, .local_bytes = local_bytes, .private_bytes = private_bytes,                \
    .define = define

const struct cla_skeleton cla_backward_fused = {
    .name = fused_name,
    .files = files,
    .kernels = kernels,
    .prefers = prefers_nvidia,
    .choose = choose_nvidia,
    .recipe = recipe,
    OF_BOTH,
};

const struct cla_skeleton cla_backward_fused_emulated = {
    .name = emulated_name,
    .files = emulated_files,
    .kernels = emulated_kernels,
    .emulated = true,
    .prefers = cla_matrix_emulation_preferred,
    .choose = choose_emulated,
    .build_options = cla_matrix_build_options,
    .recipe = emulated_recipe,
    OF_BOTH,
};
