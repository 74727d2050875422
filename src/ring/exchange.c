/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/clcall.h"
#include "ring/ring.h"

/* How the keys go round. In each step rank r has the keys of rank r - distance, if they go so far. Its two turns hold
 * those of this step and of the last one. A rank that has failed in its own work takes every step and computes nothing.
 *
 * Where keys are lent, there is one step more: the own keys' last pair of runs waits for the end, so that what other
 * ranks are given of gradients gets there meanwhile; the first ones come first, while other ranks' keys are copied. */
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

static bool lends(const clattn_ring *ring)
{
    return ring->wire.transport->lends;
}

static int64_t steps_of(const clattn_ring *ring)
{
    return ring->wire.ranks + (lends(ring) && ring->wire.ranks > 1);
}

static int64_t distance_in(const clattn_ring *ring, int64_t step)
{
    return step % ring->wire.ranks;
}

/* Whose keys are here in that step; -1: nobody's. */
static int64_t part_in(const clattn_ring *ring, int64_t step)
{
    const int64_t distance = distance_in(ring, step);
    const int part = rank_at(ring, -distance);
    return step < steps_of(ring) && distance <= ring->hops[part] && cla_part_count(&ring->keys[part]) ? part : -1;
}

static enum cla_turn_pairs pairs_in(const clattn_ring *ring, int64_t step)
{
    if (steps_of(ring) == ring->wire.ranks || distance_in(ring, step))
        return CLA_ALL_PAIRS;
    return step ? CLA_LAST_PAIR : CLA_FIRST_PAIRS;
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
    if (part < 0 || part == ring->wire.rank)
        return CLATTN_SUCCESS;
    return cla_wire_receive(&ring->wire, lends(ring) ? NULL : turn->keys.data, keys_bytes(exchange, part),
                            lends(ring) ? (int)part : rank_at(ring, -1), CLA_TAG_KEYS, &turn->keys_come, error);
}

/* On to the next rank, where it needs them. */
static clattn_status pass_keys(struct exchange *exchange, struct cla_turn *turn, int64_t step, struct cla_error *error)
{
    clattn_ring *ring = exchange->ring;
    if (lends(ring) || step >= ring->hops[turn->part])
        return CLATTN_SUCCESS;
    return send(exchange, turn->keys_at, keys_bytes(exchange, turn->part), rank_at(ring, 1), CLA_TAG_KEYS,
                &turn->keys_sent, error);
}

/* To all ranks that need them. */
static clattn_status lend_keys(struct exchange *exchange, struct cla_error *error)
{
    clattn_ring *ring = exchange->ring;
    clattn_status status = CLATTN_SUCCESS;
    for (int64_t i = 1; lends(ring) && i <= ring->hops[ring->wire.rank] && !status; i++)
        status = cla_wire_send(&ring->wire, ring->own.data, keys_bytes(exchange, ring->wire.rank), rank_at(ring, i),
                               CLA_TAG_KEYS, &ring->keys_lent[i], error);
    return status;
}

static uint64_t gift_bytes(const struct exchange *exchange, int64_t rank, int64_t part)
{
    if (!exchange->backward || part < 0 || rank == part)
        return 0;
    return cla_gift_bytes(exchange->ring, exchange->job, rank, part);
}

/* Who has the own keys in that step. */
static int giver_in(const clattn_ring *ring, int64_t step)
{
    return rank_at(ring, distance_in(ring, step));
}

static clattn_status receive_gift(struct exchange *exchange, struct cla_turn *turn, int64_t step,
                                  struct cla_error *error)
{
    clattn_ring *ring = exchange->ring;
    const int giver = giver_in(ring, step);
    return cla_wire_receive(&ring->wire, lends(ring) ? NULL : turn->gift.data,
                            gift_bytes(exchange, giver, ring->wire.rank), giver, CLA_TAG_SUMS, &turn->gift_come, error);
}

