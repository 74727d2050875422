/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_REPORT_H
#define CLATTN_TOOL_REPORT_H

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>

/* One run of a subcommand in a process of its own, with what came of it. */
struct report_step {
    const char *name;   /* "bench fp16 forward" */
    double weight;      /* its part of the time that is left, beside those of the steps behind it */
    const char *words;  /* the subcommand and its options, single spaces between */
    const char *budget; /* the option that tells it how many seconds it has, or NULL */
    const char *file;   /* the option that names a file for it to write, which nobody keeps, or NULL */
};

/* What a step may use. */
struct report_room {
    double seconds;
    const char *device; /* "P:D"; NULL: the step takes none */
    const char *folder; /* where such files are */
    const volatile sig_atomic_t *stop;
};

/* The name of a step's file in the folder. */
#define REPORT_FILE "tuning.json"

/* Runs a step and returns its row of the report: name, command, outcome ("done", "failed", "timed out", "crashed",
 * "stopped", "no time"), exit status, seconds, what it printed as JSON, and what it said of errors. NULL without
 * memory. */
json_t *report_run(const struct report_step *step, const struct report_room *room);

/* The outcome of a row. */
const char *report_outcome(const json_t *row);

/* A copy of `value` in whose texts this machine's and this user's own names stand no more: the home folder is "~", the
 * working folder ".", the host's name "HOST", the user's "USER". NULL without memory. */
json_t *report_without_names(const json_t *value);

#endif
