/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/arguments.h"
#include "attention/forward.h"
#include "attention/host_plans.h"
#include "attention/staging.h"
#include "device/clcall.h"
#include "device/report.h"
#include "plan/checked.h"
#include <clattn/host.h>
#include <stdlib.h>
#include <string.h>

struct clattn_host {
    struct clattn_context *context;
    cl_command_queue queue;
    struct cla_host_plans plans;
    struct cla_device_block blocks[CLA_OPERANDS];
    struct cla_host_block staged[CLA_OPERANDS]; /* for arrays that are not copied as they lie */
    bool succeeded;                             /* once: then the following hold */
    struct clattn_plan_info last_plan;
    struct clattn_host_info last_info;
};

/* One call under way. */
struct job {
    struct clattn_host *host;
    const struct clattn_plan *plan;
    struct cla_forward forward; /* with the layouts of the arrays */
    void *arrays[CLA_OPERANDS]; /* inputs are only read */
    size_t bytes[CLA_OPERANDS]; /* of the elements; 0: nothing to copy */
    bool as_it_lies[CLA_OPERANDS];
    cl_event copied[CLA_OPERANDS]; /* NULL where nothing was */
    cl_event computed;
};

static clattn_status check_params(const struct clattn_host_params *params, struct cla_error *error)
{
    if (!params)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "params is NULL: it must point to a struct clattn_host_params");
    if (!params->context)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "params->context is NULL: it must be a clattn_context");
    if (!params->queue)
        return CLATTN_SUCCESS;
    return cla_check_queue(params->queue, params->context->context, params->context->device, error);
}

static clattn_status take_queue(struct clattn_host *host, cl_command_queue queue, struct cla_error *error)
{
    if (!queue)
        return cla_cl_queue(host->context->context, host->context->device, CL_QUEUE_PROFILING_ENABLE, &host->queue,
                            error);
    const clattn_status status = cla_cl_retain_queue(queue, error);
    if (!status)
        host->queue = queue;
    return status;
}

static clattn_status create(struct clattn_host **result, const struct clattn_host_params *params,
                            struct cla_error *error)
{
    if (!result)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "host is NULL: it must point to the handle to be set");
    clattn_status status = check_params(params, error);
    if (status)
        return status;
    struct clattn_host *host = calloc(1, sizeof *host);
    if (!host)
        return cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for a clattn_host");
    host->context = params->context;
    status = take_queue(host, params->queue, error);
    if (status)
        clattn_host_destroy(&host);
    else
        *result = host;
    return status;
}

clattn_status clattn_host_create(clattn_host **host, const struct clattn_host_params *params)
{
    struct cla_error error;
    if (!create(host, params, &error))
        return CLATTN_SUCCESS;
    return cla_report(params && params->context ? &params->context->log : NULL, &error);
}

void clattn_host_destroy(clattn_host **handle)
{
    if (!handle || !*handle)
        return;
    struct clattn_host *host = *handle;
    *handle = NULL;
    for (int i = 0; i < CLA_OPERANDS; i++) {
        cla_device_block_free(&host->blocks[i]);
        cla_host_block_free(&host->staged[i]);
    }
    cla_host_plans_free(&host->plans);
    cla_cl_release_queue(host->queue);
    free(host);
}

/* Outputs would overwrite each other. (They may overwrite inputs: these have been copied by then.) */
static clattn_status check_overlap(const struct job *job, struct cla_error *error)
{
    for (int i = CLA_O; i < CLA_OPERANDS; i++) {
        for (int j = CLA_O; j < i; j++) {
            const struct cla_operand *a = &job->forward.operands[i], *b = &job->forward.operands[j];
            const uintptr_t at_a = (uintptr_t)job->arrays[i], at_b = (uintptr_t)job->arrays[j];
            const bool overlap =
                a->end && b->end &&
                at_a + (uintptr_t)(a->layout.offset * a->element_bytes) <
                    at_b + (uintptr_t)(b->end * b->element_bytes) &&
                at_b + (uintptr_t)(b->layout.offset * b->element_bytes) < at_a + (uintptr_t)(a->end * a->element_bytes);
            if (overlap)
                return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                                "%s at %p overlaps %s at %p: each output needs an array of its own",
                                cla_operand_names[i], job->arrays[i], cla_operand_names[j], job->arrays[j]);
        }
    }
    return CLATTN_SUCCESS;
}

