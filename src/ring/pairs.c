/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/clcall.h"
#include "plan/types.h"
#include "ring/ring.h"

/* Runs of rows and keys that meet as a problem of their own: each row sees all of the keys, or the i-th row the first
 * i + 1. Plans for these are the fastest that a device has; a plan that takes keys in pieces may be another kernel
 * (forward_matrix in the place of forward_hopper, on which it was 1.6 times as slow). What the call gives joins the
 * state, or is added to dQ: of the row's type, as dK and dV are. */

static clattn_status said(clattn_status status, struct cla_error *error)
{
    return status ? cla_fail(error, status, "%s", clattn_error_message()) : CLATTN_SUCCESS;
}

/* Features that do not ask where a pair is. Sinks join at the end of a forward pass. */
static unsigned apt_features(const struct clattn_problem *problem)
{
    return CLATTN_SOFTCAP | (problem->pass == CLATTN_FORWARD ? CLATTN_SINKS : 0);
}

static clattn_status make_plan(clattn_ring *ring, struct clattn_problem problem, enum clattn_causal causal,
                               clattn_plan **plan, struct cla_error *error)
{
    problem.causal = causal;
    problem.features &= CLATTN_SOFTCAP;
    if (problem.pass == CLATTN_FORWARD)
        problem.o_type = CLATTN_AS_FP32;
    return said(clattn_plan_create(plan, ring->context, &problem), error);
}

clattn_status cla_pairs_make(clattn_ring *ring, const struct clattn_problem *problem, struct cla_error *error)
{
    if (problem->features & ~apt_features(problem))
        return CLATTN_SUCCESS;
    clattn_status status = make_plan(ring, *problem, CLATTN_FULL, &ring->plain[CLA_WHOLE], error);
    if (!status && problem->causal)
        status = make_plan(ring, *problem, CLATTN_CAUSAL_TOP_LEFT, &ring->plain[CLA_DIAGONAL], error);
    return status;
}

void cla_pairs_free(clattn_ring *ring)
{
    for (int i = 0; i < CLA_PAIR_KINDS; i++)
        clattn_plan_destroy(&ring->plain[i]);
    cla_device_block_free(&ring->pair_o);
    cla_device_block_free(&ring->pair_m);
    cla_device_block_free(&ring->pair_l);
    cla_device_block_free(&ring->pair_d_q);
}

enum cla_pair_kind cla_pair_kind(const clattn_ring *ring, const struct cla_job *job, const struct cla_run *run,
                                 int64_t first_key, int64_t keys)
{
    if (!ring->plain[CLA_WHOLE] || !job->shape.batch)
        return CLA_PAIR_KINDS;
    const struct cla_rows_met met = cla_rows_met(&job->meeting, 0, run->first, run->count);
    const int64_t first = met.first + met.shift; /* the place of the first row */
    if (!job->problem->causal || first >= first_key + keys - 1)
        return CLA_WHOLE;
    return first == first_key && keys == run->count ? CLA_DIAGONAL : CLA_PAIR_KINDS;
}

static struct clattn_shape shape_of(const struct cla_job *job, const struct cla_run *run, int64_t keys)
{
    struct clattn_shape shape = job->shape;
    shape.n_q = run->count;
    shape.n_kv = keys;
    return shape;
}

static int64_t rows_of(const struct cla_job *job, const struct cla_run *run)
{
    return job->shape.batch * job->shape.heads * run->count;
}

static clattn_status open_results(clattn_ring *ring, const struct cla_job *job, const struct cla_run *run,
                                  struct cla_error *error)
{
    const size_t rows = (size_t)rows_of(job, run);
    clattn_status status;
    if (job->problem->pass == CLATTN_BACKWARD)
        return cla_device_block_grow(&ring->pair_d_q, ring->cl,
                                     rows * (size_t)job->problem->d * (size_t)cla_size_of(job->problem, CLA_D_Q),
                                     error);
    status = cla_device_block_grow(&ring->pair_o, ring->cl, rows * (size_t)job->problem->d_v * sizeof(float), error);
    if (!status)
        status = cla_device_block_grow(&ring->pair_m, ring->cl, rows * sizeof(float), error);
    return status ? status : cla_device_block_grow(&ring->pair_l, ring->cl, rows * sizeof(float), error);
}

