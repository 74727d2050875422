/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_RING_SUMS_H
#define CLA_RING_SUMS_H

#include "device/launch.h"
#include "plan/states.h"
#include "plan/types.h"

/* Sums in fp32 on the device, and states (cl/ring.cl). */
struct cla_sums {
    struct cla_kernel add, round, join;
    int work_group_size;
};

clattn_status cla_sums_make(struct cla_sums *sums, clattn_context *context, struct cla_error *error);
void cla_sums_free(struct cla_sums *sums);

/* Some elements of a buffer, from one on. */
struct cla_piece {
    cl_mem buffer;
    int64_t at;
};

clattn_status cla_sums_add(struct cla_sums *sums, const struct cla_dispatch *to, const struct cla_piece *into,
                           const struct cla_piece *from, int64_t count, enum clattn_dtype type,
                           struct cla_error *error);

/* All elements, in their type. */
clattn_status cla_sums_round(struct cla_sums *sums, const struct cla_dispatch *to, cl_mem rounded, cl_mem from,
                             int64_t count, enum clattn_dtype type, struct cla_error *error);

/* O in fp32, m and l of so many rows of so many columns join a state of these rows. */
struct cla_joined {
    cl_mem o, m, l;
    int64_t rows;
    int columns;
};
clattn_status cla_sums_join(struct cla_sums *sums, const struct cla_dispatch *to, cl_mem state,
                            const struct cla_state_places *places, const struct cla_joined *joined,
                            struct cla_error *error);

#endif
