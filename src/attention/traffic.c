/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/traffic.h"
#include "device/report.h"
#include "plan/problem.h"
#include "plan/reserved.h"

static clattn_status check(const struct clattn_plan_info *info, const struct clattn_traffic_params *params,
                           const struct clattn_traffic *traffic, struct cla_error *error)
{
    if (!info)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "info is NULL: it must point to what clattn_plan_preview or clattn_plan_get_info answered");
    if (!params)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "params is NULL: it must point to a struct clattn_traffic_params");
    if (!traffic)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "traffic is NULL: it must point to a struct clattn_traffic");
    clattn_status status = cla_check_reserved(&cla_struct_plan_info, "info", info, error);
    if (!status)
        status = cla_check_reserved(&cla_struct_traffic_params, "params", params, error);
    if (status)
        return status;
    for (int i = 0; i < 2; i++)
        if (info->streams[i].block < 1 || info->streams[i].tile < 1)
            return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                            "info.streams[%d] has blocks of %d and tiles of %d: info must be a plan's answer", i,
                            info->streams[i].block, info->streams[i].tile);
    if (!(params->block_share >= 0.0 && params->block_share <= 1.0))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "params.block_share is %g: it is from 0 to 1",
                        params->block_share);
    return CLATTN_SUCCESS;
}

clattn_status clattn_plan_traffic(const struct clattn_problem *problem, const struct clattn_plan_info *info,
                                  const struct clattn_traffic_params *params, struct clattn_traffic *traffic)
{
    struct cla_error error;
    struct clattn_problem resolved;
    clattn_status status = cla_problem_resolve(problem, &resolved, &error);
    if (!status)
        status = check(info, params, traffic, &error);
    if (status)
        return cla_report(NULL, &error);
    struct clattn_traffic_params sized = *params;
    status = cla_shape_resolve(&params->shape, &sized.shape, &error);
    if (status)
        return cla_report(NULL, &error);
    cla_traffic(&resolved, info, &sized, traffic);
    return CLATTN_SUCCESS;
}
