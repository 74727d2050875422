/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/forward.h"
#include "attention/arguments.h"
#include "attention/buffers.h"
#include "attention/score.h"
#include "device/clcall.h"
#include "device/report.h"
#include "plan/checked.h"
#include "plan/kernel_params.h"

enum { WORD = 4 };

clattn_status cla_forward_groups(const struct clattn_plan *plan, const struct clattn_shape *shape, int splits,
                                 size_t *groups, struct cla_error *error)
{
    const clattn_status status =
        cla_plan_groups(plan, shape->batch, shape->heads, cla_ceil_div(shape->n_q, plan->info.b_r) * splits,
                        splits > 1 ? "n_q / B_r x splits" : "n_q / B_r", groups, error);
    if (!status && plan->most_groups && *groups > plan->most_groups)
        *groups = plan->most_groups;
    return status;
}

/* Behind the splits' states. A call without rows launches no kernel. */
static bool locate_maps(const struct clattn_plan *plan, const struct clattn_shape *shape,
                        struct cla_forward_places *places)
{
    const bool is_empty = !shape->batch || !shape->heads || !shape->n_q;
    int64_t words = places->splits.end, bytes;
    if (plan->maps && !is_empty) {
        if (!cla_add(words, CLA_MAP_WORDS - 1, &words))
            return false;
        places->maps = words -= words % CLA_MAP_WORDS;
        if (!cla_add(words, (int64_t)plan->most_groups * plan->maps * CLA_MAP_WORDS, &words))
            return false;
    }
    if (!cla_multiply(words, WORD, &bytes) || (uint64_t)bytes > SIZE_MAX)
        return false;
    places->end_byte = (size_t)bytes;
    return true;
}

clattn_status cla_forward_locate(const struct clattn_plan *plan, const struct clattn_shape *shape,
                                 struct cla_forward_places *places, struct cla_error *error)
{
    const int splits = cla_problem_is_backward(&plan->problem)
                           ? 1
                           : cla_splits_of(&plan->split_rule, shape->batch * shape->heads, shape->n_q, shape->n_kv);
    *places = (struct cla_forward_places){0};
    const clattn_status status =
        splits == 1 ? CLATTN_SUCCESS : cla_state_locate(plan->problem.d_v, shape, splits, &places->splits, error);
    if (status || locate_maps(plan, shape, places))
        return status;
    return cla_fail(error, CLATTN_TOO_LARGE, "shape: the workspace is more than can be counted");
}

clattn_status cla_enqueue_checks(const struct clattn_plan *plan, cl_command_queue queue, struct cla_call *call,
                                 cl_uint wait_count, const cl_event *wait_list, struct cla_error *error)
{
    clattn_status status = cla_check_waits(wait_count, wait_list, error);
    if (!status)
        status = cla_check_queue(queue, plan->context->context, plan->context->device, error);
    return status ? status : cla_check_buffers(call, plan->context->context, error);
}

void cla_point_into_states(struct cla_call *call, int which, const struct cla_state_places *places)
{
    const int64_t n_q = call->shape.n_q, heads = call->shape.heads, d_v = call->problem->d_v;
    const struct cla_layout vector = {.batch = heads * n_q, .head = n_q, .row = 1};
    call->operands[CLA_O].layout = cla_layout_dense(heads, n_q, d_v);
    call->operands[CLA_M].layout = call->operands[CLA_L].layout = vector;
    call->operands[CLA_O].layout.offset = places->o;
    call->operands[CLA_L].layout.offset = places->l;
    call->operands[CLA_O].buffer = call->operands[CLA_M].buffer = call->operands[CLA_L].buffer =
        call->operands[which].buffer;
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
                                       .maps = call->maps,
                                       .batch = (int32_t)shape->batch,
                                       .heads = (int32_t)shape->heads,
                                       .kv_heads = (int32_t)shape->kv_heads,
                                       .n_q = (int32_t)shape->n_q,
                                       .n_kv = (int32_t)call->key_count,
                                       .scale = call->problem->scale,
                                       .scale_log2e = call->problem->scale * 1.44269504088896341f,
                                       .exact_m = operands[CLA_M].buffer || operands[CLA_L].buffer};
}

static cl_uint arguments_of(const struct clattn_plan *plan, const struct cla_call *call,
                            const struct cla_forward_params *params, struct cla_argument *arguments)
{
    cl_uint count = 0;
    for (int i = 0; i < CLA_FORWARD_OPERANDS; i++) {
        const cl_mem *buffer = &call->operands[i].buffer;
        arguments[count++] = (struct cla_argument){sizeof *buffer, *buffer ? buffer : NULL};
    }
    if (plan->maps)
        arguments[count++] = (struct cla_argument){sizeof(cl_mem), &call->operands[CLA_WORKSPACE].buffer};
    arguments[count++] = (struct cla_argument){sizeof *params, params};
    return count +
           cla_score_arguments(call, plan->features, cla_problem_accumulates(&plan->problem), arguments + count);
}

