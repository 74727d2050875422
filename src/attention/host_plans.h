/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_HOST_PLANS_H
#define CLA_HOST_PLANS_H

#include "attention/plan.h"

/* The plans that a clattn_host keeps: the few problems asked for last. Zero-initialised the table is empty. */
#define CLA_HOST_PLANS      8
#define CLA_HOST_PLAN_TEXTS 4

struct cla_host_plan {
    struct clattn_plan *plan;      /* NULL: the entry is free */
    struct clattn_problem problem; /* its strings are NULL: they are the caller's, and copied below */
    char skeleton[sizeof((struct clattn_plan_info *)0)->skeleton];
    char *texts[CLA_HOST_PLAN_TEXTS]; /* score_mod, score_mod_grad, mask_mod, knobs; NULL for none */
    uint64_t last_use;
};

struct cla_host_plans {
    struct cla_host_plan entries[CLA_HOST_PLANS];
    uint64_t clock;
};

/* Finds the plan of a problem, or makes it in place of the one not used for longest. It lives until the next call.
 * `problem` is resolved. */
clattn_status cla_host_plans_get(struct cla_host_plans *plans, struct clattn_context *context,
                                 const struct clattn_problem *problem, const struct clattn_plan **plan,
                                 struct cla_error *error);

/* The plan of a problem, if there is one already; else NULL. */
const struct clattn_plan *cla_host_plans_peek(struct cla_host_plans *plans, const struct clattn_problem *problem);

void cla_host_plans_free(struct cla_host_plans *plans);

#endif
