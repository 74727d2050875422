/* SPDX-License-Identifier: BSD-2-Clause */
#include "tune_search.h"
#include "statistics.h"

/* Shares of the time, and how soon the model has lost its credit. */
#define FIRST_SHARE 0.6  /* of the budget, for first measurements */
#define NOISE       0.02 /* by which candidate 0 must be beaten */
#define TOO_SLOW    1.5  /* times the best: not worth a second run */
enum { PATIENCE = 14, FIRST_RUNS = 3, FINALISTS = 8, TURNS = 3 };

static double left(const struct tune_search *search)
{
    return search->budget - (search->clock(search->user) - search->start);
}

static bool works(const struct tune_item *item)
{
    return item->tried && item->state == CLATTN_TUNING_OK;
}

/* The best of what works; -1: nothing. */
static int leader(const struct tune_search *search)
{
    int best = -1;
    for (int i = 0; i < search->count; i++)
        if (works(&search->items[i]) && (best < 0 || search->items[i].ms < search->items[best].ms))
            best = i;
    return best;
}

/* One measurement. False where the search must end. */
static bool measure(struct tune_search *search, int index, int runs, double limit_ms, struct tune_answer *answer)
{
    struct tune_item *item = &search->items[index];
    const double time = left(search);
    if (time <= item->seconds || search->stop(search->user))
        return false;
    if (search->progress)
        search->progress(search->user, search, index);
    const double before = search->clock(search->user);
    const struct tune_request request = {.index = index,
                                         .first = !item->tried || item->known,
                                         .runs = runs,
                                         .limit_ms = limit_ms,
                                         .seconds = time < search->deadline ? time : search->deadline};
    *answer = search->measure(search->user, &request);
    if (answer->given_up)
        return false;
    if (answer->state == CLATTN_TUNING_OK && answer->runs < 1)
        answer->state = CLATTN_TUNING_INFEASIBLE;
    if (item->tried && !item->known) /* without what comes with the first time */
        item->seconds = search->clock(search->user) - before;
    item->tried = true;
    item->known = false;
    item->state = answer->state;
    return true;
}

static void set_median(struct tune_item *item, double *ms, int runs)
{
    item->runs = runs;
    item->ms = statistics_of(ms, (size_t)runs).median;
}

/* A first look at each. False where the search must end. */
static bool look(struct tune_search *search)
{
    int since_better = 0;
    double longest = 0;
    for (int i = 0; i < search->count && since_better < PATIENCE; i++) {
        struct tune_item *item = &search->items[i];
        const int best = leader(search);
        if (item->known)
            continue;
        if (i && left(search) < (1 - FIRST_SHARE) * search->budget + longest)
            return true;
        struct tune_answer answer;
        const double before = search->clock(search->user);
        if (!measure(search, i, FIRST_RUNS, best < 0 ? 0 : TOO_SLOW * search->items[best].ms, &answer))
            return false;
        const double took = search->clock(search->user) - before;
        longest = took > longest && took < search->deadline ? took : longest;
        if (item->state == CLATTN_TUNING_OK)
            set_median(item, answer.ms, answer.runs);
        since_better = leader(search) != best ? 0 : since_better + 1;
    }
    return true;
}

/* The `most` best, and candidate 0. */
static int choose(const struct tune_search *search, const bool *among, int most, bool *chosen)
{
    int count = 0;
    for (int i = 0; i < search->count; i++)
        chosen[i] = false;
    for (; count < most; count++) {
        int best = -1;
        for (int i = 0; i < search->count; i++)
            if (among[i] && !chosen[i] && works(&search->items[i]) &&
                (best < 0 || search->items[i].ms < search->items[best].ms))
                best = i;
        if (best < 0)
            break;
        chosen[best] = true;
    }
    if (works(&search->items[0]) && !chosen[0]) {
        chosen[0] = true;
        count++;
    }
    return count;
}

/* The medians of what has been measured in a round. */
struct round {
    double ms[TUNE_MOST][TUNE_MOST_RUNS];
    int runs[TUNE_MOST];
};

/* So many turns of one or more runs each. False where the search must end; then the round has counted for those that
 * have had as many turns as all others. */
static bool take_turns(struct tune_search *search, const bool *chosen, int turns, int runs)
{
    struct round round = {.runs = {0}};
    bool going = true;
    int whole = 0; /* turns that all have had */
    for (int turn = 0; turn < turns && going; turn++) {
        for (int i = 0; i < search->count && going; i++) {
            struct tune_answer answer;
            if (!chosen[i] || !works(&search->items[i]))
                continue;
            going = measure(search, i, runs, 0, &answer);
            for (int r = 0; going && r < answer.runs && answer.state == CLATTN_TUNING_OK; r++)
                if (round.runs[i] < TUNE_MOST_RUNS)
                    round.ms[i][round.runs[i]++] = answer.ms[r];
        }
        whole += going;
    }
    for (int i = 0; i < search->count && whole; i++)
        if (chosen[i] && round.runs[i] && works(&search->items[i]))
            set_median(&search->items[i], round.ms[i], round.runs[i]);
    return going;
}

/* Rounds that halve the field, until one is left beside candidate 0. */
static bool halve(struct tune_search *search, bool *finalists)
{
    bool among[TUNE_MOST];
    for (int i = 0; i < search->count; i++)
        among[i] = true;
    for (int most = FINALISTS; most >= 1; most /= 2) {
        bool chosen[TUNE_MOST];
        if (choose(search, among, most, chosen) < 2)
            continue;
        const int runs = most >= 4 ? 1 : most == 2 ? 2 : 3;
        for (int i = 0; i < search->count; i++)
            among[i] = finalists[i] = chosen[i];
        if (!take_turns(search, finalists, TURNS + (most == 1), runs))
            return false;
    }
    return true;
}

/* The fastest finalist, if it beats candidate 0 by more than noise. */
static void decide(struct tune_search *search, const bool *finalists)
{
    const struct tune_item *base = &search->items[0];
    search->best = -1;
    for (int i = 0; i < search->count; i++)
        if (works(&search->items[i]) && finalists[i] &&
            (search->best < 0 || search->items[i].ms < search->items[search->best].ms))
            search->best = i;
    if (search->best > 0 && works(base) && search->items[search->best].ms > (1 - NOISE) * base->ms)
        search->best = 0;
    search->best_ms = search->best >= 0 ? search->items[search->best].ms : 0;
    search->base_ms = works(base) ? base->ms : 0;
}

void tune_search_run(struct tune_search *search)
{
    bool finalists[TUNE_MOST];
    search->start = search->clock(search->user);
    search->complete = look(search);
    for (int i = 0; i < search->count; i++)
        finalists[i] = true;
    if (search->complete && leader(search) >= 0)
        search->complete = halve(search, finalists);
    decide(search, finalists);
}
