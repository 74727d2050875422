/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/clcall.h"
#include "plan/types.h"
#include "ring/ring.h"

static const int inputs[CLA_OF_KV] = {CLA_K, CLA_V};

enum { ALIGNMENT = 64 };

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

struct cla_sizes cla_keys_sizes(const struct cla_job *job, int which, int64_t count)
{
    return (struct cla_sizes){cla_job_batch(job), job->shape.kv_heads, count,
                              which ? job->problem->d_v : job->problem->d};
}

static uint64_t elements(const struct cla_job *job, int which, int64_t count)
{
    const struct cla_sizes sizes = cla_keys_sizes(job, which, count);
    return (uint64_t)sizes.batch * (uint64_t)sizes.heads * (uint64_t)sizes.rows * (uint64_t)sizes.columns;
}

static uint64_t stored_bytes(const struct cla_job *job, int which, int64_t count)
{
    return elements(job, which, count) * (uint64_t)cla_size_of(job->problem, inputs[which]);
}

/* A run's message has K, then V. `which` 1: where V begins; CLA_OF_KV: all of the message. */
uint64_t cla_keys_bytes(const struct cla_job *job, int which, int64_t count)
{
    uint64_t bytes = 0;
    for (int i = 0; i < which; i++)
        bytes += aligned(stored_bytes(job, i, count));
    return bytes;
}

uint64_t cla_keys_at(const struct cla_job *job, const struct clattn_ring_part *part, int run)
{
    uint64_t bytes = 0;
    for (int i = 0; i < run; i++)
        bytes += cla_keys_bytes(job, CLA_OF_KV, part->count[i]);
    return bytes;
}

uint64_t cla_keys_elements_at(const struct cla_job *job, const struct clattn_ring_part *part, int which, int run)
{
    return elements(job, which, cla_part_at(part, run));
}

clattn_status cla_keys_copy(const struct cla_job *job, int operand, int which, int run, void *dense,
                            struct cla_error *error)
{
    const struct cla_array *array = &job->arrays[operand];
    const struct cla_sizes sizes = cla_keys_sizes(job, which, job->keys.count[run]);
    struct cla_layout layout;
    const clattn_status status = cla_job_layout(job, operand, &layout, error);
    if (status)
        return status;
    layout.offset += (job->whole ? job->keys.first[run] : cla_part_at(&job->keys, run)) * layout.row;
    if (array->output)
        cla_scatter((void *)array->data, dense, &layout, &sizes, array->element_bytes);
    else
        cla_gather(dense, array->data, &layout, &sizes, array->element_bytes);
    return CLATTN_SUCCESS;
}

/* The most keys that a part has, and the most bytes of its messages. */
struct largest {
    int64_t keys;
    uint64_t bytes;
};

static struct largest largest_part(const clattn_ring *ring, const struct cla_job *job)
{
    struct largest most = {0};
    const int64_t own = ring->wire.rank;
    for (int64_t i = ring->rows_pass ? own : 0; i < (ring->rows_pass ? own + 1 : ring->wire.ranks); i++) {
        const int64_t keys = cla_part_count(&ring->keys[i]);
        const uint64_t bytes = cla_keys_at(job, &ring->keys[i], CLA_RUNS);
        most.keys = keys > most.keys ? keys : most.keys;
        most.bytes = bytes > most.bytes ? bytes : most.bytes;
    }
    return most;
}

static clattn_status open_turn(clattn_ring *ring, const struct cla_job *job, struct cla_turn *turn,
                               const struct largest *most, struct cla_error *error)
{
    clattn_status status = CLATTN_SUCCESS;
    if (!ring->wire.transport->lends && ring->wire.ranks > 1 && !ring->rows_pass)
        status = cla_pinned_block_grow(&turn->keys, ring->cl, ring->queue, most->bytes, error);
    for (int which = 0; which < CLA_OF_KV && !status; which++)
        status = cla_device_block_grow(&turn->kv[which], ring->cl, stored_bytes(job, which, most->keys), error);
    return status;
}

