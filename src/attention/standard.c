/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/buffers.h"
#include "attention/chain.h"
#include "attention/gemm.h"
#include "attention/standard_kernels.h"
#include "device/clcall.h"
#include "device/context.h"
#include "device/report.h"
#include "plan/types.h"
#include <clattn/standard.h>
#include <stdio.h>

/* A pass under way. */
struct pass {
    struct clattn_context *context;
    cl_command_queue queue;
    cl_mem workspace;
    const struct clattn_problem *problem;
    const struct cla_standard *standard;
    struct cla_standard_kernels kernels;
};

/* The next stage reads what this one wrote, and the queue may be out of order. */
static clattn_status end_stage(const struct pass *pass, struct cla_error *error)
{
    return cla_cl_enqueue_barrier(pass->queue, 0, NULL, error);
}

static struct cla_batch batch_of(const struct pass *pass, int which, int64_t first, int64_t count)
{
    const struct cla_standard *standard = pass->standard;
    const struct cla_matrix *matrix = &standard->matrices[which];
    const int64_t offset = cla_matrix_offset(matrix, standard, first);
    const int64_t next = count > 1 ? cla_matrix_offset(matrix, standard, first + 1) : offset;
    return (struct cla_batch){.buffer = matrix->packed ? pass->workspace : standard->forward.operands[which].buffer,
                              .offset = (size_t)offset,
                              .stride = (size_t)(next - offset),
                              .ld = (size_t)matrix->ld,
                              .rows = (size_t)matrix->rows,
                              .columns = (size_t)matrix->columns};
}

static struct cla_batch batch_of_scores(const struct pass *pass)
{
    const struct clattn_shape *shape = &pass->standard->forward.shape;
    const size_t n_q = (size_t)shape->n_q, n_kv = (size_t)shape->n_kv;
    return (struct cla_batch){pass->workspace, 0, n_q * n_kv, n_kv, n_q, n_kv};
}

/* S = scale * Q K^T, P = softmax(S), O = P V for a run of heads. */
static clattn_status attend(struct pass *pass, int64_t first, int64_t count, struct cla_error *error)
{
    const struct cla_batch q = batch_of(pass, CLA_Q, first, count), k = batch_of(pass, CLA_K, first, count);
    const struct cla_batch v = batch_of(pass, CLA_V, first, count), o = batch_of(pass, CLA_O, first, count);
    const struct cla_batch s = batch_of_scores(pass);
    clattn_status status = cla_gemm(pass->queue, pass->problem->scale, &q, &k, true, &s, count, error);
    if (!status)
        status = end_stage(pass, error);
    if (!status)
        status =
            cla_standard_softmax(&pass->kernels, pass->queue, pass->standard, pass->workspace, first, count, error);
    if (!status)
        status = end_stage(pass, error);
    if (!status)
        status = cla_gemm(pass->queue, 1.0f, &s, &v, false, &o, count, error);
    return status ? status : end_stage(pass, error);
}

/* Without keys there is nothing to multiply. */
static clattn_status write_nothing_seen(struct pass *pass, struct cla_error *error)
{
    const clattn_status status =
        cla_standard_softmax(&pass->kernels, pass->queue, pass->standard, NULL, 0, pass->standard->heads, error);
    return status ? status : cla_standard_unpack(&pass->kernels, pass->queue, pass->standard, CLA_O, NULL, error);
}

static clattn_status run_pass(struct pass *pass, struct cla_error *error)
{
    const struct cla_standard *standard = pass->standard;
    clattn_status status = CLATTN_SUCCESS;
    if (!standard->forward.shape.n_kv)
        return write_nothing_seen(pass, error);
    for (int i = CLA_Q; i <= CLA_V && !status; i++)
        if (standard->matrices[i].packed)
            status = cla_standard_pack(&pass->kernels, pass->queue, standard, i, pass->workspace, error);
    if (!status)
        status = end_stage(pass, error);
    for (int64_t first = 0, count; first < standard->heads && !status; first += count) {
        count = cla_standard_run(standard, first);
        status = attend(pass, first, count, error);
    }
    if (!status && standard->matrices[CLA_O].packed)
        status = cla_standard_unpack(&pass->kernels, pass->queue, standard, CLA_O, pass->workspace, error);
    return status;
}

