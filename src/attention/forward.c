/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/forward.h"
#include "attention/score.h"
#include "device/clcall.h"
#include "device/report.h"
#include "plan/checked.h"

clattn_status cla_forward_groups(const struct clattn_plan *plan, const struct clattn_shape *shape, size_t *groups,
                                 struct cla_error *error)
{
    const clattn_status status = cla_plan_groups(plan, shape->batch, shape->heads,
                                                 cla_ceil_div(shape->n_q, plan->info.b_r), "n_q / B_r", groups, error);
    if (!status && plan->most_groups && *groups > plan->most_groups)
        *groups = plan->most_groups;
    return status;
}

clattn_status cla_enqueue_checks(const struct clattn_plan *plan, cl_command_queue queue, const struct cla_call *call,
                                 cl_uint wait_count, const cl_event *wait_list, struct cla_error *error)
{
    clattn_status status = cla_check_waits(wait_count, wait_list, error);
    if (!status)
        status = cla_check_queue(queue, plan->context->context, plan->context->device, error);
    return status ? status : cla_check_buffers(call, error);
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
                                       .scale_log2e = call->problem->scale * 1.44269504088896341f};
}

static cl_uint arguments_of(const struct clattn_plan *plan, const struct cla_call *call,
                            const struct cla_forward_params *params, struct cla_argument *arguments)
{
    cl_uint count = 0;
    for (int i = 0; i < CLA_FORWARD_OPERANDS; i++) {
        const cl_mem *buffer = &call->operands[i].buffer;
        arguments[count++] = (struct cla_argument){sizeof *buffer, *buffer ? buffer : NULL};
    }
    arguments[count++] = (struct cla_argument){sizeof *params, params};
    return count +
           cla_score_arguments(call, plan->features, cla_problem_accumulates(&plan->problem), arguments + count);
}

clattn_status cla_forward_launch(const struct clattn_plan *plan, cl_command_queue queue, const struct cla_call *call,
                                 size_t groups, cl_uint wait_count, const cl_event *wait_list, cl_event *event,
                                 struct cla_error *error)
{
    const struct cla_forward_params params = params_of(call);
    struct cla_argument arguments[CLA_FORWARD_OPERANDS + 1 + CLA_SCORE_ARGUMENTS];
    const cl_uint count = arguments_of(plan, call, &params, arguments);
    struct cla_chain chain;
    cla_chain_start(&chain, queue, wait_count, wait_list);
    clattn_status status = cla_rows_expand(&plan->kernels->rows, &chain, call, error);
    cla_chain_next(&chain);
    if (!status)
        status = cla_kernel_launch(&plan->kernels->skeleton[0], queue, arguments, count, groups,
                                   (size_t)plan->info.work_group_size, chain.wait_count, chain.wait_list, event, error);
    cla_chain_finish(&chain);
    return status;
}

clattn_status cla_forward_enqueue(const struct clattn_plan *plan, cl_command_queue queue,
                                  const struct clattn_forward_args *args, cl_uint wait_count, const cl_event *wait_list,
                                  cl_event *event, struct cla_error *error)
{
    struct cla_call call;
    size_t groups = 0;
    clattn_status status = cla_forward_arguments(&plan->problem, plan->features, CLA_BUFFERS, args, &call, error);
    if (!status)
        status = cla_forward_groups(plan, &call.shape, &groups, error);
    if (!status && cla_score_is_csr(&call))
        status = cla_rows_check(&plan->kernels->rows, &call, plan->context->capabilities.address_bits == 32, error);
    if (!status)
        status = cla_enqueue_checks(plan, queue, &call, wait_count, wait_list, error);
    if (status)
        return status;
    if (call.empty)
        return cla_cl_enqueue_marker(queue, wait_count, wait_list, event, error);
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
