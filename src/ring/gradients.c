/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/clcall.h"
#include "plan/types.h"
#include "ring/ring.h"

/* dK and dV. Kernels give them for each run of rows, in the type of K and V; the rank that has the keys adds them up in
 * fp32, on its device, in the order of steps. */
static const int gradients[CLA_OF_KV] = {CLA_D_K, CLA_D_V};

enum { ALIGNMENT = 64 };

/* A run of rows meets a run of keys of a part: one of them (dK, or dV) there. */
struct block {
    int run, keys, which;
    int64_t count, at;      /* elements; where they begin within those of all of the part */
    uint64_t offset, bytes; /* within the message */
    enum clattn_dtype type;
};

static size_t element_bytes(const struct cla_job *job, int which)
{
    return (size_t)cla_size_of(job->problem, gradients[which]);
}

static struct block block_of(const clattn_ring *ring, const struct cla_job *job, int64_t part, int number)
{
    const struct clattn_ring_part *of = &ring->keys[part];
    struct block block = {
        .run = number / (CLA_RUNS * CLA_OF_KV), .keys = number / CLA_OF_KV % CLA_RUNS, .which = number % CLA_OF_KV};
    const struct cla_sizes sizes = cla_keys_sizes(job, block.which, of->count[block.keys]);
    block.count = sizes.batch * sizes.heads * sizes.rows * sizes.columns;
    block.at = (int64_t)cla_keys_elements_at(job, of, block.which, block.keys);
    block.bytes = (uint64_t)block.count * element_bytes(job, block.which);
    block.type = cla_type_of(job->problem, gradients[block.which]);
    return block;
}

