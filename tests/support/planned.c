/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/planned.h"
#include "plan/problem.h"
#include "plan/recipe.h"
#include "support/unit.h"

struct cla_error test_error;

clattn_status test_plan(const struct clattn_capabilities *capabilities, struct clattn_problem problem,
                        struct cla_choice *choice, struct clattn_plan_info *info)
{
    struct clattn_problem resolved;
    const clattn_status status = cla_problem_resolve(&problem, &resolved, &test_error);
    return status ? status : cla_plan(capabilities, &resolved, choice, info, &test_error);
}

void test_plan_is(const struct clattn_capabilities *capabilities, struct clattn_problem problem, const char *skeleton,
                  struct test_sizes sizes, struct clattn_plan_info *info)
{
    struct cla_choice choice;
    if (test_plan(capabilities, problem, &choice, info))
        fail_msg("%s", test_error.text);
    assert_string_equal(info->skeleton, skeleton);
    assert_int_equal(info->b_r, sizes.b_r);
    assert_int_equal(info->b_c, sizes.b_c);
    assert_string_equal(info->knobs, sizes.knobs);
}

int64_t test_sum_bytes(const struct cla_choice *choice, struct clattn_problem problem, bool zeroed)
{
    const struct clattn_capabilities none = {.compute_units = 1};
    const struct cla_run run = {.problem = &problem,
                                .config = &choice->config,
                                .capabilities = &none,
                                .shape = {.batch = 1, .heads = 1, .kv_heads = 1, .n_q = 1, .n_kv = 1},
                                .keys = 1,
                                .splits = 1};
    const struct cla_recipe recipe = cla_recipe_of(choice->skeleton, &run);
    for (int i = 0; i < recipe.region_count; i++)
        if (recipe.regions[i].told_at == offsetof(struct cla_backward_params, sums) &&
            recipe.regions[i].zeroed == zeroed)
            return recipe.regions[i].bytes;
    return 0;
}
