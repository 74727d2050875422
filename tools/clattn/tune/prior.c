/* SPDX-License-Identifier: BSD-2-Clause */
#include "tune/prior.h"
#include <stdio.h>
#include <string.h>

enum { LEARNT = 3 }; /* of one search */

struct tune_candidate tune_candidate_of(const struct clattn_plan_info *info)
{
    struct tune_candidate candidate;
    memset(&candidate, 0, sizeof candidate);
    snprintf(candidate.skeleton, sizeof candidate.skeleton, "%s", info->skeleton);
    snprintf(candidate.knobs, sizeof candidate.knobs, "%s", info->knobs);
    candidate.b_r = info->b_r;
    candidate.b_c = info->b_c;
    candidate.work_group_size = info->work_group_size;
    return candidate;
}

static bool alike(const struct tune_problem *a, const struct tune_problem *b)
{
    return a->pass == b->pass && a->d == b->d && a->d_v == b->d_v &&
           clattn_dtype_size(a->dtype) == clattn_dtype_size(b->dtype);
}

static bool same(const struct tune_candidate *a, const struct tune_candidate *b)
{
    return memcmp(a, b, sizeof *a) == 0; /* tune_candidate_of() leaves no byte undefined */
}

void tune_prior_note(struct tune_prior *prior, const struct tune_problem *problem,
                     const struct tune_candidate *candidate)
{
    const struct tune_candidate noted = *candidate; /* it may be one of those that move */
    int at = 0;
    while (at < prior->count &&
           !(alike(&prior->items[at].problem, problem) && same(&prior->items[at].candidate, &noted)))
        at++;
    if (at == prior->count && prior->count < TUNE_LIKED)
        prior->count++;
    else if (at == prior->count)
        at--; /* the oldest is forgotten */
    memmove(&prior->items[1], &prior->items[0], (size_t)at * sizeof prior->items[0]);
    prior->items[0].problem = *problem;
    prior->items[0].candidate = noted;
}

void tune_prior_learn(struct tune_prior *prior, const struct tune_problem *problem, const struct tune_search *search,
                      const struct clattn_plan_info *candidates)
{
    int best[LEARNT], count = 0;
    for (int i = 1; i < search->count; i++) {
        const struct tune_item *item = &search->items[i];
        if (!item->tried || item->known || item->state != CLATTN_TUNING_OK || (search->base_ms > 0 && item->score >= 1))
            continue;
        int at = count < LEARNT ? count++ : LEARNT;
        for (; at > 0 && search->items[best[at - 1]].score > item->score; at--)
            if (at < LEARNT)
                best[at] = best[at - 1];
        if (at < LEARNT)
            best[at] = i;
    }
    while (count > 0) {
        const struct tune_candidate candidate = tune_candidate_of(&candidates[best[--count]]);
        tune_prior_note(prior, problem, &candidate);
    }
}

void tune_prior_recall(struct tune_prior *prior, const clattn_tuning *records, const char *device)
{
    struct clattn_tuning_record record;
    for (int i = 0; i < clattn_tuning_count(records); i++) {
        struct tune_candidate candidate;
        if (clattn_tuning_get(records, i, &record) || !record.best || strcmp(record.device, device) != 0)
            continue;
        const struct tune_problem problem = {
            .pass = record.pass, .dtype = record.dtype, .d = record.d, .d_v = record.d_v, .causal = record.causal};
        memset(&candidate, 0, sizeof candidate);
        memcpy(candidate.skeleton, record.skeleton, sizeof candidate.skeleton);
        memcpy(candidate.knobs, record.knobs, sizeof candidate.knobs);
        candidate.b_r = record.b_r;
        candidate.b_c = record.b_c;
        candidate.work_group_size = record.work_group_size;
        tune_prior_note(prior, &problem, &candidate);
    }
}

void tune_prior_order(const struct tune_prior *prior, const struct tune_problem *problem,
                      struct clattn_plan_info *candidates, int count)
{
    int next = 1;
    for (int p = 0; p < prior->count; p++)
        for (int i = next; i < count && alike(&prior->items[p].problem, problem); i++) {
            const struct tune_candidate candidate = tune_candidate_of(&candidates[i]);
            if (!same(&candidate, &prior->items[p].candidate))
                continue;
            const struct clattn_plan_info moved = candidates[i];
            memmove(&candidates[next + 1], &candidates[next], (size_t)(i - next) * sizeof *candidates);
            candidates[next++] = moved;
            break;
        }
}
