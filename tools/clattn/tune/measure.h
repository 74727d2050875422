/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_TUNE_MEASURE_H
#define CLATTN_TOOL_TUNE_MEASURE_H

#include "opencl_select.h"
#include "tune/search.h"

/* Measures candidates on a device. It runs in a process of its own, since drivers hang and crash. */

/* A class of problems, by the one that stands for it. */
struct tune_problem {
    enum clattn_pass pass; /* forward or backward */
    enum clattn_dtype dtype;
    int d, d_v;
    bool causal;                               /* bottom-right */
    int64_t batch, heads, kv_heads, n_q, n_kv; /* kv_heads 0: as many as of Q, for records of any group */
};

/* As the library takes it; nothing forced. */
struct clattn_problem tune_library_problem(const struct tune_problem *problem);

/* The choices of a candidate. */
struct tune_candidate {
    char skeleton[32];
    int b_r, b_c, work_group_size;
    char knobs[256];
};

/* What one measurement said. */
struct tune_measured {
    enum clattn_tuning_state state; /* ok, wrong or infeasible */
    bool broken;                    /* the device failed: this process should not be asked again */
    int runs;
    double ms[TUNE_MOST_RUNS], base_ms[TUNE_MOST_RUNS];
    char text[512]; /* why it is not ok */
};

/* The buffers of the present class and the plans of its candidates. Zero-initialised it is empty. */
struct tune_bench;
struct tune_bench *tune_bench_create(const struct session *session); /* NULL: no memory */
void tune_bench_destroy(struct tune_bench *bench);

/* Plans the candidate, or finds its plan again, and runs it as `request` says, in turns with `base` where it is paired;
 * a first measurement holds it to the float64 reference before. Fails where what all candidates share cannot be had:
 * buffers. */
int tune_bench_measure(struct tune_bench *bench, const struct tune_problem *problem,
                       const struct tune_candidate *candidate, const struct tune_candidate *base,
                       const struct tune_request *request, struct tune_measured *measured, struct failure *failure);

/* Has the candidate's programs compiled, which leaves them in the library's disk cache; whether that could be done. */
bool tune_bench_build(const struct session *session, const struct tune_problem *problem,
                      const struct tune_candidate *candidate);

#endif