/* The own keys become messages. */
static clattn_status take_own(clattn_ring *ring, const struct cla_job *job, struct cla_error *error)
{
    clattn_status status = CLATTN_SUCCESS;
    for (int i = 0; i < CLA_RUNS * CLA_OF_KV && !status; i++) {
        const int run = i / CLA_OF_KV, which = i % CLA_OF_KV;
        const int64_t count = job->keys.count[run];
        const uint64_t at = cla_keys_at(job, &job->keys, run) + cla_keys_bytes(job, which, count);
        if (count)
            status = cla_keys_copy(job, inputs[which], which, run, (char *)ring->own.data + at, error);
    }
    return status;
}

clattn_status cla_keys_open(clattn_ring *ring, const struct cla_job *job, struct cla_error *error)
{
    const struct largest most = largest_part(ring, job);
    clattn_status status =
        cla_pinned_block_grow(&ring->own, ring->cl, ring->queue, cla_keys_at(job, &job->keys, CLA_RUNS), error);
    for (int i = 0; i < (ring->rows_pass ? 1 : CLA_TURNS) && !status; i++)
        status = open_turn(ring, job, &ring->turns[i], &most, error);
    if (!status && (job->problem->pass == CLATTN_BACKWARD || ring->rows_pass))
        status = cla_gifts_open(ring, job, error);
    if (!status && job->problem->pass == CLATTN_BACKWARD)
        status = cla_gradients_open(ring, job, most.keys, error);
    return status ? status : take_own(ring, job, error);
}

/* What another rank lends is pinned memory for its driver's context alone. From such memory two devices at once copied
 * 4.9 GB/s, by pinned blocks of their own twice 7 (H200). */
static clattn_status upload_lent(clattn_ring *ring, cl_mem buffer, size_t offset, const void *from, size_t bytes,
                                 cl_event *event, struct cla_error *error)
{
    const clattn_status status =
        cla_lane_copy(&ring->lane, ring->cl, ring->copy_queue, buffer, offset, from, bytes, error);
    return status ? status : cla_cl_enqueue_marker(ring->copy_queue, 0, NULL, event, error);
}

clattn_status cla_keys_upload(clattn_ring *ring, const struct cla_job *job, struct cla_turn *turn, int run,
                              cl_event copied[2], struct cla_error *error)
{
    const struct clattn_ring_part *part = &ring->keys[cla_turn_keys(ring, turn)];
    clattn_status status = CLATTN_SUCCESS;
    for (int which = 0; which < CLA_OF_KV && !status; which++) {
        cl_event *const event = cla_events_next(&turn->events);
        const char *from = (const char *)turn->keys_at[run] + cla_keys_bytes(job, which, part->count[run]);
        const size_t bytes = (size_t)stored_bytes(job, which, part->count[run]);
        const size_t offset = (size_t)stored_bytes(job, which, cla_part_at(part, run));
        const cl_mem buffer = turn->kv[which].buffer;
        status = ring->wire.transport->lends && cla_turn_keys(ring, turn) != ring->wire.rank
                     ? upload_lent(ring, buffer, offset, from, bytes, event, error)
                     : cla_cl_enqueue_write(ring->copy_queue, buffer, offset, bytes, from, 0, NULL, event, error);
        copied[which] = *event;
    }
    return status ? status : cla_cl_flush(ring->copy_queue, error);
}

struct clattn_tensor cla_keys_tensor(const struct cla_job *job, cl_mem buffer, const struct clattn_ring_part *part,
                                     int which, int run)
{
    const struct cla_sizes sizes = cla_keys_sizes(job, which, part->count[run]);
    struct cla_layout layout = cla_layout_dense(sizes.heads, sizes.rows, sizes.columns);
    layout.offset = (int64_t)cla_keys_elements_at(job, part, which, run);
    return (struct clattn_tensor){.buffer = buffer, .layout = cla_layout_given(&layout)};
}
