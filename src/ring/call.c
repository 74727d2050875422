/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/clcall.h"
#include "ring/ring.h"
#include <string.h>

/* A pass: what ranks give is compared; each makes ready; keys go round; outputs are collected, and handed over where
 * all ranks have come so far. Between these, all ranks hear of all. */

static clattn_status said(clattn_status status, struct cla_error *error)
{
    return status ? cla_fail(error, status, "%s", clattn_error_message()) : CLATTN_SUCCESS;
}

/* The same on all ranks: it depends on the reports alone. */
static clattn_status compare(clattn_ring *ring, const struct cla_job *job, struct cla_error *error)
{
    const struct cla_report *reports = ring->round.reports;
    const int ranks = ring->wire.ranks;
    clattn_status status = CLATTN_SUCCESS;
    for (int i = 0; i < ranks && !status; i++) {
        status = cla_facts_compare(true, reports[0].facts, reports[i].facts, i, error);
        ring->rows[i] = reports[i].rows;
        ring->keys[i] = reports[i].keys;
        memcpy(ring->given[i], reports[i].given, sizeof ring->given[i]);
    }
    if (!status)
        status = cla_parts_check("rows", ring->rows, sizeof *ring->rows, ranks, cla_job_rows(job), error);
    return status ? status : cla_parts_check("keys", ring->keys, sizeof *ring->keys, ranks, cla_job_keys(job), error);
}

/* Keys go on until no rank further on needs them. */
static void find_hops(clattn_ring *ring, const struct cla_job *job)
{
    const int ranks = ring->wire.ranks;
    for (int i = 0; i < ranks * CLA_RUNS; i++) {
        const int part = i / CLA_RUNS, run = i % CLA_RUNS;
        const struct clattn_ring_part *keys = &ring->keys[part];
        int64_t *const hops = &ring->hops[part][run];
        *hops = 0;
        for (int hop = 1; hop < ranks; hop++)
            if (cla_part_meets(&job->meeting, &ring->rows[(part + hop) % ranks], keys->first[run], keys->count[run]))
                *hops = hop;
    }
}

clattn_status cla_open_state(clattn_ring *ring, struct cla_run *run, struct cla_events *events, struct cla_error *error)
{
    size_t bytes = 0;
    clattn_status status = said(clattn_state_bytes(ring->plan, &run->shape, &bytes), error);
    if (!status)
        status = cla_device_block_grow(&run->state, ring->cl, bytes, error);
    if (!status)
        status = said(clattn_state_begin_enqueue(ring->plan, ring->queue, &run->shape, run->state.buffer, 0, NULL,
                                                 cla_events_next(events)),
                      error);
    return status;
}

static clattn_status open_run(clattn_ring *ring, const struct cla_job *job, int number, struct cla_error *error)
{
    struct cla_run *run = &ring->runs[number];
    size_t bytes = 0;
    const struct cla_way way = {ring->queue, &ring->events};
    clattn_status status = cla_run_open(ring, job, run, number, &way, error);
    if (status || !run->count)
        return status;
    status = said(clattn_plan_workspace_bytes(ring->plan, &run->shape, &bytes), error);
    if (!status)
        status = cla_device_block_grow(&ring->workspace, ring->cl, bytes, error);
    if (!status)
        status = cla_pairs_open(ring, job, run, error);
    if (!status && job->problem->pass == CLATTN_FORWARD)
        status = cla_open_state(ring, run, &ring->events, error);
    return status;
}

static clattn_status make_ready(clattn_ring *ring, const struct cla_job *job, struct cla_error *error)
{
    clattn_status status = cla_keys_open(ring, job, error);
    for (int i = 0; i < CLA_RUNS && !status; i++)
        status = open_run(ring, job, i, error);
    if (!status && ring->rows_pass)
        status = cla_visits_open(ring, job, error);
    if (!status && job->arrays[CLA_SINKS_GRAD].data)
        status = cla_host_block_grow(&ring->sinks, (size_t)ring->wire.ranks * (size_t)job->shape.heads * sizeof(float),
                                     error);
    if (!status)
        status = cla_lane_finish(&ring->lane, error);
    return status ? status : cla_events_wait(&ring->events, &ring->wire, error);
}

static clattn_status finish_run(clattn_ring *ring, const struct cla_run *run, struct cla_error *error)
{
    const struct clattn_finish_args args = {.shape = run->shape,
                                            .state = run->state.buffer,
                                            .o = run->tensors[CLA_O],
                                            .lse = run->tensors[CLA_LSE],
                                            .m = run->tensors[CLA_M],
                                            .l = run->tensors[CLA_L],
                                            .score = run->score};
    return said(clattn_state_finish_enqueue(ring->plan, ring->queue, &args, 0, NULL, cla_events_next(&ring->events)),
                error);
}

static clattn_status collect(clattn_ring *ring, const struct cla_job *job, struct cla_error *error)
{
    clattn_status status = CLATTN_SUCCESS;
    for (int i = 0; i < CLA_RUNS && !status; i++) {
        if (ring->runs[i].count && job->problem->pass == CLATTN_FORWARD)
            status = finish_run(ring, &ring->runs[i], error);
        if (!status)
            status = cla_run_collect(ring, job, i, error);
    }
    if (!status && job->problem->pass == CLATTN_BACKWARD)
        status = cla_gradients_collect(ring, job, error);
    return status ? status : cla_events_wait(&ring->events, &ring->wire, error);
}

