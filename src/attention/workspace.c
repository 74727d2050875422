/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/workspace.h"
#include "attention/forward.h"
#include "attention/score.h"
#include "attention/sums.h"
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

clattn_status cla_workspace_bytes(const struct clattn_plan *plan, const struct clattn_shape *shape, size_t *bytes,
                                  struct cla_error *error)
{
    struct clattn_shape resolved;
    struct cla_forward_places places = {0};
    size_t groups = 0, statistics = 0;
    int64_t blocks = 0, sum = 0;
    clattn_status status = cla_shape_resolve(shape, &resolved, error);
    if (!status)
        status = cla_forward_locate(plan, &resolved, &places, error);
    if (!status)
        status = cla_forward_groups(plan, &resolved, places.splits.states ? places.splits.states : 1, &groups, error);
    if (!status && cla_problem_is_backward(&plan->problem))
        status = cla_statistics_bytes(&resolved, &statistics, error);
    if (!status)
        status = cla_score_workspace(&plan->problem, plan->features, &resolved, &blocks, error);
    if (status)
        return status;
    if (!cla_add((int64_t)statistics + (int64_t)places.end_byte, blocks, &sum) || (uint64_t)sum > SIZE_MAX)
        return cla_fail(error, CLATTN_TOO_LARGE, "shape: the workspace is more than can be counted");
    struct cla_sums sums;
    status = cla_sums_locate(plan, &resolved, (size_t)sum, &sums, error);
    *bytes = sums.end_byte;
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
