/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_PLAN_TRAFFIC_H
#define CLATTN_TOOL_PLAN_TRAFFIC_H

#include <clattn/plan.h>
#include <jansson.h>

/* The model's bytes of one head: nothing and null where the problem's lengths are not known. */
void plan_print_traffic(const struct clattn_problem *problem, const struct clattn_plan_info *info);
json_t *plan_json_traffic(const struct clattn_problem *problem, const struct clattn_plan_info *info);

#endif
