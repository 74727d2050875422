/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/arguments.h"
#include "device/clcall.h"

const char *const cla_operand_names[CLA_OPERANDS] = {"q", "k", "v", "o", "lse", "m", "l"};

static void set_sizes(const struct clattn_problem *problem, struct cla_forward *forward)
{
    const struct clattn_shape *shape = &forward->shape;
    for (int i = 0; i < CLA_OPERANDS; i++) {
        const bool keys = i == CLA_K || i == CLA_V;
        const int columns = i >= CLA_LSE ? 1 : i == CLA_V || i == CLA_O ? problem->d_v : problem->d;
        forward->operands[i] = (struct cla_operand){
            .sizes = {shape->batch, keys ? shape->kv_heads : shape->heads, keys ? shape->n_kv : shape->n_q, columns},
            .element_bytes = i >= CLA_LSE ? (int)sizeof(float) : clattn_dtype_size(problem->dtype)};
    }
}

clattn_status cla_forward_resolve(const struct clattn_problem *problem, const struct clattn_shape *shape,
                                  const struct clattn_layout *const layouts[CLA_OPERANDS], struct cla_forward *forward,
                                  struct cla_error *error)
{
    const clattn_status status = cla_shape_resolve(shape, &forward->shape, error);
    if (status)
        return status;
    set_sizes(problem, forward);
    for (int i = 0; i < CLA_OPERANDS; i++) {
        if (!layouts[i])
            continue;
        struct cla_operand *operand = &forward->operands[i];
        const clattn_status wrong = cla_layout_resolve(cla_operand_names[i], layouts[i], &operand->sizes, i >= CLA_O,
                                                       &operand->layout, &operand->end, error);
        if (wrong)
            return wrong;
    }
    forward->empty = !forward->shape.batch || !forward->shape.heads || !forward->shape.n_q;
    return CLATTN_SUCCESS;
}

static bool share_bytes(const struct cla_operand *a, const struct cla_operand *b)
{
    return a->end && b->end && a->buffer == b->buffer &&
           a->layout.offset * a->element_bytes < b->end * b->element_bytes &&
           b->layout.offset * b->element_bytes < a->end * a->element_bytes;
}

static clattn_status check_overlap(const struct cla_forward *forward, struct cla_error *error)
{
    for (int i = CLA_O; i < CLA_OPERANDS; i++) {
        for (int j = 0; j < i; j++) {
            const struct cla_operand *output = &forward->operands[i], *other = &forward->operands[j];
            if (share_bytes(output, other))
                return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                                "%s (bytes %lld to %lld of its buffer) overlaps %s (bytes %lld to %lld of the same "
                                "buffer): an output needs a place of its own",
                                cla_operand_names[i], (long long)(output->layout.offset * output->element_bytes),
                                (long long)(output->end * output->element_bytes - 1), cla_operand_names[j],
                                (long long)(other->layout.offset * other->element_bytes),
                                (long long)(other->end * other->element_bytes - 1));
        }
    }
    return CLATTN_SUCCESS;
}

clattn_status cla_forward_arguments(const struct clattn_problem *problem, const struct clattn_forward_args *args,
                                    struct cla_forward *forward, struct cla_error *error)
{
    if (!args)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "args is NULL: it must point to a struct clattn_forward_args");
    const struct clattn_tensor *const tensors[CLA_OPERANDS] = {&args->q,   &args->k, &args->v, &args->o,
                                                               &args->lse, &args->m, &args->l};
    const struct clattn_layout *layouts[CLA_OPERANDS];
    for (int i = 0; i < CLA_OPERANDS; i++)
        layouts[i] = i < CLA_LSE || tensors[i]->buffer ? &tensors[i]->layout : NULL;
    const clattn_status status = cla_forward_resolve(problem, &args->shape, layouts, forward, error);
    if (status)
        return status;
    for (int i = 0; i < CLA_OPERANDS; i++) {
        forward->operands[i].buffer = tensors[i]->buffer;
        if (forward->operands[i].end && !tensors[i]->buffer)
            return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                            "%s.buffer is NULL: it must be a cl_mem of at least %lld bytes", cla_operand_names[i],
                            (long long)(forward->operands[i].end * forward->operands[i].element_bytes));
    }
    return check_overlap(forward, error);
}

clattn_status cla_check_buffers(const struct cla_forward *forward, struct cla_error *error)
{
    for (int i = 0; i < CLA_OPERANDS; i++) {
        const struct cla_operand *operand = &forward->operands[i];
        if (!operand->end)
            continue;
        struct cla_error cause;
        size_t bytes = 0;
        const clattn_status status = cla_cl_buffer_size(operand->buffer, &bytes, &cause);
        if (status)
            return cla_fail(error, status, "%s.buffer is not a usable cl_mem: %s", cla_operand_names[i], cause.text);
        const uint64_t needed = (uint64_t)operand->end * (uint64_t)operand->element_bytes;
        if (bytes < needed)
            return cla_fail(error, CLATTN_BUFFER_TOO_SMALL,
                            "%s.buffer has %zu bytes: the tensor reaches to byte %llu (%lld elements of %d bytes)",
                            cla_operand_names[i], bytes, (unsigned long long)needed, (long long)operand->end,
                            operand->element_bytes);
    }
    return CLATTN_SUCCESS;
}

clattn_status cla_check_waits(cl_uint wait_count, const cl_event *wait_list, struct cla_error *error)
{
    if (wait_count && !wait_list)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "wait_list is NULL with a wait_count of %u: it must hold that many events, or wait_count be 0",
                        (unsigned)wait_count);
    for (cl_uint i = 0; i < wait_count; i++) {
        if (!wait_list[i])
            return cla_fail(error, CLATTN_INVALID_ARGUMENT, "wait_list[%u] is NULL: it must be a cl_event",
                            (unsigned)i);
    }
    return CLATTN_SUCCESS;
}

clattn_status cla_check_queue(cl_command_queue queue, cl_context context, cl_device_id device, struct cla_error *error)
{
    if (!queue)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "queue is NULL: it must be a cl_command_queue");
    cl_context queue_context = NULL;
    cl_device_id queue_device = NULL;
    struct cla_error cause;
    const clattn_status status = cla_cl_queue_context(queue, &queue_context, &queue_device, &cause);
    if (status)
        return cla_fail(error, status, "queue is not a usable cl_command_queue: %s", cause.text);
    if (queue_context != context)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "queue belongs to the cl_context %p: it must belong to %p, that of the clattn_context",
                        (void *)queue_context, (void *)context);
    if (queue_device != device)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "queue belongs to the device %p: it must belong to %p, that of the clattn_context",
                        (void *)queue_device, (void *)device);
    return CLATTN_SUCCESS;
}
