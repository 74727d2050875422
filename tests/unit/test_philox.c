/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Dropout's random numbers: Random123's known answers for 7 rounds, and what clattn_dropout_mask makes of them.
 */
#include "plan/philox.h"
#include "support/unit.h"
#include <clattn/attention.h>
#include <clattn/status.h>
#include <math.h>
#include <string.h>

static void known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], answer[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t counter[4];
        memcpy(counter, cases[i].counter, sizeof counter);
        cla_philox(counter, cases[i].key[0], cases[i].key[1]);
        assert_memory_equal(counter, cases[i].answer, sizeof counter);
    }
}

static void thresholds(void **state)
{
    (void)state;
    assert_int_equal(cla_dropout_threshold(0.0f), 0);
    assert_int_equal(cla_dropout_threshold(0.25f), 1024);
    assert_int_equal(cla_dropout_threshold(0.1f), 410);
    assert_int_equal(cla_dropout_threshold(nextafterf(1.0f, 0.0f)), 4095);
    assert_float_equal(cla_dropout_scale(1024), 4.0 / 3, 1e-7);
    uint32_t digits[CLA_DROPOUT_DIGITS];
    cla_dropout_digits(2049, digits);
    for (int n = 0; n < CLA_DROPOUT_DIGITS; n++)
        assert_int_equal(digits[n], n == 0 || n == 11 ? UINT32_MAX : 0);
}

enum { ROWS = 70, KEYS = 1100 }; /* of more than two calls */

static void get(float p, uint64_t seed, uint32_t offset, int64_t b, int64_t h, int64_t row, int64_t rows, int64_t key,
                int64_t keys, uint8_t *mask)
{
    assert_int_equal(clattn_dropout_mask(p, seed, offset, 4, b, h, row, rows, key, keys, mask), CLATTN_SUCCESS);
}

/* A pair's fate does not depend on what is asked along with it. */
static void parts_are_the_whole(void **state)
{
    (void)state;
    static uint8_t whole[ROWS * KEYS], part[ROWS * KEYS];
    get(0.3f, 0x123456789abcdef0u, 7, 1, 2, 5, ROWS, 11, KEYS, whole);
    for (int64_t first = 0; first < KEYS; first += 37) {
        const int64_t keys = KEYS - first < 37 ? KEYS - first : 37;
        get(0.3f, 0x123456789abcdef0u, 7, 1, 2, 8, ROWS - 3, 11 + first, keys, part);
        for (int64_t r = 0; r < ROWS - 3; r++)
            assert_memory_equal(part + r * keys, whole + (r + 3) * KEYS + first, (size_t)keys);
    }
}

static void share_is_p(void **state)
{
    (void)state;
    static uint8_t mask[ROWS * KEYS];
    int kept = 0;
    get(0.3f, 99, 0, 0, 0, 0, ROWS, 0, KEYS, mask);
    for (int i = 0; i < ROWS * KEYS; i++)
        kept += mask[i];
    assert_true(fabs((double)kept / (ROWS * KEYS) - 0.7) < 5 * sqrt(0.21 / (ROWS * KEYS)));
    get(0.0f, 99, 0, 0, 0, 0, ROWS, 0, KEYS, mask);
    for (int i = 0; i < ROWS * KEYS; i++)
        assert_int_equal(mask[i], 1);
}

/* Pairs that share a call, or a word, are both dropped about as often as others are: p^2 times. */
static void neighbours_are_strangers(void **state)
{
    (void)state;
    enum { rows = 256, keys = 1024 };
    static uint8_t mask[rows * keys];
    static const struct {
        int rows, keys;
    } apart[] = {{0, 1},   {0, 2}, {0, 8}, {0, 16}, {0, 64}, {0, 128},
                 {0, 512}, {1, 0}, {8, 0}, {8, 1},  {8, 8},  {8, 128}};
    for (int p = 1; p < 10; p++) {
        get((float)p / 10, 5, 0, 0, 0, 0, rows, 0, keys, mask);
        for (size_t n = 0; n < sizeof apart / sizeof *apart; n++) {
            const int last_row = rows - apart[n].rows, last_key = keys - apart[n].keys;
            int both = 0;
            for (int i = 0; i < last_row; i++)
                for (int j = 0; j < last_key; j++)
                    both += !mask[i * keys + j] && !mask[(i + apart[n].rows) * keys + j + apart[n].keys];
            const double share = (double)both / last_row / last_key, expected = p * p / 100.0;
            if (fabs(share - expected) > 0.005)
                fail_msg("p %.1f, %d rows and %d keys apart: both dropped with %g, not %g", p / 10.0, apart[n].rows,
                         apart[n].keys, share, expected);
        }
    }
}

/* All that one call gives, of many calls: which of them drop each number, in bits; and how many of its numbers each
 * drops. */
enum { NUMBERS = 256, CALLS = 1 << 16 };
static uint64_t dropped[NUMBERS][CALLS / 64];
static int count[CALLS];

static void drop_all(uint32_t threshold)
{
    memset(dropped, 0, sizeof dropped);
    memset(count, 0, sizeof count);
    for (uint32_t c = 0; c < CALLS; c++) {
        uint32_t call[4] = {c, 3, 5, 7};
        cla_philox(call, 11, 13);
        uint32_t words[NUMBERS / 32];
        for (int block = 0; block < 4; block++)
            cla_dropped_words(call, block, threshold, words + 2 * block);
        for (int n = 0; n < NUMBERS; n++) {
            if (!(words[n / 32] >> n % 32 & 1))
                continue;
            dropped[n][c / 64] |= UINT64_C(1) << c % 64;
            count[c]++;
        }
    }
}

