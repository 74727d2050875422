/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The planner's side of cl/backward_fused.cl, and of those kernels of cl/backward_matrix.cl that end its work. */
#include "plan/matrix_units.h"
#include "plan/planner.h"
#include "plan/problem.h"
#include <stddef.h>

enum {
    NARROW = 64, /* columns of a tile, */
    WIDE = 128,  /* and where a head dimension is larger */
    ROWS = 64,   /* that pass at a time */
    KEYS = 128,
    CAPABILITY = 80,    /* the first with what the kernel takes, times 10 */
    ENDING_ITEMS = 128, /* of a work-group of clattn_dq, */
    AGAIN_ITEMS = 256   /* and of clattn_dk_dv_again */
};

static const char name[] = "backward_fused";

static int columns(const struct clattn_problem *problem)
{
    return cla_widest(problem) > NARROW ? WIDE : NARROW;
}

/* To the byte what the kernel declares (FUSED_LOCAL_BYTES): K and V; places for Q and dO with each row's statistics; dS
 * twice, and where warps share keys P as well. */
static uint64_t local_bytes(const struct clattn_problem *problem, const struct cla_config *config)
{
    const int64_t row = 2 * (int64_t)columns(problem), stage = config->b_r * (2 * row + 8);
    const int64_t weights = 2 * (int64_t)config->b_r * config->b_c;
    return (uint64_t)(2 * config->b_c * row +
                      (config->backward_matrix.own_keys ? 2 * stage + 2 * weights : 3 * stage + 4 * weights));
}

/* Gradients, scores and dP, addresses. */
static uint64_t private_bytes(const struct clattn_problem *problem, const struct cla_config *config)
{
    const int d = cla_pieces(problem->d), d_v = cla_pieces(problem->d_v);
    const int keys = config->b_c / (config->work_group_size / CLA_NVIDIA_LANES) / CLA_PIECE;
    const int gradients = config->backward_matrix.own_keys ? keys * (d + d_v) : 16;
    return 4 * (uint64_t)(8 * (gradients + 8) + 48);
}

/* Sizes that were timed on an H200. */
static struct cla_config config_of(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem)
{
    const bool wide = columns(problem) == WIDE;
    struct cla_config config = {
        .b_r = ROWS,
        .b_c = KEYS,
        .work_group_size = wide ? 256 : 128,
        .backward_matrix = {.side = {{ROWS, 32, wide, 2, 1}, {32, 16, 0, 1, 1}},
                            .lanes = CLA_NVIDIA_LANES,
                            .compute_capability = cla_matrix_capability(capabilities),
                            .own_keys = !wide},
    };
    if (wide && local_bytes(problem, &config) > cla_matrix_limits_of(capabilities).local_bytes)
        config.backward_matrix.own_keys = 1;
    return config;
}

static bool suits(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                  const struct cla_config *config)
{
    const struct cla_matrix_limits limits = cla_matrix_limits_of(capabilities);
    return (!problem->b_r || problem->b_r == config->b_r) && (!problem->b_c || problem->b_c == config->b_c) &&
           (!problem->work_group_size || problem->work_group_size == config->work_group_size) &&
           (config->backward_matrix.own_keys || columns(problem) == WIDE) && limits.items >= AGAIN_ITEMS &&
           local_bytes(problem, config) <= limits.local_bytes;
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
    cla_plan_step(
        info, "sub-groups", config->b_r, config->b_c,
        "%d warps %s, whose dK and dV they hold while %d rows of Q and dO pass at a time; dQ is added to sums "
        "in device memory, in any order",
        config->work_group_size / CLA_NVIDIA_LANES,
        config->backward_matrix.own_keys ? "have keys of their own" : "share all keys", config->b_r);
    cla_plan_step(
        info, "local memory", config->b_r, config->b_c, "K and V once, Q and dO in %d places, %s: %llu of %llu bytes",
        config->backward_matrix.own_keys ? 2 : 3, config->backward_matrix.own_keys ? "dS in 2" : "P and dS in 2",
        (unsigned long long)local_bytes(problem, config),
        (unsigned long long)cla_matrix_limits_of(capabilities).local_bytes);
}

/* What changes scores, or their gradients, by more than hiding pairs would need registers that there are not. */
static clattn_status check_problem(const struct clattn_problem *problem, struct cla_error *error)
{
    const unsigned declined = CLATTN_SOFTCAP | CLATTN_ALIBI | CLATTN_BIAS | CLATTN_DROPOUT;
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
    if ((problem->features & declined) || problem->score_mod)
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "problem.features is %u: %s takes neither softcap, ALiBi, biases and dropout nor a score_mod: "
                        "take backward_matrix",
                        problem->features, name);
    return CLATTN_SUCCESS;
}