static clattn_status check_workspace(const struct cla_standard *standard, const struct clattn_forward_args *args,
                                     struct cla_error *error)
{
    const size_t needed = standard->workspace_bytes;
    if (!needed)
        return CLATTN_SUCCESS;
    if (args->workspace_bytes < needed)
        return cla_fail(error, CLATTN_WORKSPACE_TOO_SMALL, "workspace_bytes is %zu: this shape needs %zu",
                        args->workspace_bytes, needed);
    if (!args->workspace)
        return cla_fail(error, CLATTN_WORKSPACE_TOO_SMALL, "workspace is NULL: it must be a cl_mem of %zu bytes",
                        needed);
    for (int i = 0; i < CLA_FORWARD_OPERANDS; i++) {
        const struct cla_operand *operand = &standard->forward.operands[i];
        if (operand->end && operand->buffer == args->workspace &&
            (uint64_t)operand->layout.offset * (uint64_t)operand->element_bytes < needed)
            return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                            "workspace overlaps %s, which begins at byte %lld of the same buffer: the first %zu bytes "
                            "are overwritten",
                            cla_operand_name(i), (long long)operand->layout.offset * operand->element_bytes, needed);
    }
    return CLATTN_SUCCESS;
}

static clattn_status refuse_address(const char *name, enum clattn_memory memory, struct cla_error *error)
{
    return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                    "%smemory is %s: CLBlast takes a cl_mem alone, so that in standard attention it is CLATTN_BUFFER",
                    name, memory == CLATTN_SVM ? "CLATTN_SVM" : "CLATTN_USM");
}

static clattn_status check_memory(const struct cla_call *forward, int64_t workspace_memory, struct cla_error *error)
{
    for (int i = 0; i < CLA_FORWARD_OPERANDS; i++) {
        char name[16];
        snprintf(name, sizeof name, "%s.", cla_operand_name(i));
        if (forward->operands[i].memory)
            return refuse_address(name, forward->operands[i].memory, error);
    }
    return workspace_memory ? refuse_address("workspace_", (enum clattn_memory)workspace_memory, error)
                            : CLATTN_SUCCESS;
}

static size_t alignment(const struct clattn_context *context)
{
    const uint32_t bits = context->capabilities.base_address_align_bits;
    return bits ? bits / 8 : 128;
}

/* CLBlast gives no event of its first kernel: where that is wanted, a marker stands before all, between two barriers,
 * since NVIDIA's driver has no times of a marker that itself waits for events. */
static clattn_status wait_first(const struct pass *pass, cl_uint wait_count, const cl_event *wait_list, cl_event *first,
                                struct cla_error *error)
{
    clattn_status status = CLATTN_SUCCESS;
    if (wait_count || first)
        status = cla_cl_enqueue_barrier(pass->queue, wait_count, wait_list, error);
    if (!status && first)
        status = cla_cl_enqueue_marker(pass->queue, 0, NULL, first, error);
    if (!status && first)
        status = cla_cl_enqueue_barrier(pass->queue, 0, NULL, error);
    return status;
}

static clattn_status enqueue(struct pass *pass, cl_uint wait_count, const cl_event *wait_list, cl_event *first_event,
                             cl_event *event, struct cla_error *error)
{
    const struct cla_dispatch to = cla_to_queue(pass->queue, wait_count, wait_list, event);
    cl_event first = NULL;
    if (pass->standard->forward.empty)
        return cla_chain_nothing(&to, first_event, error);
    clattn_status status =
        cla_standard_kernels_make(&pass->kernels, pass->context, pass->problem, pass->standard, error);
    if (!status)
        status = wait_first(pass, wait_count, wait_list, first_event ? &first : NULL, error);
    if (!status) {
        cla_gemm_lock();
        status = run_pass(pass, error);
        cla_gemm_unlock();
    }
    if (!status && event)
        status = cla_cl_enqueue_marker(pass->queue, 0, NULL, event, error);
    if (first && !status)
        *first_event = first;
    else
        cla_cl_release_event(first);
    cla_standard_kernels_finish(&pass->kernels);
    return status;
}

static clattn_status resolve(const struct clattn_problem *problem, struct clattn_problem *resolved,
                             struct cla_error *error)
{
    const clattn_status status = cla_problem_resolve(problem, resolved, error);
    if (status)
        return status;
    if (resolved->pass != CLATTN_FORWARD)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.pass is %d: standard attention has the forward pass alone, CLATTN_FORWARD (0)",
                        (int)resolved->pass);
    if (cla_problem_features(resolved))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.features is 0x%x%s: standard attention modifies no scores, so that they must be 0 and "
                        "score_mod and mask_mod NULL",
                        resolved->features, resolved->score_mod || resolved->mask_mod ? ", with texts of its own" : "");
    return cla_types_check_one(resolved, "standard attention", error);
}