clattn_status cla_forward_launch(const struct clattn_plan *plan, cl_command_queue queue, const struct cla_call *call,
                                 size_t groups, cl_uint wait_count, const cl_event *wait_list, cl_event *event,
                                 struct cla_error *error)
{
    const struct cla_forward_params params = params_of(call);
    struct cla_argument arguments[CLA_FORWARD_OPERANDS + 2 + CLA_SCORE_ARGUMENTS];
    const cl_uint count = arguments_of(plan, call, &params, arguments);
    struct cla_chain chain;
    cla_chain_start(&chain, queue, wait_count, wait_list, call->first_event);
    clattn_status status = cla_rows_expand(&plan->kernels->rows, &chain, call, error);
    if (!status)
        status = cla_chain_launch_last(&chain, &plan->kernels->skeleton[CLA_WHOLE], arguments, count, groups,
                                       (size_t)plan->info.work_group_size, event, error);
    cla_chain_finish(&chain, status);
    return status;
}

/* One kernel leaves the splits' states in the workspace, another makes them one. */
static clattn_status launch_splits(const struct clattn_plan *plan, cl_command_queue queue, const struct cla_call *call,
                                   const struct cla_state_places *places, size_t groups, cl_uint wait_count,
                                   const cl_event *wait_list, cl_event *event, struct cla_error *error)
{
    struct cla_call parts = *call;
    struct cla_argument arguments[CLA_FORWARD_OPERANDS + 2 + CLA_SCORE_ARGUMENTS];
    struct cla_chain chain;
    cla_point_into_states(&parts, CLA_WORKSPACE, places);
    struct cla_forward_params params = params_of(&parts);
    params.splits = places->states;
    params.exact_m = call->operands[CLA_M].buffer || call->operands[CLA_L].buffer;
    const cl_uint count = arguments_of(plan, &parts, &params, arguments);
    cla_chain_start(&chain, queue, wait_count, wait_list, call->first_event);
    clattn_status status = cla_rows_expand(&plan->kernels->rows, &chain, call, error);
    cla_chain_next(&chain);
    if (!status)
        status = cla_chain_launch(&chain, &plan->kernels->skeleton[CLA_SPLIT], arguments, count, groups,
                                  (size_t)plan->info.work_group_size, error);
    cla_chain_next(&chain);
    if (!status)
        status = cla_rows_results(&plan->kernels->rows, &chain, call, CLA_WORKSPACE, places, error);
    if (!status)
        status = cla_chain_event(&chain, event, error);
    cla_chain_finish(&chain, status);
    return status;
}

/* What the shape needs, before anything else is known to be right. */
static clattn_status find_places(const struct clattn_plan *plan, const struct clattn_forward_args *args,
                                 struct cla_forward_places *places, struct cla_error *error)
{
    struct clattn_shape shape;
    *places = (struct cla_forward_places){0};
    if (!args || cla_shape_resolve(&args->shape, &shape, error))
        return CLATTN_SUCCESS; /* which cla_forward_arguments refuses */
    return cla_forward_locate(plan, &shape, places, error);
}

clattn_status cla_forward_enqueue(const struct clattn_plan *plan, cl_command_queue queue,
                                  const struct clattn_forward_args *args, cl_uint wait_count, const cl_event *wait_list,
                                  cl_event *event, struct cla_error *error)
{
    struct cla_call call;
    struct cla_forward_places places;
    size_t groups = 0;
    clattn_status status = find_places(plan, args, &places, error);
    const int splits = places.splits.states;
    if (!status)
        status =
            cla_forward_arguments(&plan->problem, plan->features, CLA_BUFFERS, args, places.end_byte, &call, error);
    if (!status)
        status = cla_forward_groups(plan, &call.shape, splits ? splits : 1, &groups, error);
    if (!status && (cla_score_is_csr(&call) || splits))
        status = cla_rows_check(&plan->kernels->rows, &call, plan->context->capabilities.address_bits == 32, error);
    if (!status)
        status = cla_enqueue_checks(plan, queue, &call, wait_count, wait_list, error);
    if (status)
        return status;
    if (call.empty)
        return cla_chain_nothing(queue, wait_count, wait_list, args->first_event, event, error);
    call.maps = places.maps;
    call.first_event = args->first_event;
    if (splits)
        return launch_splits(plan, queue, &call, &places.splits, groups, wait_count, wait_list, event, error);
    return cla_forward_launch(plan, queue, &call, groups, wait_count, wait_list, event, error);
}

clattn_status clattn_forward_enqueue(const clattn_plan *plan, cl_command_queue queue,
                                     const struct clattn_forward_args *args, cl_uint wait_count,
                                     const cl_event *wait_list, cl_event *event)
{
    struct cla_error error;
    clattn_status status = cla_plan_check_pass(plan, CLATTN_FORWARD, "clattn_forward_enqueue", &error);
    if (!status)
        status = cla_forward_enqueue(plan, queue, args, wait_count, wait_list, event, &error);
    return status ? cla_report(plan ? &plan->context->log : NULL, &error) : CLATTN_SUCCESS;
}
