/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_PLAN_KERNELS_H
#define CLATTN_TOOL_PLAN_KERNELS_H

#include <clattn/plan.h>
#include <jansson.h>

/* The kernels that a plan of the pass has, and what of Q and K each work-group of theirs holds. */
void plan_print_kernels(enum clattn_pass pass, const struct clattn_plan_info *info);
json_t *plan_json_kernels(enum clattn_pass pass, const struct clattn_plan_info *info);

#endif
