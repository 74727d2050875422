/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The planner's side of cl/forward_cpu.cl: what a configuration costs, and which one to take. */
#include "plan/checked.h"
#include "plan/planner.h"
#include <stddef.h>

static int round_up(int value, int multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

/* Row strides of the K and V tiles, as the kernel derives them. */
static int k_stride(const struct clattn_problem *problem, const struct cla_config *config)
{
    return round_up(problem->d, config->cpu.vector_width);
}

static int v_stride(const struct clattn_problem *problem, const struct cla_config *config)
{
    return round_up(round_up(problem->d_v, config->cpu.micro), config->cpu.vector_width);
}

static uint64_t local_bytes(const struct clattn_problem *problem, const struct cla_config *config)
{
    (void)problem;
    (void)config;
    return 0; /* one work-item a group: its tiles are private */
}

/* The arrays that the kernel declares: Q^T, O^T and the row statistics of a block, S^T of a panel, the K and V tiles.
 */
static uint64_t private_bytes(const struct clattn_problem *problem, const struct cla_config *config)
{
    const int panel = config->cpu.vector_width * config->cpu.row_vectors;
    const int64_t row = k_stride(problem, config) + v_stride(problem, config);
    return (uint64_t)((config->b_r + config->b_c) * row + config->b_c * panel + 2 * config->b_r) * sizeof(float);
}

static bool prefers(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem)
{
    (void)problem;
    return capabilities->type == CLATTN_DEVICE_CPU;
}

/* Float lanes of a vector. Devices that report narrower vectors than 4 still compile 4 at a time well. */
static int vector_width(const struct clattn_capabilities *capabilities)
{
    const uint32_t native = capabilities->native_vector_width_float;
    return native >= 16 ? 16 : native >= 8 ? 8 : 4;
}

/* The register tile: MICRO keys by ROW_VECTORS vectors of rows are as many accumulators, at least 8 to hide the latency
 * of multiply-adds, with registers left for operands: 16 of the 32 registers that come with 512-bit vectors, 8 of 16
 * before. A few rows (decoding) fill one vector; more keys then make up for it. */
static void take_register_tile(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                               struct cla_config *config)
{
    const bool few = problem->expected_n_q && problem->expected_n_q <= vector_width(capabilities);
    const int accumulators = vector_width(capabilities) == 16 ? 16 : 8;
    config->cpu.vector_width = vector_width(capabilities);
    config->cpu.row_vectors = few ? 1 : 2;
    config->cpu.micro = accumulators / config->cpu.row_vectors;
}

/* The largest of the kernel's tiles that forced block sizes are multiples of; false where there is none. */
static bool fit_forced(const struct clattn_problem *problem, struct cla_config *config)
{
    if (problem->work_group_size > 1)
        return false;
    while (problem->b_r && config->cpu.row_vectors > 1 &&
           problem->b_r % (config->cpu.vector_width * config->cpu.row_vectors))
        config->cpu.row_vectors--;
    while (problem->b_r && problem->b_r % config->cpu.vector_width) {
        if (config->cpu.vector_width == 4)
            return false;
        config->cpu.vector_width /= 2;
    }
    if (problem->b_c && problem->b_c < config->cpu.vector_width)
        return false;
    while (problem->b_c && problem->b_c % config->cpu.micro)
        config->cpu.micro--;
    return true;
}

/* K and V are read once per query block, so more rows mean less traffic: 128 measured within 6 % of any larger number.
 */
enum { MOST_ROWS = 128, KEYS = 64 };

/* A block's arrays lie on a thread's stack. */
#define MOST_PRIVATE_BYTES (UINT64_C(1) << 20)

static void take_rows(const struct clattn_problem *problem, struct cla_config *config)
{
    const int panel = config->cpu.vector_width * config->cpu.row_vectors;
    config->b_r = MOST_ROWS;
    if (problem->expected_n_q && problem->expected_n_q < MOST_ROWS)
        config->b_r = round_up((int)problem->expected_n_q, panel);
    while (config->b_r > panel && private_bytes(problem, config) > MOST_PRIVATE_BYTES)
        config->b_r = round_up(config->b_r / 2, panel);
}

/* The share of the multiply-add peak that is lost, from measurements with 512-bit vectors: work per block that its rows
 * share, and per key that its columns share. */
static double estimate(const struct clattn_problem *problem, const struct cla_config *config)
{
    const double rows =
        problem->expected_n_q && problem->expected_n_q < config->b_r ? (double)problem->expected_n_q : config->b_r;
    return (problem->d + problem->d_v) * (1 + 6.0 / config->b_r) * (1 + 4.0 / problem->d) * config->b_r / rows /
           config->cpu.vector_width;
}

static clattn_status choose(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                            struct cla_config *config, struct clattn_plan_info *info, struct cla_error *error)
{
    take_register_tile(capabilities, problem, config);
    if (!fit_forced(problem, config))
        return cla_fail(
            error, CLATTN_NOTHING_FITS,
            "the forced sizes (problem.b_r %d, b_c %d, work_group_size %d; 0 is planned) do not fit forward_cpu: b_r "
            "is a multiple of 4, b_c at least %d, work_group_size 1",
            problem->b_r, problem->b_c, problem->work_group_size, config->cpu.vector_width);
    config->work_group_size = 1;
    config->b_c = problem->b_c ? problem->b_c : KEYS;
    if (problem->b_r)
        config->b_r = problem->b_r;
    else
        take_rows(problem, config);
    if (private_bytes(problem, config) > 4 * MOST_PRIVATE_BYTES)
        return cla_fail(
            error, CLATTN_NOTHING_FITS,
            "the forced sizes (problem.b_r %d, b_c %d) take %llu bytes of a thread's stack: at most %llu are taken",
            problem->b_r, problem->b_c, (unsigned long long)private_bytes(problem, config),
            (unsigned long long)(4 * MOST_PRIVATE_BYTES));
    info->estimate = estimate(problem, config);
    cla_plan_step(info, "registers", config->b_r, config->b_c,
                  "vectors of %d floats; %d keys x %d vectors of rows are %d accumulators in registers",
                  config->cpu.vector_width, config->cpu.micro, config->cpu.row_vectors,
                  config->cpu.micro * config->cpu.row_vectors);
    cla_plan_step(
        info, "cache", config->b_r, config->b_c,
        "local memory is ordinary memory here, so tiles are private: %d rows share each K and V that is read, in "
        "%llu bytes of the thread's stack",
        config->b_r, (unsigned long long)private_bytes(problem, config));
    return CLATTN_SUCCESS;
}

/* The device refused: half the rows. */
static bool step_down(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                      struct cla_config *config)
{
    (void)capabilities;
    (void)problem;
    const int panel = config->cpu.vector_width * config->cpu.row_vectors;
    if (config->b_r <= panel)
        return false;
    config->b_r = round_up(config->b_r / 2, panel);
    return true;
}

static void define(const struct clattn_problem *problem, const struct cla_config *config, struct cla_text *text)
{
    (void)problem;
    cla_text_printf(text, "#define CLATTN_MICRO %d\n#define CLATTN_ROW_VECTORS %d\n#define CLATTN_VECTOR_WIDTH %d\n",
                    config->cpu.micro, config->cpu.row_vectors, config->cpu.vector_width);
}

static const char *const files[] = {"common/types.clh", "common/score.clh", "common/philox.clh", "forward_cpu.cl", NULL};

static const char *const entries[] = {"clattn_forward", NULL};

const struct cla_skeleton cla_forward_cpu = {
    .name = "forward_cpu",
    .files = files,
    .entries = entries,
    .tile_element_bytes = sizeof(float),
    .prefers = prefers,
    .choose = choose,
    .step_down = step_down,
    .local_bytes = local_bytes,
    .private_bytes = private_bytes,
    .define = define,
};
