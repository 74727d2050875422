/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The planner's side of cl/forward_cpu.cl: what a configuration costs, and which one to take. */
#include "plan/checked.h"
#include "plan/recipe.h"
#include "plan/sizes.h"
#include "plan/skeletons/cpu_dot.h"
#include "plan/skeletons/cpu_tiles.h"
#include <stddef.h>

/* Twice CPU_SUM_ITEMS of unit/cpu_fma.clh, since score_tile fetches each time that it has two sums; and the most
 * CLATTN_FETCH. */
enum { FETCH_ITEMS = 32, MOST_FETCHED = 16 };

/* The arrays that the kernel declares: Q^T, O^T and the row statistics of a block, S^T and weights of panels, the K and
 * V tiles. */
static uint64_t private_bytes(const struct clattn_problem *problem, const struct cla_config *config)
{
    const int64_t d = cla_cpu_items(problem->d, config), d_v = cla_cpu_items(problem->d_v, config);
    return (uint64_t)(config->b_r * (d + cla_cpu_stride(problem->d_v, config)) + config->b_c * (d + d_v) +
                      cla_cpu_scored_keys(config->b_c, config) * cla_cpu_panel(config) +
                      cla_cpu_panels_together(config) * cla_cpu_weight_words(config->b_c, config) + 4 * config->b_r) *
           sizeof(float);
}

/* A few rows (decoding) fill one vector; more keys then make up for it. So do the blocks of a mask that two vectors do
 * not divide. */
static void take_register_tile(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                               struct cla_config *config)
{
    const int width = cla_cpu_vector_width(capabilities);
    const bool few = problem->expected_n_q && problem->expected_n_q <= width;
    cla_cpu_take_register_tile(capabilities, few || problem->block_q % (2 * width) ? 1 : 2, config);
}

/* The largest of the kernel's tiles that forced block sizes are multiples of; false where there is none. */
static bool fit_forced(const struct clattn_problem *problem, struct cla_config *config)
{
    if (problem->work_group_size > 1 || !cla_cpu_fit_lanes(problem->b_r, config))
        return false;
    if (problem->b_c && problem->b_c < config->cpu.vector_width)
        return false;
    while (problem->b_c % config->cpu.micro)
        config->cpu.micro--;
    return true;
}

static int tile_keys(const struct clattn_problem *problem, const struct cla_cpu_sizes *sizes)
{
    const bool few = problem->expected_n_q && problem->expected_n_q <= sizes->few_rows;
    return cla_cpu_streamed(few ? sizes->few_stream : sizes->stream, problem->block_kv);
}

/* The keys of a tile, and the unit that multiplies them: AMX, and blocks by tickets, take longer tiles. */
static void take_tile(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                      struct cla_config *config)
{
    config->b_c = problem->b_c ? problem->b_c : tile_keys(problem, &cla_forward_cpu_sizes);
    cla_cpu_take_dot(capabilities, problem, config->b_c, config);
    config->cpu.tickets = cla_cpu_has_tickets(capabilities, config);
    const int longer = tile_keys(problem, cla_cpu_forward_sizes(config));
    if (!problem->b_c && longer % config->cpu.micro == 0)
        config->b_c = longer;
}

/* K and V are read once per query block, so more rows mean less traffic, where one head's blocks are enough for the
 * cores (plan/sizes.h). */
static void take_rows(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                      struct cla_config *config)
{
    const struct cla_cpu_sizes *sizes = &cla_forward_cpu_sizes, *own = cla_cpu_forward_sizes(config);
    const int panel = cla_cpu_panel(config), heads = own->heads ? own->heads : 1; /* by tickets blocks become smaller */
    const bool many = cla_cpu_has_blocks(capabilities, problem, heads * problem->expected_n_q, sizes->large_block);
    config->b_r = cla_round_up(many ? own->large_block : sizes->block, panel);
    if (problem->expected_n_q && problem->expected_n_q < sizes->block)
        config->b_r = cla_round_up((int)problem->expected_n_q, panel);
    while (config->b_r > panel && private_bytes(problem, config) > CLA_CPU_MOST_PRIVATE_BYTES)
        config->b_r = cla_round_up(config->b_r / 2, panel);
}

/* Rows of K and V to ask for between two products, so that all of a tile's have come before it. */
static int rows_fetched(const struct clattn_problem *problem, const struct cla_config *config)
{
    const int64_t panels = config->b_r / cla_cpu_panel(config), groups = config->b_c / config->cpu.micro;
    const int64_t products =
        panels * (groups * cla_ceil_div(problem->d, FETCH_ITEMS) + cla_ceil_div(problem->d_v, config->cpu.micro));
    const int64_t rows = cla_ceil_div(config->b_c, products);
    return rows < MOST_FETCHED ? (int)rows : MOST_FETCHED;
}

/* A causal mask's edge is as ragged as the tiles that meet it: a panel of rows by micro keys. */
static double edge(const struct clattn_problem *problem, const struct cla_config *config)
{
    const double keys = problem->expected_n_kv ? (double)problem->expected_n_kv : 4096;
    return problem->causal == CLATTN_FULL ? 1 : 1 + (cla_cpu_panel(config) + config->cpu.micro) / keys;
}

/* Work per block that its rows share, per tile that its keys share, and per key that its columns share; then that of
 * the register tile. */
