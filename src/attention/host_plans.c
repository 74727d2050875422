/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/host_plans.h"
#include "plan/problem_members.h"
#include <stdlib.h>
#include <string.h>

static const char *text_of(const struct clattn_problem *problem, int number)
{
    const char *const texts[CLA_HOST_PLAN_TEXTS] = {problem->score_mod, problem->score_mod_grad, problem->mask_mod,
                                                    problem->knobs};
    return texts[number];
}

static bool has_same_texts(const struct cla_host_plan *entry, const struct clattn_problem *problem)
{
    for (int i = 0; i < CLA_HOST_PLAN_TEXTS; i++) {
        const char *text = text_of(problem, i);
        if (!text != !entry->texts[i] || (text && strcmp(text, entry->texts[i]) != 0))
            return false;
    }
    return strcmp(entry->skeleton, problem->skeleton ? problem->skeleton : "") == 0;
}

static bool is_same(const struct cla_host_plan *entry, const struct clattn_problem *problem)
{
    return entry->plan && cla_problem_same_numbers(&entry->problem, problem) && has_same_texts(entry, problem);
}

static struct cla_host_plan *find(struct cla_host_plans *plans, const struct clattn_problem *problem)
{
    for (int i = 0; i < CLA_HOST_PLANS; i++)
        if (is_same(&plans->entries[i], problem))
            return &plans->entries[i];
    return NULL;
}

static struct cla_host_plan *oldest(struct cla_host_plans *plans)
{
    struct cla_host_plan *entry = &plans->entries[0];
    for (int i = 1; i < CLA_HOST_PLANS; i++)
        if (plans->entries[i].last_use < entry->last_use)
            entry = &plans->entries[i];
    return entry;
}

static void empty_entry(struct cla_host_plan *entry)
{
    clattn_plan_destroy(&entry->plan);
    for (int i = 0; i < CLA_HOST_PLAN_TEXTS; i++)
        free(entry->texts[i]);
    *entry = (struct cla_host_plan){0};
}

static bool copy_texts(struct cla_host_plan *entry, const struct clattn_problem *problem)
{
    for (int i = 0; i < CLA_HOST_PLAN_TEXTS; i++) {
        const char *text = text_of(problem, i);
        const size_t bytes = text ? strlen(text) + 1 : 0;
        if (!text)
            continue;
        entry->texts[i] = malloc(bytes);
        if (!entry->texts[i])
            return false;
        memcpy(entry->texts[i], text, bytes);
    }
    return true;
}

static clattn_status make_entry(struct cla_host_plan *entry, struct clattn_context *context,
                                const struct clattn_problem *problem, struct cla_error *error)
{
    struct clattn_plan *made = NULL;
    const clattn_status status = cla_plan_make(&made, context, problem, error);
    if (status)
        return status;
    empty_entry(entry);
    entry->plan = made;
    entry->problem = *problem;
    /* A problem with a plan names a skeleton of the table, or none, so it fits. */
    if (problem->skeleton)
        strncpy(entry->skeleton, problem->skeleton, sizeof entry->skeleton - 1);
    entry->problem.skeleton = entry->problem.knobs = NULL;
    entry->problem.score_mod = entry->problem.score_mod_grad = entry->problem.mask_mod = NULL;
    if (copy_texts(entry, problem))
        return CLATTN_SUCCESS;
    empty_entry(entry);
    return cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for the texts of a plan");
}

clattn_status cla_host_plans_get(struct cla_host_plans *plans, struct clattn_context *context,
                                 const struct clattn_problem *problem, const struct clattn_plan **plan,
                                 struct cla_error *error)
{
    struct cla_host_plan *entry = find(plans, problem);
    if (!entry) {
        entry = oldest(plans);
        const clattn_status status = make_entry(entry, context, problem, error);
        if (status)
            return status;
    }
    entry->last_use = ++plans->clock;
    *plan = entry->plan;
    return CLATTN_SUCCESS;
}

const struct clattn_plan *cla_host_plans_peek(struct cla_host_plans *plans, const struct clattn_problem *problem)
{
    const struct cla_host_plan *entry = find(plans, problem);
    return entry ? entry->plan : NULL;
}

void cla_host_plans_free(struct cla_host_plans *plans)
{
    for (int i = 0; i < CLA_HOST_PLANS; i++)
        empty_entry(&plans->entries[i]);
}
