/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_ATTENTION_PLAN_H
#define CLA_ATTENTION_PLAN_H

#include "attention/rows.h"
#include "device/context.h"
#include "device/launch.h"
#include "plan/planner.h"
#include "plan/recipe.h"
#include "plan/splits.h"
#include <clattn/attention.h>

/* A plan for calls of few rows, beside one that was made without knowing how many there will be (plan_few.h); NULL
 * until such a call comes. */
struct cla_plan_few {
    pthread_mutex_t lock;
    struct clattn_plan *plan;
};

/* The part of a plan that changes: the kernels' locks. */
struct cla_plan_kernels {
    struct cla_plan_few few;
    struct cla_kernel skeleton[CLA_MOST_KERNELS]; /* in the order of its kernels; all zero where not needed */
    struct cla_rows rows;
};

struct clattn_plan {
    struct clattn_context *context;
    struct clattn_problem problem; /* resolved; its strings are NULL, since they are the caller's */
    unsigned features;             /* cla_problem_features, which counts the texts in */
    struct clattn_plan_info info;
    struct cla_split_rule split_rule; /* forward passes */
    struct cla_choice choice;
    int work_group_sizes[CLA_MOST_KERNELS];
    struct cla_plan_kernels *kernels;
};

/* clattn_plan_create() without the report. */
clattn_status cla_plan_make(struct clattn_plan **plan, struct clattn_context *context,
                            const struct clattn_problem *problem, struct cla_error *error);

/* Whether a plan of the problem (resolved) that was free to split keys would do so for this shape (resolved): asks the
 * planner, and compiles nothing. */
clattn_status cla_plan_would_split(const struct clattn_context *context, const struct clattn_problem *problem,
                                   const struct clattn_shape *shape, bool *splits, struct cla_error *error);

/* Plans, compiles and proves: fills plan->info and the kernels. plan->problem still has its strings. */
clattn_status cla_plan_settle(struct clattn_plan *plan, struct cla_error *error);

/* Whether the plan is for this pass. */
clattn_status cla_plan_check_pass(const struct clattn_plan *plan, enum clattn_pass pass, const char *function,
                                  struct cla_error *error);

/* How many work-groups batch x heads x blocks are, where the device can launch them at once. `what`: of what there are
 * blocks, "n_q 1024 / B_r 64". */
clattn_status cla_plan_groups(const struct clattn_plan *plan, int64_t batch, int64_t heads, int64_t blocks,
                              const char *what, size_t *groups, struct cla_error *error);

#endif
