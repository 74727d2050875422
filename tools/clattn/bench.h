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
    bool causal; /* bottom-right */
};

struct bench_options {
    const char *skeleton; /* NULL: planned */
    bool standard;        /* measure the baseline too */
    int repetitions;      /* 0: as many as fit in about a second, 3 to 15 */
};

/* And what came out. */
struct bench_row {
    struct bench_shape shape;
    struct clattn_plan_info plan;
    struct statistics ms;
    int repetitions;
    double first_call_ms; /* making the plan: planning, compiling or finding the program in a cache */
    uint64_t extra_bytes; /* device memory beyond Q, K, V and O: LSE and workspace */
    struct statistics standard_ms;
    uint64_t standard_bytes;    /* the baseline's workspace */
    char standard_problem[512]; /* why there is no standard_ms; "" where there is */
};

/* 2 * batch * heads * n_q * n_kv * (d + d_v), halved if causal: FlashAttention's count. */
double bench_flops(const struct bench_shape *shape);
double bench_tflops(const struct bench_row *row);

int bench_measure(const struct session *session, const struct bench_shape *shape, const struct bench_options *options,
                  struct bench_row *row, struct failure *failure);

/* The device's peak of fp32 multiply-adds in TFLOP/s, measured with cl/peak_fma.cl. */
int bench_peak(const struct session *session, double *tflops, struct failure *failure);

void bench_print_head(const struct session *session, double peak);
void bench_print_row(const struct bench_row *row, double peak);
json_t *bench_json_row(const struct session *session, const struct bench_row *row, double peak);

#endif
