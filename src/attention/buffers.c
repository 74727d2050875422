/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/buffers.h"
#include "device/clcall.h"

static clattn_status fail_buffer(int which, const char *what, struct cla_error *error)
{
    return cla_fail(error, CLATTN_INVALID_ARGUMENT, "%s%s %s", cla_operand_name(which),
                    cla_operand_is_bare(which) ? "" : ".buffer", what);
}

static clattn_status check_kind(int which, const struct cla_buffer_facts *facts, cl_context context,
                                struct cla_error *error)
{
    if (facts->type != CL_MEM_OBJECT_BUFFER)
        return fail_buffer(which, "is an image or a pipe: it must be a buffer (clCreateBuffer, clCreateSubBuffer)",
                           error);
    if (facts->context == context)
        return CLATTN_SUCCESS;
    return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                    "%s%s belongs to the cl_context %p: it must belong to %p, that of the clattn_context",
                    cla_operand_name(which), cla_operand_is_bare(which) ? "" : ".buffer", (void *)facts->context,
                    (void *)context);
}

/* What is added to is read, too. */
static bool is_read(const struct cla_call *call, int which)
{
    if (which == CLA_WORKSPACE || which == CLA_STATE || !call->operands[which].output)
        return true;
    return cla_problem_accumulates(call->problem) && (which == CLA_D_Q || which == CLA_BIAS_GRAD);
}

static clattn_status check_access(const struct cla_call *call, int which, cl_mem_flags flags, struct cla_error *error)
{
    if (call->operands[which].output && (flags & CL_MEM_READ_ONLY))
        return fail_buffer(
            which, "was made with CL_MEM_READ_ONLY, and the call writes to it: make it with another flag", error);
    if (is_read(call, which) && (flags & CL_MEM_WRITE_ONLY))
        return fail_buffer(which, "was made with CL_MEM_WRITE_ONLY, and the call reads it: make it with another flag",
                           error);
    return CLATTN_SUCCESS;
}

static clattn_status check_size(int which, const struct cla_operand *operand, size_t bytes, struct cla_error *error)
{
    const char *name = cla_operand_name(which);
    const uint64_t needed = (uint64_t)operand->end * (uint64_t)operand->element_bytes;
    if (operand->whole || bytes >= needed)
        return CLATTN_SUCCESS;
    if (which == CLA_WORKSPACE)
        return cla_fail(error, CLATTN_WORKSPACE_TOO_SMALL, "workspace has %zu bytes: this shape needs %llu", bytes,
                        (unsigned long long)needed);
    if (cla_operand_is_bare(which))
        return cla_fail(error, CLATTN_BUFFER_TOO_SMALL, "%s has %zu bytes: this call needs %llu", name, bytes,
                        (unsigned long long)needed);
    return cla_fail(error, CLATTN_BUFFER_TOO_SMALL,
                    "%s.buffer has %zu bytes: the tensor reaches to byte %llu (%lld elements of %d bytes)", name, bytes,
                    (unsigned long long)needed, (long long)operand->end, operand->element_bytes);
}

static clattn_status ask(int which, cl_mem buffer, struct cla_buffer_facts *facts, struct cla_error *error)
{
    struct cla_error cause;
    const clattn_status status = cla_cl_buffer_facts(buffer, facts, &cause);
    if (!status)
        return CLATTN_SUCCESS;
    return cla_fail(error, status, "%s%s is not a usable cl_mem: %s", cla_operand_name(which),
                    cla_operand_is_bare(which) ? "" : ".buffer", cause.text);
}

static clattn_status fail_device(int which, enum clattn_memory memory, const struct clattn_context *context,
                                 struct cla_error *error)
{
    const char *const missing =
        memory == CLATTN_SVM ? "CLATTN_SVM, and there is no shared virtual memory (CL_DEVICE_SVM_CAPABILITIES is "
                               "0, or the OpenCL library has no clSetKernelArgSVMPointer)"
                             : "CLATTN_USM, and there is no cl_intel_unified_shared_memory";
    return cla_fail(error, CLATTN_UNSUPPORTED_DEVICE, "%s%smemory is %s on the device \"%s\": it must be a cl_mem",
                    cla_operand_name(which), cla_operand_is_bare(which) ? "_" : ".", missing,
                    context->capabilities.device_name);
}

/* What OpenCL knows of an allocation that this address of USM is in. */
static clattn_status check_allocation(int which, const struct cla_operand *operand,
                                      const struct clattn_context *context, struct cla_error *error)
{
    struct cla_allocation in;
    const struct cla_pointers *pointers = &context->pointers;
    const uintptr_t at = (uintptr_t)operand->buffer;
    const clattn_status status = cla_pointers_allocation(pointers, context->context, (void *)at, &in, error);
    if (status)
        return status;
    if (!in.bytes && !pointers->usm_of_system)
        return fail_buffer(which, "is no address of unified shared memory of the clattn_context's cl_context", error);
    return in.bytes ? check_size(which, operand, in.bytes - (size_t)(at - in.from), error) : CLATTN_SUCCESS;
}

static clattn_status check_pointer(int which, struct cla_operand *operand, const struct clattn_context *context,
                                   struct cla_error *error)
{
    operand->set = cla_pointers_setter(&context->pointers, operand->memory);
    if (!operand->set)
        return fail_device(which, operand->memory, context, error);
    return operand->memory == CLATTN_USM ? check_allocation(which, operand, context, error) : CLATTN_SUCCESS;
}

static clattn_status check_buffer(struct cla_call *call, int which, cl_context context, struct cla_error *error)
{
    struct cla_operand *operand = &call->operands[which];
    struct cla_buffer_facts facts;
    clattn_status status = ask(which, operand->buffer, &facts, error);
    if (!status)
        status = check_kind(which, &facts, context, error);
    if (!status)
        status = check_access(call, which, facts.flags, error);
    if (!status)
        status = check_size(which, operand, facts.bytes, error);
    if (!status && facts.parent)
        operand->part = (struct cla_part){facts.parent, facts.from, facts.bytes};
    return status;
}

clattn_status cla_check_buffers(struct cla_call *call, const struct clattn_context *context, struct cla_error *error)
{
    clattn_status status = CLATTN_SUCCESS;
    bool parts = false;
    for (int i = 0; i < CLA_OPERANDS && !status; i++) {
        struct cla_operand *operand = &call->operands[i];
        if (!operand->end)
            continue;
        status = operand->memory ? check_pointer(i, operand, context, error)
                                 : check_buffer(call, i, context->context, error);
        parts = parts || operand->part.of;
    }
    /* What shares a buffer without sub-buffers has been found before. */
    return status || !parts ? status : cla_check_overlap(call, error);
}
