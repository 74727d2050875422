/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Quotients by divisors, as clattn_divide (cl/common/types.clh) makes them. */
#include "plan/divisor.h"
#include "support/unit.h"

static int32_t divide(int32_t a, struct cla_divisor by)
{
    return (int32_t)(((uint64_t)((uint32_t)a << 1) * by.factor >> 32) >> by.shift);
}

static void check(int32_t a, int32_t number)
{
    const struct cla_divisor by = cla_divisor_of(number);
    assert_int_equal(by.number, number);
    if (divide(a, by) != a / number)
        fail_msg("%d / %d is %d, not %d", a, number, a / number, divide(a, by));
}

/* What is near multiples of the number, and near the largest dividend. */
static void check_number(int32_t number)
{
    const int32_t multiples[] = {0, 1, 2, 3, 1000, INT32_MAX / number / 2, INT32_MAX / number - 1, INT32_MAX / number};
    for (size_t i = 0; i < sizeof multiples / sizeof *multiples; i++)
        for (int64_t a = (int64_t)multiples[i] * number - 2; a <= (int64_t)multiples[i] * number + 2; a++)
            if (a >= 0 && a <= INT32_MAX)
                check((int32_t)a, number);
    check(INT32_MAX, number);
}

static void quotients_are_exact(void **state)
{
    (void)state;
    for (int32_t number = 1; number <= 100000; number++)
        check_number(number);
    for (int bit = 0; bit < 31; bit++)
        for (int64_t number = (INT64_C(1) << bit) - 3; number <= (INT64_C(1) << bit) + 3; number++)
            if (number > 0)
                check_number((int32_t)number);
    for (int32_t number = INT32_MAX; number > INT32_MAX - 100; number--)
        check_number(number);
    for (int32_t a = 0; a < 100000; a++)
        for (int32_t number = 1; number < 20; number++)
            check(a, number);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(quotients_are_exact)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
