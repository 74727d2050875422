/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_BENCH_H
#define CLATTN_TOOL_BENCH_H

#include "bench/ceilings.h"
#include "opencl_select.h"
#include "statistics.h"
#include <clattn/traffic.h>
#include <jansson.h>

/* The user's functions of a score, as clattn_problem has them; NULL: not given. */
struct bench_texts {
    char *score_mod, *score_mod_grad, *mask_mod;
};

/* What one row measures. */
struct bench_shape {
    const char *grid; /* that it is of; NULL: a shape from the command line */
    enum clattn_dtype dtype;
    struct clattn_shape sizes; /* kv_heads is never 0 */
    int d, d_v;
    bool causal;                       /* bottom-right */
    enum clattn_pass pass;             /* CLATTN_FORWARD or CLATTN_BACKWARD */
    unsigned features;                 /* enum clattn_feature */
    int64_t window_left, window_right; /* of CLATTN_WINDOW; -1: unlimited */
    int block_q, block_kv;             /* of CLATTN_BLOCK_MASK */
    double block_density;              /* the share of blocks that it keeps */
    int k_type, v_type;                /* enum clattn_operand_type; 0: as dtype */
    int64_t page_keys;                 /* K and V lie in pages of so many keys, in random order; 0: they do not */
    const struct bench_texts *texts;   /* the user's functions; never NULL */
};

struct bench_options {
    const char *skeleton;          /* NULL: planned */
    const char *knobs;             /* of that skeleton; NULL: planned */
    int b_r, b_c, work_group_size; /* the same; 0: planned */
    int packing;                   /* enum clattn_packing */
    int splits;                    /* of the keys, in a forward pass; 0: planned */
    int64_t split_keys;            /* problem.split_keys, in a forward pass */
    bool standard;                 /* measure the baseline too */
    bool unordered;                /* problem.unordered */
    int repetitions;               /* 0: as many as fit in about a second, 3 to 15 */
    int calls;                     /* that are timed together, one after the other; 0: each by itself */
    int again;                     /* a row that other work disturbed is measured at most so many times more */
};

/* And what came out. */
struct bench_row {
    struct bench_shape shape;
    struct clattn_plan_info plan;
    struct clattn_traffic traffic;
    struct statistics ms;
    enum bench_unit unit;          /* that the products ran on, */
    struct statistics peak_tflops; /* and its peak: of each of the above, the larger of one before and one after it */
    double read_gbps;              /* of a read of K and V in turns with the above; 0: they are too small */
    double copy_gbps;              /* of a copy of about as many bytes as the row moves at least */
    int repetitions;
    int rounds;                   /* of which this is the one whose repetitions agree best, */
    double disagreement;          /* and by how much they do not (bench/steady.h) */
    double standard_disagreement; /* those of the baseline */
    int calls;                    /* that each repetition is the mean of, all in the queue before the first begins */
    struct statistics enqueue_us; /* how long the host's call took that enqueues it; the driver's part included */
    double first_call_ms;         /* making the plan: planning, compiling or finding the program in a cache */
    uint64_t tensor_bytes;        /* device memory of Q, K, V and O, and of dO and the gradients */
    uint64_t extra_bytes;         /* beyond these: LSE (or m and l) and workspace */
    char problem[256];            /* why there is no time: it does not fit the device; "" where there is one */
    struct statistics standard_ms;
    int standard_repetitions;
    uint64_t standard_bytes;    /* the baseline's workspace */
    char standard_problem[512]; /* why there is no standard_ms; "" where there is */
};

/* Blocks that a block mask keeps in each row of blocks: at least one. */
int64_t bench_kept_blocks(const struct bench_shape *shape);

/* 2 * batch * heads * pairs * (d + d_v), 2.5 times that for a backward pass: FlashAttention's count. Pairs are n_q *
 * n_kv, half of that if causal (those that are seen, where n_q != n_kv); with a window those inside; of these the share
 * that a block mask keeps. */
double bench_flops(const struct bench_shape *shape);
double bench_tflops(const struct bench_row *row);
double bench_share(const struct bench_row *row); /* of the peak; 0 where that could not be measured */

/* The roofline: FLOPs for each byte of inputs and outputs; the lower of the peak and of what can be computed while
 * these are copied (TFLOP/s; 0 where a ceiling is not known); and the share of that. */
double bench_intensity(const struct bench_row *row);
double bench_limit(const struct bench_row *row);
bool bench_is_bound_by_memory(const struct bench_row *row);
double bench_share_of_limit(const struct bench_row *row);

/* The time to read the row's inputs once, of the time that it took; 0 where that could not be measured. */
double bench_share_of_read(const struct bench_row *row);

/* What is wrong with the share of the peak: it is above 1, or there was no peak. NULL: nothing. */
const char *bench_share_problem(const struct bench_row *row);

/* Measures one row; what does not fit the device is a row with its bytes and no time. */
int bench_measure(const struct session *session, const struct bench_shape *shape, const struct bench_options *options,
                  struct bench_ceilings *ceilings, struct bench_row *row, struct failure *failure);

/* All rows have the score modifications of `shape`. */
void bench_print_head(const struct session *session, double peak, double copy, const struct bench_shape *shape);
void bench_print_row(const struct bench_row *row);
json_t *bench_json_row(const struct session *session, const struct bench_row *row);

#endif
