/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_LANE_H
#define CLA_LANE_H

#include "attention/staging.h"

/* Arrays on their way to a device: gathered, piece by piece, into two pinned blocks by turns, of which one is copied
 * while the other is filled. Zero-initialised it is ready. */
enum { CLA_LANE_SLOTS = 2 };

struct cla_lane {
    struct cla_pinned_block slots[CLA_LANE_SLOTS];
    cl_event written[CLA_LANE_SLOTS]; /* NULL: the block is free */
    int slot;
    size_t filled, sent; /* bytes: of this block; of the buffer, up to where this block goes */
};

/* Writes a tensor's elements, dense, to the buffer. The array may change once this has returned. */
clattn_status cla_lane_write(struct cla_lane *lane, cl_context context, cl_command_queue queue, cl_mem buffer,
                             const void *array, const struct cla_layout *layout, const struct cla_sizes *sizes,
                             int element_bytes, struct cla_error *error);

/* The same for bytes as they lie, from byte `offset` of the buffer on. */
clattn_status cla_lane_copy(struct cla_lane *lane, cl_context context, cl_command_queue queue, cl_mem buffer,
                            size_t offset, const void *data, size_t bytes, struct cla_error *error);

/* Waits until all that was written is there. */
clattn_status cla_lane_finish(struct cla_lane *lane, struct cla_error *error);
void cla_lane_free(struct cla_lane *lane);

#endif