static double share_of_both(int a, int b)
{
    int both = 0;
    for (int i = 0; i < CALLS / 64; i++)
        both += __builtin_popcountll(dropped[a][i] & dropped[b][i]);
    return (double)both / CALLS;
}

/* Of all pairs of a call's numbers none is dropped together more or less often than chance has it (7 standard
 * deviations: there are 32640 of them), and how many of a call's are dropped has about the variance of
 * independent ones, and somewhat longer tails, the more so the fewer drop. */
static void numbers_of_a_call_are_strangers(void **state)
{
    (void)state;
    static const struct {
        double share, variance, kurtosis, correlation; /* by how much these may be off */
    } cases[] = {{0.0125, 0.2, 0.9, 0.05}, {0.05, 0.1, 0.3, 0}, {0.1, 0.05, 0.3, 0},
                 {0.25, 0.05, 0.3, 0},     {0.5, 0.05, 0.3, 0}, {0.9, 0.05, 0.7, 0}};
    for (size_t s = 0; s < sizeof cases / sizeof *cases; s++) {
        const uint32_t threshold = cla_dropout_threshold((float)cases[s].share);
        const double p = threshold / 4096.0, both = p * p, deviation = sqrt(both * (1 - both) / CALLS),
                     most = 7 * deviation + cases[s].correlation * p * (1 - p);
        drop_all(threshold);
        for (int a = 0; a < NUMBERS; a++)
            for (int b = 0; b < a; b++)
                if (fabs(share_of_both(a, b) - both) > most)
                    fail_msg("p %g: numbers %d and %d are both dropped with %g, not %g", p, a, b, share_of_both(a, b),
                             both);
        double second = 0.0, fourth = 0.0;
        for (int c = 0; c < CALLS; c++) {
            const double x = count[c] - NUMBERS * p;
            second += x * x / CALLS;
            fourth += x * x * x * x / CALLS;
        }
        const double variance = NUMBERS * p * (1 - p), kurtosis = 3 + (1 - 6 * p * (1 - p)) / variance;
        if (fabs(second / variance - 1) > cases[s].variance ||
            fabs(fourth / (second * second) - kurtosis) > cases[s].kurtosis)
            fail_msg("p %g: variance %g, not %g, kurtosis %g, not %g", p, second, variance, fourth / (second * second),
                     kurtosis);
    }
}

/* Seed, offset, batch element and head each change the numbers. */
static void everything_counts(void **state)
{
    (void)state;
    static uint8_t masks[6][ROWS * KEYS];
    get(0.5f, 1, 0, 0, 0, 0, ROWS, 0, KEYS, masks[0]);
    get(0.5f, 2, 0, 0, 0, 0, ROWS, 0, KEYS, masks[1]);
    get(0.5f, 1 + (UINT64_C(1) << 32), 0, 0, 0, 0, ROWS, 0, KEYS, masks[2]);
    get(0.5f, 1, 1, 0, 0, 0, ROWS, 0, KEYS, masks[3]);
    get(0.5f, 1, 0, 1, 0, 0, ROWS, 0, KEYS, masks[4]);
    get(0.5f, 1, 0, 0, 1, 0, ROWS, 0, KEYS, masks[5]);
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < i; j++)
            assert_memory_not_equal(masks[i], masks[j], sizeof masks[i]);
}

static void assert_refused(clattn_status status, const char *part)
{
    assert_int_equal(status, CLATTN_INVALID_ARGUMENT);
    if (!strstr(clattn_error_message(), part))
        fail_msg("\"%s\" does not say \"%s\"", clattn_error_message(), part);
}

static void errors(void **state)
{
    (void)state;
    uint8_t mask[4] = {9, 9, 9, 9};
    assert_refused(clattn_dropout_mask(1.0f, 0, 0, 1, 0, 0, 0, 2, 0, 2, mask), "p is 1");
    assert_refused(clattn_dropout_mask(-0.1f, 0, 0, 1, 0, 0, 0, 2, 0, 2, mask), "p is -0.1");
    assert_refused(clattn_dropout_mask(NAN, 0, 0, 1, 0, 0, 0, 2, 0, 2, mask), "p is");
    assert_refused(clattn_dropout_mask(0.5f, 0, 0, 0, 0, 0, 0, 2, 0, 2, mask), "heads is 0");
    assert_refused(clattn_dropout_mask(0.5f, 0, 0, 2, 0, 2, 0, 2, 0, 2, mask), "h is 2");
    assert_refused(clattn_dropout_mask(0.5f, 0, 0, 2, -1, 0, 0, 2, 0, 2, mask), "b is -1");
    assert_refused(clattn_dropout_mask(0.5f, 0, 0, 2, 0, 0, -1, 2, 0, 2, mask), "first_row is -1");
    assert_refused(clattn_dropout_mask(0.5f, 0, 0, 2, 0, 0, 0, -2, 0, 2, mask), "row_count is -2");
    assert_refused(clattn_dropout_mask(0.5f, 0, 0, 2, 0, 0, 0, 2, INT64_MAX, 2, mask), "first_key 9223372036854775807");
    assert_refused(clattn_dropout_mask(0.5f, 0, 0, 2, 0, 0, 0, 2, 0, 2, NULL), "mask is NULL");
    assert_int_equal(clattn_dropout_mask(0.5f, 0, 0, 2, 0, 0, 0, 0, 0, 2, NULL), CLATTN_SUCCESS);
    assert_memory_equal(mask, "\t\t\t\t", 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(thresholds),
        cmocka_unit_test(parts_are_the_whole),
        cmocka_unit_test(share_is_p),
        cmocka_unit_test(neighbours_are_strangers),
        cmocka_unit_test(numbers_of_a_call_are_strangers),
        cmocka_unit_test(everything_counts),
        cmocka_unit_test(errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
