/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_RING_BENCH_H
#define CLATTN_TOOL_RING_BENCH_H

#include "options/options.h"
#include "ring/ranks.h"

enum { RING_MOST_REPETITIONS = 100, RING_BENCH_FORWARD = 1, RING_BENCH_BACKWARD = 2 };

/* What `clattn ring bench` was asked for. */
struct ring_bench_values {
    struct option_list n;
    int64_t d, d_v, batch, heads, kv_heads, repetitions, timeout;
    int64_t n_q;                               /* 0: as many as keys */
    int dtype, causal, pass, sharing, passing; /* of RING_BENCH_* bits the pass; sharing -1: by the causal mask */
    bool quiet;
    const char *json;
    struct option_device device;
    struct option_devices devices; /* of one process */
    struct option_list shares;
};

/* As options_parse. */
int ring_bench_parse(int argc, char **argv, struct ring_bench_values *values, struct failure *failure);

/* As `clattn bench --grid ring`: of the devices of one process, where these are given. */
int ring_bench_devices(const struct ring_bench_values *values, struct failure *failure);

/* Collective. Rank 0 prints the rows. */
int ring_bench(const struct ring_ranks *ranks, const struct ring_bench_values *values, struct failure *failure);

#endif