static clattn_status measure(struct job *job, struct cla_error *error)
{
    const uint64_t limit = job->host->context->capabilities.max_allocation_bytes;
    for (int i = 0; i < CLA_OPERANDS; i++) {
        const struct cla_operand *operand = &job->forward.operands[i];
        const struct cla_sizes *sizes = &operand->sizes;
        int64_t bytes;
        if (!operand->end)
            continue;
        if (!cla_multiply(sizes->batch, sizes->heads, &bytes) || !cla_multiply(bytes, sizes->rows, &bytes) ||
            !cla_multiply(bytes, sizes->columns, &bytes) || !cla_multiply(bytes, operand->element_bytes, &bytes))
            bytes = INT64_MAX;
        if ((uint64_t)bytes > limit)
            return cla_fail(error, CLATTN_TOO_LARGE,
                            "%s takes %lld bytes on the device, which can allocate at most %llu at once: take shorter "
                            "sequences or a smaller batch",
                            cla_operand_names[i], (long long)bytes, (unsigned long long)limit);
        job->bytes[i] = (size_t)bytes;
        job->as_it_lies[i] = cla_layout_is_dense(&operand->layout, sizes);
    }
    return CLATTN_SUCCESS;
}

/* Everything that can be known to be wrong without OpenCL. */
static clattn_status check_arguments(struct job *job, const struct clattn_problem *problem,
                                     const struct clattn_host_forward_args *args, struct cla_error *error)
{
    static const struct clattn_layout dense;
    const struct clattn_layout *const layouts[CLA_OPERANDS] = {
        &args->q_layout,           &args->k_layout,         &args->v_layout,        &args->o_layout,
        args->lse ? &dense : NULL, args->m ? &dense : NULL, args->l ? &dense : NULL};
    const clattn_status status = cla_forward_resolve(problem, &args->shape, layouts, &job->forward, error);
    if (status)
        return status;
    /* One table for all; what is const is only read. */
    void *const arrays[CLA_OPERANDS] = {(void *)(uintptr_t)args->q,
                                        (void *)(uintptr_t)args->k,
                                        (void *)(uintptr_t)args->v,
                                        args->o,
                                        args->lse,
                                        args->m,
                                        args->l};
    memcpy(job->arrays, arrays, sizeof arrays);
    for (int i = 0; i < CLA_OPERANDS; i++) {
        const struct cla_operand *operand = &job->forward.operands[i];
        if (operand->end && !arrays[i])
            return cla_fail(error, CLATTN_INVALID_ARGUMENT, "%s is NULL: it must point to an array of %lld elements",
                            cla_operand_names[i], (long long)operand->end);
    }
    const clattn_status overlap = check_overlap(job, error);
    return overlap ? overlap : measure(job, error);
}

static clattn_status make_room(struct job *job, struct cla_error *error)
{
    struct clattn_host *host = job->host;
    clattn_status status = CLATTN_SUCCESS;
    for (int i = 0; i < CLA_OPERANDS && !status; i++) {
        status = cla_device_block_grow(&host->blocks[i], host->context->context, job->bytes[i], error);
        /* Outputs are never copied straight to their arrays, so that an error while copying leaves these as they were.
         */
        if (!status && (!job->as_it_lies[i] || i >= CLA_O))
            status = cla_host_block_grow(&host->staged[i], job->bytes[i], error);
    }
    return status;
}

/* Where the elements of an array that is copied as it lies begin. */
static char *first_element(const struct job *job, int which)
{
    const struct cla_operand *operand = &job->forward.operands[which];
    return (char *)job->arrays[which] + operand->layout.offset * operand->element_bytes;
}

static clattn_status copy_in(struct job *job, struct cla_error *error)
{
    struct clattn_host *host = job->host;
    clattn_status status = CLATTN_SUCCESS;
    for (int i = CLA_Q; i <= CLA_V && !status; i++) {
        const struct cla_operand *operand = &job->forward.operands[i];
        const void *from = job->arrays[i];
        if (!job->bytes[i])
            continue;
        if (job->as_it_lies[i]) {
            from = first_element(job, i);
        } else {
            from = host->staged[i].data;
            cla_gather(host->staged[i].data, job->arrays[i], &operand->layout, &operand->sizes, operand->element_bytes);
        }
        status = cla_cl_enqueue_write(host->queue, host->blocks[i].buffer, 0, job->bytes[i], from, 0, NULL,
                                      &job->copied[i], error);
    }
    return status;
}

/* The tensor on the device: as its array lies, from the start of the buffer, or dense. */
static struct clattn_tensor tensor_of(const struct job *job, int which)
{
    struct clattn_tensor tensor = {0};
    if (!job->bytes[which])
        return tensor;
    tensor.buffer = job->host->blocks[which].buffer;
    if (job->as_it_lies[which])
        tensor.layout = job->forward.operands[which].layout;
    tensor.layout.offset = 0;
    return tensor;
}

static clattn_status compute(struct job *job, struct cla_error *error)
{
    const struct clattn_forward_args args = {.shape = job->forward.shape,
                                             .q = tensor_of(job, CLA_Q),
                                             .k = tensor_of(job, CLA_K),
                                             .v = tensor_of(job, CLA_V),
                                             .o = tensor_of(job, CLA_O),
                                             .lse = tensor_of(job, CLA_LSE),
                                             .m = tensor_of(job, CLA_M),
                                             .l = tensor_of(job, CLA_L)};
    cl_event waits[CLA_OPERANDS];
    cl_uint count = 0;
    for (int i = CLA_Q; i <= CLA_V; i++)
        if (job->copied[i])
            waits[count++] = job->copied[i];
    return cla_forward_enqueue(job->plan, job->host->queue, &args, count, waits, &job->computed, error);
}

