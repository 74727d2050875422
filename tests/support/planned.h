/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_PLANNED_H
#define TEST_PLANNED_H

#include "plan/planner.h"

/* What is planned for a problem as a caller would state it; test_error says why nothing is. */
clattn_status test_plan(const struct clattn_capabilities *capabilities, struct clattn_problem problem,
                        struct cla_choice *choice, struct clattn_plan_info *info);
extern struct cla_error test_error;

/* Fails unless it is planned, with this skeleton, these sizes and these knobs. */
struct test_sizes {
    int b_r, b_c;
    const char *knobs;
};
void test_plan_is(const struct clattn_capabilities *capabilities, struct clattn_problem problem, const char *skeleton,
                  struct test_sizes sizes, struct clattn_plan_info *info);

/* The bytes of its sums of dQ for one block of rows; 0 where they are not `zeroed`, or are and should not be. */
int64_t test_sum_bytes(const struct cla_choice *choice, struct clattn_problem problem, bool zeroed);

#endif
