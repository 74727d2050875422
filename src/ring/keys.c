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

/* `which` 1: where V begins; CLA_OF_KV: all of the message. */
uint64_t cla_keys_bytes(const struct cla_job *job, int which, int64_t count)
{
    uint64_t bytes = 0;
    for (int i = 0; i < which; i++)
        bytes += aligned(stored_bytes(job, i, count));
    return bytes;
}

static void copy_run(const struct cla_array *array, const struct cla_layout *place, char *dense,
                     const struct cla_sizes *sizes)
{
    if (array->output)
        cla_scatter((void *)array->data, dense, place, sizes, array->element_bytes);
    else
        cla_gather(dense, array->data, place, sizes, array->element_bytes);
}

clattn_status cla_keys_copy(const struct cla_job *job, int operand, int which, void *dense, struct cla_error *error)
{
    const struct cla_array *array = &job->arrays[operand];
    const struct cla_sizes all = cla_keys_sizes(job, which, cla_part_count(&job->keys));
    const struct cla_layout steps = cla_layout_dense(all.heads, all.rows, all.columns);
    struct cla_layout layout;
    const clattn_status status = cla_job_layout(job, operand, &layout, error);
    for (int64_t i = 0; i < all.batch * all.heads * CLA_RUNS && !status; i++) {
        const int64_t b = i / CLA_RUNS / all.heads, h = i / CLA_RUNS % all.heads;
        const int run = (int)(i % CLA_RUNS);
        const struct cla_sizes one = {1, 1, job->keys.count[run], all.columns};
        const int64_t at = cla_part_at(&job->keys, run);
        struct cla_layout place = layout;
        place.offset += b * layout.batch + h * layout.head + (job->whole ? job->keys.first[run] : at) * layout.row;
        copy_run(array, &place,
                 (char *)dense + (b * steps.batch + h * steps.head + at * steps.row) * array->element_bytes, &one);
    }
    return status;
}

static int64_t largest_part(const clattn_ring *ring)
{
    int64_t most = 0;
    for (int i = 0; i < ring->wire.ranks; i++)
        most = cla_part_count(&ring->keys[i]) > most ? cla_part_count(&ring->keys[i]) : most;
    return most;
}

static clattn_status open_turn(clattn_ring *ring, const struct cla_job *job, struct cla_turn *turn, int64_t most,
                               struct cla_error *error)
{
    clattn_status status = CLATTN_SUCCESS;
    if (!ring->wire.transport->lends && ring->wire.ranks > 1)
        status = cla_pinned_block_grow(&turn->keys, ring->cl, ring->queue, cla_keys_bytes(job, CLA_OF_KV, most), error);
    for (int which = 0; which < CLA_OF_KV && !status; which++)
        status = cla_device_block_grow(&turn->kv[which], ring->cl, stored_bytes(job, which, most), error);
    return status;
}

clattn_status cla_keys_open(clattn_ring *ring, const struct cla_job *job, struct cla_error *error)
{
    const int64_t most = largest_part(ring), count = cla_part_count(&job->keys);
    clattn_status status =
        cla_pinned_block_grow(&ring->own, ring->cl, ring->queue, cla_keys_bytes(job, CLA_OF_KV, count), error);
    for (int i = 0; i < CLA_TURNS && !status; i++)
        status = open_turn(ring, job, &ring->turns[i], most, error);
    if (!status && job->problem->pass == CLATTN_BACKWARD)
        status = cla_gradients_open(ring, job, most, error);
    for (int which = 0; which < CLA_OF_KV && !status && count; which++)
        status =
            cla_keys_copy(job, inputs[which], which, (char *)ring->own.data + cla_keys_bytes(job, which, count), error);
    return status;
}

/* What another rank lends is pinned memory for its driver's context alone. From such memory two devices at once copied
 * 4.9 GB/s, by pinned blocks of their own twice 7 (H200). */
static clattn_status upload_lent(clattn_ring *ring, cl_mem buffer, const void *from, size_t bytes, cl_event *event,
                                 struct cla_error *error)
{
    const clattn_status status = cla_lane_copy(&ring->lane, ring->cl, ring->copy_queue, buffer, from, bytes, error);
    return status ? status : cla_cl_enqueue_marker(ring->copy_queue, 0, NULL, event, error);
}

clattn_status cla_keys_upload(clattn_ring *ring, const struct cla_job *job, struct cla_turn *turn, cl_event copied[2],
                              struct cla_error *error)
{
    const int64_t count = cla_part_count(&ring->keys[turn->part]);
    clattn_status status = CLATTN_SUCCESS;
    for (int which = 0; which < CLA_OF_KV && !status; which++) {
        cl_event *event = cla_events_next(&turn->events);
        const char *from = (const char *)turn->keys_at + cla_keys_bytes(job, which, count);
        const size_t bytes = (size_t)stored_bytes(job, which, count);
        const cl_mem buffer = turn->kv[which].buffer;
        status = ring->wire.transport->lends && turn->part != ring->wire.rank
                     ? upload_lent(ring, buffer, from, bytes, event, error)
                     : cla_cl_enqueue_write(ring->copy_queue, buffer, 0, bytes, from, 0, NULL, event, error);
        copied[which] = *event;
    }
    return status ? status : cla_cl_flush(ring->copy_queue, error);
}

struct clattn_tensor cla_keys_tensor(const struct cla_job *job, cl_mem buffer, int which, int64_t count, int64_t at)
{
    const struct cla_sizes sizes = cla_keys_sizes(job, which, count);
    struct cla_layout layout = cla_layout_dense(sizes.heads, sizes.rows, sizes.columns);
    layout.offset = at * layout.row;
    return (struct clattn_tensor){.buffer = buffer, .layout = cla_layout_given(&layout)};
}