static double estimate(const struct clattn_problem *problem, const struct cla_config *config)
{
    const struct cla_cpu_weights *weights = &cla_cpu_weights;
    const double rows =
        problem->expected_n_q && problem->expected_n_q < config->b_r ? (double)problem->expected_n_q : config->b_r;
    const double columns = problem->d + cla_round_up(problem->d_v, config->cpu.micro);
    return columns * (1 + weights->block / config->b_r) * (1 + weights->tile / config->b_c) *
           (1 + weights->columns / problem->d) * config->b_r / rows * edge(problem, config) *
           cla_cpu_tile_cost(config) / config->cpu.vector_width;
}

static clattn_status adopt(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                           struct cla_config *config, struct clattn_plan_info *info, struct cla_error *error)
{
    if (config->work_group_size != 1 || !cla_cpu_tile_is_whole(config) || config->b_r < 1 ||
        config->b_r % cla_cpu_panel(config) || config->b_c < config->cpu.vector_width ||
        config->b_c % config->cpu.micro)
        return cla_fail(
            error, CLATTN_NOTHING_FITS,
            "forward_cpu takes vector_width 4, 8 or 16, b_r a multiple of vector_width * row_vectors (%d), "
            "b_c a multiple of micro (%d) and at least vector_width, work_group_size 1: not b_r %d, b_c %d, "
            "work_group_size %d",
            cla_cpu_panel(config), config->cpu.micro, config->b_r, config->b_c, config->work_group_size);
    clattn_status allowed = cla_cpu_check_private(private_bytes(problem, config), config, error);
    if (!allowed)
        allowed = cla_cpu_check_dot(capabilities, problem, "forward_cpu", config, config->b_c, error);
    if (allowed)
        return allowed;
    info->estimate = estimate(problem, config);
    cla_cpu_explain_registers(config, "keys", "rows", info);
    cla_cpu_explain_dot(capabilities, problem, config, info);
    cla_plan_step(
        info, "cache", config->b_r, config->b_c,
        "local memory is ordinary memory here, so tiles are private: %d rows share each K and V that is read, in "
        "%llu bytes of the thread's stack",
        config->b_r, (unsigned long long)private_bytes(problem, config));
    return CLATTN_SUCCESS;
}

static clattn_status choose(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                            struct cla_config *config, struct clattn_plan_info *info, struct cla_error *error)
{
    take_register_tile(capabilities, problem, config);
    if (!fit_forced(problem, config))
        return cla_cpu_refuse_forced(problem, "forward_cpu",
                                     "b_r is a multiple of 4, b_c at least as many keys as a vector has floats", error);
    config->work_group_size = 1;
    take_tile(capabilities, problem, config);
    if (problem->b_r)
        config->b_r = problem->b_r;
    else
        take_rows(capabilities, problem, config);
    config->cpu.fetch = rows_fetched(problem, config);
    return adopt(capabilities, problem, config, info, error);
}

/* The device refused: half the rows. */
static bool step_down(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                      struct cla_config *config)
{
    (void)capabilities;
    (void)problem;
    const int panel = cla_cpu_panel(config);
    if (config->b_r <= panel)
        return false;
    config->b_r = cla_round_up(config->b_r / 2, panel);
    return true;
}

static void recipe(const struct cla_run *run, struct cla_recipe *out)
{
    const int sizes = cla_cpu_ticket_sizes(run->config);
    if (sizes)
        cla_recipe_forward_by_tickets(run, sizes, out);
    else
        cla_recipe_forward(run, out);
}

static void define(const struct clattn_problem *problem, const struct cla_config *config, struct cla_text *text)
{
    (void)problem;
    cla_text_printf(
        text,
        "#define CLATTN_DOT %d\n#define CLATTN_FETCH %d\n#define CLATTN_MICRO %d\n#define CLATTN_ROW_VECTORS %d\n"
        "#define CLATTN_TICKET_SIZES %d\n#define CLATTN_VECTOR_WIDTH %d\n",
        config->cpu.dot, config->cpu.fetch, config->cpu.micro, config->cpu.row_vectors, cla_cpu_ticket_sizes(config),
        config->cpu.vector_width);
}

static const struct cla_knob knobs[] = {
    {"dot", offsetof(struct cla_config, cpu.dot), 0, 4, {0, 1, 3}, 3},
    {"fetch", offsetof(struct cla_config, cpu.fetch), 0, MOST_FETCHED, {0, 1, 2, 4}, 4},
    {"micro", offsetof(struct cla_config, cpu.micro), 1, 32, {4, 6, 8, 12, 16, 32}, 6},
    {"row_vectors", offsetof(struct cla_config, cpu.row_vectors), 1, 4, {1, 2, 3, 4}, 4},
    {"tickets", offsetof(struct cla_config, cpu.tickets), 0, 1, {0}, 0},
    {"vector_width", offsetof(struct cla_config, cpu.vector_width), 4, 16, {0}, 0},
    {NULL, 0, 0, 0, {0}, 0}};

static const char *const files[] = {"forward_cpu.cl", NULL};

const struct cla_skeleton cla_forward_cpu = {
    .name = "forward_cpu",
    .files = files,
    .packs = true,
    .kernels = cla_forward_kernels,
    .tile_element_bytes = sizeof(float),
    .for_cpus = true,
    .prefers = cla_cpu_prefers,
    .choose = choose,
    .knobs = knobs,
    .adopt = adopt,
    .step_down = step_down,
    .local_bytes = cla_cpu_no_local_bytes,
    .private_bytes = private_bytes,
    .recipe = recipe,
    .define = define,
};