/* d_sinks are exchanged whatever has failed here, unless messages have. */
static clattn_status compute(clattn_ring *ring, const struct cla_job *job, struct cla_error *error)
{
    struct cla_error of_messages;
    clattn_status status = cla_ring_turn_round(ring, job, error);
    if (!status)
        status = collect(ring, job, error);
    if (ring->wire.broken)
        return status;
    const clattn_status exchanged = cla_sinks_exchange(ring, job, &of_messages);
    if (!exchanged)
        return status;
    *error = of_messages;
    return exchanged;
}

static void deliver(clattn_ring *ring, const struct cla_job *job)
{
    for (int i = 0; i < CLA_RUNS; i++)
        cla_run_deliver(ring, job, i);
    if (ring->rows_pass)
        cla_returns_deliver(ring, job);
    if (job->problem->pass == CLATTN_BACKWARD)
        cla_gradients_deliver(ring, job);
    cla_sinks_deliver(ring, job);
}

/* Nothing may use the buffers any more. */
static void calm(clattn_ring *ring)
{
    struct cla_error ignored;
    cla_cl_finish(ring->copy_queue, &ignored);
    cla_cl_finish(ring->back_queue, &ignored);
    cla_cl_finish(ring->queue, &ignored);
    cla_lane_finish(&ring->lane, &ignored);
    cla_events_wait(&ring->events, &ring->wire, &ignored);
    for (int i = 0; i < CLA_TURNS; i++)
        cla_events_wait(&ring->turns[i].events, &ring->wire, &ignored);
}

/* Hears of all ranks, and lets them hear of this one. */
static clattn_status hear(clattn_ring *ring, clattn_status status, struct cla_error *error)
{
    struct cla_error of_messages;
    const clattn_status begun = cla_round_begin(&ring->round, &of_messages);
    if (begun && !status)
        *error = of_messages;
    return cla_round_settle(&ring->round, status ? status : begun, error);
}

static clattn_status run(clattn_ring *ring, const struct cla_job *job, clattn_status status, struct cla_error *error)
{
    struct cla_report *mine = cla_round_mine(&ring->round);
    if (!status) {
        cla_facts_of_job(job, mine->facts);
        mine->rows = job->rows;
        mine->keys = job->keys;
        cla_given_of_job(job, mine->given);
    }
    status = hear(ring, status, error);
    if (!status)
        status = compare(ring, job, error);
    if (status)
        return status;
    find_hops(ring, job);
    cla_passing_choose(ring, job);
    status = make_ready(ring, job, error);
    status = hear(ring, status, error);
    if (status)
        return status;
    status = cla_round_begin(&ring->round, error);
    if (!status)
        status = compute(ring, job, error);
    return cla_round_settle(&ring->round, status, error);
}

static uint64_t run_bytes(const struct cla_run *run)
{
    uint64_t bytes = run->state.bytes + run->returned.bytes;
    for (int i = 0; i < CLA_OPERANDS; i++)
        bytes += run->blocks[i].bytes + run->rounded[i].bytes;
    return bytes;
}

static uint64_t device_bytes(const clattn_ring *ring)
{
    uint64_t bytes = ring->workspace.bytes + ring->gift.bytes + ring->d_kv[0].bytes + ring->d_kv[1].bytes +
                     ring->pair_o.bytes + ring->pair_m.bytes + ring->pair_l.bytes + ring->pair_d_q.bytes;
    for (int i = 0; i < CLA_RUNS; i++)
        bytes +=
            run_bytes(&ring->runs[i]) + run_bytes(&ring->turns[0].guests[i]) + run_bytes(&ring->turns[1].guests[i]);
    for (int i = 0; i < CLA_TURNS * CLA_OF_KV; i++) {
        const struct cla_turn *turn = &ring->turns[i / CLA_OF_KV];
        bytes +=
            turn->kv[i % CLA_OF_KV].bytes + turn->d_kv[0][i % CLA_OF_KV].bytes + turn->d_kv[1][i % CLA_OF_KV].bytes;
    }
    return bytes;
}

clattn_status cla_ring_call(clattn_ring *ring, const struct cla_job *job, clattn_status status, struct cla_error *error)
{
    const double since = cla_wire_clock();
    if (ring->wire.broken)
        return cla_fail(error, CLATTN_COMMUNICATION_FAILED,
                        "messages failed in a call before: this ring is of no more use, so destroy it");
    ring->info = (struct clattn_ring_info){.rank = ring->wire.rank, .ranks = ring->wire.ranks};
    ring->waited = 0;
    status = run(ring, job, status, error);
    if (status) {
        calm(ring);
        return status;
    }
    deliver(ring, job);
    ring->info.device_bytes = device_bytes(ring);
    ring->info.waited_ms = ring->waited * 1e3;
    ring->info.call_ms = (cla_wire_clock() - since) * 1e3;
    ring->succeeded = true;
    return CLATTN_SUCCESS;
}
