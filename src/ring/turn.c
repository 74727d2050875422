/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/clcall.h"
#include "ring/ring.h"

/* libclattn's text becomes this library's. */
static clattn_status said(clattn_status status, struct cla_error *error)
{
    return status ? cla_fail(error, status, "%s", clattn_error_message()) : CLATTN_SUCCESS;
}

int64_t cla_turn_rows(const clattn_ring *ring, const struct cla_turn *turn)
{
    return ring->rows_pass ? turn->part : ring->wire.rank;
}

int64_t cla_turn_keys(const clattn_ring *ring, const struct cla_turn *turn)
{
    return ring->rows_pass ? ring->wire.rank : turn->part;
}

static clattn_status accumulate(clattn_ring *ring, const struct cla_pair *pair, cl_uint waits, const cl_event *copied,
                                struct cla_error *error)
{
    const struct clattn_accumulate_args args = {.shape = pair->run->shape,
                                                .first_key = pair->first_key,
                                                .key_count = pair->key_count,
                                                .q = pair->run->tensors[CLA_Q],
                                                .k = pair->k,
                                                .v = pair->v,
                                                .state = pair->run->state.buffer,
                                                .score = pair->run->score,
                                                .workspace = ring->workspace.buffer,
                                                .workspace_bytes = ring->workspace.bytes};
    return said(clattn_state_accumulate_enqueue(ring->plan, ring->queue, &args, waits, copied,
                                                cla_events_next(&pair->turn->events)),
                error);
}

/* d_sinks are of all keys: one call for each run of rows gives them. */
static clattn_status differentiate(clattn_ring *ring, const struct cla_pair *pair, cl_uint waits,
                                   const cl_event *copied, struct cla_error *error)
{
    const struct clattn_tensor *tensors = pair->run->tensors;
    struct clattn_backward_args args = cla_pair_arguments(ring, pair);
    args.shape = pair->run->shape;
    args.first_key = pair->first_key;
    args.key_count = pair->key_count;
    args.d_q = tensors[CLA_D_Q];
    args.d_bias = tensors[CLA_BIAS_GRAD];
    args.score = pair->run->score;
    if (!pair->run->has_sinks)
        args.d_sinks = tensors[CLA_SINKS_GRAD];
    pair->run->has_sinks = true;
    return said(
        clattn_backward_enqueue(ring->plan, ring->queue, &args, waits, copied, cla_events_next(&pair->turn->events)),
        error);
}

static clattn_status compute(clattn_ring *ring, const struct cla_pair *pair, cl_uint waits, const cl_event *copied,
                             struct cla_error *error)
{
    static clattn_status (*const functions[2][2])(clattn_ring *, const struct cla_pair *, cl_uint, const cl_event *,
                                                  struct cla_error *) = {{accumulate, cla_pair_forward},
                                                                         {differentiate, cla_pair_backward}};
    const bool backward = pair->job->problem->pass == CLATTN_BACKWARD, plain = pair->kind != CLA_PAIR_KINDS;
    return functions[backward][plain](ring, pair, waits, copied, error);
}

static struct clattn_tensor gradient(const struct cla_job *job, const struct cla_turn *turn,
                                     const struct clattn_ring_part *part, int operand, int rows, int which, int keys)
{
    if (!job->arrays[operand].data)
        return (struct clattn_tensor){0};
    return cla_keys_tensor(job, turn->d_kv[rows][which].buffer, part, which, keys);
}

static struct cla_pair pair_of(clattn_ring *ring, const struct cla_job *job, struct cla_turn *turn, int rows, int keys)
{
    const struct clattn_ring_part *part = &ring->keys[cla_turn_keys(ring, turn)];
    const struct cla_turn *at = ring->rows_pass ? &ring->turns[0] : turn; /* which has the keys */
    const bool own = cla_turn_rows(ring, turn) == ring->wire.rank;
    struct cla_pair pair = {.job = job,
                            .turn = turn,
                            .run = own ? &ring->runs[rows] : &turn->guests[rows],
                            .first_key = part->first[keys],
                            .key_count = part->count[keys],
                            .k = cla_keys_tensor(job, at->kv[0].buffer, part, 0, keys),
                            .v = cla_keys_tensor(job, at->kv[1].buffer, part, 1, keys),
                            .d_k = gradient(job, turn, part, CLA_D_K, rows, 0, keys),
                            .d_v = gradient(job, turn, part, CLA_D_V, rows, 1, keys)};
    pair.kind = cla_pair_kind(ring, job, pair.run, pair.first_key, pair.key_count);
    return pair;
}

bool cla_turn_has(const clattn_ring *ring, const struct cla_job *job, const struct cla_turn *turn, int rows, int keys)
{
    const struct clattn_ring_part *part = &ring->keys[cla_turn_keys(ring, turn)];
    const struct clattn_ring_part *of_rows = &ring->rows[cla_turn_rows(ring, turn)];
    const bool last = rows == CLA_RUNS - 1 && !keys;
    return (turn->pairs == CLA_ALL_PAIRS || last == (turn->pairs == CLA_LAST_PAIR)) &&
           cla_runs_meet(&job->meeting, of_rows->first[rows], of_rows->count[rows], part->first[keys],
                         part->count[keys]);
}

clattn_status cla_turn_compute(clattn_ring *ring, const struct cla_job *job, struct cla_turn *turn, int keys,
                               struct cla_error *error)
{
    cl_event copied[CLA_OF_KV] = {0};
    clattn_status status = CLATTN_SUCCESS;
    for (int rows = 0; rows < CLA_RUNS && !status; rows++) {
        if (!cla_turn_has(ring, job, turn, rows, keys))
            continue;
        if (!copied[0] && !ring->rows_pass)
            status = cla_keys_upload(ring, job, turn, keys, copied, error);
        const struct cla_pair pair = pair_of(ring, job, turn, rows, keys);
        if (!status)
            status = compute(ring, &pair, ring->rows_pass ? 0 : CLA_OF_KV, ring->rows_pass ? NULL : copied, error);
    }
    return status ? status : cla_cl_flush(ring->queue, error);
}

/* The queue of kernels waits for them. */
clattn_status cla_turn_bring_keys(clattn_ring *ring, const struct cla_job *job, struct cla_turn *turn,
                                  struct cla_error *error)
{
    clattn_status status = CLATTN_SUCCESS;
    for (int keys = 0; keys < CLA_RUNS && !status; keys++) {
        cl_event copied[CLA_OF_KV] = {0};
        if (!job->keys.count[keys])
            continue;
        status = cla_keys_upload(ring, job, turn, keys, copied, error);
        if (!status)
            status = cla_cl_enqueue_marker(ring->queue, CLA_OF_KV, copied, cla_events_next(&turn->events), error);
    }
    return status;
}

clattn_status cla_turn_compute_guest(clattn_ring *ring, const struct cla_job *job, struct cla_turn *turn, int rows,
                                     cl_event there, struct cla_error *error)
{
    clattn_status status = CLATTN_SUCCESS;
    for (int keys = 0; keys < CLA_RUNS && !status; keys++) {
        if (!cla_turn_has(ring, job, turn, rows, keys))
            continue;
        const struct cla_pair pair = pair_of(ring, job, turn, rows, keys);
        status = compute(ring, &pair, 1, &there, error);
    }
    return status ? status : cla_cl_flush(ring->queue, error);
}
