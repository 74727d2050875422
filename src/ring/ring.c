/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/ring.h"
#include "device/clcall.h"
#include "device/report.h"
#include "plan/checked.h"
#include "plan/reserved.h"
#include <stdlib.h>
#include <string.h>

static clattn_status report(clattn_status status, const struct cla_error *error)
{
    return status ? cla_report(NULL, error) : status;
}

clattn_status cla_ring_check_problem(const struct clattn_problem *problem, struct cla_error *error)
{
    const unsigned pairs = CLATTN_BIAS | CLATTN_MASK | CLATTN_BLOCK_MASK | CLATTN_TREE_MASK;
    const int64_t corner = problem->window_corner;
    const enum clattn_causal usual = problem->causal ? problem->causal : CLATTN_CAUSAL_BOTTOM_RIGHT;
    if (problem->pass != CLATTN_FORWARD && problem->pass != CLATTN_BACKWARD)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.pass is %d: a ring computes CLATTN_FORWARD (0) or CLATTN_BACKWARD (1)",
                        (int)problem->pass);
    if ((problem->features & CLATTN_PAGES) || problem->score_mod || problem->mask_mod || problem->rng_state)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.features is 0x%x, or has functions, or rng_state is not 0: a ring takes no "
                        "CLATTN_PAGES, score_mod, mask_mod and rng_state",
                        problem->features);
    if (problem->k_type > CLATTN_AS_BF16 || problem->v_type > CLATTN_AS_BF16)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.k_type is %lld and v_type %lld: K and V of a ring are fp32, fp16 or bf16",
                        (long long)problem->k_type, (long long)problem->v_type);
    if (problem->sink_keys)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "problem.sink_keys is %lld: in a ring of ranks it is 0",
                        (long long)problem->sink_keys);
    if ((problem->features & CLATTN_VARLEN) && (problem->features & pairs))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.features is 0x%x: in a ring CLATTN_VARLEN goes with no bias and no mask",
                        problem->features);
    if (corner && ((problem->features & CLATTN_ROW_SHIFTS) ||
                   (corner != (int64_t)usual && (problem->causal || (problem->features & CLATTN_ALIBI)))))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.window_corner is %lld: in a ring it is 0, or nothing else is aligned otherwise",
                        (long long)corner);
    return CLATTN_SUCCESS;
}

/* What each rank's calls compute: some of the keys at a time, with rows that know their places. */
static clattn_status plan(clattn_ring *ring, struct clattn_problem problem, struct cla_error *error)
{
    problem.pass = problem.pass == CLATTN_FORWARD ? CLATTN_ACCUMULATE : CLATTN_BACKWARD_ACCUMULATE;
    problem.features |= CLATTN_ROW_SHIFTS;
    problem.window_corner = 0;
    const clattn_status status = clattn_plan_create(&ring->plan, ring->context, &problem);
    return status ? cla_fail(error, status, "%s", clattn_error_message()) : CLATTN_SUCCESS;
}

static clattn_status take_queue(clattn_ring *ring, cl_command_queue queue, struct cla_error *error)
{
    cl_command_queue_properties properties = 0;
    cl_device_id device = NULL;
    clattn_status status = cla_cl_retain_queue(queue, error);
    if (status)
        return status;
    ring->queue = queue;
    status = cla_cl_queue_properties(queue, &properties, error);
    if (!status && (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "params->queue is out of order: it must be in order");
    if (!status)
        status = cla_cl_queue_context(queue, &ring->cl, &device, error);
    if (!status)
        status = cla_cl_queue(ring->cl, device, 0, &ring->copy_queue, error);
    return status ? status : cla_cl_queue(ring->cl, device, 0, &ring->back_queue, error);
}

static clattn_status check_params(const struct clattn_ring_params *params, struct cla_error *error)
{
    const clattn_status status = cla_check_reserved(&cla_struct_ring_params, "params", params, error);
    if (status)
        return status;
    if (!params->context || !params->queue)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "params->context is %p and queue %p: they must be a clattn_context and a queue of its device",
                        (void *)params->context, (void *)params->queue);
    if (params->passing < CLATTN_RING_PASS_AUTO || params->passing > CLATTN_RING_PASS_Q)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "params->passing is %lld: it is 0 (what is fewer bytes), 1 (K and V) or 2 (Q)",
                        (long long)params->passing);
    if (params->timeout_ms < 0 || params->timeout_ms > INT32_MAX)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "params->timeout_ms is %lld: it is from 0 (none) to %d",
                        (long long)params->timeout_ms, INT32_MAX);
    return CLATTN_SUCCESS;
}

