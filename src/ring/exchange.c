/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/clcall.h"
#include "ring/ring.h"
#include <string.h>

/* How the keys go round. In step s, rank r has the keys of rank r - s, if they go so far. Its two turns hold those of
 * this step and of the last one. A rank that has failed in its own work takes every step and computes nothing. */
struct exchange {
    clattn_ring *ring;
    const struct cla_job *job;
    bool backward;
    int64_t keys_done;
    struct cla_error failure; /* of this rank's own work; status 0: none */
};

static int rank_at(const clattn_ring *ring, int64_t offset)
{
    const int64_t ranks = ring->wire.ranks;
    return (int)((ring->wire.rank + offset % ranks + ranks) % ranks);
}

/* Whose keys are here in that step; -1: nobody's. */
static int64_t part_in(const clattn_ring *ring, int64_t step)
{
    const int part = rank_at(ring, -step);
    return step < ring->wire.ranks && step <= ring->hops[part] && cla_part_count(&ring->keys[part]) ? part : -1;
}

static uint64_t sums_bytes(const struct exchange *exchange, int64_t part)
{
    if (!exchange->backward || part < 0)
        return 0;
    return cla_sums_bytes(exchange->job, CLA_OF_KV, cla_part_count(&exchange->ring->keys[part]));
}

static uint64_t keys_bytes(const struct exchange *exchange, int64_t part)
{
    return cla_keys_bytes(exchange->job, CLA_OF_KV, cla_part_count(&exchange->ring->keys[part]));
}

/* The first failure of this rank's own counts; messages go on behind it. */
static void keep(struct exchange *exchange, clattn_status status, const struct cla_error *now)
{
    if (status && !exchange->failure.status)
        exchange->failure = *now;
}

static clattn_status send(struct exchange *exchange, const void *data, uint64_t bytes, int to, enum cla_tag tag,
                          struct cla_message *message, struct cla_error *error)
{
    exchange->ring->info.bytes_sent += bytes;
    return cla_wire_send(&exchange->ring->wire, data, bytes, to, tag, message, error);
}

static clattn_status receive_keys(struct exchange *exchange, int64_t step, struct cla_error *error)
{
    clattn_ring *ring = exchange->ring;
    struct cla_turn *turn = &ring->turns[step % CLA_TURNS];
    const int64_t part = part_in(ring, step);
    if (part < 0)
        return CLATTN_SUCCESS;
    return cla_wire_receive(&ring->wire, turn->keys.data, keys_bytes(exchange, part), rank_at(ring, -1), CLA_TAG_KEYS,
                            &turn->keys_come, error);
}

static clattn_status send_keys(struct exchange *exchange, struct cla_turn *turn, int64_t step, struct cla_error *error)
{
    clattn_ring *ring = exchange->ring;
    if (step >= ring->hops[turn->part])
        return CLATTN_SUCCESS;
    return send(exchange, turn->keys.data, keys_bytes(exchange, turn->part), rank_at(ring, 1), CLA_TAG_KEYS,
                &turn->keys_sent, error);
}

/* The sums of the last part that was here have gone; those of this one begin with 0, or come. */
static clattn_status begin_sums(struct exchange *exchange, struct cla_turn *turn, int64_t step, struct cla_error *error)
{
    clattn_ring *ring = exchange->ring;
    const uint64_t bytes = sums_bytes(exchange, turn->part);
    const clattn_status status = cla_wire_wait(&ring->wire, &turn->sums_sent, error);
    if (status || !bytes)
        return status;
    if (!step) {
        memset(turn->sums.data, 0, bytes);
        return CLATTN_SUCCESS;
    }
    return cla_wire_receive(&ring->wire, turn->sums.data, bytes, rank_at(ring, -1), CLA_TAG_SUMS, &turn->sums_come,
                            error);
}

/* On they go with their keys, or home from the last rank that these come to. */
static clattn_status pass_sums(struct exchange *exchange, struct cla_turn *turn, int64_t step, struct cla_error *error)
{
    clattn_ring *ring = exchange->ring;
    const uint64_t bytes = sums_bytes(exchange, turn->part);
    const bool last = step == ring->hops[turn->part];
    clattn_status status = cla_wire_wait(&ring->wire, &turn->sums_come, error);
    if (status || !bytes)
        return status;
    if (!exchange->failure.status)
        cla_sums_add(ring, exchange->job, turn);
    if (last && !step) {
        memcpy(ring->home.data, turn->sums.data, bytes);
        return CLATTN_SUCCESS;
    }
    return send(exchange, turn->sums.data, bytes, last ? (int)turn->part : rank_at(ring, 1),
                last ? CLA_TAG_HOME : CLA_TAG_SUMS, &turn->sums_sent, error);
}

