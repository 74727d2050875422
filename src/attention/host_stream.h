/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_HOST_STREAM_H
#define CLA_HOST_STREAM_H

#include "attention/host_job.h"

/* Keys on their way through the device, chunk by chunk. Two slots take turns: while the device works on the keys of
 * one, the next keys are copied into the other, and the gradients of those before leave. */
struct cla_host_stream;

/* One chunk in its slot. */
struct cla_host_chunk {
    int64_t first, count;
    struct clattn_tensor tensors[CLA_SLOT_TENSORS]; /* K, V, dK, dV; buffer NULL where there is none */
};

/* Enqueues the work on a chunk. *started is the first of its commands, *done the last. */
typedef clattn_status (*cla_host_chunk_work)(struct cla_host_stream *stream, const struct cla_host_chunk *chunk,
                                             cl_uint wait_count, const cl_event *waits, cl_event *started,
                                             cl_event *done, struct cla_error *error);

struct cla_host_turn {
    struct cla_host_chunk chunk;
    cl_event copied[2];     /* K and V */
    cl_event started, done; /* done NULL: the slot is free */
    cl_event left[2];       /* dK and dV */
    bool leaving;
};

struct cla_host_stream {
    struct cla_host_job *job;
    cla_host_chunk_work work;
    bool even_without_keys; /* there is work to do once even then */
    int64_t keys, chunk;
    const void *details; /* for `work` */
    cl_event ready;      /* what the next chunk's work waits for beside its keys; not owned */
    struct cla_host_turn turns[CLA_SLOTS];
};

/* Whether K and V, and their gradients, are more than the device can have as a whole. */
bool cla_host_must_stream(const struct cla_host_job *job);

/* How many keys a piece has, by default, where all slots together may take so many bytes; at least one. */
int64_t cla_host_chunk_within(const struct cla_host_job *job, uint64_t bytes);

/* Device memory of all slots, with pieces of so many keys; what they would hold together with what is there already;
 * and the end of those that are larger than this call needs. */
uint64_t cla_host_slots_bytes(const struct cla_host_job *job, int64_t keys);
uint64_t cla_host_slots_held(const struct cla_host_job *job);
void cla_host_slots_trim(struct cla_host_job *job);

/* Makes the slots and the queue of the copies. */
clattn_status cla_host_stream_prepare(struct cla_host_job *job, int64_t kv_chunk, struct cla_error *error);

/* All chunks, one after the other; gradients are in job->host->staged at the end. */
clattn_status cla_host_stream_run(struct cla_host_stream *stream, struct cla_error *error);

/* Releases events. After a failure it waits first: copies that were enqueued still use the caller's arrays. */
void cla_host_stream_end(struct cla_host_stream *stream, bool failed);

#endif
