/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_PROBLEM_H
#define CLA_PROBLEM_H

#include "plan/error.h"
#include "plan/layout.h"
#include <clattn/problem.h>
#include <stdbool.h>

/* Lengths stay below this, so that a kernel's 32-bit row and key numbers cannot overflow, rounded up to a block
 * included. */
#define CLA_MAX_LENGTH    (INT64_C(0x7fffffff) - 4096)
#define CLA_MAX_SINK_KEYS INT64_C(65536)

/* Checks a problem and puts its defaults in place: d_v and scale are then never 0. The skeleton's name is checked by
 * the planner. */
clattn_status cla_problem_resolve(const struct clattn_problem *problem, struct clattn_problem *resolved,
                                  struct cla_error *error);

/* The value of CLATTN_FEATURES: the problem's features, and what the user's texts add (plan/features/feature.h). */
unsigned cla_problem_features(const struct clattn_problem *problem);

/* Whether the blocks of the mask are mostly seen, as far as is known: then tiles as large as without one, which meet
 * several short blocks, are faster than smaller ones, which skip the few that are hidden. */
bool cla_problem_is_mostly_seen(const struct clattn_problem *problem);

/* The passes that compute gradients, and those that take keys chunk by chunk. */
static inline bool cla_problem_is_backward(const struct clattn_problem *problem)
{
    return problem->pass == CLATTN_BACKWARD || problem->pass == CLATTN_BACKWARD_ACCUMULATE;
}

static inline bool cla_problem_accumulates(const struct clattn_problem *problem)
{
    return problem->pass == CLATTN_ACCUMULATE || problem->pass == CLATTN_BACKWARD_ACCUMULATE;
}

/* As cla_problem_resolve, for the sizes of a call: kv_heads is then never 0 unless heads is. */
clattn_status cla_shape_resolve(const struct clattn_shape *shape, struct clattn_shape *resolved,
                                struct cla_error *error);

/* The layout of dense [batch, heads, rows, columns]. Strides that 64 bits do not hold are INT64_MAX. */
struct cla_layout cla_layout_dense(int64_t heads, int64_t rows, int64_t columns);

/* The same as a caller would give it. */
struct clattn_layout cla_layout_given(const struct cla_layout *layout);

/* Whether a layout says no strides, so that the tensor is dense. */
bool cla_layout_is_default(const struct clattn_layout *layout);

/* Checks the layout of the tensor called `name` and puts the default (dense BHND) in place. *end gets one past the last
 * element that is touched, counted from the start of the buffer; 0 where the tensor is empty. For an output, no two
 * elements may share a place. */
clattn_status cla_layout_resolve(const char *name, const struct clattn_layout *layout, const struct cla_sizes *sizes,
                                 bool output, struct cla_layout *resolved, int64_t *end, struct cla_error *error);

/* True where the elements fill their span from offset to *end without gaps, in whatever order of dimensions. */
bool cla_layout_is_dense(const struct cla_layout *layout, const struct cla_sizes *sizes);

#endif
