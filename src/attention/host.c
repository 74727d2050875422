/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/backward.h"
#include "attention/forward.h"
#include "attention/host_chunks.h"
#include "attention/host_memory.h"
#include "attention/host_score.h"
#include "attention/host_stream.h"
#include "attention/plan_few.h"
#include "attention/state.h"
#include "device/clcall.h"
#include "device/report.h"
#include "plan/reserved.h"
#include "plan/types.h"
#include <stdlib.h>

static clattn_status check_params(const struct clattn_host_params *params, struct cla_error *error)
{
    if (!params)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "params is NULL: it must point to a struct clattn_host_params");
    if (!params->context)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "params->context is NULL: it must be a clattn_context");
    const clattn_status status = cla_check_reserved(&cla_struct_host_params, "params", params, error);
    if (status)
        return status;
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

clattn_status cla_host_make(struct clattn_host **result, const struct clattn_host_params *params,
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
    if (!cla_host_make(host, params, &error))
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
    for (int i = 0; i < CLA_SLOTS * CLA_SLOT_TENSORS; i++) {
        struct cla_host_slot *slot = &host->slots[i / CLA_SLOT_TENSORS][i % CLA_SLOT_TENSORS];
        cla_device_block_free(&slot->block);
        cla_host_block_free(&slot->staged);
    }
    cla_host_plans_free(&host->plans);
    cla_cl_release_queue(host->copy_queue);
    cla_cl_release_queue(host->queue);
    free(host);
}

/* Forward */

static clattn_status compute_forward(struct cla_host_job *job, cl_uint wait_count, const cl_event *waits,
                                     struct cla_error *error)
{
    const struct clattn_host_forward_args *given = job->args;
    const struct cla_device_block *workspace = &job->host->blocks[CLA_WORKSPACE];
    const struct clattn_forward_args args = {.shape = job->call.shape,
                                             .q = cla_host_tensor_of(job, CLA_Q),
                                             .k = cla_host_tensor_of(job, CLA_K),
                                             .v = cla_host_tensor_of(job, CLA_V),
                                             .o = cla_host_tensor_of(job, CLA_O),
                                             .lse = cla_host_tensor_of(job, CLA_LSE),
                                             .m = cla_host_tensor_of(job, CLA_M),
                                             .l = cla_host_tensor_of(job, CLA_L),
                                             .score = cla_host_score_device(job, &given->score),
                                             .workspace = workspace->buffer,
                                             .workspace_bytes = workspace->bytes,
                                             .first_event = &job->started};
    const struct cla_dispatch to = cla_to_queue(job->host->queue, wait_count, waits, &job->computed);
    return cla_forward_dispatch(job->plan, &args, &to, error);
}

static clattn_status take_chunk(struct cla_host_job *job, int64_t kv_chunk, struct cla_error *error)
{
    if (kv_chunk < 0)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "kv_chunk is %lld: it is 0 (all keys at once) or a number of keys", (long long)kv_chunk);
    const struct clattn_problem *problem = job->call.problem;
    const bool pages = job->call.features & CLATTN_PAGES;
    const bool formats = cla_type_of(problem, CLA_K) > CLATTN_BF16 || cla_type_of(problem, CLA_V) > CLATTN_BF16;
    if (kv_chunk && pages)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "kv_chunk is %lld with CLATTN_PAGES: keys that lie in pages come all at once, so it must be 0",
                        (long long)kv_chunk);
    if (kv_chunk && formats)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "kv_chunk is %lld with k_type %s, v_type %s: keys that are quantised come all at once, so it "
                        "must be 0",
                        (long long)kv_chunk, cla_type((int)cla_type_of(problem, CLA_K))->name,
                        cla_type((int)cla_type_of(problem, CLA_V))->name);
    job->chunk_given = kv_chunk;
    job->may_stream = !pages && !formats && !problem->split_keys && problem->splits <= 1;
    job->streamed = kv_chunk || (!pages && !formats && cla_host_must_stream(job));
    job->kv_chunk = kv_chunk || !job->streamed ? kv_chunk : cla_host_chunk_within(job, UINT64_MAX);
    return CLATTN_SUCCESS;
}