/* Room for all that the run will meet. */
clattn_status cla_pairs_open(clattn_ring *ring, const struct cla_job *job, const struct cla_run *run,
                             struct cla_error *error)
{
    clattn_status status = CLATTN_SUCCESS;
    for (int i = 0; i < ring->wire.ranks * CLA_RUNS && !status; i++) {
        const struct clattn_ring_part *part = &ring->keys[i / CLA_RUNS];
        const int64_t keys = part->count[i % CLA_RUNS];
        const struct clattn_shape shape = shape_of(job, run, keys);
        const enum cla_pair_kind kind = cla_pair_kind(ring, job, run, part->first[i % CLA_RUNS], keys);
        size_t bytes = 0;
        if (kind == CLA_PAIR_KINDS || !keys || (ring->rows_pass && i / CLA_RUNS != ring->wire.rank))
            continue;
        status = said(clattn_plan_workspace_bytes(ring->plain[kind], &shape, &bytes), error);
        if (!status)
            status = cla_device_block_grow(&ring->workspace, ring->cl, bytes, error);
        if (!status)
            status = open_results(ring, job, run, error);
    }
    return status;
}

clattn_status cla_pair_forward(clattn_ring *ring, const struct cla_pair *pair, cl_uint waits, const cl_event *copied,
                               struct cla_error *error)
{
    struct cla_run *run = pair->run;
    const struct clattn_forward_args args = {.shape = shape_of(pair->job, run, pair->key_count),
                                             .q = run->tensors[CLA_Q],
                                             .k = pair->k,
                                             .v = pair->v,
                                             .o = {.buffer = ring->pair_o.buffer},
                                             .m = {.buffer = ring->pair_m.buffer},
                                             .l = {.buffer = ring->pair_l.buffer},
                                             .score = {.softcap = run->score.softcap},
                                             .workspace = ring->workspace.buffer,
                                             .workspace_bytes = ring->workspace.bytes};
    struct cla_state_places places;
    const int d_v = pair->job->problem->d_v;
    if (!cla_states_place(d_v, &run->shape, 1, &places))
        return cla_fail(error, CLATTN_TOO_LARGE, "the state of %lld rows is too large", (long long)run->count);
    clattn_status status = said(clattn_forward_enqueue(ring->plain[pair->kind], ring->queue, &args, waits, copied,
                                                       cla_events_next(&pair->turn->events)),
                                error);
    if (status)
        return status;
    const struct cla_joined joined = {ring->pair_o.buffer, ring->pair_m.buffer, ring->pair_l.buffer,
                                      rows_of(pair->job, run), d_v};
    const struct cla_dispatch to = cla_to_queue(ring->queue, 0, NULL, cla_events_next(&pair->turn->events));
    return cla_sums_join(&ring->sums, &to, run->state.buffer, &places, &joined, error);
}

struct clattn_backward_args cla_pair_arguments(const clattn_ring *ring, const struct cla_pair *pair)
{
    const struct clattn_tensor *tensors = pair->run->tensors;
    return (struct clattn_backward_args){.q = tensors[CLA_Q],
                                         .k = pair->k,
                                         .v = pair->v,
                                         .o = tensors[CLA_O],
                                         .d_o = tensors[CLA_D_O],
                                         .lse = tensors[CLA_LSE],
                                         .m = tensors[CLA_M],
                                         .l = tensors[CLA_L],
                                         .d_k = pair->d_k,
                                         .d_v = pair->d_v,
                                         .workspace = ring->workspace.buffer,
                                         .workspace_bytes = ring->workspace.bytes};
}

clattn_status cla_pair_backward(clattn_ring *ring, const struct cla_pair *pair, cl_uint waits, const cl_event *copied,
                                struct cla_error *error)
{
    const cl_mem sum = pair->run->tensors[CLA_D_Q].buffer;
    struct clattn_backward_args args = cla_pair_arguments(ring, pair);
    args.shape = shape_of(pair->job, pair->run, pair->key_count);
    args.d_q = (struct clattn_tensor){.buffer = sum ? ring->pair_d_q.buffer : NULL};
    args.score.softcap = pair->run->score.softcap;
    const clattn_status status = said(clattn_backward_enqueue(ring->plain[pair->kind], ring->queue, &args, waits,
                                                              copied, cla_events_next(&pair->turn->events)),
                                      error);
    if (status || !sum)
        return status;
    const struct cla_piece into = {.buffer = sum}, from = {.buffer = ring->pair_d_q.buffer};
    const struct cla_dispatch to = cla_to_queue(ring->queue, 0, NULL, cla_events_next(&pair->turn->events));
    return cla_sums_add(&ring->sums, &to, &into, &from, rows_of(pair->job, pair->run) * pair->job->problem->d,
                        cla_type_of(pair->job->problem, CLA_D_Q), error);
}
