/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/host_plans.h"
#include <string.h>

static bool is_same(const struct cla_host_plan *entry, const struct clattn_problem *problem)
{
    const struct clattn_problem *kept = &entry->problem;
    return entry->plan && strcmp(entry->skeleton, problem->skeleton ? problem->skeleton : "") == 0 &&
           kept->dtype == problem->dtype && kept->d == problem->d && kept->d_v == problem->d_v &&
           kept->causal == problem->causal && memcmp(&kept->scale, &problem->scale, sizeof kept->scale) == 0 &&
           kept->expected_n_q == problem->expected_n_q && kept->expected_n_kv == problem->expected_n_kv &&
           kept->b_r == problem->b_r && kept->b_c == problem->b_c && kept->work_group_size == problem->work_group_size;
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

clattn_status cla_host_plans_get(struct cla_host_plans *plans, struct clattn_context *context,
                                 const struct clattn_problem *problem, const struct clattn_plan **plan,
                                 struct cla_error *error)
{
    struct cla_host_plan *entry = find(plans, problem);
    if (!entry) {
        struct clattn_plan *made = NULL;
        const clattn_status status = cla_plan_make(&made, context, problem, error);
        if (status)
            return status;
        entry = oldest(plans);
        clattn_plan_destroy(&entry->plan);
        *entry = (struct cla_host_plan){.plan = made, .problem = *problem};
        /* A problem with a plan names a skeleton of the table, or none, so it fits. */
        if (problem->skeleton)
            strncpy(entry->skeleton, problem->skeleton, sizeof entry->skeleton - 1);
        entry->problem.skeleton = NULL; /* the caller's */
    }
    entry->last_use = ++plans->clock;
    *plan = entry->plan;
    return CLATTN_SUCCESS;
}

void cla_host_plans_free(struct cla_host_plans *plans)
{
    for (int i = 0; i < CLA_HOST_PLANS; i++)
        clattn_plan_destroy(&plans->entries[i].plan);
}
