/* SPDX-License-Identifier: BSD-2-Clause */
#include "tune/search.h"
#include "statistics.h"

/* Shares of the time, and how soon the model has lost its credit. */
#define FIRST_SHARE 0.6  /* of the budget, for first measurements */
#define NOISE       0.02 /* by which candidate 0 must be beaten */
#define TOO_SLOW    1.6  /* times candidate 0: not worth a second run */
enum { PATIENCE = 14, FIRST_RUNS = 3, FINALISTS = 8, TURNS = 3, MOST_PAIRS = 64, CERTAIN_RUNS = 5, LAST_RUNS = 3 };
#define LEAST_SECONDS 0.1 /* of a measurement, however short its runs are */

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
        if (works(&search->items[i]) && (best < 0 || search->items[i].score < search->items[best].score))
            best = i;
    return best;
}

/* Ratios of one round; where candidate 0 does not work, milliseconds. */
struct pairs {
    double score[MOST_PAIRS];
    int count;
};

static void add_pairs(struct tune_search *search, const struct tune_request *request, const struct tune_answer *answer,
                      struct pairs *pairs)
{
    double alone[TUNE_MOST_RUNS];
    for (int i = 0; i < answer->runs; i++) {
        alone[i] = request->paired ? answer->base_ms[i] : answer->ms[i];
        const double score = request->paired       ? answer->ms[i] / answer->base_ms[i]
                             : request->index == 0 ? 1
                                                   : answer->ms[i];
        if (pairs->count < MOST_PAIRS)
            pairs->score[pairs->count++] = score;
    }
    const double median = statistics_of(alone, (size_t)answer->runs).median;
    if ((request->paired || request->index == 0) && (search->unit <= 0 || median < search->unit))
        search->unit = median;
}

/* One measurement. False where the search must end. */
static bool measure(struct tune_search *search, int index, int runs, double limit, struct pairs *pairs)
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
                                         .paired = index > 0 && works(&search->items[0]),
                                         .runs = runs,
                                         .limit = limit,
                                         .seconds = time < search->deadline ? time : search->deadline};
    struct tune_answer answer = search->measure(search->user, &request);
    if (answer.given_up)
        return false;
    if (answer.state == CLATTN_TUNING_OK && answer.runs < 1)
        answer.state = CLATTN_TUNING_INFEASIBLE;
    if (item->tried && !item->known) /* without what comes with the first time */
        item->seconds = search->clock(search->user) - before;
    item->tried = true;
    item->known = false;
    item->state = answer.state;
    if (answer.state == CLATTN_TUNING_OK)
        add_pairs(search, &request, &answer, pairs);
    return true;
}

static void set_score(struct tune_item *item, struct pairs *pairs)
{
    const struct statistics statistics = statistics_of(pairs->score, (size_t)pairs->count);
    item->runs = pairs->count;
    item->score = statistics.median;
    item->upper = statistics.upper;
}

