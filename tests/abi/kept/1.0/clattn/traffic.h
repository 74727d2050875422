/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TRAFFIC_H
#define CLATTN_TRAFFIC_H
#include <clattn/plan.h>
CLATTN_BEGIN_DECLS
struct clattn_traffic_params {
    struct clattn_shape shape;
    int64_t window_left, window_right;
    double block_share;
    uint64_t reserved[8];
};
struct clattn_traffic {
    double flash;
    double keys;
    double standard;
    double paper;
    double least;
    uint64_t reserved[8];
};
CLATTN_API clattn_status clattn_plan_traffic(const struct clattn_problem *problem, const struct clattn_plan_info *info,
                                             const struct clattn_traffic_params *params,
                                             struct clattn_traffic *traffic);
CLATTN_END_DECLS
#endif
