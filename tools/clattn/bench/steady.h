/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_BENCH_STEADY_H
#define CLATTN_TOOL_BENCH_STEADY_H

#include <stdbool.h>

/* Whether other work on the machine disturbed a measurement, which is then taken again. Work that slows all repetitions
 * of all rounds alike cannot be seen. */

enum { STEADY_MOST_REPETITIONS = 1000, STEADY_FROM = 3 }; /* fewer repetitions say nothing */

/* By how much of their median the repetitions, in the order in which they were taken, disagree: the larger of their
 * median distance from it and, from four on, of the distance of the medians of the first half and the last. -1: too few
 * repetitions. */
double steady_disagreement(const double *times, int count);

/* Whether that is more than clocks and caches make of it. */
bool steady_is_disturbed(double disagreement);

/* A measurement in rounds: `take` takes all repetitions anew and says by how much they disagree; `keep` has that
 * round's results become those of the row. Both have `context`; `take` answers 0 or what failed. */
struct steady_rounds {
    int (*take)(void *context, double *disagreement);
    void (*keep)(void *context);
    void *context;
};

/* One round, and while it is disturbed at most `again` more. The one that disagrees least is kept. How many there were
 * goes to *taken. */
int steady_measure(const struct steady_rounds *rounds, int again, int *taken);

#endif
