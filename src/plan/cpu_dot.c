/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/cpu_dot.h"
#include "plan/cpu_tiles.h"
#include "plan/operand.h"
#include "plan/types.h"

enum { WIDTH = 16 }; /* lanes of the instruction's vectors */

static bool all_bf16(const struct clattn_problem *problem)
{
    const bool inputs = cla_type_of(problem, CLA_Q) == CLATTN_BF16 && cla_type_of(problem, CLA_K) == CLATTN_BF16 &&
                        cla_type_of(problem, CLA_V) == CLATTN_BF16;
    return inputs && (problem->pass == CLATTN_FORWARD || problem->pass == CLATTN_ACCUMULATE ||
                      problem->dtype == CLATTN_BF16); /* dO */
}

/* Results go by way of the tiles that stream, whose items are half of a float. */
static bool tiles_suit(const struct cla_config *config, int streamed)
{
    const int twice = 2 * config->cpu.vector_width;
    return config->cpu.micro % 2 == 0 && twice % config->cpu.micro == 0 && streamed >= twice;
}

void cla_cpu_take_dot(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                      int streamed, struct cla_config *config)
{
    const bool there = capabilities->cpu_bf16_dot && config->cpu.vector_width == WIDTH;
    config->cpu.dot = there && all_bf16(problem) && tiles_suit(config, streamed) ? CLA_CPU_AVX512_BF16 : CLA_CPU_FMA;
}

clattn_status cla_cpu_check_dot(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                                const char *name, const struct cla_config *config, int streamed,
                                struct cla_error *error)
{
    if (config->cpu.dot == CLA_CPU_FMA)
        return CLATTN_SUCCESS;
    if (!all_bf16(problem))
        return cla_fail(error, CLATTN_NOTHING_FITS, "%s with dot=%d takes Q, K, V and dO in bf16 alone", name,
                        config->cpu.dot);
    if (!tiles_suit(config, streamed))
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "%s with dot=%d takes an even micro that divides 2 * vector_width (%d), and at least as many "
                        "streamed rows or keys: not micro %d and %d",
                        name, config->cpu.dot, 2 * config->cpu.vector_width, config->cpu.micro, streamed);
    if (config->cpu.dot == CLA_CPU_AVX512_BF16 && (config->cpu.vector_width != WIDTH || !capabilities->cpu_bf16_dot))
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "%s with dot=1 needs vector_width 16 and a device that multiplies pairs of bf16 (AVX512-BF16), "
                        "unless CLATTN_DISABLE has \"avx512_bf16\": take dot=0, or dot=2 that emulates it",
                        name);
    return CLATTN_SUCCESS;
}

void cla_cpu_explain_dot(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                         const struct cla_config *config, struct clattn_plan_info *info)
{
    if (config->cpu.dot != CLA_CPU_FMA)
        cla_plan_step(info, "unit", config->b_r, config->b_c,
                      "%s: two multiply-adds of bf16 to a lane; P and dS are rounded to bf16",
                      config->cpu.dot == CLA_CPU_AVX512_BF16 ? "vdpbf16ps of AVX512-BF16" : "pairs of bf16, emulated");
    else if (capabilities->cpu_bf16_dot && all_bf16(problem))
        cla_plan_step(info, "unit", config->b_r, config->b_c,
                      "multiply-adds of floats: the device multiplies pairs of bf16, but not with these sizes");
}

int cla_cpu_items(int n, const struct cla_config *config)
{
    return config->cpu.dot == CLA_CPU_FMA ? cla_cpu_stride(n, config)
                                          : cla_round_up((n + 1) / 2, config->cpu.vector_width);
}

int cla_cpu_weight_words(int streamed, const struct cla_config *config)
{
    return config->cpu.dot == CLA_CPU_FMA ? 0 : streamed / 2 * cla_cpu_panel(config);
}
