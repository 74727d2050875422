/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The host's 16-bit conversions, against definitions written another way: ldexp for widening, a search for the nearest
 * for narrowing. */
#include "plan/half.h"
#include "support/unit.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

static double half_value(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double magnitude = exponent == 31  ? (fraction ? NAN : INFINITY)
                             : exponent == 0 ? ldexp(fraction, -24)
                                             : ldexp(1024 + fraction, exponent - 25);
    return bits & 0x8000 ? -magnitude : magnitude;
}

static void every_half_widens_to_its_value(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits <= 0xffff; bits++) {
        const double expected = half_value((uint16_t)bits);
        const float got = cla_half_to_float((uint16_t)bits);
        if (isnan(expected))
            assert_true(isnan(got));
        else
            assert_true(got == (float)expected && !signbit(got) == !signbit(expected));
    }
}

static void every_half_survives_the_round_trip(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits <= 0xffff; bits++) {
        const float value = cla_half_to_float((uint16_t)bits);
        const unsigned back = cla_half_from_float(value);
        if (isnan(value))
            assert_true(isnan(cla_half_to_float((uint16_t)back)) && (back & 0x8000) == (bits & 0x8000));
        else
            assert_int_equal(back, bits);
    }
}

static void every_bf16_survives_the_round_trip(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits <= 0xffff; bits++) {
        const float value = cla_bf16_to_float((uint16_t)bits);
        const unsigned back = cla_bf16_from_float(value);
        if (isnan(value))
            assert_true(isnan(cla_bf16_to_float((uint16_t)back)) && (back & 0x8000) == (bits & 0x8000));
        else
            assert_int_equal(back, bits);
    }
}

/* Between neighbours a and b = a + 1 bit, the midpoint goes to the even one, and a nudge either way decides. */
static void check_neighbours(float low, float high, unsigned low_bits, uint16_t (*narrow)(float))
{
    const float middle = (float)(((double)low + (double)high) / 2);
    const unsigned even = low_bits % 2 == 0 ? low_bits : low_bits + 1;
    assert_int_equal(narrow(middle), even);
    assert_int_equal(narrow(nextafterf(middle, low)), low_bits);
    assert_int_equal(narrow(nextafterf(middle, high)), low_bits + 1);
}

static void half_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 0x7bff; bits++) {
        check_neighbours(cla_half_to_float((uint16_t)bits), cla_half_to_float((uint16_t)(bits + 1)), bits,
                         cla_half_from_float);
    }
    assert_int_equal(cla_half_from_float(65504), 0x7bff);
    assert_int_equal(cla_half_from_float(65519.996f), 0x7bff);
    assert_int_equal(cla_half_from_float(65520), 0x7c00); /* halfway to 2^16: even, which is infinity */
    assert_int_equal(cla_half_from_float(1e9f), 0x7c00);
    assert_int_equal(cla_half_from_float(-INFINITY), 0xfc00);
    assert_int_equal(cla_half_from_float(0x1p-25f), 0); /* halfway to the smallest subnormal: even, which is 0 */
    assert_int_equal(cla_half_from_float(-0x1p-40f), 0x8000);
}

static void bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 0x7f7f; bits++)
        check_neighbours(cla_bf16_to_float((uint16_t)bits), cla_bf16_to_float((uint16_t)(bits + 1)), bits,
                         cla_bf16_from_float);
    assert_int_equal(cla_bf16_from_float(3.4028235e38f), 0x7f80);
    assert_int_equal(cla_bf16_from_float(-INFINITY), 0xff80);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_widens_to_its_value),     cmocka_unit_test(every_half_survives_the_round_trip),
        cmocka_unit_test(every_bf16_survives_the_round_trip), cmocka_unit_test(half_rounds_to_nearest_even),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
