/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_RING_BENCH_ROW_H
#define CLATTN_TOOL_RING_BENCH_ROW_H

#include "opencl_select.h"
#include "ring/bench.h"
#include "ring/bench_data.h"
#include "statistics.h"
#include <jansson.h>

/* A row: a length and a pass. */
struct ring_bench_row {
    const struct ring_bench_values *values;
    const struct ring_ranks *ranks;
    struct session *session;
    struct clattn_problem problem;
    struct clattn_shape shape;
    struct clattn_ring_part rows, keys;
    struct ring_data data;
    struct statistics ms;
    double waited;               /* the largest share of a rank, of the call with the median time or one beside it */
    double sent_mb, kv_mb, q_mb; /* that all ranks sent; by shapes and masks, where K and V pass, or Q */
    bool rows_pass;
};

void ring_bench_print_head(void);
void ring_bench_print(const struct ring_bench_row *row, bool backward);
json_t *ring_bench_json(const struct ring_bench_row *row, bool backward); /* NULL: no memory */

#endif
