/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One plan, made without a word on how many rows there will be, serves many rows and few: for few it keeps another
 * beside where the planner prefers another kernel for them. */
#include "support/compare.h"
#include "support/device.h"
#include "support/forward.h"
#include "support/unit.h"

static struct test_device device;

static bool on_cpu(void)
{
    return test_is_for(&cla_decode_cpu);
}

static struct forward_case with_rows(int64_t n_q)
{
    return (struct forward_case){.problem = {.d = 32, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT},
                                 .shape = {.batch = 2, .heads = 4, .kv_heads = 2, .n_q = n_q, .n_kv = 75},
                                 .seed = 40};
}

static clattn_plan *plan_of(const struct clattn_problem *problem)
{
    clattn_plan *plan = NULL;
    assert_true(test_succeeded(clattn_plan_create(&plan, device.clattn, problem), "clattn_plan_create"));
    return plan;
}

/* Whether a case has the same bits by this plan as by another; its values have to be right. */
static bool runs_as(const clattn_plan *plan, const clattn_plan *same, const struct forward_case *forward,
                    bool statistics)
{
    struct forward_arrays a = {0}, b = {0};
    assert_true(forward_arrays_make(forward, &a) && forward_arrays_make(forward, &b));
    a.without_m = b.without_m = !statistics;
    assert_true(forward_run(&device, plan, forward, &a) && forward_run(&device, same, forward, &b));
    assert_true(compare_outputs(forward, &a));
    const bool are_same = compare_bits(forward, &a, &b);
    forward_arrays_free(&a);
    forward_arrays_free(&b);
    return are_same;
}

static void one_plan_serves_many_rows_and_few(void **state)
{
    (void)state;
    struct clattn_problem hinted = with_rows(1).problem;
    clattn_plan *plan = plan_of(&hinted);
    hinted.expected_n_q = 1;
    clattn_plan *few = plan_of(&hinted);
    hinted.expected_n_q = 40;
    clattn_plan *many = plan_of(&hinted);
    struct clattn_plan_info of_few, of_many;
    assert_int_equal(clattn_plan_get_info(few, &of_few), CLATTN_SUCCESS);
    assert_int_equal(clattn_plan_get_info(many, &of_many), CLATTN_SUCCESS);
    if (on_cpu())
        assert_string_not_equal(of_few.skeleton, of_many.skeleton);
    for (int64_t n_q = 1; n_q <= 40; n_q = n_q < 2 ? 2 : 20 * n_q) {
        const struct forward_case forward = with_rows(n_q);
        /* Elsewhere one kernel serves both, of other block sizes where the number of rows is known. */
        assert_true(runs_as(plan, n_q == 40 ? many : few, &forward, false) || !on_cpu());
        /* With m and l, as gradients take them. */
        assert_true(runs_as(plan, many, &forward, true) || !on_cpu());
    }
    clattn_plan_destroy(&many);
    clattn_plan_destroy(&few);
    clattn_plan_destroy(&plan);
}

/* What the caller has chosen stays. */
static void a_forced_plan_is_one(void **state)
{
    (void)state;
    struct forward_case forward = with_rows(1);
    if (!on_cpu())
        return;
    forward.problem.skeleton = "forward_cpu";
    clattn_plan *forced = plan_of(&forward.problem);
    forward.problem.skeleton = "decode_cpu";
    clattn_plan *few = plan_of(&forward.problem);
    assert_false(runs_as(forced, few, &forward, true));
    clattn_plan_destroy(&few);
    clattn_plan_destroy(&forced);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_plan_serves_many_rows_and_few),
                                       cmocka_unit_test(a_forced_plan_is_one)};
    test_device_open(&device);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failed;
}