/* What both directions check once their tensors are found right. */
static clattn_status check_rest(struct cla_host_job *job, const struct clattn_host_score_args *score, int64_t kv_chunk,
                                struct cla_error *error)
{
    clattn_status status = cla_host_score_check(job, score, error);
    if (!status)
        status = take_chunk(job, kv_chunk, error);
    return status ? status : cla_host_measure(job, error);
}

/* A direction: what a call of it checks, plans and computes. */
struct direction {
    const char *function, *arguments; /* for messages, as the next */
    const char *pass_name;
    enum clattn_pass pass;
    clattn_status (*check)(struct cla_host_job *job, const struct clattn_problem *problem, struct cla_error *error);
    cla_host_planner plan;
    clattn_status (*prepare_chunks)(struct cla_host_job *job, struct cla_error *error);
    cla_host_compute compute, compute_chunks;
    cla_host_judge judge; /* of keys that come at once: in pieces they are for kernels that wait for none */
};

/* What both directions' arguments have. */
struct given {
    const void *args;
    struct cla_host_watch watch;
    uint64_t max_device_bytes;
};

static clattn_status run_direction(struct clattn_host *host, const struct clattn_problem *problem,
                                   const struct direction *direction, const struct given *given,
                                   struct cla_error *error)
{
    if (!given->args)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "args is NULL: it must point to a struct %s",
                        direction->arguments);
    struct clattn_problem resolved;
    struct cla_score_room room;
    struct cla_host_job job = {.host = host, .room = &room, .splits = 1, .args = given->args, .watch = given->watch};
    clattn_status status = cla_problem_resolve(problem, &resolved, error);
    if (!status && resolved.pass != direction->pass)
        status = cla_fail(error, CLATTN_INVALID_ARGUMENT, "problem.pass is %d: %s computes %s (%d)", (int)resolved.pass,
                          direction->function, direction->pass_name, (int)direction->pass);
    if (!status)
        status = direction->check(&job, &resolved, error);
    if (!status)
        status = cla_host_plan_within(&job, &resolved, given->max_device_bytes, direction->plan, error);
    if (!status && job.streamed)
        status = direction->prepare_chunks(&job, error);
    job.judge = job.streamed ? NULL : direction->judge;
    return status ? status : cla_host_run(&job, job.streamed ? direction->compute_chunks : direction->compute, error);
}

static clattn_status run_reported(struct clattn_host *host, const struct clattn_problem *problem,
                                  const struct direction *direction, const struct given *given)
{
    struct cla_error error;
    clattn_status status;
    if (!host)
        status = cla_fail(&error, CLATTN_INVALID_ARGUMENT, "host is NULL: it must be a clattn_host");
    else
        status = run_direction(host, problem, direction, given, &error);
    return status ? cla_report(host ? &host->context->log : NULL, &error) : CLATTN_SUCCESS;
}

/* Everything that can be known to be wrong without OpenCL. */
static clattn_status check_forward(struct cla_host_job *job, const struct clattn_problem *problem,
                                   struct cla_error *error)
{
    const struct clattn_host_forward_args *given = job->args;
    const struct clattn_forward_args args = {.shape = given->shape,
                                             .q = cla_host_array(given->q, &given->q_layout),
                                             .k = cla_host_array(given->k, &given->k_layout),
                                             .v = cla_host_array(given->v, &given->v_layout),
                                             .o = cla_host_array(given->o, &given->o_layout),
                                             .lse = cla_host_array(given->lse, NULL),
                                             .m = cla_host_array(given->m, NULL),
                                             .l = cla_host_array(given->l, NULL),
                                             .score = cla_host_score_arrays(job, &given->score)};
    clattn_status status = cla_check_reserved(&cla_struct_host_forward_args, "args", given, error);
    if (!status)
        status = cla_check_reserved(&cla_struct_host_kv_scales, "score.kv_scales", given->score.kv_scales, error);
    if (!status)
        status = cla_forward_arguments(problem, cla_problem_features(problem), CLA_ARRAYS, &args, 0, &job->call, error);
    return status ? status : check_rest(job, &given->score, given->kv_chunk, error);
}