/* What this rank's rows gave for the keys that were here goes to their rank, and the like comes from another one. */
static clattn_status exchange_gifts(struct exchange *exchange, struct cla_turn *turn, int64_t step,
                                    struct cla_error *error)
{
    clattn_ring *ring = exchange->ring;
    const int giver = giver_in(ring, step);
    struct cla_error now;
    clattn_status status = CLATTN_SUCCESS;
    if (turn->part >= 0)
        status = send(exchange, turn->given.data, gift_bytes(exchange, ring->wire.rank, turn->part), (int)turn->part,
                      CLA_TAG_SUMS, &turn->given_sent, error);
    if (!status)
        status = cla_wire_wait(&ring->wire, &turn->gift_come, error);
    if (status)
        return status;
    if (!exchange->failure.status && gift_bytes(exchange, giver, ring->wire.rank))
        keep(exchange,
             cla_gradients_add(ring, exchange->job, giver, lends(ring) ? turn->gift_come.lent : turn->gift.data, &now),
             &now);
    cla_wire_release(&ring->wire, &turn->gift_come);
    return CLATTN_SUCCESS;
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
    keep(exchange, cla_events_wait(&turn->events, &ring->wire, &now), &now);
    keep(exchange, cla_lane_finish(&ring->lane, &now), &now);
    ring->idle_since = 0;
    cla_wire_release(&ring->wire, &turn->keys_come);
    clattn_status status = cla_wire_wait(&ring->wire, &turn->keys_sent, error);
    if (!status && exchange->backward)
        status = exchange_gifts(exchange, turn, step, error);
    if (!status && turn->pairs != CLA_LAST_PAIR)
        tell_progress(exchange, rank_at(ring, -distance_in(ring, step)));
    return status;
}

static const void *keys_at(const clattn_ring *ring, const struct cla_turn *turn)
{
    if (turn->part == ring->wire.rank)
        return ring->own.data;
    return lends(ring) ? turn->keys_come.lent : turn->keys.data;
}

static clattn_status begin_step(struct exchange *exchange, int64_t step, struct cla_error *error)
{
    clattn_ring *ring = exchange->ring;
    struct cla_turn *turn = &ring->turns[step % CLA_TURNS];
    struct cla_error now;
    turn->part = part_in(ring, step);
    turn->pairs = pairs_in(ring, step);
    ring->idle_since = 0;
    clattn_status status = cla_wire_wait(&ring->wire, &turn->given_sent, error);
    if (!status)
        status = receive_gift(exchange, turn, step, error);
    if (status || turn->part < 0)
        return status;
    ring->info.steps += turn->pairs != CLA_LAST_PAIR;
    status = cla_wire_wait(&ring->wire, &turn->keys_come, error);
    if (status)
        return status;
    turn->keys_at = keys_at(ring, turn);
    if (!exchange->failure.status)
        keep(exchange, cla_turn_compute(ring, exchange->job, turn, &now), &now);
    return pass_keys(exchange, turn, step, error);
}

/* In step s the next keys are asked for as soon as the turn of step s - 1, which takes them, is over. */
static clattn_status steps(struct exchange *exchange, struct cla_error *error)
{
    clattn_ring *ring = exchange->ring;
    clattn_status status = lend_keys(exchange, error);
    if (!status)
        status = receive_keys(exchange, 0, error);
    for (int64_t step = 0; step < steps_of(ring) && !status; step++) {
        status = begin_step(exchange, step, error);
        if (!status && step)
            status = end_step(exchange, step - 1, error);
        if (!status)
            status = receive_keys(exchange, step + 1, error);
    }
    return status ? status : end_step(exchange, steps_of(ring) - 1, error);
}

/* All that others are to take of this rank has been taken. */
static clattn_status await_takers(clattn_ring *ring, struct cla_error *error)
{
    clattn_status status = CLATTN_SUCCESS;
    for (int i = 0; i < CLA_TURNS && !status; i++)
        status = cla_wire_wait(&ring->wire, &ring->turns[i].given_sent, error);
    for (int i = 1; i < ring->wire.ranks && !status; i++)
        status = cla_wire_wait(&ring->wire, &ring->keys_lent[i], error);
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
    ring->wire.interrupted = watch;
    ring->wire.user = ring;
    clattn_status status = steps(&exchange, error);
    if (!status)
        status = await_takers(ring, error);
    if (status || !exchange.failure.status)
        return status;
    *error = exchange.failure;
    return error->status;
}
