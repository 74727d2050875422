/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/stages.h"
#include "attention/score.h"
#include "plan/packing.h"

/* Keys of one sequence that the call may have to do with. */
static int64_t most_keys(const struct cla_call *call, const struct clattn_shape *shape)
{
    return call && call->key_count < shape->n_kv ? call->key_count : shape->n_kv;
}

static uint64_t outputs_of(const struct cla_call *call)
{
    uint64_t outputs = 0;
    for (int i = 0; i < CLA_OPERANDS; i++)
        if (call->operands[i].output && call->operands[i].end)
            outputs |= UINT64_C(1) << i;
    return outputs;
}

_Static_assert(CLA_OPERANDS <= 64, "the outputs of a call are bits of 64");

clattn_status cla_recipe_make(const struct clattn_plan *plan, const struct clattn_shape *shape,
                              const struct cla_call *call, size_t first, struct cla_recipe *recipe,
                              struct cla_error *error)
{
    struct cla_split_rule rule = plan->split_rule;
    rule.pack = cla_pack_of(&plan->choice.config, shape);
    const int64_t most = CLATTN_MAX_SPLITS * rule.split_keys;
    if (most && shape->n_kv > most)
        return cla_fail(
            error, CLATTN_TOO_LARGE,
            "shape.n_kv is %lld: with splits of %lld keys (problem.split_keys, in whole tiles) it is at most "
            "%lld, %d of them",
            (long long)shape->n_kv, (long long)rule.split_keys, (long long)most, CLATTN_MAX_SPLITS);
    const struct cla_run run = {.problem = &plan->problem,
                                .config = &plan->choice.config,
                                .capabilities = &plan->context->capabilities,
                                .shape = *shape,
                                .keys = most_keys(call, shape),
                                .splits = cla_splits_of(&rule, shape->batch * shape->heads, shape->n_q, shape->n_kv),
                                .outputs = call ? outputs_of(call) : UINT64_MAX,
                                .d_bias = call ? call->operands[CLA_BIAS_GRAD].sizes : (struct cla_sizes){0}};
    *recipe = cla_recipe_of(plan->choice.skeleton, &run);
    cla_recipe_place(recipe, first);
    if (!recipe->too_large)
        return CLATTN_SUCCESS;
    return cla_fail(error, CLATTN_TOO_LARGE,
                    "shape: what %s keeps in the workspace for batch %lld x heads %lld x n_q %lld, n_kv %lld is more "
                    "than can be counted: split the batch, or take another problem.skeleton",
                    plan->info.skeleton, (long long)shape->batch, (long long)shape->heads, (long long)shape->n_q,
                    (long long)shape->n_kv);
}

clattn_status cla_stages_count(const struct clattn_plan *plan, struct cla_recipe *recipe, struct cla_error *error)
{
    clattn_status status = CLATTN_SUCCESS;
    for (int i = 0; i < recipe->stage_count && !status; i++) {
        struct cla_stage *stage = &recipe->stages[i];
        const size_t most = (size_t)stage->most_groups;
        status =
            cla_plan_groups(plan, stage->batch, stage->heads, stage->blocks, stage->counted, &stage->groups, error);
        if (most && stage->groups > most)
            stage->groups = most;
    }
    return status;
}

enum { MOST_ARGUMENTS = 16 };
_Static_assert(MOST_ARGUMENTS + CLA_SCORE_ARGUMENTS <= 64, "a kernel knows the kinds of 64 arguments");

static struct cla_argument argument_of(const struct cla_stage_call *of, int which)
{
    const struct cla_operand *operands = of->call->operands;
    if (which == CLA_ARGUMENT_BLOCK)
        return (struct cla_argument){.size = of->block_bytes, .value = of->block};
    if (which >= CLA_LAYOUT_OF)
        return (struct cla_argument){.size = sizeof(struct cla_layout),
                                     .value = &operands[which - CLA_LAYOUT_OF].layout};
    return cla_operand_argument(&operands[which]);
}

static cl_uint arguments_of(const struct clattn_plan *plan, const struct cla_stage *stage,
                            const struct cla_stage_call *of, struct cla_argument *arguments)
{
    cl_uint count = 0;
    for (const int *which = stage->arguments; *which != CLA_ARGUMENTS_END; which++)
        arguments[count++] = argument_of(of, *which);
    return count +
           cla_score_arguments(of->call, plan->features, cla_problem_accumulates(&plan->problem), arguments + count);
}

clattn_status cla_stages_run(const struct clattn_plan *plan, struct cla_chain *chain, const struct cla_recipe *recipe,
                             const struct cla_stage_call *of, struct cla_error *error)
{
    clattn_status status = CLATTN_SUCCESS;
    for (int i = 0; i < recipe->stage_count && !status; i++) {
        const struct cla_stage *stage = &recipe->stages[i];
        struct cla_kernel *kernel = &plan->kernels->skeleton[stage->kernel];
        const size_t items = (size_t)plan->work_group_sizes[stage->kernel];
        struct cla_argument arguments[MOST_ARGUMENTS + CLA_SCORE_ARGUMENTS];
        if (!stage->groups)
            continue;
        const cl_uint count = arguments_of(plan, stage, of, arguments);
        cla_chain_next(chain);
        if (of->ends && i == recipe->stage_count - 1)
            status = cla_chain_launch_last(chain, kernel, arguments, count, stage->groups, items, error);
        else
            status = cla_chain_launch(chain, kernel, arguments, count, stage->groups, items, error);
    }
    return status;
}
