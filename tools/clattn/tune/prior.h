/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_TUNE_PRIOR_H
#define CLATTN_TOOL_TUNE_PRIOR_H

#include "tune/measure.h"

/* What beat the planner's choice in one class often does in the next: of the same pass and head dimensions, with
 * elements of the same size, at another length, with another mask. There it is tried before what the model puts first.
 */
enum { TUNE_LIKED = 48 };

struct tune_prior {
    struct {
        struct tune_problem problem;
        struct tune_candidate candidate;
    } items[TUNE_LIKED]; /* the latest first */
    int count;
};

struct tune_candidate tune_candidate_of(const struct clattn_plan_info *info);

/* Notes a candidate that did well. */
void tune_prior_note(struct tune_prior *prior, const struct tune_problem *problem,
                     const struct tune_candidate *candidate);

/* Notes what records say was best on a device, as clattn_tuning_describe() names it. */
void tune_prior_recall(struct tune_prior *prior, const clattn_tuning *records, const char *device);

/* Notes the best of a search that beat candidate 0, if only by noise. */
void tune_prior_learn(struct tune_prior *prior, const struct tune_problem *problem, const struct tune_search *search,
                      const struct clattn_plan_info *candidates);

/* Moves the noted ones of a list next to candidate 0, the latest noted first; the others keep their order. */
void tune_prior_order(const struct tune_prior *prior, const struct tune_problem *problem,
                      struct clattn_plan_info *candidates, int count);

#endif
