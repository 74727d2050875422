/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_BENCH_SCORE_H
#define CLATTN_TOOL_BENCH_SCORE_H

#include "bench/bench.h"
#include <clattn/attention.h>

/* The score modifications of a row: their part of the problem, and made-up values for them on the device. Bias and mask
 * are shared by all heads and batch elements, a mask shows 9 pairs of 10, dropout takes 1 of 10; lengths are the full
 * ones, so that the FLOPs stay what they are. */
void bench_score_problem(const struct bench_shape *shape, struct clattn_problem *problem);

int bench_score_create(const struct session *session, const struct bench_shape *shape, struct clattn_score_args *args,
                       struct clattn_score_more *more, struct failure *failure);
void bench_score_destroy(struct clattn_score_args *args);

#endif
