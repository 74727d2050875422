/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/lane.h"
#include "device/clcall.h"
#include <string.h>

/* So few that a block stays in a core's cache until it is on its way. */
enum { SLOT_BYTES = 1 << 22 };

/* Where a tensor goes. */
struct target {
    cl_context context;
    cl_command_queue queue;
    cl_mem buffer;
    size_t slot_bytes;
};

static clattn_status release(struct cla_lane *lane, int slot, struct cla_error *error)
{
    if (!lane->written[slot])
        return CLATTN_SUCCESS;
    const clattn_status status = cla_cl_wait(1, &lane->written[slot], error);
    cla_cl_release_event(lane->written[slot]);
    lane->written[slot] = NULL;
    return status;
}

static clattn_status send(struct cla_lane *lane, const struct target *target, struct cla_error *error)
{
    if (!lane->filled)
        return CLATTN_SUCCESS;
    clattn_status status =
        cla_cl_enqueue_write(target->queue, target->buffer, lane->sent, lane->filled, lane->slots[lane->slot].data, 0,
                             NULL, &lane->written[lane->slot], error);
    if (!status)
        status = cla_cl_flush(target->queue, error);
    lane->sent += lane->filled;
    lane->filled = 0;
    lane->slot = (lane->slot + 1) % CLA_LANE_SLOTS;
    return status;
}

/* Room for so many bytes more, in this block or in the next one. */
static clattn_status make_room(struct cla_lane *lane, const struct target *target, size_t bytes,
                               struct cla_error *error)
{
    clattn_status status = CLATTN_SUCCESS;
    if (lane->filled + bytes > target->slot_bytes)
        status = send(lane, target, error);
    if (!status && !lane->filled)
        status = release(lane, lane->slot, error);
    if (!status)
        status =
            cla_pinned_block_grow(&lane->slots[lane->slot], target->context, target->queue, target->slot_bytes, error);
    return status;
}

static clattn_status fill(struct cla_lane *lane, const struct target *target, const void *array,
                          const struct cla_layout *layout, const struct cla_sizes *sizes, int element_bytes,
                          struct cla_error *error)
{
    const int64_t row_bytes = sizes->columns * element_bytes, most = (int64_t)target->slot_bytes / row_bytes;
    clattn_status status = CLATTN_SUCCESS;
    for (int64_t i = 0; i < sizes->batch * sizes->heads && !status; i++)
        for (int64_t row = 0; row < sizes->rows && !status; row += most) {
            const int64_t rows = sizes->rows - row < most ? sizes->rows - row : most;
            const struct cla_sizes piece = {1, 1, rows, sizes->columns};
            struct cla_layout place = *layout;
            place.offset += i / sizes->heads * layout->batch + i % sizes->heads * layout->head + row * layout->row;
            status = make_room(lane, target, (size_t)(rows * row_bytes), error);
            if (status)
                break;
            cla_gather((char *)lane->slots[lane->slot].data + lane->filled, array, &place, &piece, element_bytes);
            lane->filled += (size_t)(rows * row_bytes);
        }
    return status ? status : send(lane, target, error);
}

clattn_status cla_lane_write(struct cla_lane *lane, cl_context context, cl_command_queue queue, cl_mem buffer,
                             const void *array, const struct cla_layout *layout, const struct cla_sizes *sizes,
                             int element_bytes, struct cla_error *error)
{
    const size_t row = (size_t)(sizes->columns * element_bytes);
    const size_t all = (size_t)(sizes->batch * sizes->heads * sizes->rows) * row;
    const size_t most = row > SLOT_BYTES ? row : SLOT_BYTES;
    const struct target target = {context, queue, buffer, all < most ? all : most};
    lane->filled = lane->sent = 0;
    const clattn_status status = fill(lane, &target, array, layout, sizes, element_bytes, error);
    lane->filled = 0; /* also where it has failed */
    return status;
}

clattn_status cla_lane_copy(struct cla_lane *lane, cl_context context, cl_command_queue queue, cl_mem buffer,
                            size_t offset, const void *data, size_t bytes, struct cla_error *error)
{
    const struct target target = {context, queue, buffer, bytes < SLOT_BYTES ? bytes : SLOT_BYTES};
    clattn_status status = CLATTN_SUCCESS;
    lane->filled = 0;
    lane->sent = offset;
    for (size_t at = 0; at < bytes && !status; at += target.slot_bytes) {
        const size_t piece = bytes - at < target.slot_bytes ? bytes - at : target.slot_bytes;
        status = make_room(lane, &target, piece, error);
        if (status)
            break;
        memcpy(lane->slots[lane->slot].data, (const char *)data + at, piece);
        lane->filled = piece;
        status = send(lane, &target, error);
    }
    lane->filled = 0;
    return status;
}

clattn_status cla_lane_finish(struct cla_lane *lane, struct cla_error *error)
{
    clattn_status first = CLATTN_SUCCESS;
    struct cla_error ignored;
    for (int i = 0; i < CLA_LANE_SLOTS; i++) {
        const clattn_status status = release(lane, i, first ? &ignored : error);
        first = first ? first : status;
    }
    return first;
}

void cla_lane_free(struct cla_lane *lane)
{
    struct cla_error ignored;
    cla_lane_finish(lane, &ignored);
    for (int i = 0; i < CLA_LANE_SLOTS; i++)
        cla_pinned_block_free(&lane->slots[i]);
}
