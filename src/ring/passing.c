/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/visits.h"

/* What passes in a call: bytes of both ways, of all ranks together. They depend on what all ranks know of each other,
 * and are the same on each. */

/* A run of keys goes from rank to rank as far as it is needed; within a process those that need it read it. */
static int64_t times_sent(const clattn_ring *ring, const struct cla_job *job, int64_t part, int run)
{
    const struct clattn_ring_part *keys = &ring->keys[part];
    int64_t times = 0;
    if (!ring->wire.transport->lends)
        return ring->hops[part][run];
    for (int64_t i = 0; i < ring->wire.ranks; i++)
        times += i != part && cla_part_meets(&job->meeting, &ring->rows[i], keys->first[run], keys->count[run]);
    return times;
}

static uint64_t bytes_of_keys(const clattn_ring *ring, const struct cla_job *job)
{
    uint64_t bytes = 0;
    for (int64_t part = 0; part < ring->wire.ranks; part++) {
        for (int run = 0; run < CLA_RUNS; run++)
            bytes += (uint64_t)times_sent(ring, job, part, run) *
                     cla_keys_bytes(job, CLA_OF_KV, ring->keys[part].count[run]);
        for (int64_t by = 0; by < ring->wire.ranks && job->problem->pass == CLATTN_BACKWARD; by++)
            bytes += by == part ? 0 : cla_gradients_bytes(ring, job, by, part);
    }
    return bytes;
}

static uint64_t bytes_of_rows(const clattn_ring *ring, const struct cla_job *job)
{
    uint64_t bytes = 0;
    for (int64_t from = 0; from < ring->wire.ranks; from++)
        for (int64_t to = 0; to < ring->wire.ranks; to++)
            if (from != to)
                bytes += cla_visits_bytes(ring, job, from, to, false) + cla_visits_bytes(ring, job, from, to, true);
    return bytes;
}

void cla_passing_choose(clattn_ring *ring, const struct cla_job *job)
{
    struct clattn_ring_info *info = &ring->info;
    info->kv_bytes = bytes_of_keys(ring, job);
    info->q_bytes = bytes_of_rows(ring, job);
    ring->rows_pass = ring->passing == CLATTN_RING_PASS_Q ||
                      (ring->passing == CLATTN_RING_PASS_AUTO && info->q_bytes < info->kv_bytes);
    info->passing = ring->rows_pass ? CLATTN_RING_PASS_Q : CLATTN_RING_PASS_KV;
}
