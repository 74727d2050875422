/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/clcall.h"
#include "ring/ring.h"

/* How the keys go round. In each step rank r has the keys of rank r - distance, if they go so far. Its two turns hold
 * those of this step and of the last one. A rank that has failed in its own work takes every step and computes nothing.
 *
 * Where rows pass it has the rows of that rank, which sent them for this step, and nothing goes on.
 *
 * A backward pass of several ranks, or one where rows pass, has one step more: a pair of own runs waits for the end, so
 * that what other ranks are given gets there meanwhile. */
struct exchange {
    clattn_ring *ring;
    const struct cla_job *job;
    bool gives; /* ranks give each other what they computed for them */
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
    return ring->wire.ranks + ((ring->problem.pass == CLATTN_BACKWARD || ring->rows_pass) && ring->wire.ranks > 1);
}

static int64_t distance_in(const clattn_ring *ring, int64_t step)
{
    return step % ring->wire.ranks;
}

/* Whether the run of another rank's keys (or rows, where these pass), or of the own keys, is here in that step. */
static bool is_here(const struct exchange *exchange, int64_t step, int run)
{
    const clattn_ring *ring = exchange->ring;
    const int64_t distance = distance_in(ring, step);
    const int part = rank_at(ring, -distance);
    if (ring->rows_pass && distance)
        return step < steps_of(ring) && cla_rows_visit(ring, exchange->job, part, run, ring->wire.rank);
    return step < steps_of(ring) && distance <= ring->hops[part][run] && ring->keys[part].count[run];
}

/* Whose keys are here in that step; -1: nobody's. */
static int64_t part_in(const struct exchange *exchange, int64_t step)
{
    const clattn_ring *ring = exchange->ring;
    for (int run = 0; run < CLA_RUNS; run++)
        if (is_here(exchange, step, run))
            return rank_at(ring, -distance_in(ring, step));
    return -1;
}

static enum cla_turn_pairs pairs_in(const clattn_ring *ring, int64_t step)
{
    if (steps_of(ring) == ring->wire.ranks || distance_in(ring, step))
        return CLA_ALL_PAIRS;
    return step ? CLA_LAST_PAIR : CLA_FIRST_PAIRS;
}

static uint64_t keys_bytes(const struct exchange *exchange, int64_t part, int run)
{
    return cla_keys_bytes(exchange->job, CLA_OF_KV, exchange->ring->keys[part].count[run]);
}