/* What this rank does alone. */
static clattn_status make(clattn_ring *ring, const struct clattn_ring_params *params,
                          const struct clattn_problem *problem, struct cla_error *error)
{
    clattn_status status = check_params(params, error);
    if (!status)
        status = cla_problem_resolve(problem, &ring->problem, error);
    if (!status)
        status = cla_ring_check_problem(&ring->problem, error);
    if (status)
        return status;
    ring->context = params->context;
    ring->passing = params->passing;
    cla_facts_of_problem(&ring->problem, ring->passing, cla_round_mine(&ring->round)->facts);
    status = take_queue(ring, params->queue, error);
    if (!status)
        status = plan(ring, ring->problem, error);
    if (!status)
        status = cla_pairs_make(ring, &ring->problem, error);
    if (!status)
        status = cla_sums_make(&ring->sums, ring->context, error);
    ring->problem.skeleton = ring->problem.knobs = NULL; /* the caller's texts, which may go */
    return status;
}

static bool make_lists(clattn_ring *ring)
{
    const size_t ranks = (size_t)ring->wire.ranks;
    ring->rows = calloc(ranks, sizeof *ring->rows);
    ring->keys = calloc(ranks, sizeof *ring->keys);
    ring->hops = calloc(ranks, sizeof *ring->hops);
    ring->given = calloc(ranks, sizeof *ring->given);
    ring->sinks_sent = calloc(ranks, sizeof *ring->sinks_sent);
    ring->sinks_come = calloc(ranks, sizeof *ring->sinks_come);
    ring->keys_lent = calloc(ranks * CLA_RUNS, sizeof *ring->keys_lent);
    return ring->rows && ring->keys && ring->given && ring->hops && ring->sinks_sent && ring->sinks_come &&
           ring->keys_lent;
}

static clattn_status join(clattn_ring *ring, const struct clattn_ring_params *params,
                          const struct clattn_problem *problem, struct cla_error *error)
{
    const bool room = !cla_round_open(&ring->round, &ring->wire, error) && make_lists(ring);
    if (!cla_wire_all(&ring->wire, room))
        return cla_fail(error, CL_OUT_OF_HOST_MEMORY, "a rank has no host memory for a ring of %d ranks",
                        ring->wire.ranks);
    clattn_status status = cla_round_begin(&ring->round, error);
    if (!status)
        status = make(ring, params, problem, error);
    status = cla_round_settle(&ring->round, status, error);
    for (int i = 0; i < ring->wire.ranks && !status; i++)
        status = cla_facts_compare(false, ring->round.reports[0].facts, ring->round.reports[i].facts, i, error);
    return status;
}

static clattn_status create(clattn_ring **result, const struct clattn_ring_params *params,
                            const struct clattn_problem *problem, struct cla_error *error)
{
    if (!result || !params || !params->transport)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "ring is %p, params %p and params->transport %p: none may be NULL", (void *)result,
                        (const void *)params, params ? (const void *)params->transport : NULL);
    clattn_ring *ring = calloc(1, sizeof *ring);
    struct cla_wire wire;
    clattn_status status = cla_wire_open(&wire, params->transport, (double)params->timeout_ms * 1e-3, error);
    if (!status && !cla_wire_all(&wire, ring != NULL))
        status = cla_fail(error, CL_OUT_OF_HOST_MEMORY, "a rank has no host memory for a clattn_ring");
    if (status) {
        free(ring);
        return status;
    }
    ring->wire = wire;
    status = join(ring, params, problem, error);
    if (status)
        clattn_ring_destroy(&ring);
    else
        *result = ring;
    return status;
}

