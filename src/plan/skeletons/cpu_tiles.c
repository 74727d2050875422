/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/skeletons/cpu_tiles.h"
#include "plan/sizes.h"

bool cla_cpu_prefers(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem)
{
    (void)problem;
    return capabilities->type == CLATTN_DEVICE_CPU;
}

/* Devices that report narrower vectors than 4 still compile 4 at a time well. */
int cla_cpu_vector_width(const struct clattn_capabilities *capabilities)
{
    const uint32_t native = capabilities->native_vector_width_float;
    return native >= 16 ? 16 : native >= 8 ? 8 : 4;
}

/* MICRO streamed rows by ROW_VECTORS vectors of lanes are as many accumulators, at least 8 to hide the latency of
 * multiply-adds, with registers left for operands: 16 of the 32 registers that come with 512-bit vectors, 8 of 16
 * before. */
void cla_cpu_take_register_tile(const struct clattn_capabilities *capabilities, int most_vectors,
                                struct cla_config *config)
{
    config->cpu.vector_width = cla_cpu_vector_width(capabilities);
    config->cpu.row_vectors = most_vectors < 2 ? 1 : 2;
    config->cpu.micro = (config->cpu.vector_width == 16 ? 16 : 8) / config->cpu.row_vectors;
}

bool cla_cpu_fit_lanes(int lanes, struct cla_config *config)
{
    while (lanes % cla_cpu_panel(config) && config->cpu.row_vectors > 1)
        config->cpu.row_vectors--;
    while (lanes % cla_cpu_panel(config)) {
        if (config->cpu.vector_width == 4)
            return false;
        config->cpu.vector_width /= 2;
    }
    return true;
}

clattn_status cla_cpu_refuse_forced(const struct clattn_problem *problem, const char *name, const char *wanted,
                                    struct cla_error *error)
{
    return cla_fail(error, CLATTN_NOTHING_FITS,
                    "the forced sizes (problem.b_r %d, b_c %d, work_group_size %d; 0 is planned) do not fit %s: %s, "
                    "work_group_size 1",
                    problem->b_r, problem->b_c, problem->work_group_size, name, wanted);
}

clattn_status cla_cpu_check_private(uint64_t bytes, const struct cla_config *config, struct cla_error *error)
{
    if (bytes <= CLA_CPU_MOST_FORCED_BYTES)
        return CLATTN_SUCCESS;
    return cla_fail(
        error, CLATTN_NOTHING_FITS,
        "the forced sizes (problem.b_r %d, b_c %d) take %llu bytes of a thread's stack: at most %llu are taken",
        config->b_r, config->b_c, (unsigned long long)bytes, (unsigned long long)CLA_CPU_MOST_FORCED_BYTES);
}

void cla_cpu_explain_registers(const struct cla_config *config, const char *streamed, const char *lanes,
                               struct clattn_plan_info *info)
{
    cla_plan_step(info, "registers", config->b_r, config->b_c,
                  "vectors of %d floats; %d %s x %d vectors of %s are %d accumulators in registers",
                  config->cpu.vector_width, config->cpu.micro, streamed, config->cpu.row_vectors, lanes,
                  config->cpu.micro * config->cpu.row_vectors);
}

bool cla_cpu_tile_is_whole(const struct cla_config *config)
{
    const int width = config->cpu.vector_width;
    return (width == 4 || width == 8 || width == 16) && config->cpu.row_vectors >= 1 && config->cpu.row_vectors <= 4 &&
           config->cpu.micro >= 1 && config->cpu.micro <= 32;
}

/* A step of the products' innermost loop is micro * row_vectors multiply-adds on as many accumulators, micro +
 * row_vectors loads, and what any step takes. Few accumulators wait for each other; with many compilers begin to move
 * registers about (there are 32 of 512 bits, 16 of fewer), and what does not fit goes through memory. */
double cla_cpu_tile_cost(const struct cla_config *config)
{
    const struct cla_cpu_weights *weights = &cla_cpu_weights;
    const double sums = config->cpu.micro * config->cpu.row_vectors, least = weights->least_sums;
    const double loads = config->cpu.micro + config->cpu.row_vectors;
    const double registers = config->cpu.vector_width == 16 ? 32 : 16, held = sums + config->cpu.row_vectors + 1;
    const double roomy = weights->free_registers * registers;
    const double crowded = held > roomy ? weights->crowded * (held - roomy) : 0;
    return (1 + weights->load * (loads + weights->step) / sums + crowded) * (sums < least ? least / sums : 1) *
           (held > registers ? 1 + weights->spilled * (held - registers) : 1);
}

int cla_cpu_panel(const struct cla_config *config)
{
    return config->cpu.vector_width * config->cpu.row_vectors;
}

int cla_cpu_stride(int n, const struct cla_config *config)
{
    return cla_round_up(cla_round_up(n, config->cpu.micro), config->cpu.vector_width);
}

bool cla_cpu_has_blocks(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem, int64_t n,
                        int rows)
{
    const int64_t units = capabilities->compute_units ? capabilities->compute_units : 1;
    return n / rows >= (problem->causal == CLATTN_FULL ? 1 : 2) * units;
}

/* A mask's blocks are multiples of 16. Somewhat longer tiles than planned are better than much shorter ones. */
int cla_cpu_streamed(int planned, int block)
{
    int best = planned;
    if (block) {
        best = 16;
        for (int length = 32; length <= 2 * planned; length += 16)
            if (block % length == 0 && (length <= planned || best < planned / 2))
                best = length;
    }
    return best;
}

uint64_t cla_cpu_no_local_bytes(const struct clattn_problem *problem, const struct cla_config *config)
{
    (void)problem;
    (void)config;
    return 0; /* one work-item a group: its tiles are private */
}
