/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_VERIFY_SOAK_H
#define CLATTN_TOOL_VERIFY_SOAK_H

#include "options/options.h"
#include "verify/soak_log.h"
#include <signal.h>

/* A soak: random cases (verify/draw.h) in processes that may hang or crash, until the time is over. Each process
 * (`clattn verify --worker`) does one case after another: it builds it, says so, and runs it when it is told to, so
 * that the case that it hangs or dies with is known; after that, and after a wrong answer, another takes its place. */

enum { SOAK_MOST_JOBS = 16 };

struct soak {
    struct option_device device;
    struct soak_identity identity;
    const char *skeletons[SOAK_SKELETONS]; /* to take turns */
    int skeleton_count;
    unsigned require, without; /* enum verify_trait: cases that have all of these, and none of those */
    bool unordered;            /* backward passes always add up dQ in any order */
    int64_t seed;              /* of the series of cases; negative: the file's, or the time */
    double seconds;            /* no case begins later */
    int64_t cases;             /* nor when there are so many, those of the file not counted; 0: no limit */
    int jobs;                  /* processes at once, */
    int running;               /* so many of which run a case, while the others build theirs; 0: all */
    int per_program;           /* cases of one compiled program */
    double deadline;           /* seconds that a case may run; building it, four times as many */
    const char *file;          /* NULL: the cases are kept in memory alone */
    bool quiet, json;
    const volatile sig_atomic_t *stop; /* set by Ctrl-C */
};

/* Prints the report, also of what a run that failed or was stopped had done. STATUS_MISMATCH where a case of the
 * report failed. */
int soak_run(struct soak *soak, struct failure *failure);

/* The report of the cases in the log. `seconds`: what this run took. */
int soak_report(const struct soak *soak, const struct soak_log *log, double seconds, struct failure *failure);

/* The command that has one case again. */
void soak_reproducer(const struct soak *soak, const struct soak_log *log, const struct soak_record *record, char *text,
                     size_t size);

#endif
