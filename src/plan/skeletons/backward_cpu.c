/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The planner's side of cl/backward_cpu.cl: what a configuration costs, and which one to take. */
#include "plan/checked.h"
#include "plan/kernel_params.h"
#include "plan/recipe.h"
#include "plan/sizes.h"
#include "plan/skeletons/cpu_dot.h"
#include "plan/skeletons/cpu_tiles.h"
#include "plan/traffic.h"
#include <stddef.h>

/* The arrays of the kernel that has most: the streamed tiles with S and dP of a panel, two transposed tensors of a
 * block, and the outputs: dQ of a block of rows, dK and dV of a block of keys, or dS of both. Where one kernel forms
 * all gradients, K once more, a tile's dQ and sums of its pairs. */
static uint64_t private_bytes(const struct clattn_problem *problem, const struct cla_config *config)
{
    const int64_t d = cla_cpu_stride(problem->d, config), row = d + cla_cpu_stride(problem->d_v, config);
    const int64_t in = cla_cpu_items(problem->d, config) + cla_cpu_items(problem->d_v, config);
    const int64_t turned = config->cpu.dot ? in : 0, weights = cla_cpu_weight_words(config->cpu.stream, config);
    const int64_t b_r = config->b_r, b_c = config->b_c;
    const int64_t dq = b_r * (in + d + 2), dk_dv = b_c * (in + row), d_bias = b_c * (in + b_r);
    const int64_t groups = cla_round_up((int)d, cla_cpu_panel(config));
    const int64_t keys = config->cpu.dot ? b_c / 2 : b_c; /* pairs of keys */
    const int64_t fused = config->cpu.fused ? (keys + config->cpu.stream) * groups + config->cpu.stream * 48 : 0;
    const int64_t kept = config->cpu.stream * (2 + (b_c / 128 + 2) * 4); /* LSE, delta, and dropout's bits */
    return (uint64_t)(config->cpu.stream * (in + turned + 2 * cla_cpu_panel(config)) + kept + weights +
                      cla_larger(cla_larger(dq, dk_dv + fused), d_bias)) *
           sizeof(float);
}

/* Lanes are rows in one kernel and keys in the others: a panel has to divide forced blocks of both, and should divide
 * those of a mask. */
static void take_register_tile(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                               struct cla_config *config)
{
    const int panel = 2 * cla_cpu_vector_width(capabilities);
    cla_cpu_take_register_tile(capabilities, problem->block_q % panel || problem->block_kv % panel ? 1 : 2, config);
}

static bool fit_forced(const struct clattn_problem *problem, struct cla_config *config)
{
    return problem->work_group_size <= 1 && cla_cpu_fit_lanes(problem->b_r, config) &&
           cla_cpu_fit_lanes(problem->b_c, config);
}