/* The next block that the rank gives for the part, behind `*number` (from -1 on); false: there is none. */
static bool next_block(const clattn_ring *ring, const struct cla_job *job, int64_t rank, int64_t part, int *number,
                       struct block *block)
{
    const uint64_t end = *number < 0 ? 0 : block->offset + block->bytes;
    const struct clattn_ring_part *rows = &ring->rows[rank], *keys = &ring->keys[part];
    while (++*number < CLA_RUNS * CLA_RUNS * CLA_OF_KV) {
        *block = block_of(ring, job, part, *number);
        block->offset = (end + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        if (job->arrays[gradients[block->which]].data &&
            cla_runs_meet(&job->meeting, rows->first[block->run], rows->count[block->run], keys->first[block->keys],
                          keys->count[block->keys]))
            return true;
    }
    return false;
}

uint64_t cla_gradients_bytes(const clattn_ring *ring, const struct cla_job *job, int64_t rank, int64_t part)
{
    struct block block;
    uint64_t bytes = 0;
    for (int number = -1; next_block(ring, job, rank, part, &number, &block);)
        bytes = block.offset + block.bytes;
    return bytes;
}

uint64_t cla_gift_bytes(const clattn_ring *ring, const struct cla_job *job, int64_t rank, int64_t part)
{
    return ring->rows_pass ? cla_returns_bytes(ring, job, rank, part) : cla_gradients_bytes(ring, job, rank, part);
}

static uint64_t largest_gift(const clattn_ring *ring, const struct cla_job *job, bool given)
{
    uint64_t most = 0;
    for (int i = 0; i < ring->wire.ranks; i++) {
        const int own = ring->wire.rank;
        const uint64_t bytes = i == own ? 0 : cla_gift_bytes(ring, job, given ? own : i, given ? i : own);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static clattn_status open_turn(clattn_ring *ring, const struct cla_job *job, struct cla_turn *turn, int64_t most,
                               struct cla_error *error)
{
    clattn_status status = CLATTN_SUCCESS;
    for (int i = 0; i < CLA_RUNS * CLA_OF_KV && !status; i++) {
        const int which = i % CLA_OF_KV;
        const struct cla_sizes sizes = cla_keys_sizes(job, which, most);
        if (job->arrays[gradients[which]].data)
            status = cla_device_block_grow(
                &turn->d_kv[i / CLA_OF_KV][which], ring->cl,
                (size_t)(sizes.batch * sizes.heads * sizes.rows * sizes.columns) * element_bytes(job, which), error);
    }
    return status;
}

static int64_t own_elements(const struct cla_job *job, int which)
{
    const struct cla_sizes sizes = cla_keys_sizes(job, which, cla_part_count(&job->keys));
    return job->arrays[gradients[which]].data ? sizes.batch * sizes.heads * sizes.rows * sizes.columns : 0;
}

/* Where dV begins in the results; of CLA_OF_KV, where they end. */
static uint64_t results_bytes(const struct cla_job *job, int which)
{
    uint64_t bytes = 0;
    for (int i = 0; i < which; i++)
        bytes += (uint64_t)own_elements(job, i) * sizeof(float);
    return bytes;
}

/* What ranks give each other: room for it. */
clattn_status cla_gifts_open(clattn_ring *ring, const struct cla_job *job, struct cla_error *error)
{
    const uint64_t given = largest_gift(ring, job, true), gift = largest_gift(ring, job, false);
    clattn_status status = cla_device_block_grow(&ring->gift, ring->cl, gift, error);
    for (int i = 0; i < CLA_TURNS && !status; i++) {
        status = cla_pinned_block_grow(&ring->turns[i].given, ring->cl, ring->queue, given, error);
        if (!status && !ring->wire.transport->lends)
            status = cla_pinned_block_grow(&ring->turns[i].gift, ring->cl, ring->queue, gift, error);
    }
    return status;
}

clattn_status cla_gradients_open(clattn_ring *ring, const struct cla_job *job, int64_t most, struct cla_error *error)
{
    clattn_status status = CLATTN_SUCCESS;
    for (int i = 0; i < CLA_TURNS && !status; i++)
        status = open_turn(ring, job, &ring->turns[i], most, error);
    if (!status)
        status = cla_pinned_block_grow(&ring->results, ring->cl, ring->queue, results_bytes(job, CLA_OF_KV), error);
    for (int which = 0; which < CLA_OF_KV && !status; which++) {
        const size_t bytes = (size_t)own_elements(job, which) * sizeof(float);
        status = cla_device_block_grow(&ring->d_kv[which], ring->cl, bytes, error);
        if (!status && bytes)
            status = cla_cl_enqueue_fill(ring->back_queue, ring->d_kv[which].buffer, 0, 0, bytes,
                                         cla_events_next(&ring->events), error);
    }
    return status;
}

static clattn_status add_own(clattn_ring *ring, const struct block *block, struct cla_turn *turn,
                             struct cla_error *error)
{
    const struct cla_piece into = {ring->d_kv[block->which].buffer, block->at};
    const struct cla_piece from = {turn->d_kv[block->run][block->which].buffer, block->at};
    const struct cla_dispatch to = cla_to_queue(ring->back_queue, 0, NULL, cla_events_next(&turn->events));
    return cla_sums_add(&ring->sums, &to, &into, &from, block->count, block->type, error);
}

static clattn_status fetch(clattn_ring *ring, const struct block *block, struct cla_turn *turn, struct cla_error *error)
{
    const size_t element = (size_t)block->bytes / (size_t)block->count;
    return cla_cl_enqueue_read(
        ring->back_queue, turn->d_kv[block->run][block->which].buffer, (size_t)block->at * element,
        (size_t)block->bytes, (char *)turn->given.data + block->offset, 0, NULL, cla_events_next(&turn->events), error);
}

clattn_status cla_gradients_take(clattn_ring *ring, const struct cla_job *job, struct cla_turn *turn,
                                 struct cla_error *error)
{
    const int64_t rows = cla_turn_rows(ring, turn), keys = cla_turn_keys(ring, turn);
    const bool own = keys == ring->wire.rank;
    struct block block;
    clattn_status status = CLATTN_SUCCESS;
    for (int number = -1; !status && next_block(ring, job, rows, keys, &number, &block);)
        if (!own)
            status = fetch(ring, &block, turn, error);
        else if (cla_turn_has(ring, job, turn, block.run, block.keys))
            status = add_own(ring, &block, turn, error);
    return status ? status : cla_cl_flush(ring->back_queue, error);
}

clattn_status cla_gift_upload(clattn_ring *ring, cl_mem buffer, size_t offset, const void *gift, size_t bytes,
                              struct cla_events *events, struct cla_error *error)
{
    if (ring->wire.transport->lends)
        return cla_lane_copy(&ring->lane, ring->cl, ring->back_queue, buffer, offset, gift, bytes, error);
    return cla_cl_enqueue_write(ring->back_queue, buffer, offset, bytes, gift, 0, NULL, cla_events_next(events), error);
}

clattn_status cla_gift_wait(clattn_ring *ring, struct cla_events *events, clattn_status status, struct cla_error *error)
{
    struct cla_error of_events;
    cla_cl_flush(ring->back_queue, &of_events);
    clattn_status waited = cla_events_wait(events, &ring->wire, &of_events);
    if (!waited)
        waited = cla_lane_finish(&ring->lane, &of_events);
    if (waited && !status)
        *error = of_events;
    return status ? status : waited;
}

clattn_status cla_gradients_add(clattn_ring *ring, const struct cla_job *job, int64_t rank, const void *gift,
                                struct cla_error *error)
{
    struct cla_events events = {.count = 0};
    struct block block;
    const int own = ring->wire.rank;
    clattn_status status = cla_gift_upload(ring, ring->gift.buffer, 0, gift,
                                           (size_t)cla_gradients_bytes(ring, job, rank, own), &events, error);
    for (int number = -1; !status && next_block(ring, job, rank, own, &number, &block);) {
        const int64_t at = (int64_t)(block.offset / element_bytes(job, block.which));
        const struct cla_piece into = {ring->d_kv[block.which].buffer, block.at};
        const struct cla_piece from = {ring->gift.buffer, at};
        const struct cla_dispatch to = cla_to_queue(ring->back_queue, 0, NULL, cla_events_next(&events));
        status = cla_sums_add(&ring->sums, &to, &into, &from, block.count, block.type, error);
    }
    return cla_gift_wait(ring, &events, status, error);
}

/* By the first turn's keys, which nobody needs any more. */
clattn_status cla_gradients_collect(clattn_ring *ring, const struct cla_job *job, struct cla_error *error)
{
    clattn_status status = CLATTN_SUCCESS;
    for (int which = 0; which < CLA_OF_KV && !status; which++) {
        const int64_t count = own_elements(job, which);
        const enum clattn_dtype type = cla_type_of(job->problem, gradients[which]);
        const cl_mem rounded = ring->turns[0].kv[which].buffer;
        if (!count)
            continue;
        const struct cla_dispatch to = cla_to_queue(ring->back_queue, 0, NULL, cla_events_next(&ring->events));
        status = cla_sums_round(&ring->sums, &to, rounded, ring->d_kv[which].buffer, count, type, error);
        if (!status)
            status = cla_cl_enqueue_read(ring->back_queue, rounded, 0, (size_t)count * element_bytes(job, which),
                                         (char *)ring->results.data + results_bytes(job, which), 0, NULL,
                                         cla_events_next(&ring->events), error);
    }
    return status ? status : cla_cl_flush(ring->back_queue, error);
}

void cla_gradients_deliver(clattn_ring *ring, const struct cla_job *job)
{
    struct cla_error ignored; /* layouts have been resolved before */
    for (int i = 0; i < CLA_RUNS * CLA_OF_KV; i++) {
        const int run = i / CLA_OF_KV, which = i % CLA_OF_KV;
        const uint64_t at = cla_keys_elements_at(job, &job->keys, which, run) * element_bytes(job, which);
        if (own_elements(job, which) && job->keys.count[run])
            cla_keys_copy(job, gradients[which], which, run,
                          (char *)ring->results.data + results_bytes(job, which) + at, &ignored);
    }
}
