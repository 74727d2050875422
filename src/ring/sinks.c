/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/ring.h"
#include <string.h>

static float *sinks_of(const clattn_ring *ring, const struct cla_job *job, int rank)
{
    return (float *)ring->sinks.data + rank * job->shape.heads;
}

static void add_runs(const clattn_ring *ring, const struct cla_job *job)
{
    float *const own = sinks_of(ring, job, ring->wire.rank);
    memset(own, 0, (size_t)job->shape.heads * sizeof *own);
    for (int i = 0; i < CLA_RUNS; i++) {
        const float *of_run = ring->runs[i].results[CLA_SINKS_GRAD].data;
        for (int64_t h = 0; of_run && h < job->shape.heads && ring->runs[i].count; h++)
            own[h] += of_run[h];
    }
    const float *const guests = ring->guest_sinks.data; /* of rows that meet keys first here */
    for (int64_t h = 0; guests && ring->rows_pass && h < job->shape.heads; h++)
        own[h] += guests[h];
}

clattn_status cla_sinks_exchange(clattn_ring *ring, const struct cla_job *job, struct cla_error *error)
{
    struct cla_wire *wire = &ring->wire;
    const uint64_t bytes = (uint64_t)job->shape.heads * sizeof(float);
    clattn_status status = CLATTN_SUCCESS;
    if (!job->arrays[CLA_SINKS_GRAD].data)
        return CLATTN_SUCCESS;
    add_runs(ring, job);
    for (int i = 0; i < wire->ranks && !status; i++) {
        if (i == wire->rank)
            continue;
        status = cla_wire_receive(wire, sinks_of(ring, job, i), bytes, i, CLA_TAG_SINKS, &ring->sinks_come[i], error);
        if (!status)
            status = cla_wire_send(wire, sinks_of(ring, job, wire->rank), bytes, i, CLA_TAG_SINKS, &ring->sinks_sent[i],
                                   error);
    }
    for (int i = 0; i < 2 * wire->ranks && !status; i++)
        status = cla_wire_wait(wire, i % 2 ? &ring->sinks_sent[i / 2] : &ring->sinks_come[i / 2], error);
    return status;
}

void cla_sinks_deliver(clattn_ring *ring, const struct cla_job *job)
{
    float *const to = (float *)job->arrays[CLA_SINKS_GRAD].data;
    for (int64_t h = 0; to && h < job->shape.heads; h++) {
        double sum = 0;
        for (int i = 0; i < ring->wire.ranks; i++)
            sum += (double)sinks_of(ring, job, i)[h];
        to[h] = (float)sum;
    }
}
