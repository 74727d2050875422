/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/planned.h"
#include "plan/problem.h"

struct cla_error test_error;

clattn_status test_plan(const struct clattn_capabilities *capabilities, struct clattn_problem problem,
                        struct cla_choice *choice, struct clattn_plan_info *info)
{
    struct clattn_problem resolved;
    const clattn_status status = cla_problem_resolve(&problem, &resolved, &test_error);
    return status ? status : cla_plan(capabilities, &resolved, choice, info, &test_error);
}
