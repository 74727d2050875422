/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/recipe.h"
#include "plan/checked.h"
#include "plan/packing.h"
#include "plan/states.h"
#include <string.h>

enum { LINE = 128, WORD = 4 };

int64_t cla_recipe_times(struct cla_recipe *recipe, int64_t a, int64_t b)
{
    int64_t product = 0;
    if (!cla_multiply(a, b, &product))
        recipe->too_large = true;
    return product;
}

void cla_recipe_region(struct cla_recipe *recipe, const char *name, int64_t count, int64_t each_bytes, bool zeroed,
                       size_t told_at)
{
    recipe->regions[recipe->region_count++] = (struct cla_region){
        .name = name, .bytes = cla_recipe_times(recipe, count, each_bytes), .zeroed = zeroed, .told_at = told_at};
}

void cla_recipe_number(struct cla_recipe *recipe, size_t at, int32_t value)
{
    recipe->numbers[recipe->number_count++] = (struct cla_number){at, value};
}

void cla_recipe_stage(struct cla_recipe *recipe, struct cla_stage stage)
{
    recipe->stages[recipe->stage_count++] = stage;
}

bool cla_run_wants(const struct cla_run *run, int operand)
{
    return run->outputs >> operand & 1;
}

bool cla_run_wants_keys(const struct cla_run *run)
{
    return cla_run_wants(run, CLA_D_K) || cla_run_wants(run, CLA_D_V);
}

int64_t cla_run_row_blocks(const struct cla_run *run)
{
    return cla_ceil_div(run->shape.n_q, run->config->b_r);
}

int64_t cla_run_key_blocks(const struct cla_run *run)
{
    return cla_ceil_div(run->keys, run->config->b_c);
}

#define FORWARD CLA_Q, CLA_K, CLA_V, CLA_O, CLA_LSE, CLA_M, CLA_L
const int cla_forward_list[] = {FORWARD, CLA_ARGUMENT_BLOCK, CLA_ARGUMENTS_END};
const int cla_forward_workspace_list[] = {FORWARD, CLA_WORKSPACE, CLA_ARGUMENT_BLOCK, CLA_ARGUMENTS_END};

#define BACKWARD CLA_Q, CLA_K, CLA_V, CLA_D_O, CLA_WORKSPACE
const int cla_backward_inputs_list[] = {BACKWARD, CLA_ARGUMENT_BLOCK, CLA_ARGUMENTS_END};
const int cla_backward_keys_list[] = {BACKWARD, CLA_D_K, CLA_D_V, CLA_ARGUMENT_BLOCK, CLA_ARGUMENTS_END};
static const int dq_arguments[] = {BACKWARD, CLA_D_Q, CLA_ARGUMENT_BLOCK, CLA_ARGUMENTS_END};
static const int d_bias_arguments[] = {BACKWARD, CLA_BIAS_GRAD, CLA_ARGUMENT_BLOCK, CLA_LAYOUT_OF + CLA_BIAS_GRAD,
                                       CLA_ARGUMENTS_END};

void cla_recipe_pack(struct cla_recipe *recipe, const struct cla_run *run, int pack)
{
    cla_recipe_number(recipe, offsetof(struct cla_forward_params, heads), (int32_t)(run->shape.heads / pack));
    cla_recipe_number(recipe, offsetof(struct cla_forward_params, n_q), (int32_t)(run->shape.n_q * pack));
    cla_recipe_number(recipe, offsetof(struct cla_forward_params, pack.number), pack);
}