/* NVIDIA's driver crashes with CLBlast's kernels on an out-of-order queue: see standard.h. */
static clattn_status check_order(const struct clattn_context *context, cl_command_queue queue, struct cla_error *error)
{
    cl_command_queue_properties properties = 0;
    if (!context->capabilities.nv_compute_capability)
        return CLATTN_SUCCESS;
    const clattn_status status = cla_cl_queue_properties(queue, &properties, error);
    if (status || !(properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE))
        return status;
    return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                    "queue executes its commands out of order: NVIDIA's driver crashes when CLBlast uses such a queue: "
                    "take an in-order queue for standard attention");
}

static clattn_status check_and_enqueue(struct clattn_context *context, const struct clattn_problem *problem,
                                       cl_command_queue queue, const struct clattn_forward_args *args,
                                       cl_uint wait_count, const cl_event *wait_list, cl_event *event,
                                       struct cla_error *error)
{
    struct clattn_problem resolved;
    struct cla_call forward;
    struct cla_standard standard;
    clattn_status status = resolve(problem, &resolved, error);
    if (!status)
        status = cla_forward_arguments(&resolved, 0, CLA_BUFFERS, args, 0, &forward, error);
    if (!status)
        status = check_memory(&forward, args->workspace_memory, error);
    if (!status)
        status = cla_standard_plan(&forward, alignment(context), &standard, error);
    if (!status)
        status = check_workspace(&standard, args, error);
    if (!status)
        status = cla_check_waits(wait_count, wait_list, context->context, error);
    if (!status)
        status = cla_check_queue(queue, context->context, context->device, error);
    if (!status)
        status = check_order(context, queue, error);
    if (!status && standard.workspace_bytes)
        status = cla_call_place_bytes(&forward, CLA_WORKSPACE,
                                      (struct cla_bytes){args->workspace, CLATTN_BUFFER, standard.workspace_bytes},
                                      true, error);
    if (!status)
        status = cla_check_buffers(&forward, context, error);
    if (!status)
        status = cla_gemm_load(error);
    if (status)
        return status;
    struct pass pass = {
        .context = context, .queue = queue, .workspace = args->workspace, .problem = &resolved, .standard = &standard};
    return enqueue(&pass, wait_count, wait_list, args->first_event, event, error);
}

clattn_status clattn_standard_enqueue(clattn_context *context, const struct clattn_problem *problem,
                                      cl_command_queue queue, const struct clattn_forward_args *args,
                                      cl_uint wait_count, const cl_event *wait_list, cl_event *event)
{
    struct cla_error error;
    clattn_status status;
    if (!context)
        status = cla_fail(&error, CLATTN_INVALID_ARGUMENT, "context is NULL: it must be a clattn_context");
    else
        status = check_and_enqueue(context, problem, queue, args, wait_count, wait_list, event, &error);
    return status ? cla_report(context ? &context->log : NULL, &error) : CLATTN_SUCCESS;
}

static clattn_status workspace_bytes(const struct clattn_context *context, const struct clattn_problem *problem,
                                     const struct clattn_forward_args *args, size_t *bytes, struct cla_error *error)
{
    struct clattn_problem resolved;
    struct cla_call forward;
    struct cla_standard standard;
    clattn_status status = resolve(problem, &resolved, error);
    if (!status)
        status = cla_forward_arguments(&resolved, 0, CLA_LAYOUTS, args, 0, &forward, error);
    if (!status)
        status = cla_standard_plan(&forward, alignment(context), &standard, error);
    if (!status)
        status = cla_gemm_load(error);
    if (!status)
        *bytes = standard.workspace_bytes;
    return status;
}

clattn_status clattn_standard_workspace_bytes(const clattn_context *context, const struct clattn_problem *problem,
                                              const struct clattn_forward_args *args, size_t *bytes)
{
    struct cla_error error;
    clattn_status status;
    if (!context)
        status = cla_fail(&error, CLATTN_INVALID_ARGUMENT, "context is NULL: it must be a clattn_context");
    else if (!args)
        status =
            cla_fail(&error, CLATTN_INVALID_ARGUMENT, "args is NULL: it must point to a struct clattn_forward_args");
    else if (!bytes)
        status = cla_fail(&error, CLATTN_INVALID_ARGUMENT, "bytes is NULL: it must point to the size_t to be set");
    else
        status = workspace_bytes(context, problem, args, bytes, &error);
    return status ? cla_report(context ? &context->log : NULL, &error) : CLATTN_SUCCESS;
}
