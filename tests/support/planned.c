/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/planned.h"
#include "plan/problem.h"

clattn_status test_plan(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                        struct cla_choice *choice, struct clattn_plan_info *info, struct cla_error *error)
{
    struct clattn_problem resolved;
    const clattn_status status = cla_problem_resolve(problem, &resolved, error);
    return status ? status : cla_plan(capabilities, &resolved, choice, info, error);
}
