/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_BENCH_GRID_H
#define CLATTN_TOOL_BENCH_GRID_H

#include "bench/bench.h"
#include "bench/values.h"

/* The rows to measure. */
struct bench_rows {
    struct bench_shape *items; /* malloc'd */
    int count;
};

/* Whether the options describe shapes of their own and name no grid. */
bool bench_is_single(const struct values *values);

/* STATUS_USAGE where options do not go together. */
int bench_check_shapes(const struct values *values, struct failure *failure);

/* The rows of the grids, or of the shape, on a CPU or another device. STATUS_USAGE where nothing is left to measure. On
 * failure there is nothing to free. */
int bench_list_rows(const struct values *values, bool cpu, struct bench_rows *rows, struct failure *failure);

#endif
