/* SPDX-License-Identifier: BSD-2-Clause */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "attention/forward.h"
#include "attention/arguments.h"
#include "attention/buffers.h"
#include "attention/plan_few.h"
#include "attention/score.h"
#include "device/clcall.h"
#include "device/recorder.h"
#include "device/report.h"
#include "plan/checked.h"
#include "plan/kernel_params.h"
#include <time.h>

clattn_status cla_dispatch_checks(const struct clattn_context *context, const struct cla_dispatch *to,
                                  struct cla_call *call, struct cla_error *error)
{
    clattn_status status = CLATTN_SUCCESS;
    if (to->own)
        return CLATTN_SUCCESS;
    if (to->recorder)
        status = cla_recorder_open(to->recorder, context->device, error);
    else
        status = cla_check_waits(to->wait_count, to->wait_list, context->context, error);
    if (!status && !to->recorder)
        status = cla_check_queue(to->queue, context->context, context->device, error);
    return status ? status : cla_check_buffers(call, context, error);
}

void cla_point_into_states(struct cla_call *call, int which, const struct cla_state_places *places)
{
    const int64_t n_q = call->shape.n_q, heads = call->shape.heads, d_v = call->problem->d_v;
    const struct cla_layout vector = {.batch = heads * n_q, .head = n_q, .row = 1};
    call->operands[CLA_O].layout = cla_layout_dense(heads, n_q, d_v);
    call->operands[CLA_M].layout = call->operands[CLA_L].layout = vector;
    call->operands[CLA_O].layout.offset = places->o;
    call->operands[CLA_L].layout.offset = places->l;
    cla_operand_share(&call->operands[CLA_O], &call->operands[which]);
    cla_operand_share(&call->operands[CLA_M], &call->operands[which]);
    cla_operand_share(&call->operands[CLA_L], &call->operands[which]);
    call->operands[CLA_LSE].buffer = NULL;
}

static struct cla_forward_params params_of(const struct cla_call *call)
{
    const struct cla_operand *operands = call->operands;
    const struct clattn_shape *shape = &call->shape;
    return (struct cla_forward_params){.q = operands[CLA_Q].layout,
                                       .k = operands[CLA_K].layout,
                                       .v = operands[CLA_V].layout,
                                       .o = operands[CLA_O].layout,
                                       .lse = operands[CLA_LSE].layout,
                                       .m = operands[CLA_M].layout,
                                       .l = operands[CLA_L].layout,
                                       .batch = (int32_t)shape->batch,
                                       .heads = (int32_t)shape->heads,
                                       .kv_heads = (int32_t)shape->kv_heads,
                                       .n_q = (int32_t)shape->n_q,
                                       .n_kv = (int32_t)call->key_count,
                                       .scale = call->problem->scale,
                                       .scale_log2e = call->problem->scale * 1.44269504088896341f,
                                       .exact_m = operands[CLA_M].buffer || operands[CLA_L].buffer};
}

/* A multiple of 2^16 unlike those of other calls, and unlike what memory holds by chance. */
static int64_t call_number(void)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now); /* C11's timespec_get() is not in Windows' old C library */
    const uint64_t nanoseconds = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
    return (int64_t)((nanoseconds * UINT64_C(0x9e3779b97f4a7c15)) << 16);
}

