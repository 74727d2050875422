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
    assert_int_equal(cla_dropout_threshold(0.25f), 8192);
    assert_int_equal(cla_dropout_threshold(0.1f), 3277);
    assert_int_equal(cla_dropout_threshold(nextafterf(1.0f, 0.0f)), 32767);
}

enum { ROWS = 70, KEYS = 300 };

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

/* Pairs that share a byte of random numbers, or a call, are both dropped about as often as others are: p^2 times. */
static void neighbours_are_strangers(void **state)
{
    (void)state;
    enum { rows = 256, keys = 1024 };
    static uint8_t mask[rows * keys];
    static const struct {
        int rows, keys;
    } apart[] = {{0, 1}, {0, 2}, {0, 8}, {1, 0}, {8, 0}, {8, 1}, {8, 8}};
    for (int p = 1; p < 10; p++) {
        get((float)p / 10, 5, 0, 0, 0, 0, rows, 0, keys, mask);
        for (size_t n = 0; n < sizeof apart / sizeof *apart; n++) {
            const int last_row = rows - apart[n].rows, last_key = keys - apart[n].keys;
            int both = 0;
            for (int i = 0; i < last_row; i++)
                for (int j = 0; j < last_key; j++)
                    both += !mask[i * keys + j] && !mask[(i + apart[n].rows) * keys + j + apart[n].keys];
            const double share = (double)both / last_row / last_key, expected = p * p / 100.0;
            if (fabs(share - expected) > 1.0 / 512 + 0.003)
                fail_msg("p %.1f, %d rows and %d keys apart: both dropped with %g, not %g", p / 10.0, apart[n].rows,
                         apart[n].keys, share, expected);
        }
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
        cmocka_unit_test(everything_counts),
        cmocka_unit_test(errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
