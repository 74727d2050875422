/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/workspace.h"
#include "attention/plan_few.h"
#include "attention/score.h"
#include "attention/stages.h"
#include "device/report.h"
#include "plan/checked.h"

clattn_status cla_statistics_bytes(const struct clattn_shape *shape, size_t *bytes, struct cla_error *error)
{
    int64_t count;
    if (!cla_multiply(shape->batch, shape->heads, &count) || !cla_multiply(count, shape->n_q, &count) ||
        !cla_multiply(count, CLA_STATISTICS * sizeof(float), &count) || (uint64_t)count > SIZE_MAX)
        return cla_fail(
            error, CLATTN_TOO_LARGE,
            "shape: four floats for each row of batch %lld x heads %lld x n_q %lld is more than can be counted",
            (long long)shape->batch, (long long)shape->heads, (long long)shape->n_q);
    *bytes = (size_t)count;
    return CLATTN_SUCCESS;
}

static clattn_status too_much(struct cla_error *error)
{
    return cla_fail(error, CLATTN_TOO_LARGE, "shape: the workspace is more than can be counted");
}

/* A forward pass has the recipe's regions first, a backward pass behind all else. */
static clattn_status count(const struct clattn_plan *plan, const struct clattn_shape *shape, size_t *bytes,
                           struct cla_error *error)
{
    const bool backward = cla_problem_is_backward(&plan->problem);
    struct clattn_shape resolved;
    struct cla_recipe recipe;
    size_t statistics = 0;
    int64_t blocks = 0, sum = 0;
    clattn_status status = cla_shape_resolve(shape, &resolved, error);
    if (!status && backward)
        status = cla_statistics_bytes(&resolved, &statistics, error);
    if (!status)
        status = cla_score_workspace(&plan->problem, plan->features, &resolved, &blocks, error);
    if (status)
        return status;
    if (!cla_add((int64_t)statistics, blocks, &sum) || (uint64_t)sum > SIZE_MAX)
        return too_much(error);
    status = cla_recipe_make(plan, &resolved, NULL, backward ? (size_t)sum : 0, &recipe, error);
    if (!status)
        status = cla_stages_count(plan, &recipe, error);
    if (!status && !backward && (!cla_add((int64_t)recipe.end_byte, sum, &sum) || (uint64_t)sum > SIZE_MAX))
        status = too_much(error);
    if (!status)
        *bytes = backward ? recipe.end_byte : (size_t)sum;
    return status;
}

clattn_status cla_workspace_bytes(const struct clattn_plan *plan, const struct clattn_shape *shape, size_t *bytes,
                                  struct cla_error *error)
{
    const struct clattn_plan *few = plan; /* a call runs either, as it asks for m and l or not */
    size_t of_plan = 0, of_few = 0;
    clattn_status status = cla_plan_for(plan, shape, false, &few, error);
    if (!status)
        status = count(plan, shape, &of_plan, error);
    if (!status)
        status = count(few, shape, &of_few, error);
    if (!status)
        *bytes = of_plan > of_few ? of_plan : of_few;
    return status;
}

clattn_status clattn_plan_workspace_bytes(const clattn_plan *plan, const struct clattn_shape *shape, size_t *bytes)
{
    struct cla_error error;
    clattn_status status;
    if (!plan)
        status = cla_fail(&error, CLATTN_INVALID_ARGUMENT, "plan is NULL: it must be a clattn_plan");
    else if (!shape)
        status = cla_fail(&error, CLATTN_INVALID_ARGUMENT, "shape is NULL: it must point to a struct clattn_shape");
    else if (!bytes)
        status = cla_fail(&error, CLATTN_INVALID_ARGUMENT, "bytes is NULL: it must point to the size_t to be set");
    else
        status = cla_workspace_bytes(plan, shape, bytes, &error);
    return status ? cla_report(plan ? &plan->context->log : NULL, &error) : CLATTN_SUCCESS;
}