/* A run's message among those of its part. */
static char *message_at(const struct exchange *exchange, const struct cla_pinned_block *block, int64_t part, int run)
{
    return (char *)block->data + cla_keys_at(exchange->job, &exchange->ring->keys[part], run);
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

/* Where a guest's run comes to, in the turn's block. */
static char *guest_at(const struct exchange *exchange, const struct cla_turn *turn, int64_t part, int run)
{
    const uint64_t before = run ? cla_rows_bytes(exchange->ring, exchange->job, part, 0, exchange->ring->wire.rank) : 0;
    return (char *)turn->keys.data + before;
}

/* The own rows to the rank as far on as those come from behind that the step is for. */
static clattn_status pass_rows(struct exchange *exchange, int64_t step, struct cla_error *error)
{
    clattn_ring *ring = exchange->ring;
    const struct cla_job *job = exchange->job;
    struct cla_turn *turn = &ring->turns[step % CLA_TURNS];
    const int64_t distance = distance_in(ring, step);
    const int own = ring->wire.rank, from = rank_at(ring, -distance), to = rank_at(ring, distance);
    clattn_status status = CLATTN_SUCCESS;
    for (int run = 0; run < CLA_RUNS && step < steps_of(ring) && distance && !status; run++) {
        const uint64_t come = cla_rows_bytes(ring, job, from, run, own), gone = cla_rows_bytes(ring, job, own, run, to);
        status = cla_wire_receive(&ring->wire, lends(ring) ? NULL : guest_at(exchange, turn, from, run), come, from,
                                  CLA_TAG_KEYS, &turn->keys_come[run], error);
        if (!status)
            status = send(exchange, gone ? cla_rows_message(ring, job, turn, run, to) : NULL, gone, to, CLA_TAG_KEYS,
                          &turn->keys_sent[run], error);
    }
    return status;
}

static clattn_status receive_keys(struct exchange *exchange, int64_t step, struct cla_error *error)
{
    clattn_ring *ring = exchange->ring;
    struct cla_turn *turn = &ring->turns[step % CLA_TURNS];
    const int64_t part = part_in(exchange, step);
    clattn_status status = CLATTN_SUCCESS;
    if (ring->rows_pass)
        return pass_rows(exchange, step, error);
    for (int run = 0; run < CLA_RUNS && part >= 0 && part != ring->wire.rank && !status; run++)
        if (is_here(exchange, step, run))
            status = cla_wire_receive(&ring->wire, lends(ring) ? NULL : message_at(exchange, &turn->keys, part, run),
                                      keys_bytes(exchange, part, run), lends(ring) ? (int)part : rank_at(ring, -1),
                                      CLA_TAG_KEYS, &turn->keys_come[run], error);
    return status;
}

/* On to the next rank, where it needs them. */
static clattn_status pass_keys(struct exchange *exchange, struct cla_turn *turn, int64_t step, int run,
                               struct cla_error *error)
{
    clattn_ring *ring = exchange->ring;
    if (ring->rows_pass || lends(ring) || step >= ring->hops[turn->part][run])
        return CLATTN_SUCCESS;
    return send(exchange, turn->keys_at[run], keys_bytes(exchange, turn->part, run), rank_at(ring, 1), CLA_TAG_KEYS,
                &turn->keys_sent[run], error);
}

/* To all ranks that need them. */
static clattn_status lend_keys(struct exchange *exchange, struct cla_error *error)
{
    clattn_ring *ring = exchange->ring;
    const int own = ring->wire.rank;
    clattn_status status = CLATTN_SUCCESS;
    for (int64_t i = CLA_RUNS; lends(ring) && !ring->rows_pass && i < (int64_t)ring->wire.ranks * CLA_RUNS && !status;
         i++) {
        const int64_t distance = i / CLA_RUNS;
        const int run = (int)(i % CLA_RUNS);
        if (distance <= ring->hops[own][run] &&
            cla_part_meets(&exchange->job->meeting, &ring->rows[rank_at(ring, distance)], ring->keys[own].first[run],
                           ring->keys[own].count[run]))
            ring->info.bytes_sent += keys_bytes(exchange, own, run);
        if (distance <= ring->hops[own][run])
            status =
                cla_wire_send(&ring->wire, message_at(exchange, &ring->own, own, run), keys_bytes(exchange, own, run),
                              rank_at(ring, distance), CLA_TAG_KEYS, &ring->keys_lent[i], error);
    }
    return status;
}

static uint64_t gift_bytes(const struct exchange *exchange, int64_t rank, int64_t part)
{
    if (!exchange->gives || part < 0 || rank == part)
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

/* Where rows pass the last pair of own runs, which is under way, writes what the last gift is added to. */
static clattn_status add_gift(struct exchange *exchange, int64_t step, int giver, const void *gift,
                              struct cla_error *error)
{
    clattn_ring *ring = exchange->ring;
    struct cla_turn *next = &ring->turns[(step + 1) % CLA_TURNS];
    clattn_status status = CLATTN_SUCCESS;
    if (!ring->rows_pass)
        return cla_gradients_add(ring, exchange->job, giver, gift, error);
    if (step + 2 == steps_of(ring))
        status = cla_events_wait(&next->events, &ring->wire, error);
    return status ? status : cla_returns_add(ring, exchange->job, giver, gift, error);
}

/* What this rank's rows gave for the keys that were here, or what came of the rows, goes to their rank; and the like
 * comes from another one. */
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
    const void *const gift = lends(ring) ? turn->gift_come.lent : turn->gift.data;
    if (!exchange->failure.status && gift_bytes(exchange, giver, ring->wire.rank))
        keep(exchange, add_gift(exchange, step, giver, gift, &now), &now);
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

/* What rows give for the keys of the turn, whose kernels have run. */
static void take_gradients(struct exchange *exchange, struct cla_turn *turn)
{
    struct cla_error now;
    if (exchange->failure.status || turn->part < 0)
        return;
    if (exchange->job->problem->pass == CLATTN_BACKWARD)
        keep(exchange, cla_gradients_take(exchange->ring, exchange->job, turn, &now), &now);
    if (exchange->ring->rows_pass && !exchange->failure.status)
        keep(exchange, cla_returns_take(exchange->ring, exchange->job, turn, &now), &now);
    keep(exchange, cla_events_wait(&turn->events, &exchange->ring->wire, &now), &now);
    if (exchange->ring->rows_pass && !exchange->failure.status)
        cla_returns_pack(exchange->ring, exchange->job, turn);
}

/* Ends a step: its work is done, its keys have gone, and its buffers are free. */
static clattn_status end_step(struct exchange *exchange, int64_t step, struct cla_error *error)
{
    clattn_ring *ring = exchange->ring;
    struct cla_turn *turn = &ring->turns[step % CLA_TURNS];
    struct cla_error now;
    keep(exchange, cla_events_wait(&turn->events, &ring->wire, &now), &now);
    keep(exchange, cla_lane_finish(&ring->lane, &now), &now);
    if (exchange->gives)
        take_gradients(exchange, turn);
    ring->idle_since = 0;
    clattn_status status = CLATTN_SUCCESS;
    for (int run = 0; run < CLA_RUNS && !status; run++) {
        cla_wire_release(&ring->wire, &turn->keys_come[run]);
        status = cla_wire_wait(&ring->wire, &turn->keys_sent[run], error);
    }
    if (!status && exchange->gives)
        status = exchange_gifts(exchange, turn, step, error);
    if (!status && turn->pairs != CLA_LAST_PAIR)
        tell_progress(exchange, rank_at(ring, ring->rows_pass ? distance_in(ring, step) : -distance_in(ring, step)));
    return status;
}

static const void *keys_at(const struct exchange *exchange, const struct cla_turn *turn, int run)
{
    const clattn_ring *ring = exchange->ring;
    if (turn->part == ring->wire.rank)
        return message_at(exchange, &ring->own, turn->part, run);
    return lends(ring) ? turn->keys_come[run].lent : message_at(exchange, &turn->keys, turn->part, run);
}

/* A run of another rank's rows has come. */
static clattn_status meet_guest(struct exchange *exchange, struct cla_turn *turn, int run, struct cla_error *error)
{
    clattn_ring *ring = exchange->ring;
    const void *const message =
        lends(ring) ? turn->keys_come[run].lent : (const void *)guest_at(exchange, turn, turn->part, run);
    cl_event there = NULL;
    const clattn_status status = cla_guest_open(ring, exchange->job, turn, run, message, &there, error);
    return status ? status : cla_turn_compute_guest(ring, exchange->job, turn, run, there, error);
}

/* What of a run's keys is to be computed, once they have come; and they go on. */
static clattn_status meet_keys(struct exchange *exchange, struct cla_turn *turn, int64_t step, int run,
                               struct cla_error *error)
{
    clattn_ring *ring = exchange->ring;
    struct cla_error now;
    if (!is_here(exchange, step, run))
        return CLATTN_SUCCESS;
    const clattn_status status = cla_wire_wait(&ring->wire, &turn->keys_come[run], error);
    if (status)
        return status;
    if (ring->rows_pass && turn->part != ring->wire.rank) {
        if (!exchange->failure.status)
            keep(exchange, meet_guest(exchange, turn, run, &now), &now);
        return CLATTN_SUCCESS;
    }
    turn->keys_at[run] = keys_at(exchange, turn, run);
    if (!exchange->failure.status)
        keep(exchange, cla_turn_compute(ring, exchange->job, turn, run, &now), &now);
    return pass_keys(exchange, turn, step, run, error);
}

static clattn_status begin_step(struct exchange *exchange, int64_t step, struct cla_error *error)
{
    clattn_ring *ring = exchange->ring;
    struct cla_turn *turn = &ring->turns[step % CLA_TURNS];
    turn->part = part_in(exchange, step);
    turn->pairs = pairs_in(ring, step);
    ring->idle_since = 0;
    clattn_status status = cla_wire_wait(&ring->wire, &turn->given_sent, error);
    if (!status)
        status = receive_gift(exchange, turn, step, error);
    if (status || turn->part < 0)
        return status;
    ring->info.steps += turn->pairs != CLA_LAST_PAIR;
    if (ring->rows_pass && !step && !exchange->failure.status) {
        struct cla_error now;
        for (int run = 0; run < CLA_RUNS; run++)
            turn->keys_at[run] = keys_at(exchange, turn, run);
        keep(exchange, cla_turn_bring_keys(ring, exchange->job, turn, &now), &now);
    }
    for (int run = 0; run < CLA_RUNS && !status; run++)
        status = meet_keys(exchange, turn, step, run, error);
    return status;
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
    for (int i = CLA_RUNS; i < ring->wire.ranks * CLA_RUNS && !status; i++)
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
    struct exchange exchange = {
        .ring = ring, .job = job, .gives = job->problem->pass == CLATTN_BACKWARD || ring->rows_pass};
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