void cla_recipe_forward(const struct cla_run *run, struct cla_recipe *recipe)
{
    struct cla_state_places places = {0};
    const bool splits = run->splits > 1;
    if (splits && !cla_states_place(run->problem->d_v, &run->shape, run->splits, &places))
        recipe->too_large = true;
    if (splits)
        cla_recipe_region(recipe, "states of splits", places.end, sizeof(float), false, CLA_UNTOLD);
    recipe->splits = run->splits;
    const int pack = cla_pack_of(run->config, &run->shape);
    if (run->config->packs)
        cla_recipe_pack(recipe, run, pack);
    cla_recipe_stage(recipe,
                     (struct cla_stage){.kernel = splits ? CLA_SPLIT : CLA_WHOLE,
                                        .batch = run->shape.batch,
                                        .heads = run->shape.heads / pack,
                                        .blocks = cla_ceil_div(run->shape.n_q * pack, run->config->b_r) * run->splits,
                                        .counted = splits ? "n_q / B_r x splits" : "n_q / B_r",
                                        .arguments = cla_forward_list});
}

void cla_recipe_joined_forward(const struct cla_run *run, struct cla_recipe *recipe)
{
    cla_recipe_forward(run, recipe);
    if (run->splits == 1)
        return;
    recipe->joins = recipe->numbered = true;
    recipe->regions[0].told_at = offsetof(struct cla_forward_params, states);
    const struct cla_stage *stage = &recipe->stages[0];
    const int64_t heads = cla_recipe_times(recipe, stage->batch, stage->heads);
    cla_recipe_region(recipe, "counters of splits", cla_recipe_times(recipe, heads, stage->blocks / run->splits),
                      sizeof(int64_t), false, offsetof(struct cla_forward_params, counters));
    recipe->stages[0].arguments = cla_forward_workspace_list;
}

void cla_recipe_forward_by_tickets(const struct cla_run *run, int sizes, struct cla_recipe *recipe)
{
    cla_recipe_forward(run, recipe);
    if (run->splits > 1 || cla_problem_accumulates(run->problem))
        return;
    if (sizes > 1) /* then few heads have all blocks halved (cl/forward_cpu.cl), each for a core */
        recipe->stages[0].blocks *= 2;
    recipe->numbered = true;
    cla_recipe_region(recipe, "counter of tickets", 1, sizeof(int64_t), false,
                      offsetof(struct cla_forward_params, counters));
    recipe->stages[0].arguments = cla_forward_workspace_list;
}

static void over_rows(const struct cla_run *run, bool wanted, struct cla_recipe *recipe)
{
    if (wanted)
        cla_recipe_stage(recipe, (struct cla_stage){.kernel = CLA_DQ,
                                                    .batch = run->shape.batch,
                                                    .heads = run->shape.heads,
                                                    .blocks = cla_run_row_blocks(run),
                                                    .counted = "n_q / B_r",
                                                    .arguments = dq_arguments});
}

void cla_recipe_dq(const struct cla_run *run, struct cla_recipe *recipe)
{
    over_rows(run, cla_run_wants(run, CLA_D_Q), recipe);
}

void cla_recipe_over_keys(const struct cla_run *run, int kernel, int64_t shares, int64_t groups,
                          struct cla_recipe *recipe)
{
    cla_recipe_stage(recipe, (struct cla_stage){.kernel = kernel,
                                                .batch = run->shape.batch,
                                                .heads = run->shape.kv_heads,
                                                .blocks = cla_recipe_times(recipe, cla_run_key_blocks(run), shares),
                                                .counted = "n_kv / B_c",
                                                .most_groups = groups,
                                                .arguments = cla_backward_keys_list});
}

void cla_recipe_d_bias(const struct cla_run *run, struct cla_recipe *recipe)
{
    /* A work-group that sums over rows goes through all of them. Both counts of blocks are below 2^31. */
    const int64_t row_blocks = run->d_bias.rows == 1 ? 1 : cla_run_row_blocks(run);
    if (run->problem->features & CLATTN_BIAS && cla_run_wants(run, CLA_BIAS_GRAD))
        cla_recipe_stage(recipe,
                         (struct cla_stage){.kernel = CLA_D_BIAS,
                                            .batch = run->d_bias.batch,
                                            .heads = run->d_bias.heads,
                                            .blocks = row_blocks * cla_ceil_div(run->shape.n_kv, run->config->b_c),
                                            .counted = "n_q / B_r x n_kv / B_c",
                                            .arguments = d_bias_arguments});
}

