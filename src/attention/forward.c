/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/forward.h"
#include "attention/arguments.h"
#include "device/clcall.h"
#include "device/report.h"
#include "plan/checked.h"
#include "plan/kernel_params.h"

/* One work-group for each block of B_r rows of each head. Kernels number their groups in 32 bits. */
static clattn_status count_groups(const struct clattn_plan *plan, const struct clattn_shape *shape, size_t *groups,
                                  struct cla_error *error)
{
    const int64_t blocks = cla_ceil_div(shape->n_q, plan->info.b_r);
    const bool narrow = plan->context->capabilities.address_bits == 32;
    const int64_t limit = narrow ? UINT32_MAX / plan->info.work_group_size : INT32_MAX;
    int64_t count;
    if (!cla_multiply(blocks, shape->heads, &count) || !cla_multiply(count, shape->batch, &count) || count > limit)
        return cla_fail(
            error, CLATTN_TOO_LARGE,
            "shape: batch %lld x heads %lld x ceil(n_q %lld / B_r %d) work-groups are more than the %lld that "
            "can be launched at once: split the batch",
            (long long)shape->batch, (long long)shape->heads, (long long)shape->n_q, plan->info.b_r, (long long)limit);
    *groups = (size_t)count;
    return CLATTN_SUCCESS;
}

/* The present skeletons keep all intermediate results on the chip. */
static clattn_status workspace_bytes(const struct clattn_plan *plan, const struct clattn_shape *shape, size_t *bytes,
                                     struct cla_error *error)
{
    struct clattn_shape resolved;
    size_t groups = 0;
    clattn_status status = cla_shape_resolve(shape, &resolved, error);
    if (!status)
        status = count_groups(plan, &resolved, &groups, error);
    if (!status)
        *bytes = 0;
    return status;
}

clattn_status clattn_plan_workspace_bytes(const clattn_plan *plan, const struct clattn_shape *shape, size_t *bytes)
{
    struct cla_error error;
    clattn_status status;
    if (!plan)
        status = cla_fail(&error, CLATTN_INVALID_ARGUMENT, "plan is NULL: it must be a clattn_plan");
    else if (!shape)
        status = cla_fail(&error, CLATTN_INVALID_ARGUMENT, "shape is NULL: it must point to a struct clattn_shape");
    else if (!bytes)
        status = cla_fail(&error, CLATTN_INVALID_ARGUMENT, "bytes is NULL: it must point to the size_t to be set");
    else
        status = workspace_bytes(plan, shape, bytes, &error);
    return status ? cla_report(plan ? &plan->context->log : NULL, &error) : CLATTN_SUCCESS;
}

static void fill_params(const struct clattn_problem *problem, const struct cla_forward *forward,
                        struct cla_forward_params *params)
{
    const struct cla_operand *operands = forward->operands;
    const struct clattn_shape *shape = &forward->shape;
    *params = (struct cla_forward_params){.q = operands[CLA_Q].layout,
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
                                          .n_kv = (int32_t)shape->n_kv,
                                          .scale = problem->scale,
                                          .scale_log2e = problem->scale * 1.44269504088896341f};
}

static clattn_status launch(const struct clattn_plan *plan, cl_command_queue queue, const struct cla_forward *forward,
                            size_t groups, cl_uint wait_count, const cl_event *wait_list, cl_event *event,
                            struct cla_error *error)
{
    struct cla_forward_params params;
    struct cla_argument arguments[CLA_OPERANDS + 1];
    fill_params(&plan->problem, forward, &params);
    for (int i = 0; i < CLA_OPERANDS; i++) {
        const cl_mem *buffer = &forward->operands[i].buffer;
        arguments[i] = (struct cla_argument){sizeof *buffer, *buffer ? buffer : NULL};
    }
    arguments[CLA_OPERANDS] = (struct cla_argument){sizeof params, &params};
    return cla_kernel_launch(plan->kernel, queue, arguments, CLA_OPERANDS + 1, groups,
                             (size_t)plan->info.work_group_size, wait_count, wait_list, event, error);
}

clattn_status cla_forward_enqueue(const struct clattn_plan *plan, cl_command_queue queue,
                                  const struct clattn_forward_args *args, cl_uint wait_count, const cl_event *wait_list,
                                  cl_event *event, struct cla_error *error)
{
    struct cla_forward forward;
    size_t groups = 0;
    clattn_status status = cla_forward_arguments(&plan->problem, args, &forward, error);
    if (!status)
        status = count_groups(plan, &forward.shape, &groups, error);
    if (!status)
        status = cla_check_waits(wait_count, wait_list, error);
    if (!status)
        status = cla_check_queue(queue, plan->context->context, plan->context->device, error);
    if (!status)
        status = cla_check_buffers(&forward, error);
    if (status)
        return status;
    if (forward.empty)
        return cla_cl_enqueue_marker(queue, wait_count, wait_list, event, error);
    return launch(plan, queue, &forward, groups, wait_count, wait_list, event, error);
}

clattn_status clattn_forward_enqueue(const clattn_plan *plan, cl_command_queue queue,
                                     const struct clattn_forward_args *args, cl_uint wait_count,
                                     const cl_event *wait_list, cl_event *event)
{
    struct cla_error error;
    clattn_status status;
    if (!plan)
        status = cla_fail(&error, CLATTN_INVALID_ARGUMENT, "plan is NULL: it must be a clattn_plan");
    else
        status = cla_forward_enqueue(plan, queue, args, wait_count, wait_list, event, &error);
    return status ? cla_report(plan ? &plan->context->log : NULL, &error) : CLATTN_SUCCESS;
}
