/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Medians and spreads, against values worked out by hand. */
#include "statistics.h"
#include "support/unit.h"

static void nothing_is_zero(void **state)
{
    (void)state;
    const struct statistics s = statistics_of(NULL, 0);
    assert_true(s.median == 0.0 && s.minimum == 0.0 && s.maximum == 0.0 && s.spread == 0.0);
}

static void one_value_is_its_own_median(void **state)
{
    (void)state;
    double values[] = {3.5};
    const struct statistics s = statistics_of(values, 1);
    assert_true(s.median == 3.5 && s.minimum == 3.5 && s.maximum == 3.5 && s.spread == 0.0);
}

static void an_odd_count_has_a_middle(void **state)
{
    (void)state;
    double values[] = {5.0, 1.0, 4.0, 2.0, 100.0};
    const struct statistics s = statistics_of(values, 5);
    assert_true(s.median == 4.0 && s.minimum == 1.0 && s.maximum == 100.0 && s.spread == 99.0 / 4.0);
}

static void an_even_count_takes_the_mean_of_two(void **state)
{
    (void)state;
    double values[] = {4.0, 1.0, 3.0, 2.0};
    assert_true(statistics_of(values, 4).median == 2.5);
}

static void quartiles_lie_between_values(void **state)
{
    (void)state;
    double values[] = {5.0, 1.0, 4.0, 2.0, 100.0}, pair[] = {3.0, 1.0}, one[] = {7.0};
    const struct statistics s = statistics_of(values, 5), two = statistics_of(pair, 2), single = statistics_of(one, 1);
    assert_true(s.lower == 2.0 && s.upper == 5.0);
    assert_true(two.lower == 1.5 && two.upper == 2.5);
    assert_true(single.lower == 7.0 && single.upper == 7.0);
}

static void a_median_of_zero_has_no_spread(void **state)
{
    (void)state;
    double values[] = {-1.0, 0.0, 1.0};
    assert_true(statistics_of(values, 3).spread == 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_zero),
        cmocka_unit_test(one_value_is_its_own_median),
        cmocka_unit_test(an_odd_count_has_a_middle),
        cmocka_unit_test(an_even_count_takes_the_mean_of_two),
        cmocka_unit_test(quartiles_lie_between_values),
        cmocka_unit_test(a_median_of_zero_has_no_spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
