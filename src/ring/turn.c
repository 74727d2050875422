/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/clcall.h"
#include "ring/ring.h"

/* libclattn's text becomes this library's. */
static clattn_status said(clattn_status status, struct cla_error *error)
{
    return status ? cla_fail(error, status, "%s", clattn_error_message()) : CLATTN_SUCCESS;
}

/* The call of one run of rows and one of keys. */
struct pair {
    const struct cla_job *job;
    struct cla_turn *turn;
    struct cla_run *run;
    int rows, keys;
    int64_t count, at; /* keys of the part; where the run begins among them */
};

static clattn_status accumulate(clattn_ring *ring, const struct pair *pair, cl_uint waits, const cl_event *copied,
                                struct cla_error *error)
{
    const struct clattn_ring_part *keys = &ring->keys[pair->turn->part];
    const struct clattn_accumulate_args args = {
        .shape = pair->run->shape,
        .first_key = keys->first[pair->keys],
        .key_count = keys->count[pair->keys],
        .q = pair->run->tensors[CLA_Q],
        .k = cla_keys_tensor(pair->job, pair->turn->kv[0].buffer, 0, pair->count, pair->at),
        .v = cla_keys_tensor(pair->job, pair->turn->kv[1].buffer, 1, pair->count, pair->at),
        .state = pair->run->state.buffer,
        .score = pair->run->score,
        .workspace = ring->workspace.buffer,
        .workspace_bytes = ring->workspace.bytes};
    return said(clattn_state_accumulate_enqueue(ring->plan, ring->queue, &args, waits, copied,
                                                cla_events_next(&pair->turn->events)),
                error);
}

static struct clattn_tensor gradient(const struct pair *pair, int operand, int which)
{
    if (!pair->job->arrays[operand].data)
        return (struct clattn_tensor){0};
    return cla_keys_tensor(pair->job, pair->turn->d_kv[pair->rows][which].buffer, which, pair->count, pair->at);
}

/* d_sinks are of all keys: one call for each run of rows gives them. */
static clattn_status differentiate(clattn_ring *ring, const struct pair *pair, cl_uint waits, const cl_event *copied,
                                   struct cla_error *error)
{
    const struct clattn_ring_part *keys = &ring->keys[pair->turn->part];
    const struct clattn_tensor *tensors = pair->run->tensors;
    struct clattn_backward_args args = {
        .shape = pair->run->shape,
        .first_key = keys->first[pair->keys],
        .key_count = keys->count[pair->keys],
        .q = tensors[CLA_Q],
        .k = cla_keys_tensor(pair->job, pair->turn->kv[0].buffer, 0, pair->count, pair->at),
        .v = cla_keys_tensor(pair->job, pair->turn->kv[1].buffer, 1, pair->count, pair->at),
        .o = tensors[CLA_O],
        .d_o = tensors[CLA_D_O],
        .lse = tensors[CLA_LSE],
        .m = tensors[CLA_M],
        .l = tensors[CLA_L],
        .d_q = tensors[CLA_D_Q],
        .d_k = gradient(pair, CLA_D_K, 0),
        .d_v = gradient(pair, CLA_D_V, 1),
        .d_bias = tensors[CLA_BIAS_GRAD],
        .score = pair->run->score,
        .workspace = ring->workspace.buffer,
        .workspace_bytes = ring->workspace.bytes};
    if (!pair->run->has_sinks)
        args.d_sinks = tensors[CLA_SINKS_GRAD];
    pair->run->has_sinks = true;
    return said(
        clattn_backward_enqueue(ring->plan, ring->queue, &args, waits, copied, cla_events_next(&pair->turn->events)),
        error);
}

clattn_status cla_turn_compute(clattn_ring *ring, const struct cla_job *job, struct cla_turn *turn,
                               struct cla_error *error)
{
    const struct clattn_ring_part *part = &ring->keys[turn->part];
    const bool backward = job->problem->pass == CLATTN_BACKWARD;
    cl_event copied[CLA_OF_KV] = {0};
    clattn_status status = CLATTN_SUCCESS;
    turn->computed_count = 0;
    if (!cla_parts_meet(&job->meeting, &job->rows, part))
        return CLATTN_SUCCESS;
    status = cla_keys_upload(ring, job, turn, copied, error);
    for (int i = 0; i < CLA_RUNS * CLA_RUNS && !status; i++) {
        struct pair pair = {.job = job, .turn = turn, .rows = i / CLA_RUNS, .keys = i % CLA_RUNS};
        pair.run = &ring->runs[pair.rows];
        pair.count = cla_part_count(part);
        pair.at = cla_part_at(part, pair.keys);
        if (!cla_runs_meet(&job->meeting, pair.run->first, pair.run->count, part->first[pair.keys],
                           part->count[pair.keys]))
            continue;
        status = (backward ? differentiate : accumulate)(ring, &pair, CLA_OF_KV, copied, error);
        if (!status)
            turn->computed[turn->computed_count++] = turn->events.items[turn->events.count - 1];
    }
    if (!status)
        status = cla_cl_flush(ring->queue, error);
    return status || !backward ? status : cla_gradients_take(ring, job, turn, error);
}
