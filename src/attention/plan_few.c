/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/plan_few.h"
#include "plan/features/feature.h"
#include "plan/problem.h"

/* Where the problem says how many rows there will be, or takes the choice out of the planner's hands, the plan is what
 * it was asked for. Texts of the caller's are gone by the time of a call. */
static bool may_have_other(const struct clattn_plan *plan)
{
    return plan->problem.pass == CLATTN_FORWARD && !plan->problem.expected_n_q && !plan->problem.split_keys &&
           plan->info.source != CLATTN_PLAN_FORCED &&
           !(plan->features & (CLA_FEATURE_SCORE_MOD | CLA_FEATURE_MASK_MOD));
}

/* The problem with these sizes expected of its calls. */
static struct clattn_problem expecting(const struct clattn_problem *problem, const struct clattn_shape *shape)
{
    struct clattn_problem hinted = *problem;
    hinted.expected_n_q = shape->n_q;
    hinted.expected_heads = shape->batch * shape->heads;
    hinted.expected_kv_heads = shape->batch * shape->kv_heads;
    return hinted;
}

static bool wants_other(const struct clattn_plan *plan, const struct clattn_shape *shape)
{
    const struct clattn_capabilities *capabilities = &plan->context->capabilities;
    struct clattn_shape resolved;
    struct cla_error refused; /* by whoever checks the call */
    if (!shape || !may_have_other(plan) || cla_shape_resolve(shape, &resolved, &refused))
        return false;
    const struct clattn_problem hinted = expecting(&plan->problem, &resolved);
    return cla_plan_preferred(capabilities, &hinted, NULL) != cla_plan_preferred(capabilities, &plan->problem, NULL);
}

/* For any number of few rows, so that there is one. */
static clattn_status make(const struct clattn_plan *plan, struct clattn_plan **other, struct cla_error *error)
{
    struct clattn_problem problem = plan->problem;
    problem.expected_n_q = 1;
    return cla_plan_make(other, plan->context, &problem, error);
}

clattn_status cla_plan_for(const struct clattn_plan *plan, const struct clattn_shape *shape, bool statistics,
                           const struct clattn_plan **chosen, struct cla_error *error)
{
    struct cla_plan_few *few = &plan->kernels->few;
    clattn_status status = CLATTN_SUCCESS;
    *chosen = plan;
    if (statistics || !wants_other(plan, shape))
        return CLATTN_SUCCESS;
    pthread_mutex_lock(&few->lock);
    if (!few->plan)
        status = make(plan, &few->plan, error);
    if (!status)
        *chosen = few->plan;
    pthread_mutex_unlock(&few->lock);
    return status;
}
