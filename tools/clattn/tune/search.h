/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_TUNE_SEARCH_H
#define CLATTN_TOOL_TUNE_SEARCH_H

#include <clattn/tuning.h>
#include <stdbool.h>

/* The search for the fastest of a list of candidates, which knows nothing of what they are: it is given a function that
 * measures one. Candidate 0 is the choice without tuning; the others come cheapest first, by a model that may err.
 *
 * Other work on the machine, and clocks that change, make a kernel now twice as slow and now not. So each run of a
 * candidate has one of candidate 0 beside it, and what ranks candidates is the median of the ratios.
 *
 * First each gets a short measurement, in the model's order, until the model has promised too much too often or most of
 * the time is spent. Then the better ones meet again in turns, and half of them leave with each round (successive
 * halving). What wins must have beaten candidate 0 in the last one, by more than noise and most of the times; rounds
 * are left out where there would be no time for that one. */

enum { TUNE_MOST = 64, TUNE_MOST_RUNS = 16 };

struct tune_answer {
    enum clattn_tuning_state state;
    bool given_up; /* not for the candidate's fault, but since there was no time left or the user stopped */
    int runs;
    double ms[TUNE_MOST_RUNS];
    double base_ms[TUNE_MOST_RUNS]; /* of candidate 0, right after each; unused without `paired` */
};

/* What is to be measured. */
struct tune_request {
    int index;
    bool first;     /* of this candidate: it must also be verified */
    bool paired;    /* beside candidate 0, which works; else alone */
    int runs;       /* at least, and more where they are short; at most TUNE_MOST_RUNS */
    double limit;   /* runs after one that took so many times what candidate 0 took are not needed; 0: no limit */
    double seconds; /* the call must end within these */
};

struct tune_item {
    bool tried;
    bool known; /* from an earlier search: not measured again unless it comes among the better ones */
    enum clattn_tuning_state state;
    int runs;     /* of the last round it was in */
    double score; /* their median ratio; milliseconds while candidate 0 does not work */
    double upper; /* a quarter of them is above */
    double ms;    /* the same in milliseconds */
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
    double unit; /* milliseconds that candidate 0 took when the machine was least busy; 0: it does not work */
    int best;    /* the winner; -1: nothing works */
    double best_ms, base_ms; /* of the winner and of candidate 0; 0: not measured */
    bool complete;           /* it came to its end: neither stopped nor out of time */
};

/* Fills items, best and what follows. Of items that are known, state, ms and runs must be set. */
void tune_search_run(struct tune_search *search);

#endif