/* Whether this call's shape wants its keys split, where the library is free to choose: by the rule of a plan of the
 * problem that is there already, since planning takes longer than a small call. */
static clattn_status choose_splits(const struct cla_host_job *job, struct clattn_problem *problem,
                                   struct cla_error *error)
{
    struct clattn_host *host = job->host;
    bool pays = false;
    problem->splits = CLATTN_SPLITS_BY_SHAPE;
    if (cla_host_plans_peek(&host->plans, problem))
        return CLATTN_SUCCESS; /* which has both kernels */
    problem->splits = 1;
    const struct clattn_plan *whole = cla_host_plans_peek(&host->plans, problem);
    const clattn_status status =
        whole ? CLATTN_SUCCESS : cla_plan_would_split(host->context, problem, &job->call.shape, &pays, error);
    if (whole)
        pays = cla_would_split(&whole->split_rule, &job->call.shape);
    if (pays)
        problem->splits = CLATTN_SPLITS_BY_SHAPE;
    return status;
}

/* The plan's pass, and whether it is to split keys. */
static clattn_status settle_problem(const struct cla_host_job *job, struct clattn_problem *problem,
                                    struct cla_error *error)
{
    if (job->streamed && problem->split_keys)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.split_keys is %lld: keys that arrive in pieces (here of %lld) are not split: it is 0",
                        (long long)problem->split_keys, (long long)job->kv_chunk);
    if (job->streamed && problem->splits > 1)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.splits is %d: keys that arrive in pieces (here of %lld) are not split: it is 0 or 1",
                        problem->splits, (long long)job->kv_chunk);
    problem->pass = job->streamed ? CLATTN_ACCUMULATE : CLATTN_FORWARD;
    if (job->streamed)
        problem->splits = 1;
    return problem->splits || problem->split_keys ? CLATTN_SUCCESS : choose_splits(job, problem, error);
}

/* The workspace that the plan takes comes on top of what the arguments alone ask for. */
static clattn_status add_plan_bytes(struct cla_host_job *job, struct cla_error *error)
{
    struct cla_recipe recipe;
    if (job->streamed || job->call.empty)
        return CLATTN_SUCCESS;
    const bool statistics = cla_host_array_of(job, CLA_M) || cla_host_array_of(job, CLA_L);
    clattn_status status = cla_plan_for(job->plan, &job->call.shape, statistics, &job->plan, error);
    if (!status)
        status = cla_recipe_make(job->plan, &job->call.shape, NULL, 0, &recipe, error);
    if (status)
        return status;
    job->call.workspace_bytes += recipe.end_byte;
    job->splits = recipe.splits;
    return CLATTN_SUCCESS;
}

static clattn_status plan_forward(struct cla_host_job *job, struct clattn_problem *problem, struct cla_error *error)
{
    struct clattn_host *host = job->host;
    clattn_status status = settle_problem(job, problem, error);
    if (!status)
        status = cla_host_plans_get(&host->plans, host->context, problem, &job->plan, error);
    if (!status && job->streamed)
        status = cla_state_bytes(job->plan, &job->call.shape, &job->state_bytes, error);
    return status ? status : add_plan_bytes(job, error);
}

clattn_status clattn_host_forward(clattn_host *host, const struct clattn_problem *problem,
                                  const struct clattn_host_forward_args *args)
{
    static const struct direction forward = {.function = "clattn_host_forward",
                                             .arguments = "clattn_host_forward_args",
                                             .pass_name = "CLATTN_FORWARD",
                                             .pass = CLATTN_FORWARD,
                                             .check = check_forward,
                                             .plan = plan_forward,
                                             .prepare_chunks = cla_host_chunks_prepare,
                                             .compute = compute_forward,
                                             .compute_chunks = cla_host_chunks_compute};
    struct given given = {.args = args};
    if (args)
        given = (struct given){args, {args->progress, args->cancel, args->progress_user}, args->max_device_bytes};
    return run_reported(host, problem, &forward, &given);
}

