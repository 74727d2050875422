/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_RUN_JOB_H
#define CLATTN_TOOL_RUN_JOB_H

#include "opencl_select.h"
#include "score/files.h"
#include <clattn/host.h>

/* What the runs of a batch have in common; made by the first that gets so far. */
struct run_shared {
    struct session session;
    clattn_host *host;
};

/* One `clattn run`, from its files to its files. */
struct run {
    const struct values *values;
    struct npy_file inputs[ARRAYS_MOST]; /* Q, K, V, dO */
    struct arrays arrays;
    struct score_files score;
    struct npy_header headers[RUN_OUTPUTS];
    struct output_file outputs[RUN_OUTPUTS];
    void *results[RUN_OUTPUTS]; /* NULL: not wanted */
    bool without_files;         /* another process writes the outputs */
    struct run_shared *shared;
    struct clattn_plan_info plan, backward_plan;
    struct clattn_host_info info, backward_info;
    struct output_file cache; /* of --cache, and how many keys a sequence has there now */
    int64_t cache_keys;
};

/* Before the work: opens the inputs, makes the outputs' temporary files, and memory for results. */
int run_open(struct run *run, struct failure *failure);

/* What the options and the files say. */
struct clattn_problem run_problem(const struct run *run, enum clattn_pass pass);
struct clattn_host_score_args run_score_args(const struct run *run, bool backward,
                                             struct clattn_host_kv_scales *scales);

/* All of a call but its progress. *scales must outlive it. */
struct clattn_host_forward_args run_forward_args(const struct run *run, struct clattn_host_kv_scales *scales);
struct clattn_host_backward_args run_backward_args(const struct run *run, struct clattn_host_kv_scales *scales);

/* Behind it: whether the inputs are still what was computed with; the results to their files. */
int run_check_inputs(const struct run *run, struct failure *failure);
int run_write_outputs(struct run *run, struct failure *failure);

/* Whatever has not been written leaves no trace. */
void run_close(struct run *run);

/* Fills the results, plans and infos. */
int run_compute(struct run *run, struct failure *failure);

/* One line on stderr; a JSON object on stdout. */
void run_print_summary(const struct run *run);
int run_print_json(const struct run *run, struct failure *failure);

#endif
