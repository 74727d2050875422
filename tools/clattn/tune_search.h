/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_TUNE_SEARCH_H
#define CLATTN_TOOL_TUNE_SEARCH_H

#include <clattn/tuning.h>
#include <stdbool.h>

/* The search for the fastest of a list of candidates, which knows nothing of what they are: it is given a function that
 * measures one. Candidate 0 is the choice without tuning; the others come cheapest first, by a model that may err.
 *
 * First each gets a short measurement, in the model's order, until the model has promised too much too often or most of
 * the time is spent. Then the better ones meet again in turns, so that a change of the clock or of the machine's load
 * meets all of them, and half of them leave with each round (successive halving). Candidate 0 stays to the end: what
 * wins must have beaten it there, by more than noise. */

enum { TUNE_MOST = 64, TUNE_MOST_RUNS = 16 };

struct tune_answer {
    enum clattn_tuning_state state;
    bool given_up; /* not for the candidate's fault, but since there was no time left or the user stopped */
    int runs;
    double ms[TUNE_MOST_RUNS];
};

/* What is to be measured. */
struct tune_request {
    int index;
    bool first;      /* of this candidate: it must also be verified */
    int runs;        /* at most TUNE_MOST_RUNS */
    double limit_ms; /* runs after one that took longer than this are not needed; 0: no limit */
    double seconds;  /* the call must end within these */
};

struct tune_item {
    bool tried;
    bool known; /* from an earlier search: not measured again unless it comes among the better ones */
    enum clattn_tuning_state state;
    int runs;  /* of the last round it was in */
    double ms; /* their median */
    double seconds;
};

struct tune_search {
    int count;
    struct tune_item items[TUNE_MOST];
    double budget;   /* seconds */
    double deadline; /* seconds that one measurement may take at most */

    struct tune_answer (*measure)(void *user, const struct tune_request *request);
    double (*clock)(void *user); /* seconds */
    bool (*stop)(void *user);    /* whether the user wants an end */
    void (*progress)(void *user, const struct tune_search *search,
                     int index); /* before each measurement; may be NULL */
    void *user;

    double start;
    int best;                /* the winner; -1: nothing works */
    double best_ms, base_ms; /* of the winner and of candidate 0 in the last round; 0: not measured */
    bool complete;           /* it came to its end: neither stopped nor out of time */
};

/* Fills items, best and what follows. */
void tune_search_run(struct tune_search *search);

#endif
