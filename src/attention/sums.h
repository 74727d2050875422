/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_SUMS_H
#define CLA_SUMS_H

#include "attention/plan.h"

/* Where a backward skeleton that adds up dQ (struct cla_skeleton, sum_floats) finds things in the workspace, behind
 * what else lies there: places count 4-byte words. Some are cleared before it begins. given_up: 1 once a
 * work-group has waited for another until it gave up. */
struct cla_sums {
    int64_t tickets, given_up, counters, flags, maps, order, sums;
    struct cla_words cleared;
    size_t end_byte;
};

/* From byte `first` on. */
clattn_status cla_sums_locate(const struct clattn_plan *plan, const struct clattn_shape *shape, size_t first,
                              struct cla_sums *sums, struct cla_error *error);

#endif