/* Brings the outputs to the host. Until all are here, no array of the caller's is written to. */
static clattn_status copy_out(struct job *job, struct cla_error *error)
{
    struct clattn_host *host = job->host;
    cl_event waits[CLA_OPERANDS + 1] = {job->computed};
    cl_uint count = 1;
    clattn_status status = CLATTN_SUCCESS;
    for (int i = CLA_O; i < CLA_OPERANDS && !status; i++) {
        if (!job->bytes[i])
            continue;
        status = cla_cl_enqueue_read(host->queue, host->blocks[i].buffer, 0, job->bytes[i], host->staged[i].data, 1,
                                     &job->computed, &job->copied[i], error);
        if (!status)
            waits[count++] = job->copied[i];
    }
    return status ? status : cla_cl_wait(count, waits, error);
}

static void hand_over(const struct job *job)
{
    for (int i = CLA_O; i < CLA_OPERANDS; i++) {
        const struct cla_operand *operand = &job->forward.operands[i];
        if (!job->bytes[i])
            continue;
        if (job->as_it_lies[i])
            memcpy(first_element(job, i), job->host->staged[i].data, job->bytes[i]);
        else
            cla_scatter(job->arrays[i], job->host->staged[i].data, &operand->layout, &operand->sizes,
                        operand->element_bytes);
    }
}

/* 0 where the queue does not profile. */
static double milliseconds(cl_event event)
{
    struct cla_error ignored;
    uint64_t start = 0, end = 0;
    if (!event || cla_cl_event_times(event, &start, &end, &ignored) || end < start)
        return 0;
    return (double)(end - start) * 1e-6;
}

static void take_down(const struct job *job)
{
    struct clattn_host *host = job->host;
    struct clattn_host_info info = {.compute_ms = milliseconds(job->computed)};
    for (int i = 0; i < CLA_OPERANDS; i++) {
        info.device_bytes += host->blocks[i].bytes;
        *(i < CLA_O ? &info.copy_in_ms : &info.copy_out_ms) += milliseconds(job->copied[i]);
    }
    host->last_info = info;
    host->last_plan = job->plan->info;
    host->succeeded = true;
}

static clattn_status run(struct job *job, struct cla_error *error)
{
    clattn_status status = copy_in(job, error);
    if (!status)
        status = compute(job, error);
    if (!status)
        status = copy_out(job, error);
    if (status) {
        /* Commands that were enqueued still use the caller's arrays. */
        struct cla_error ignored;
        cla_cl_finish(job->host->queue, &ignored);
    } else {
        hand_over(job);
        take_down(job);
    }
    cla_cl_release_event(job->computed);
    for (int i = 0; i < CLA_OPERANDS; i++)
        cla_cl_release_event(job->copied[i]);
    return status;
}

static clattn_status forward(struct clattn_host *host, const struct clattn_problem *problem,
                             const struct clattn_host_forward_args *args, struct cla_error *error)
{
    if (!args)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "args is NULL: it must point to a struct clattn_host_forward_args");
    struct clattn_problem resolved;
    struct job job = {.host = host};
    clattn_status status = cla_problem_resolve(problem, &resolved, error);
    if (!status)
        status = check_arguments(&job, &resolved, args, error);
    if (!status)
        status = cla_host_plans_get(&host->plans, host->context, &resolved, &job.plan, error);
    if (!status)
        status = make_room(&job, error);
    return status ? status : run(&job, error);
}

clattn_status clattn_host_forward(clattn_host *host, const struct clattn_problem *problem,
                                  const struct clattn_host_forward_args *args)
{
    struct cla_error error;
    clattn_status status;
    if (!host)
        status = cla_fail(&error, CLATTN_INVALID_ARGUMENT, "host is NULL: it must be a clattn_host");
    else
        status = forward(host, problem, args, &error);
    return status ? cla_report(host ? &host->context->log : NULL, &error) : CLATTN_SUCCESS;
}

clattn_status clattn_host_last(const clattn_host *host, struct clattn_plan_info *plan, struct clattn_host_info *info)
{
    struct cla_error error;
    if (!host) {
        cla_fail(&error, CLATTN_INVALID_ARGUMENT, "host is NULL: it must be a clattn_host");
        return cla_report(NULL, &error);
    }
    if (!host->succeeded) {
        cla_fail(&error, CLATTN_INVALID_ARGUMENT, "host has not computed anything yet: call clattn_host_forward first");
        return cla_report(&host->context->log, &error);
    }
    if (plan)
        *plan = host->last_plan;
    if (info)
        *info = host->last_info;
    return CLATTN_SUCCESS;
}