static int greatest_common_divisor(int a, int b)
{
    while (b) {
        const int rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* What streams is read and converted once for each stationary block, and the block's tensors should stay in a core's
 * cache. Large blocks are taken where one head's are enough for the cores (plan/sizes.h), and not with a block mask, of
 * which larger blocks skip less. */
static int take_lanes(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                      int64_t expected, int panel)
{
    const struct cla_cpu_sizes *sizes = &cla_backward_cpu_sizes;
    const bool many = !problem->block_q && cla_cpu_has_blocks(capabilities, problem, expected, sizes->large_block);
    const int lanes = many ? sizes->large_block : sizes->block;
    return cla_round_up(expected && expected < lanes ? (int)expected : lanes, panel);
}

/* Halves the planned block sizes; false where both are panels, or forced. */
static bool halve(const struct clattn_problem *problem, struct cla_config *config)
{
    const int panel = cla_cpu_panel(config), b_r = config->b_r, b_c = config->b_c;
    if (!problem->b_r && b_r > panel)
        config->b_r = cla_round_up(b_r / 2, panel);
    if (!problem->b_c && b_c > panel)
        config->b_c = cla_round_up(b_c / 2, panel);
    return config->b_r < b_r || config->b_c < b_c;
}

static int64_t units_of(const struct clattn_capabilities *capabilities)
{
    return capabilities->compute_units ? capabilities->compute_units : 1;
}

static void take_blocks(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                        struct cla_config *config)
{
    const int panel = cla_cpu_panel(config);
    const int common = greatest_common_divisor(problem->block_q, problem->block_kv);
    const int longer = cla_cpu_streamed(cla_backward_amx_sizes.stream, common);
    config->cpu.stream = cla_cpu_streamed(cla_backward_cpu_sizes.stream, common);
    cla_cpu_take_dot(capabilities, problem, config->cpu.stream, config);
    if (config->cpu.dot == CLA_CPU_AMX && longer % config->cpu.micro == 0)
        config->cpu.stream = longer;
    config->cpu.fused = config->cpu.dot != CLA_CPU_AMX && !cla_problem_accumulates(problem) &&
                        units_of(capabilities) <= cla_backward_cpu_fused_units;
    config->b_r = problem->b_r ? problem->b_r : take_lanes(capabilities, problem, problem->expected_n_q, panel);
    config->b_c = problem->b_c ? problem->b_c : take_lanes(capabilities, problem, problem->expected_n_kv, panel);
    while (private_bytes(problem, config) > CLA_CPU_MOST_PRIVATE_BYTES && halve(problem, config)) {
    }
}

/* As forward_cpu's, for seven products, or five. */
static double estimate(const struct clattn_problem *problem, const struct cla_config *config)
{
    const struct cla_cpu_weights *weights = &cla_cpu_weights;
    const double lanes = config->b_r < config->b_c ? config->b_r : config->b_c;
    const double columns = cla_round_up(problem->d, config->cpu.micro),
                 columns_v = cla_round_up(problem->d_v, config->cpu.micro);
    const double products = config->cpu.fused ? 3.0 * columns + 2.0 * columns_v : 4.0 * columns + 3.0 * columns_v;
    return products * (1 + weights->block / lanes) * (1 + weights->tile / config->cpu.stream) *
           (1 + weights->columns / problem->d) * cla_cpu_tile_cost(config) / config->cpu.vector_width;
}

static clattn_status check_sizes(const struct cla_config *config, struct cla_error *error)
{
    const int panel = cla_cpu_panel(config);
    if (config->work_group_size == 1 && cla_cpu_tile_is_whole(config) && config->b_r >= 1 && config->b_r % panel == 0 &&
        config->b_c >= 1 && config->b_c % panel == 0 && config->cpu.stream >= config->cpu.vector_width &&
        config->cpu.stream % config->cpu.micro == 0)
        return CLATTN_SUCCESS;
    return cla_fail(error, CLATTN_NOTHING_FITS,
                    "backward_cpu takes vector_width 4, 8 or 16, b_r and b_c multiples of vector_width * row_vectors "
                    "(%d), stream a multiple of micro (%d) and at least vector_width, work_group_size 1: not b_r "
                    "%d, b_c %d, stream %d, work_group_size %d",
                    panel, config->cpu.micro, config->b_r, config->b_c, config->cpu.stream, config->work_group_size);
}

static clattn_status check_fused(const struct clattn_problem *problem, const struct cla_config *config,
                                 struct cla_error *error)
{
    if (!config->cpu.fused || !cla_problem_accumulates(problem))
        return CLATTN_SUCCESS;
    return cla_fail(error, CLATTN_NOTHING_FITS,
                    "knob fused is 1, and problem.pass CLATTN_BACKWARD_ACCUMULATE: one kernel forms all gradients "
                    "where it has all keys: set fused to 0");
}

static void explain(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                    const struct cla_config *config, struct clattn_plan_info *info)
{
    info->estimate = estimate(problem, config);
    info->sums = config->cpu.fused;
    if (config->cpu.fused)
        cla_plan_step(
            info, "kernels", config->b_r, config->b_c,
            "one forms all gradients, with S and dP once: heads of K and V, or shares of their blocks of keys, go to "
            "whichever core is free, which adds dQ to sums in the workspace");
    cla_cpu_explain_registers(config, "rows or keys", "the others", info);
    cla_cpu_explain_dot(capabilities, problem, config, info);
    cla_plan_step(
        info, "cache", config->b_r, config->b_c,
        "tiles are private: %d rows share each K and V that is read, %d keys each Q and dO, in up to %llu bytes "
        "of the thread's stack",
        config->b_r, config->b_c, (unsigned long long)private_bytes(problem, config));
}

static clattn_status adopt(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                           struct cla_config *config, struct clattn_plan_info *info, struct cla_error *error)
{
    clattn_status status = check_sizes(config, error);
    if (!status)
        status = cla_cpu_check_private(private_bytes(problem, config), config, error);
    config->cpu.fused = config->cpu.fused && cla_cpu_may_fuse(config);
    if (!status)
        status = check_fused(problem, config, error);
    if (!status)
        status = cla_cpu_check_dot(capabilities, problem, "backward_cpu", config, config->cpu.stream, error);
    if (!status)
        explain(capabilities, problem, config, info);
    return status;
}

static clattn_status choose(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                            struct cla_config *config, struct clattn_plan_info *info, struct cla_error *error)
{
    take_register_tile(capabilities, problem, config);
    if (!fit_forced(problem, config))
        return cla_cpu_refuse_forced(problem, "backward_cpu", "b_r and b_c are multiples of 4", error);
    config->work_group_size = 1;
    take_blocks(capabilities, problem, config);
    return adopt(capabilities, problem, config, info, error);
}

static bool step_down(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                      struct cla_config *config)
{
    (void)capabilities;
    return halve(problem, config);
}

static void streams(const struct cla_config *config, struct clattn_plan_stream streams[2])
{
    cla_streams_plain(config, streams);
    streams[0].tile = streams[1].tile = config->cpu.stream;
}

static void define(const struct clattn_problem *problem, const struct cla_config *config, struct cla_text *text)
{
    (void)problem;
    cla_text_printf(text,
                    "#define CLATTN_DOT %d\n#define CLATTN_FUSED %d\n#define CLATTN_MICRO %d\n"
                    "#define CLATTN_ROW_VECTORS %d\n#define CLATTN_STREAM %d\n#define CLATTN_VECTOR_WIDTH %d\n",
                    config->cpu.dot, config->cpu.fused, config->cpu.micro, config->cpu.row_vectors, config->cpu.stream,
                    config->cpu.vector_width);
}

/* Floats of a row's sums of dQ. */
static int sum_columns(const struct cla_run *run)
{
    return cla_round_up(cla_cpu_stride(run->problem->d, run->config), cla_cpu_panel(run->config));
}

/* How many shares of each head may have sums of their own before these take too much of the largest buffer. */
static int64_t shares_with_room(const struct cla_run *run)
{
    enum { PART = 4 };
    const double share =
        (double)run->shape.batch * (double)run->shape.heads * (double)run->shape.n_q * sum_columns(run) * sizeof(float);
    const double room = (double)(run->capabilities->max_allocation_bytes / PART);
    return share * INT32_MAX > room ? (int64_t)(room / share) : INT32_MAX;
}

/* Between how many work-groups the blocks of keys of a head of K and V are shared out. Shares go to whichever unit is
 * free, so many that units end together though some are slower; but each has sums of its own, so that where these are
 * large there are only as many as keep all units busy. */
static int64_t shares_of(const struct cla_run *run)
{
    const int64_t units = units_of(run->capabilities), heads = cla_larger(run->shape.batch * run->shape.kv_heads, 1);
    const int64_t blocks = cla_ceil_div(run->shape.n_kv, run->config->b_c);
    const int64_t least = cla_ceil_div(units, heads), most = cla_ceil_div(cla_backward_cpu_rounds * units, heads);
    const int64_t room = shares_with_room(run), shares = room < most ? cla_larger(room, least) : most;
    return cla_larger(shares < blocks ? shares : blocks, 1);
}

/* Sums of each row of each share, a word for each head of K and V, and how many shares have been taken. */
static void fused_regions(const struct cla_run *run, int64_t shares, struct cla_recipe *out)
{
    enum { PAIR_SUMS = 4, TICKETS = 2 };
    const struct clattn_shape *shape = &run->shape;
    const int64_t lines = cla_recipe_times(out, cla_recipe_times(out, shape->batch, shape->heads), shape->n_q);
    const int64_t count = cla_recipe_times(out, lines, shares);
    cla_recipe_region(out, "sums of dQ", count, sum_columns(run) * (int64_t)sizeof(float), false,
                      offsetof(struct cla_backward_params, sums));
    cla_recipe_region(out, "sums of pairs", count, PAIR_SUMS * sizeof(float), false,
                      offsetof(struct cla_backward_params, counters));
    cla_recipe_region(out, "flags", cla_recipe_times(out, shape->batch, shape->kv_heads), sizeof(uint32_t), false,
                      offsetof(struct cla_backward_params, flags));
    cla_recipe_region(out, "tickets", TICKETS, sizeof(uint32_t), true, offsetof(struct cla_backward_params, tickets));
}

/* Arguments of the kernels, `again` first an operand that no backward pass has. */
#define FUSED(again)                                                                                                   \
    CLA_Q, CLA_K, CLA_V, CLA_D_O, CLA_WORKSPACE, again, CLA_D_Q, CLA_D_K, CLA_D_V, CLA_ARGUMENT_BLOCK, CLA_ARGUMENTS_END
#define SUMMED(again) CLA_WORKSPACE, again, CLA_D_Q, CLA_ARGUMENT_BLOCK, CLA_ARGUMENTS_END
static const int fused_list[2][12] = {{FUSED(CLA_FROM)}, {FUSED(CLA_WORKSPACE)}};
static const int summed_list[2][6] = {{SUMMED(CLA_FROM)}, {SUMMED(CLA_WORKSPACE)}};

/* The kernel of keys; and where heads are shared out, one that adds up, and both again for heads whose delta was too
 * far off. With one share the last three are named and do not run. */
static void fused_stages(const struct cla_run *run, int64_t shares, struct cla_recipe *out)
{
    for (int again = 0; again < 2; again++) {
        cla_recipe_stage(out, (struct cla_stage){.kernel = CLA_DK_DV,
                                                 .batch = run->shape.batch,
                                                 .heads = run->shape.kv_heads,
                                                 .blocks = again && shares == 1 ? 0 : shares,
                                                 .counted = "shares of n_kv / B_c",
                                                 .arguments = fused_list[again]});
        cla_recipe_stage(out, (struct cla_stage){.kernel = CLA_DQ,
                                                 .batch = run->shape.batch,
                                                 .heads = run->shape.heads,
                                                 .blocks = shares == 1 ? 0 : cla_run_row_blocks(run),
                                                 .counted = "n_q / B_r",
                                                 .arguments = summed_list[again]});
    }
}

static void recipe(const struct cla_run *run, struct cla_recipe *out)
{
    if (!run->config->cpu.fused) {
        cla_recipe_mended_backward(run, out);
        return;
    }
    const int64_t shares = shares_of(run);
    fused_regions(run, shares, out);
    cla_recipe_number(out, offsetof(struct cla_backward_params, shares), (int32_t)shares);
    if (cla_run_wants(run, CLA_D_Q) || cla_run_wants_keys(run) || cla_run_wants_delta(run))
        fused_stages(run, shares, out);
    cla_recipe_d_bias(run, out);
}

static const struct cla_knob knobs[] = {
    {"dot", offsetof(struct cla_config, cpu.dot), 0, 4, {0, 1, 3}, 3},
    {"fused", offsetof(struct cla_config, cpu.fused), 0, 1, {0}, 0},
    {"micro", offsetof(struct cla_config, cpu.micro), 1, 32, {4, 6, 8, 12, 32}, 5},
    {"row_vectors", offsetof(struct cla_config, cpu.row_vectors), 1, 4, {1, 2, 3}, 3},
    {"stream", offsetof(struct cla_config, cpu.stream), 4, 1024, {32, 64, 128}, 3},
    {"vector_width", offsetof(struct cla_config, cpu.vector_width), 4, 16, {0}, 0},
    {NULL, 0, 0, 0, {0}, 0}};

static const char *const files[] = {"backward_cpu.cl", NULL};

const struct cla_skeleton cla_backward_cpu = {
    .name = "backward_cpu",
    .backward = true,
    .files = files,
    .kernels = cla_backward_kernels,
    .tile_element_bytes = sizeof(float),
    .for_cpus = true,
    .prefers = cla_cpu_prefers,
    .choose = choose,
    .knobs = knobs,
    .adopt = adopt,
    .step_down = step_down,
    .local_bytes = cla_cpu_no_local_bytes,
    .private_bytes = private_bytes,
    .streams = streams,
    .recipe = recipe,
    .define = define,
};
