/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_TUNE_AHEAD_H
#define CLATTN_TOOL_TUNE_AHEAD_H

#include "tune/worker.h"

/* Processes that compile what will be measured next, while something else is measured: they leave programs in the
 * library's disk cache, where the process that measures finds them. Compiling takes most of a search's time where the
 * device is not the processor that compiles. What happens to them happens to nothing else: a candidate whose compiler
 * crashes or hangs is met again, and judged, where it is measured. */
enum { TUNE_MOST_BUILDERS = 32 };

struct tune_ahead {
    int count; /* processes to have; 0: none */
    double deadline;
    struct {
        struct child child;
        int expected; /* answers */
        double since; /* of system_clock(), when it was asked last */
    } builders[TUNE_MOST_BUILDERS];
};

/* Whether the library keeps programs on disk: else there is nothing to hand over. */
bool tune_ahead_is_possible(void);

/* How many without being asked for a number: none on a CPU, which has kernels to run, else half of the processors, at
 * most 8. */
int tune_ahead_default(bool cpu);

/* Gives the candidate to a process that has nothing to do. False where all have: it may be tried again later. */
bool tune_ahead_build(struct tune_ahead *ahead, const struct tune_remote *remote, const struct tune_problem *problem,
                      const struct tune_candidate *candidate);

/* Ends them. */
void tune_ahead_close(struct tune_ahead *ahead);

#endif