/* The recipe's kernels, which are the call's last unless keys are split, and another makes one of the states. */
static clattn_status run(const struct clattn_plan *plan, struct cla_chain *chain, const struct cla_call *call,
                         const struct cla_recipe *recipe, struct cla_error *error)
{
    const bool splits = recipe->splits > 1 && !recipe->joins;
    struct cla_call parts = *call;
    struct cla_state_places places = {0};
    clattn_status status = CLATTN_SUCCESS;
    if (splits)
        status = cla_state_locate(plan->problem.d_v, &call->shape, recipe->splits, &places, error);
    if (splits)
        cla_point_into_states(&parts, CLA_WORKSPACE, &places);
    struct cla_forward_params params = params_of(&parts);
    params.splits = recipe->joins ? recipe->splits : places.states;
    params.call = recipe->numbered ? call_number() : 0;
    params.exact_m = call->operands[CLA_M].buffer || call->operands[CLA_L].buffer;
    cla_recipe_tell(recipe, &params);
    cla_forward_params_divide(&params, plan->choice.config.b_r);
    const struct cla_stage_call of = {&parts, &params, sizeof params, !splits};
    if (!status)
        status = cla_stages_run(plan, chain, recipe, &of, error);
    if (status || !splits)
        return status;
    cla_chain_next(chain);
    status = cla_rows_results(&plan->kernels->rows, chain, call, CLA_WORKSPACE, &places, error);
    return status ? status : cla_chain_event(chain, error);
}

clattn_status cla_forward_launch(const struct clattn_plan *plan, const struct cla_dispatch *to,
                                 const struct cla_call *call, const struct cla_recipe *recipe, struct cla_error *error)
{
    struct cla_chain chain;
    cla_chain_start(&chain, to, call->first_event);
    clattn_status status = cla_rows_expand(&plan->kernels->rows, &chain, call, error);
    if (!status)
        status = run(plan, &chain, call, recipe, error);
    cla_chain_finish(&chain, status);
    return status;
}

/* What the shape needs, before anything else is known to be right. */
static clattn_status make_recipe(const struct clattn_plan *plan, const struct clattn_forward_args *args,
                                 struct cla_recipe *recipe, struct cla_error *error)
{
    struct clattn_shape shape;
    *recipe = (struct cla_recipe){.splits = 1};
    if (!args || cla_shape_resolve(&args->shape, &shape, error))
        return CLATTN_SUCCESS; /* which cla_forward_arguments refuses */
    return cla_recipe_make(plan, &shape, NULL, 0, recipe, error);
}

static clattn_status dispatch(const struct clattn_plan *plan, const struct clattn_forward_args *args,
                              const struct cla_dispatch *to, struct cla_error *error)
{
    struct cla_call call;
    struct cla_recipe recipe;
    clattn_status status = make_recipe(plan, args, &recipe, error);
    if (!status)
        status =
            cla_forward_arguments(&plan->problem, plan->features, CLA_BUFFERS, args, recipe.end_byte, &call, error);
    if (!status)
        status = cla_stages_count(plan, &recipe, error);
    if (!status && (cla_score_is_csr(&call) || (recipe.splits > 1 && !recipe.joins)))
        status = cla_rows_check(&plan->kernels->rows, &call, plan->context->capabilities.address_bits == 32, error);
    if (!status)
        status = cla_dispatch_checks(plan->context, to, &call, error);
    if (status)
        return status;
    if (call.empty)
        return cla_chain_nothing(to, args->first_event, error);
    call.first_event = args->first_event;
    return cla_forward_launch(plan, to, &call, &recipe, error);
}

clattn_status cla_forward_dispatch(const struct clattn_plan *plan, const struct clattn_forward_args *args,
                                   const struct cla_dispatch *to, struct cla_error *error)
{
    const bool statistics = args && (args->m.buffer || args->l.buffer);
    const clattn_status status = cla_plan_for(plan, args ? &args->shape : NULL, statistics, &plan, error);
    return status ? status : dispatch(plan, args, to, error);
}

clattn_status clattn_forward_enqueue(const clattn_plan *plan, cl_command_queue queue,
                                     const struct clattn_forward_args *args, cl_uint wait_count,
                                     const cl_event *wait_list, cl_event *event)
{
    struct cla_error error;
    const struct cla_dispatch to = cla_to_queue(queue, wait_count, wait_list, event);
    clattn_status status = cla_plan_check_pass(plan, CLATTN_FORWARD, "clattn_forward_enqueue", &error);
    if (!status)
        status = cla_forward_dispatch(plan, args, &to, &error);
    return status ? cla_report(plan ? &plan->context->log : NULL, &error) : CLATTN_SUCCESS;
}