void cla_recipe_backward(const struct cla_run *run, struct cla_recipe *recipe)
{
    if (cla_run_wants_keys(run))
        cla_recipe_over_keys(run, CLA_DK_DV, 1, 0, recipe);
    cla_recipe_dq(run, recipe);
    cla_recipe_d_bias(run, recipe);
}

bool cla_run_wants_delta(const struct cla_run *run)
{
    return cla_run_wants(run, CLA_D_K) || cla_run_wants(run, CLA_BIAS_GRAD) || cla_run_wants(run, CLA_SINKS_GRAD);
}

void cla_recipe_mended_backward(const struct cla_run *run, struct cla_recipe *recipe)
{
    const bool mends = !cla_problem_accumulates(run->problem);
    over_rows(run, cla_run_wants(run, CLA_D_Q) || (mends && cla_run_wants_delta(run)), recipe);
    if (cla_run_wants_keys(run))
        cla_recipe_over_keys(run, CLA_DK_DV, 1, 0, recipe);
    cla_recipe_d_bias(run, recipe);
}

struct cla_recipe cla_recipe_of(const struct cla_skeleton *skeleton, const struct cla_run *run)
{
    struct cla_recipe recipe = {.splits = 1, .stuck_region = -1};
    skeleton->recipe(run, &recipe);
    return recipe;
}

uint32_t cla_recipe_kernels(const struct cla_skeleton *skeleton, const struct cla_config *config,
                            const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                            int splits)
{
    const struct cla_run run = {.problem = problem,
                                .config = config,
                                .capabilities = capabilities,
                                .shape = {.batch = 1, .heads = 1, .kv_heads = 1, .n_q = 1, .n_kv = 1},
                                .keys = 1,
                                .splits = splits,
                                .outputs = UINT64_MAX,
                                .d_bias = {1, 1, 1, 1}};
    const struct cla_recipe recipe = cla_recipe_of(skeleton, &run);
    uint32_t kernels = 0;
    for (int i = 0; i < recipe.stage_count; i++)
        kernels |= UINT32_C(1) << recipe.stages[i].kernel;
    return kernels;
}

/* *at goes on to the next multiple of a line. */
static bool align(int64_t *at)
{
    return cla_add(*at, LINE - 1, at) && (*at -= *at % LINE, true);
}

void cla_recipe_place(struct cla_recipe *recipe, size_t first)
{
    const uint64_t begin = first;
    int64_t at = begin <= INT64_MAX ? (int64_t)begin : INT64_MAX;
    for (int i = 0; i < recipe->region_count; i++) {
        struct cla_region *region = &recipe->regions[i];
        if (recipe->too_large || !align(&at))
            recipe->too_large = true;
        region->first = at / WORD;
        if (!cla_add(at, region->bytes, &at))
            recipe->too_large = true;
    }
    if ((uint64_t)at > SIZE_MAX)
        recipe->too_large = true;
    recipe->end_byte = (size_t)at;
}

struct cla_words cla_recipe_zeroed(const struct cla_recipe *recipe)
{
    struct cla_words words = {0};
    for (int i = 0; i < recipe->region_count; i++) {
        const struct cla_region *region = &recipe->regions[i];
        if (!region->zeroed)
            continue;
        if (!words.count)
            words.first = region->first;
        words.count = region->first + cla_ceil_div(region->bytes, WORD) - words.first;
    }
    return words;
}

void cla_recipe_tell(const struct cla_recipe *recipe, void *block)
{
    for (int i = 0; i < recipe->region_count; i++)
        if (recipe->regions[i].told_at != CLA_UNTOLD)
            memcpy((char *)block + recipe->regions[i].told_at, &recipe->regions[i].first, sizeof(int64_t));
    for (int i = 0; i < recipe->number_count; i++)
        memcpy((char *)block + recipe->numbers[i].at, &recipe->numbers[i].value, sizeof(int32_t));
}
