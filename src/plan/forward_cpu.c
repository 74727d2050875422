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
    return (uint64_t)(config->b_r * (row + 2) + config->b_c * (row + panel)) * sizeof(float);
}

static bool prefers(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem)
{
    (void)problem;
    return capabilities->type == CLATTN_DEVICE_CPU;
}

static int vector_width(const struct clattn_capabilities *capabilities)
{
    const uint32_t native = capabilities->native_vector_width_float;
    return native >= 16 ? 16 : native >= 8 ? 8 : 4;
}

static clattn_status choose(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                            struct cla_config *config, struct clattn_plan_info *info, struct cla_error *error)
{
    (void)error;
    const int width = vector_width(capabilities);
    config->work_group_size = 1;
    config->cpu.vector_width = width;
    config->cpu.row_vectors = 2;
    config->cpu.micro = width == 16 ? 8 : 6;
    config->b_r = problem->b_r ? round_up(problem->b_r, 2 * width) : 128;
    config->b_c = problem->b_c ? round_up(problem->b_c, config->cpu.micro) : 8 * config->cpu.micro;
    cla_plan_step(info, "registers", config->b_r, config->b_c, "provisional");
    return CLATTN_SUCCESS;
}

static bool step_down(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                      struct cla_config *config)
{
    (void)capabilities;
    (void)problem;
    (void)config;
    return false;
}

static void define(const struct clattn_problem *problem, const struct cla_config *config, struct cla_text *text)
{
    (void)problem;
    cla_text_printf(text, "#define CLATTN_MICRO %d\n#define CLATTN_ROW_VECTORS %d\n#define CLATTN_VECTOR_WIDTH %d\n",
                    config->cpu.micro, config->cpu.row_vectors, config->cpu.vector_width);
}

static const char *const files[] = {"common/types.clh", "common/score.clh", "forward_cpu.cl", NULL};

const struct cla_skeleton cla_forward_cpu = {
    .name = "forward_cpu",
    .files = files,
    .entry = "clattn_forward",
    .prefers = prefers,
    .choose = choose,
    .step_down = step_down,
    .local_bytes = local_bytes,
    .private_bytes = private_bytes,
    .define = define,
};