static clattn_status check(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                           struct cla_error *error)
{
    clattn_status status = cla_matrix_check_problem(problem, name, error);
    if (!status)
        status = cla_matrix_check_nvidia(capabilities, problem, name, error);
    if (!status)
        status = check_problem(problem, error);
    if (!status && cla_matrix_capability(capabilities) < CAPABILITY)
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "problem.skeleton is \"%s\": it runs on NVIDIA devices from 8.0 on, and the device %s has "
                        "compute capability %d.%d: take backward_matrix",
                        name, capabilities->device_name, cla_matrix_capability(capabilities) / 10,
                        cla_matrix_capability(capabilities) % 10);
    return status;
}

static clattn_status adopt(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                           struct cla_config *config, struct clattn_plan_info *info, struct cla_error *error)
{
    if (!suits(capabilities, problem, config))
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "the forced sizes (problem.b_r %d, b_c %d, work_group_size %d, knobs \"%s\"; 0 is planned) do "
                        "not fit %s with d = %d, d_v = %d: b_r is %d, b_c %d, work_group_size %d, own_keys 1 up to %d "
                        "columns, and tiles of %llu bytes have to fit %llu of local memory",
                        problem->b_r, problem->b_c, problem->work_group_size, problem->knobs ? problem->knobs : "",
                        name, problem->d, problem->d_v, config->b_r, config->b_c, config->work_group_size, NARROW,
                        (unsigned long long)local_bytes(problem, config),
                        (unsigned long long)cla_matrix_limits_of(capabilities).local_bytes);
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
    *config = config_of(capabilities, problem);
    return adopt(capabilities, problem, config, info, error);
}

static bool prefers(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem)
{
    struct cla_error unused;
    if (check(capabilities, problem, &unused))
        return false;
    const struct cla_config config = config_of(capabilities, problem);
    return suits(capabilities, problem, &config);
}

static const struct cla_knob knobs[] = {
    {"own_keys", offsetof(struct cla_config, backward_matrix.own_keys), 0, 1, {0, 1}, 2}, {NULL, 0, 0, 0, {0}, 0}};

static void define(const struct clattn_problem *problem, const struct cla_config *config, struct cla_text *text)
{
    const struct cla_define defines[] = {
        {"COLUMNS", columns(problem)},
        {"D_PIECES", cla_pieces(problem->d)},
        {"OWN_KEYS", config->backward_matrix.own_keys},
        {"V_PIECES", cla_pieces(problem->d_v)},
    };
    cla_text_define(text, defines, sizeof defines / sizeof *defines);
    cla_backward_matrix_define(config, CLA_SUMMED_BY_FUSED, text);
}

static const char *const files[] = {"common/types.clh",
                                    "common/score.clh",
                                    "common/philox.clh",
                                    "matrix/nvidia_mma.clh",
                                    "matrix/nvidia_fused.clh",
                                    "common/matrix_tiles.clh",
                                    "common/fused_tiles.clh",
                                    "common/fused_own.clh",
                                    "common/fused_shared.clh",
                                    "backward_fused.cl",
                                    NULL};

static const struct cla_kernel_form forms[] = {
    [CLA_DQ] = {cla_backward_matrix_files, ENDING_ITEMS, false},
    [CLA_DK_DV] = {files, 0, false},
    [CLA_D_BIAS] = {cla_backward_matrix_files, ENDING_ITEMS, false},
    [CLA_DK_DV_AGAIN] = {cla_backward_matrix_files, AGAIN_ITEMS, false},
};

/* The device refused: the shape that takes less local memory. */
static bool step_down(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                      struct cla_config *config)
{
    if (config->backward_matrix.own_keys)
        return false;
    config->backward_matrix.own_keys = 1;
    return suits(capabilities, problem, config);
}

const struct cla_skeleton cla_backward_fused = {
    .name = name,
    .backward = true,
    .files = files,
    .entries = cla_backward_summed_entries,
    .forms = forms,
    .declines = true,
    .any_order = true,
    .tile_element_bytes = 2,
    .sum_floats = cla_sum_floats,
    .adds_to_zeros = true,
    .prefers = prefers,
    .choose = choose,
    .knobs = knobs,
    .adopt = adopt,
    .step_down = step_down,
    .local_bytes = local_bytes,
    .private_bytes = private_bytes,
    .define = define,
};
