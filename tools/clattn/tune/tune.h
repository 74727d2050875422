/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_TUNE_H
#define CLATTN_TOOL_TUNE_H

#include "progress.h"
#include "tune/ahead.h"
#include "tune/prior.h"
#include "tune/worker.h"
#include <jansson.h>

/* What `clattn tune` was asked for. */
struct values {
    struct option_device device;
    const char *clinfo, *db;
    struct option_files merge;
    struct option_list dtype, d, n;
    int pass, causal;
    int64_t d_v, n_q, batch, heads, kv_heads, budget, deadline, memory, builders; /* builders -1: unsaid */
    bool resume, best, json, quiet;
};

/* The classes of problems to tune, by one problem each. */
struct tune_list {
    struct tune_problem *items;
    int count;
};

/* Those that the options name, on a device of this kind. False: no memory. */
bool tune_list_create(struct tune_list *list, const struct values *values,
                      const struct clattn_capabilities *capabilities);
void tune_list_destroy(struct tune_list *list);

/* The share of the time left that item `index` may have: twice that of others where its programs are new. */
double tune_list_share(const struct tune_list *list, int index);

/* "forward, fp32, d 64, causal, n 1024" */
void tune_problem_name(const struct tune_problem *problem, char *text, size_t size);

/* How it went with one class. */
struct tune_outcome {
    struct tune_problem problem;
    int count; /* candidates */
    struct clattn_plan_info candidates[TUNE_MOST];
    char reasons[TUNE_MOST][160]; /* why one is not ok */
    struct tune_search search;
    bool skipped; /* all of it is known from before */
};

/* What classes share. */
struct tune_job {
    const struct values *values;
    struct tune_remote remote;
    struct tune_ahead ahead;
    struct clattn_capabilities facts;   /* what candidates are made from */
    struct clattn_capabilities present; /* what the device says itself: records are keyed by this */
    clattn_tuning *known;               /* of --resume; NULL: nothing */
    struct tune_prior prior;            /* what did well in the classes before */
    struct progress progress;
    double start, budget; /* seconds; of system_clock() */
};

/* Searches one class within `seconds`. `position` is for the progress bar: "2/12". */
int tune_class(struct tune_job *job, const struct tune_problem *problem, double seconds, const char *position,
               struct tune_outcome *outcome, struct failure *failure);

/* The records of what was tried. */
int tune_records(const struct tune_job *job, const struct tune_outcome *outcome, clattn_tuning *records,
                 struct failure *failure);

void tune_print_head(const char *title);
void tune_print(const struct tune_outcome *outcome);
json_t *tune_json(const struct tune_outcome *outcome);

/* The ranked candidates for a device that is not here, printed, or added to `rows` where that is not NULL. */
int tune_rank(const struct values *values, struct clinfo_device *item, json_t *rows, struct failure *failure);

/* --merge: the files, one over the other, to --db or the standard output. */
int tune_merge(const struct values *values, struct failure *failure);

#endif