/* A first look at each; *cut where there was no time for some. False where the search must end. */
static bool look(struct tune_search *search, bool *cut)
{
    int since_better = 0;
    double longest = 0;
    for (int i = 0; i < search->count && since_better < PATIENCE; i++) {
        struct tune_item *item = &search->items[i];
        struct pairs pairs = {.count = 0};
        const int best = leader(search);
        if (item->known)
            continue;
        if (i && left(search) < (1 - FIRST_SHARE) * search->budget + longest) {
            *cut = true;
            return true;
        }
        const double before = search->clock(search->user);
        if (!measure(search, i, FIRST_RUNS, TOO_SLOW, &pairs))
            return false;
        const double took = search->clock(search->user) - before;
        longest = took > longest && took < search->deadline ? took : longest;
        if (item->state == CLATTN_TUNING_OK)
            set_score(item, &pairs);
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
                (best < 0 || search->items[i].score < search->items[best].score))
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

/* So many turns of one or more runs each; how many all have had. False where the search must end. */
static bool take_turns(struct tune_search *search, const bool *chosen, int turns, int runs, int *whole)
{
    static struct pairs round[TUNE_MOST];
    bool going = true;
    *whole = 0;
    for (int i = 0; i < search->count; i++)
        round[i].count = 0;
    for (int turn = 0; turn < turns && going; turn++) {
        for (int i = 1; i < search->count && going; i++) /* candidate 0 is beside each */
            if (chosen[i] && works(&search->items[i]))
                going = measure(search, i, runs, 0, &round[i]);
        *whole += going;
    }
    for (int i = 1; i < search->count && *whole; i++)
        if (chosen[i] && round[i].count && works(&search->items[i]))
            set_score(&search->items[i], &round[i]);
    return going;
}

/* What one more measurement of so many runs will take, by the last one or by the times of its runs. */
static double again(const struct tune_search *search, int index, int runs)
{
    const struct tune_item *item = &search->items[index];
    const double pair = works(&search->items[0]) ? (1 + item->score) * search->unit : item->score;
    return item->seconds > 0 ? item->seconds : LEAST_SECONDS + 1e-3 * pair * (runs + 1);
}

/* Whether there is time for a round, and for the last one after it. */
static bool has_time(const struct tune_search *search, const bool *chosen, int runs)
{
    double round = 0, longest = 0;
    for (int i = 1; i < search->count; i++)
        if (chosen[i]) {
            const double last = (TURNS + 1) * again(search, i, LAST_RUNS);
            round += TURNS * again(search, i, runs);
            longest = last > longest ? last : longest;
        }
    return left(search) > round + longest;
}

/* Rounds that halve the field, as many as there is time for, and a last one with what is then the best beside candidate
 * 0: where enough had turns in that, they are `finalists`. False where the search must end, or had to leave out a
 * round. */
static bool halve(struct tune_search *search, bool *finalists)
{
    bool among[TUNE_MOST], chosen[TUNE_MOST], all = true;
    int whole = 0;
    for (int i = 0; i < search->count; i++)
        among[i] = true;
    for (int most = FINALISTS; most > 1; most /= 2) {
        const int runs = most >= 4 ? 1 : 2;
        if (choose(search, among, most, chosen) < 2)
            continue;
        if (!has_time(search, chosen, runs)) {
            all = false;
            continue;
        }
        for (int i = 0; i < search->count; i++)
            among[i] = chosen[i];
        if (!take_turns(search, chosen, TURNS, runs, &whole))
            return false;
    }
    if (choose(search, among, 1, chosen) < 2)
        return all;
    all = take_turns(search, chosen, TURNS + 1, LAST_RUNS, &whole) && all;
    for (int i = 0; i < search->count; i++)
        finalists[i] = chosen[i] && whole > 0;
    return all;
}

/* Whether it beats candidate 0 by more than noise, and not by the luck of a few runs: in three of four of at least
 * five. On a busy machine one run in two is off by far more than what there is to gain. */
static bool beats_first(const struct tune_item *item)
{
    return item->score <= 1 - NOISE && item->runs >= CERTAIN_RUNS && item->upper < 1;
}

/* The fastest finalist that beats candidate 0, else that: what looked best before the last round did so by luck, too.
 * Where candidate 0 does not work, the fastest of all. */
static void decide(struct tune_search *search, const bool *finalists)
{
    const bool base = works(&search->items[0]);
    search->best = -1;
    for (int i = 0; i < search->count; i++) {
        struct tune_item *item = &search->items[i];
        if (!works(item))
            continue;
        item->ms = base ? item->score * search->unit : item->score;
        const bool may_win = !base || i == 0 || (finalists[i] && beats_first(item));
        if (may_win && (search->best < 0 || item->score < search->items[search->best].score))
            search->best = i;
    }
    search->best_ms = search->best >= 0 ? search->items[search->best].ms : 0;
    search->base_ms = base ? search->unit : 0;
}

/* What is known counts only beside a known candidate 0: milliseconds of another time are none of this one. */
static void take_known(struct tune_search *search)
{
    const struct tune_item base = search->items[0];
    const bool counts = base.known && works(&base) && base.ms > 0;
    for (int i = 0; i < search->count; i++) {
        struct tune_item *item = &search->items[i];
        if (item->known && item->state == CLATTN_TUNING_OK && !counts)
            *item = (struct tune_item){.tried = false};
        else if (item->known && item->state == CLATTN_TUNING_OK)
            item->score = item->upper = item->ms / base.ms;
    }
    search->unit = counts ? base.ms : 0;
}

void tune_search_run(struct tune_search *search)
{
    bool finalists[TUNE_MOST] = {false}, cut = false;
    search->start = search->clock(search->user);
    take_known(search);
    search->complete = look(search, &cut);
    if (search->complete && leader(search) >= 0)
        search->complete = halve(search, finalists) && !cut;
    decide(search, finalists);
}
