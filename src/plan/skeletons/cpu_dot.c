/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/skeletons/cpu_dot.h"
#include "plan/operand.h"
#include "plan/sizes.h"
#include "plan/skeletons/cpu_tiles.h"
#include "plan/types.h"
#include "plan/ways.h"

enum { WIDTH = 16 };                       /* lanes of the instructions' vectors */
enum { AMX_MICRO = 32, MOST_VECTORS = 2 }; /* two tiles by two are four sums, and four registers are left */

/* One of enum cla_cpu_dot. */
struct unit {
    const char *text;    /* of the plan's step */
    const char *needs;   /* of the device; NULL: it is emulated */
    const char *disable; /* its word of CLATTN_DISABLE */
    bool tiles;          /* of 32 rows by one or two vectors of lanes */
};

static const struct unit units[] = {
    [CLA_CPU_FMA] = {"multiply-adds of floats", NULL, NULL, false},
    [CLA_CPU_AVX512_BF16] = {"vdpbf16ps of AVX512-BF16: two multiply-adds of bf16 to a lane",
                             "multiplies pairs of bf16 (AVX512-BF16)", CLA_WAY_BF16_PAIRS, false},
    [CLA_CPU_AVX512_BF16_EMULATED] = {"pairs of bf16, emulated", NULL, NULL, false},
    [CLA_CPU_AMX] = {"tdpbf16ps of AMX: tiles of 16 x 32 and 32 x 16 in bf16", "multiplies tiles of bf16 (AMX)",
                     CLA_WAY_BF16_TILES, true},
    [CLA_CPU_AMX_EMULATED] = {"tiles of bf16, emulated", NULL, NULL, true},
};

static bool all_bf16(const struct clattn_problem *problem)
{
    const bool inputs = cla_type_of(problem, CLA_Q) == CLATTN_BF16 && cla_type_of(problem, CLA_K) == CLATTN_BF16 &&
                        cla_type_of(problem, CLA_V) == CLATTN_BF16;
    return inputs && (problem->pass == CLATTN_FORWARD || problem->pass == CLATTN_ACCUMULATE ||
                      problem->dtype == CLATTN_BF16); /* dO */
}

static bool device_has(const struct clattn_capabilities *capabilities, int dot)
{
    return dot == CLA_CPU_AVX512_BF16 ? capabilities->cpu_bf16_dot != 0
           : dot == CLA_CPU_AMX       ? capabilities->cpu_amx_bf16 != 0
                                      : true;
}

/* Results go by way of the tiles that stream, whose items are half of a float. */
static bool tiles_suit(const struct cla_config *config, int streamed)
{
    const int twice = 2 * config->cpu.vector_width, micro = config->cpu.micro;
    if (units[config->cpu.dot].tiles)
        return config->cpu.vector_width == WIDTH && config->cpu.row_vectors <= MOST_VECTORS && micro == AMX_MICRO &&
               streamed % AMX_MICRO == 0;
    return micro % 2 == 0 && twice % micro == 0 && streamed >= twice;
}

void cla_cpu_take_dot(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                      int streamed, struct cla_config *config)
{
    static const enum cla_cpu_dot faster_first[] = {CLA_CPU_AMX, CLA_CPU_AVX512_BF16};
    const bool suits = config->cpu.vector_width == WIDTH && all_bf16(problem);
    for (size_t i = 0; suits && i < sizeof faster_first / sizeof *faster_first; i++) {
        struct cla_config tried = *config;
        tried.cpu.dot = faster_first[i];
        if (units[tried.cpu.dot].tiles)
            tried.cpu.micro = AMX_MICRO;
        if (device_has(capabilities, tried.cpu.dot) && tiles_suit(&tried, streamed)) {
            *config = tried;
            return;
        }
    }
    config->cpu.dot = CLA_CPU_FMA;
}

