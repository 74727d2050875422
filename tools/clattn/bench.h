/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_BENCH_H
#define CLATTN_TOOL_BENCH_H

#include "opencl_select.h"
#include "statistics.h"
#include <jansson.h>

/* What one row measures. */
struct bench_shape {
    enum clattn_dtype dtype;
    struct clattn_shape sizes; /* kv_heads is never 0 */
    int d, d_v;
    bool causal;                       /* bottom-right */
    enum clattn_pass pass;             /* CLATTN_FORWARD or CLATTN_BACKWARD */
    unsigned features;                 /* enum clattn_feature */
    int64_t window_left, window_right; /* of CLATTN_WINDOW; -1: unlimited */
    int block_q, block_kv;             /* of CLATTN_BLOCK_MASK */
    double block_density;              /* the share of blocks that it keeps */
};

struct bench_options {
    const char *skeleton; /* NULL: planned */
    bool standard;        /* measure the baseline too */
    int repetitions;      /* 0: as many as fit in about a second, 3 to 15 */
};

/* The device's peak of fp32 multiply-adds, by cl/peak_fma.cl. Machines change their clocks and have other work, so it
 * is measured anew between the repetitions of each row, and a row's share is that of the peak it had beside it. */
struct bench_peak;

int bench_peak_create(const struct session *session, struct bench_peak **peak, struct failure *failure);
void bench_peak_destroy(struct bench_peak **peak);
double bench_peak_best(const struct bench_peak *peak); /* TFLOP/s, the best of when it was created */

/* TFLOP/s now, in launches of about `ms`, from 1 to 100: as long as what it is the peak for, since other work on the
 * machine meets long launches more than short ones. The best of up to 4 in some 20 ms. 0 where it fails. */
double bench_peak_sample(const struct bench_peak *peak, double ms);

/* And what came out. */
struct bench_row {
    struct bench_shape shape;
    struct clattn_plan_info plan;
    struct statistics ms;
    struct statistics peak_tflops; /* of each of the above, the larger of one before and one after it */
    int repetitions;
    double first_call_ms; /* making the plan: planning, compiling or finding the program in a cache */
    uint64_t extra_bytes; /* device memory beyond Q, K, V and O: LSE and workspace */
    struct statistics standard_ms;
    int standard_repetitions;
    uint64_t standard_bytes;    /* the baseline's workspace */
    char standard_problem[512]; /* why there is no standard_ms; "" where there is */
};

/* Blocks that a block mask keeps in each row of blocks: at least one. */
int64_t bench_kept_blocks(const struct bench_shape *shape);

/* 2 * batch * heads * pairs * (d + d_v), 2.5 times that for a backward pass: FlashAttention's count. Pairs are n_q *
 * n_kv, half of that if causal; with a window those inside; of these the share that a block mask keeps. */
double bench_flops(const struct bench_shape *shape);
double bench_tflops(const struct bench_row *row);
double bench_share(const struct bench_row *row); /* of the peak; 0 where that could not be measured */

/* What is wrong with the share: it is above 1, or there was no peak. NULL: nothing. */
const char *bench_share_problem(const struct bench_row *row);

int bench_measure(const struct session *session, const struct bench_shape *shape, const struct bench_options *options,
                  const struct bench_peak *peak, struct bench_row *row, struct failure *failure);

/* All rows have the score modifications of `shape`. */
void bench_print_head(const struct session *session, double peak, const struct bench_shape *shape);
void bench_print_row(const struct bench_row *row);
json_t *bench_json_row(const struct session *session, const struct bench_row *row);

#endif
