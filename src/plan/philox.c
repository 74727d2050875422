/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/philox.h"
#include <stdbool.h>

void cla_philox(uint32_t counter[4], uint32_t key_low, uint32_t key_high)
{
    for (int round = 0; round < 7; round++) {
        const uint64_t a = UINT64_C(0xD2511F53) * counter[0], c = UINT64_C(0xCD9E8D57) * counter[2];
        const uint32_t b = counter[1], d = counter[3];
        counter[0] = (uint32_t)(c >> 32) ^ b ^ key_low;
        counter[1] = (uint32_t)c;
        counter[2] = (uint32_t)(a >> 32) ^ d ^ key_high;
        counter[3] = (uint32_t)a;
        key_low += 0x9E3779B9u;
        key_high += 0xBB67AE85u;
    }
}

enum { NUMBERS = 1 << CLA_DROPOUT_DIGITS };

uint32_t cla_dropout_threshold(float p)
{
    const uint32_t rounded = (uint32_t)(NUMBERS * (double)p + 0.5);
    return rounded < NUMBERS - 1 ? rounded : NUMBERS - 1;
}

clattn_status cla_dropout_check(const char *name, float p, struct cla_error *error)
{
    if (!(p >= 0 && p < 1))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "%s is %g: the share that is dropped is at least 0 and below 1",
                        name, (double)p);
    if (p > 0 && !cla_dropout_threshold(p))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "%s is %g, and shares are rounded to multiples of 1/%d: this one to 0. The smallest is 1/%d "
                        "(%.3g); 0 drops nothing",
                        name, (double)p, NUMBERS, NUMBERS, 1.0 / NUMBERS);
    return CLATTN_SUCCESS;
}

static bool digit_of(uint32_t threshold, int digit)
{
    return threshold >> (CLA_DROPOUT_DIGITS - 1 - digit) & 1;
}

void cla_dropout_digits(uint32_t threshold, uint32_t digits[CLA_DROPOUT_DIGITS])
{
    for (int n = 0; n < CLA_DROPOUT_DIGITS; n++)
        digits[n] = digit_of(threshold, n) ? UINT32_MAX : 0;
}

float cla_dropout_scale(uint32_t threshold)
{
    return (float)((double)NUMBERS / (NUMBERS - threshold));
}

/* What shares a call of Philox, and what a pair is of it: clattn_dropout_group, _line and _bit of cl/common/philox.clh.
 */
static uint32_t group_of(int64_t j)
{
    return (uint32_t)((j >> 9) * 4 + ((j >> 1) & 3));
}

static uint32_t line_of(uint32_t i)
{
    return (i >> 4) * 8 + (i & 7);
}

static int bit_of(uint32_t i, int64_t j)
{
    return (int)(8 * (j >> 4 & 3) + 4 * (j >> 3 & 1) + (j & 1)) + (int)(2 * (i >> 3 & 1));
}

static uint32_t turned(uint32_t word, int bits)
{
    const int left = bits & 31;
    return left ? word << left | word >> (32 - left) : word;
}

static uint32_t drop(uint32_t dropped, uint32_t ones, uint32_t threshold, int digit)
{
    return digit_of(threshold, digit) ? dropped | ones : dropped & ones;
}

void cla_dropped_words(const uint32_t call[4], int block, uint32_t threshold, uint32_t dropped[2])
{
    const int turn = 15 * block + 24;
    const uint32_t x0 = turned(call[0], turn), x1 = turned(call[1], -turn);
    const uint32_t x2 = turned(call[2], 13 * turn), x3 = turned(call[3], -13 * turn);
    const uint32_t a[6] = {turned(x3, 18), call[0], turned(x2, 2), x1, turned(x0, 9), turned(x1, 15)};
    const uint32_t b[6] = {x1, x3, call[1], turned(x0, 1), turned(x3, 21), turned(x1, 6)};
    dropped[0] = dropped[1] = 0;
    for (int digit = 11; digit >= 6; digit--) {
        dropped[0] = drop(dropped[0], b[11 - digit], threshold, digit);
        dropped[1] = drop(dropped[1], a[11 - digit], threshold, digit);
    }
    for (int digit = 5; digit >= 0; digit--) {
        dropped[0] = drop(dropped[0], a[digit] ^ x0, threshold, digit);
        dropped[1] = drop(dropped[1], b[digit] ^ x2, threshold, digit);
    }
}

/* Of row i the calls for 512 keys that start at a multiple of 512: four groups. */
static void draw(uint64_t seed, uint32_t offset, uint32_t head_number, uint32_t i, int64_t first_key,
                 uint32_t words[4][4])
{
    for (uint32_t g = 0; g < 4; g++) {
        words[g][0] = group_of(first_key) + g;
        words[g][1] = line_of(i);
        words[g][2] = head_number;
        words[g][3] = offset;
        cla_philox(words[g], (uint32_t)seed, (uint32_t)(seed >> 32));
    }
}

void cla_dropout_row(uint32_t threshold, uint64_t seed, uint32_t offset, uint32_t head_number, uint32_t i,
                     int64_t first_key, int64_t key_count, uint8_t *mask)
{
    uint32_t words[4][4], dropped[4][2];
    for (int64_t c = 0; c < key_count; c++) {
        const int64_t j = first_key + c;
        if (c == 0 || (j & 511) == 0)
            draw(seed, offset, head_number, i, j & ~INT64_C(511), words);
        if (c == 0 || (j & 127) == 0)
            for (int g = 0; g < 4; g++)
                cla_dropped_words(words[g], (int)(j >> 7 & 3), threshold, dropped[g]);
        mask[c] = !(dropped[group_of(j) & 3][j >> 6 & 1] >> bit_of(i, j) & 1);
    }
}