static void tell_progress(struct exchange *exchange, int64_t part)
{
    const struct cla_job *job = exchange->job;
    exchange->keys_done += cla_part_count(&exchange->ring->keys[part]);
    if (job->progress)
        job->progress(job->progress_user, exchange->keys_done, cla_job_keys(job));
}

/* Ends a step: its work is done, its keys have gone, and its buffers are free. */
static clattn_status end_step(struct exchange *exchange, int64_t step, struct cla_error *error)
{
    clattn_ring *ring = exchange->ring;
    struct cla_turn *turn = &ring->turns[step % CLA_TURNS];
    struct cla_error now;
    clattn_status status = CLATTN_SUCCESS;
    keep(exchange, cla_events_wait(&turn->events, &ring->wire, &now), &now);
    ring->idle_since = 0;
    if (turn->part >= 0) {
        status = cla_wire_wait(&ring->wire, &turn->keys_sent, error);
        if (!status)
            status = pass_sums(exchange, turn, step, error);
    }
    if (!status)
        tell_progress(exchange, rank_at(ring, -step));
    return status;
}

static clattn_status begin_step(struct exchange *exchange, int64_t step, struct cla_error *error)
{
    clattn_ring *ring = exchange->ring;
    struct cla_turn *turn = &ring->turns[step % CLA_TURNS];
    struct cla_error now;
    turn->part = part_in(ring, step);
    ring->idle_since = 0;
    if (turn->part < 0)
        return CLATTN_SUCCESS;
    ring->info.steps++;
    clattn_status status = begin_sums(exchange, turn, step, error);
    if (!status)
        status = cla_wire_wait(&ring->wire, &turn->keys_come, error);
    if (status)
        return status;
    if (!exchange->failure.status)
        keep(exchange, cla_turn_compute(ring, exchange->job, turn, &now), &now);
    return send_keys(exchange, turn, step, error);
}

static clattn_status steps(struct exchange *exchange, struct cla_error *error)
{
    clattn_ring *ring = exchange->ring;
    clattn_status status = CLATTN_SUCCESS;
    for (int64_t step = 0; step < ring->wire.ranks && !status; step++) {
        status = begin_step(exchange, step, error);
        if (!status && step)
            status = end_step(exchange, step - 1, error);
        if (!status)
            status = receive_keys(exchange, step + 1, error);
    }
    return status ? status : end_step(exchange, ring->wire.ranks - 1, error);
}

static clattn_status await_home(struct exchange *exchange, struct cla_error *error)
{
    clattn_ring *ring = exchange->ring;
    clattn_status status = cla_wire_wait(&ring->wire, &ring->home_come, error);
    for (int i = 0; i < CLA_TURNS && !status; i++)
        status = cla_wire_wait(&ring->wire, &ring->turns[i].sums_sent, error);
    return status;
}

/* Waits for messages count as lost where the device has nothing to do. */
static bool watch(void *user)
{
    clattn_ring *ring = user;
    const double now = cla_wire_clock();
    const bool idle = cla_events_are_done(&ring->turns[0].events) && cla_events_are_done(&ring->turns[1].events);
    if (idle && ring->idle_since > 0)
        ring->waited += now - ring->idle_since;
    ring->idle_since = idle ? now : 0;
    return cla_round_is_hopeless(&ring->round);
}

clattn_status cla_ring_turn_round(clattn_ring *ring, const struct cla_job *job, struct cla_error *error)
{
    struct exchange exchange = {.ring = ring, .job = job, .backward = job->problem->pass == CLATTN_BACKWARD};
    const int own = ring->wire.rank, from = rank_at(ring, ring->hops[own]);
    const uint64_t bytes = ring->hops[own] ? sums_bytes(&exchange, own) : 0;
    ring->wire.interrupted = watch;
    ring->wire.user = ring;
    clattn_status status =
        cla_wire_receive(&ring->wire, ring->home.data, bytes, from, CLA_TAG_HOME, &ring->home_come, error);
    if (!status)
        status = steps(&exchange, error);
    if (!status)
        status = await_home(&exchange, error);
    if (status || !exchange.failure.status)
        return status;
    *error = exchange.failure;
    return error->status;
}