clattn_status cla_cpu_check_dot(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                                const char *name, const struct cla_config *config, int streamed,
                                struct cla_error *error)
{
    const int dot = config->cpu.dot;
    if (dot == CLA_CPU_FMA)
        return CLATTN_SUCCESS;
    if (!all_bf16(problem))
        return cla_fail(error, CLATTN_NOTHING_FITS, "%s with dot=%d takes Q, K, V and dO in bf16 alone", name, dot);
    if (units[dot].needs && (config->cpu.vector_width != WIDTH || !device_has(capabilities, dot)))
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "%s with dot=%d needs vector_width 16 and a device that %s, unless CLATTN_DISABLE has \"%s\": "
                        "take dot=0, or dot=%d that emulates it",
                        name, dot, units[dot].needs, units[dot].disable, dot + 1);
    if (!tiles_suit(config, streamed) && units[dot].tiles)
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "%s with dot=%d takes vector_width 16, micro 32, row_vectors 1 or 2, and a multiple of 32 "
                        "streamed rows or keys: not %d, %d, %d and %d",
                        name, dot, config->cpu.vector_width, config->cpu.micro, config->cpu.row_vectors, streamed);
    if (!tiles_suit(config, streamed))
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "%s with dot=%d takes an even micro that divides 2 * vector_width (%d), and at least as many "
                        "streamed rows or keys: not micro %d and %d",
                        name, dot, 2 * config->cpu.vector_width, config->cpu.micro, streamed);
    return CLATTN_SUCCESS;
}

void cla_cpu_explain_dot(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                         const struct cla_config *config, struct clattn_plan_info *info)
{
    const bool has = capabilities->cpu_bf16_dot || capabilities->cpu_amx_bf16;
    if (config->cpu.dot != CLA_CPU_FMA)
        cla_plan_step(info, "unit", config->b_r, config->b_c, "%s; P and dS are rounded to bf16",
                      units[config->cpu.dot].text);
    else if (has && all_bf16(problem))
        cla_plan_step(info, "unit", config->b_r, config->b_c,
                      "multiply-adds of floats: the device multiplies bf16 %s, but not with these sizes",
                      capabilities->cpu_amx_bf16 ? "in tiles" : "in pairs");
}

int cla_cpu_items(int n, const struct cla_config *config)
{
    return config->cpu.dot == CLA_CPU_FMA ? cla_cpu_stride(n, config)
                                          : cla_round_up((n + 1) / 2, config->cpu.vector_width);
}

bool cla_cpu_may_fuse(const struct cla_config *config)
{
    return !units[config->cpu.dot].tiles || config->cpu.row_vectors == MOST_VECTORS;
}

int cla_cpu_panels_together(const struct cla_config *config)
{
    return units[config->cpu.dot].tiles ? 4 : 1;
}

int cla_cpu_scored_keys(int b_c, const struct cla_config *config)
{
    return units[config->cpu.dot].tiles ? 2 * config->cpu.micro : b_c;
}

bool cla_cpu_has_tickets(const struct clattn_capabilities *capabilities, const struct cla_config *config)
{
    return units[config->cpu.dot].tiles || (capabilities->compute_units > cla_forward_cpu_few_units &&
                                            cla_has_extension(capabilities, "cl_khr_int64_base_atomics"));
}

const struct cla_cpu_sizes *cla_cpu_forward_sizes(const struct cla_config *config)
{
    return units[config->cpu.dot].tiles ? &cla_forward_amx_sizes
           : config->cpu.tickets        ? &cla_forward_tickets_sizes
                                        : &cla_forward_cpu_sizes;
}

int cla_cpu_ticket_sizes(const struct cla_config *config)
{
    enum { MOST = 3 };
    const int least_rows = cla_forward_tickets_sizes.least_rows;
    int sizes = config->cpu.tickets || units[config->cpu.dot].tiles ? 1 : 0;
    while (sizes && sizes < MOST && config->b_r >> sizes >= least_rows &&
           config->b_r % (cla_cpu_panel(config) << sizes) == 0)
        sizes++;
    return sizes;
}

int cla_cpu_weight_words(int streamed, const struct cla_config *config)
{
    return config->cpu.dot == CLA_CPU_FMA ? 0 : streamed / 2 * cla_cpu_panel(config);
}