/* Backward */

static clattn_status compute_backward(struct cla_host_job *job, cl_uint wait_count, const cl_event *waits,
                                      struct cla_error *error)
{
    struct clattn_backward_args args = cla_host_backward_arguments(job);
    args.first_event = &job->started;
    const struct cla_dispatch to = cla_to_queue(job->host->queue, wait_count, waits, &job->computed);
    return cla_backward_dispatch(job->plan, &args, &to, error);
}

static clattn_status judge_backward(const struct cla_host_job *job, struct cla_error *error)
{
    const struct clattn_backward_args args = cla_host_backward_arguments(job);
    return cla_backward_check(job->plan, job->host->queue, &args, 1, &job->computed, error);
}

static clattn_status check_backward(struct cla_host_job *job, const struct clattn_problem *problem,
                                    struct cla_error *error)
{
    const struct clattn_host_backward_args *given = job->args;
    const struct clattn_backward_args args = {.shape = given->shape,
                                              .q = cla_host_array(given->q, &given->q_layout),
                                              .k = cla_host_array(given->k, &given->k_layout),
                                              .v = cla_host_array(given->v, &given->v_layout),
                                              .o = cla_host_array(given->o, &given->o_layout),
                                              .d_o = cla_host_array(given->d_o, &given->d_o_layout),
                                              .lse = cla_host_array(given->lse, NULL),
                                              .m = cla_host_array(given->m, NULL),
                                              .l = cla_host_array(given->l, NULL),
                                              .d_q = cla_host_array(given->d_q, &given->d_q_layout),
                                              .d_k = cla_host_array(given->d_k, &given->d_k_layout),
                                              .d_v = cla_host_array(given->d_v, &given->d_v_layout),
                                              .d_bias = cla_host_array(given->d_bias, &given->d_bias_layout),
                                              .d_sinks = cla_host_array(given->d_sinks, NULL),
                                              .score = cla_host_score_arrays(job, &given->score)};
    clattn_status status = cla_check_reserved(&cla_struct_host_backward_args, "args", given, error);
    if (!status)
        status =
            cla_backward_arguments(problem, cla_problem_features(problem), NULL, CLA_ARRAYS, &args, &job->call, error);
    return status ? status : check_rest(job, &given->score, given->kv_chunk, error);
}

static clattn_status plan_backward(struct cla_host_job *job, struct clattn_problem *problem, struct cla_error *error)
{
    struct clattn_host *host = job->host;
    problem->pass = job->streamed ? CLATTN_BACKWARD_ACCUMULATE : CLATTN_BACKWARD;
    const clattn_status status = cla_host_plans_get(&host->plans, host->context, problem, &job->plan, error);
    return status ? status : cla_backward_extend(job->plan, &job->call, error);
}

clattn_status clattn_host_backward(clattn_host *host, const struct clattn_problem *problem,
                                   const struct clattn_host_backward_args *args)
{
    static const struct direction backward = {.function = "clattn_host_backward",
                                              .arguments = "clattn_host_backward_args",
                                              .pass_name = "CLATTN_BACKWARD",
                                              .pass = CLATTN_BACKWARD,
                                              .check = check_backward,
                                              .plan = plan_backward,
                                              .prepare_chunks = cla_host_backward_chunks_prepare,
                                              .compute = compute_backward,
                                              .compute_chunks = cla_host_backward_chunks_compute,
                                              .judge = judge_backward};
    struct given given = {.args = args};
    if (args)
        given = (struct given){args, {args->progress, args->cancel, args->progress_user}, args->max_device_bytes};
    return run_reported(host, problem, &backward, &given);
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
