/* SPDX-License-Identifier: BSD-2-Clause */
#include "system/system.h"
#include "tune/tune.h"
#include <stdio.h>
#include <string.h>

/* What the search's functions need. */
struct context {
    struct tune_job *job;
    struct tune_outcome *outcome;
    const char *position;
    int ahead;  /* the first candidate that has not been given to be compiled */
    int status; /* a failure ends the search */
    struct failure *failure;
};

static double now(void *user)
{
    (void)user;
    return system_clock();
}

static bool stopped(void *user)
{
    const struct context *context = user;
    return context->status || *context->job->remote.stop;
}

/* Has the next ones compiled that are likely to be measured. */
static void compile_ahead(struct context *context, int index)
{
    struct tune_ahead *ahead = &context->job->ahead;
    const struct tune_outcome *outcome = context->outcome;
    const int most = index + 1 + 2 * ahead->count;
    if (context->ahead <= index)
        context->ahead = index + 1;
    for (; context->ahead < outcome->count && context->ahead < most; context->ahead++) {
        const struct tune_candidate candidate = tune_candidate_of(&outcome->candidates[context->ahead]);
        const struct tune_item *item = &outcome->search.items[context->ahead];
        if (!item->tried && !tune_ahead_build(ahead, &context->job->remote, &outcome->problem, &candidate))
            break;
    }
}

static struct tune_answer measure(void *user, const struct tune_request *request)
{
    struct context *context = user;
    struct tune_answer answer = {.runs = 0};
    const struct tune_candidate candidate = tune_candidate_of(&context->outcome->candidates[request->index]);
    const struct tune_candidate base = tune_candidate_of(&context->outcome->candidates[0]);
    char *reason = context->outcome->reasons[request->index];
    if (request->first)
        compile_ahead(context, request->index);
    context->status = tune_remote_measure(&context->job->remote, &context->outcome->problem, &candidate, &base, request,
                                          (double)context->job->values->deadline, &answer, reason,
                                          sizeof context->outcome->reasons[0], context->failure);
    if (context->status)
        answer.given_up = true;
    return answer;
}

static void show(void *user, const struct tune_search *search, int index)
{
    const struct context *context = user;
    struct tune_job *job = context->job;
    const double spent = system_clock() - job->start;
    const int left = spent < job->budget ? (int)(job->budget - spent) : 0;
    double best = 0;
    char name[80], text[200];
    for (int i = 0; i < search->count; i++)
        if (search->items[i].tried && search->items[i].state == CLATTN_TUNING_OK &&
            (best <= 0 || search->items[i].score < best))
            best = search->items[i].score;
    tune_problem_name(&context->outcome->problem, name, sizeof name);
    snprintf(text, sizeof text, "%d:%02d left  %s %s  %d of %d  best %.4g ms", left / 60, left % 60, context->position,
             name, index + 1, search->count, search->unit > 0 ? best * search->unit : best);
    progress_show(&job->progress, spent / job->budget, text);
}

static bool same_candidate(const struct clattn_tuning_record *a, const struct clattn_tuning_record *b)
{
    return !strcmp(a->device, b->device) && !strcmp(a->driver, b->driver) && !strcmp(a->kernels, b->kernels) &&
           a->pass == b->pass && a->dtype == b->dtype && a->d == b->d && a->d_v == b->d_v && a->causal == b->causal &&
           a->n_q_up_to == b->n_q_up_to && a->n_kv_up_to == b->n_kv_up_to && a->group == b->group &&
           !strcmp(a->skeleton, b->skeleton) && a->b_r == b->b_r && a->b_c == b->b_c &&
           a->work_group_size == b->work_group_size && !strcmp(a->knobs, b->knobs);
}

/* Takes over what an earlier search measured; true where that is all. */
static bool take_known(const struct tune_job *job, const struct clattn_problem *problem, struct tune_outcome *outcome)
{
    bool all = job->known != NULL;
    for (int i = 0; i < outcome->count && job->known; i++) {
        struct clattn_tuning_record wanted, record;
        bool found = false;
        if (clattn_tuning_describe(&job->present, problem, &outcome->candidates[i], &wanted))
            return false;
        for (int r = 0; r < clattn_tuning_count(job->known) && !found; r++) {
            if (!clattn_tuning_get(job->known, r, &record))
                found = same_candidate(&wanted, &record);
        }
        if (found)
            outcome->search.items[i] = (struct tune_item){
                .tried = true, .known = true, .state = record.state, .runs = record.runs, .ms = record.ms};
        all = all && found;
    }
    return all;
}

int tune_class(struct tune_job *job, const struct tune_problem *problem, double seconds, const char *position,
               struct tune_outcome *outcome, struct failure *failure)
{
    struct context context = {
        .job = job, .outcome = outcome, .position = position, .status = STATUS_OK, .failure = failure};
    const struct clattn_problem library = tune_library_problem(problem);
    memset(outcome, 0, sizeof *outcome);
    outcome->problem = *problem;
    const clattn_status code =
        clattn_tuning_candidates(&job->facts, &library, outcome->candidates, TUNE_MOST, &outcome->count);
    if (code)
        return fail_library(failure, "candidates", code);
    tune_prior_order(&job->prior, problem, outcome->candidates, outcome->count);
    outcome->search = (struct tune_search){.count = outcome->count,
                                           .budget = seconds,
                                           .deadline = (double)job->values->deadline,
                                           .measure = measure,
                                           .clock = now,
                                           .stop = stopped,
                                           .progress = show,
                                           .user = &context,
                                           .best = -1};
    outcome->skipped = take_known(job, &library, outcome);
    if (!outcome->skipped) {
        tune_search_run(&outcome->search);
        tune_prior_learn(&job->prior, problem, &outcome->search, outcome->candidates);
    }
    outcome->search.user = NULL;
    return context.status;
}

int tune_records(const struct tune_job *job, const struct tune_outcome *outcome, clattn_tuning *records,
                 struct failure *failure)
{
    const struct clattn_problem library = tune_library_problem(&outcome->problem);
    for (int i = 0; i < outcome->count; i++) {
        const struct tune_item *item = &outcome->search.items[i];
        struct clattn_tuning_record record;
        if (!item->tried || outcome->skipped)
            continue;
        clattn_status code = clattn_tuning_describe(&job->present, &library, &outcome->candidates[i], &record);
        const bool ok = item->state == CLATTN_TUNING_OK;
        record.state = item->state;
        record.ms = ok ? item->ms : 0;
        record.runs = ok ? item->runs : 0;
        record.best = i == outcome->search.best;
        if (!code)
            code = clattn_tuning_add(records, &record);
        if (code)
            return fail_library(failure, "a tuning record", code);
    }
    return STATUS_OK;
}