clattn_status clattn_ring_create(clattn_ring **ring, const struct clattn_ring_params *params,
                                 const struct clattn_problem *problem)
{
    struct cla_error error;
    return report(create(ring, params, problem, &error), &error);
}

/* Other ranks may still use messages that have not come or gone. */
static void free_turn(struct cla_turn *turn, bool broken)
{
    for (int i = 0; i < CLA_RUNS; i++) {
        cla_device_block_free(&turn->kv[i]);
        cla_device_block_free(&turn->d_kv[i][0]);
        cla_device_block_free(&turn->d_kv[i][1]);
        cla_run_free(&turn->guests[i]);
    }
    if (broken)
        return;
    cla_pinned_block_free(&turn->keys);
    cla_pinned_block_free(&turn->given);
    cla_pinned_block_free(&turn->gift);
    cla_pinned_block_free(&turn->out);
}

static void free_messages(clattn_ring *ring)
{
    cla_pinned_block_free(&ring->own);
    cla_host_block_free(&ring->sinks);
    free(ring->sinks_sent);
    free(ring->sinks_come);
    free(ring->keys_lent);
}

static void free_gradients(clattn_ring *ring)
{
    cla_sums_free(&ring->sums);
    cla_device_block_free(&ring->gift);
    cla_device_block_free(&ring->d_kv[0]);
    cla_device_block_free(&ring->d_kv[1]);
    cla_pinned_block_free(&ring->results);
    cla_host_block_free(&ring->guest_sinks);
}

void clattn_ring_destroy(clattn_ring **handle)
{
    if (!handle || !*handle)
        return;
    clattn_ring *ring = *handle;
    clattn_plan_destroy(&ring->plan);
    cla_pairs_free(ring);
    for (int i = 0; i < CLA_RUNS; i++)
        cla_run_free(&ring->runs[i]);
    for (int i = 0; i < CLA_TURNS; i++)
        free_turn(&ring->turns[i], ring->wire.broken);
    free_gradients(ring);
    cla_lane_free(&ring->lane);
    cla_device_block_free(&ring->workspace);
    if (!ring->wire.broken)
        free_messages(ring);
    cla_cl_release_queue(ring->queue);
    cla_cl_release_queue(ring->copy_queue);
    cla_cl_release_queue(ring->back_queue);
    cla_round_close(&ring->round);
    free(ring->rows);
    free(ring->keys);
    free(ring->hops);
    free(ring->given);
    free(ring);
    *handle = NULL;
}

static clattn_status check_ring(const clattn_ring *ring, enum clattn_pass pass, struct cla_error *error)
{
    if (!ring)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "ring is NULL: it must be a clattn_ring");
    if (ring->problem.pass != pass)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "the ring's problem.pass is %d: this call is for %d",
                        (int)ring->problem.pass, (int)pass);
    return CLATTN_SUCCESS;
}

clattn_status clattn_ring_forward(clattn_ring *ring, const struct clattn_ring_forward_args *args)
{
    struct cla_error error;
    struct cla_job job;
    clattn_status status = check_ring(ring, CLATTN_FORWARD, &error);
    if (status)
        return report(status, &error);
    status = cla_job_of_forward(&job, &ring->problem, args, &error);
    return report(cla_ring_call(ring, &job, status, &error), &error);
}

clattn_status clattn_ring_backward(clattn_ring *ring, const struct clattn_ring_backward_args *args)
{
    struct cla_error error;
    struct cla_job job;
    clattn_status status = check_ring(ring, CLATTN_BACKWARD, &error);
    if (status)
        return report(status, &error);
    status = cla_job_of_backward(&job, &ring->problem, args, &error);
    return report(cla_ring_call(ring, &job, status, &error), &error);
}

clattn_status clattn_ring_last(const clattn_ring *ring, struct clattn_ring_info *info)
{
    struct cla_error error;
    if (!ring || !info || !ring->succeeded)
        return report(cla_fail(&error, CLATTN_INVALID_ARGUMENT,
                               "ring is %p and info %p: neither may be NULL, and a call must have succeeded",
                               (const void *)ring, (void *)info),
                      &error);
    *info = ring->info;
    return CLATTN_SUCCESS;
}
