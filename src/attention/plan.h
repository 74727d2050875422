/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_ATTENTION_PLAN_H
#define CLA_ATTENTION_PLAN_H

#include "device/context.h"
#include "device/launch.h"
#include <clattn/attention.h>

struct clattn_plan {
    struct clattn_context *context;
    struct clattn_problem problem; /* resolved; its skeleton is NULL, since the name is the caller's */
    struct clattn_plan_info info;
    struct cla_kernel *kernel; /* the one part that changes: its lock */
};

/* clattn_plan_create() without the report. */
clattn_status cla_plan_make(struct clattn_plan **plan, struct clattn_context *context,
                            const struct clattn_problem *problem, struct cla_error *error);

#endif
