/* SPDX-License-Identifier: BSD-2-Clause */
#include "reference/parts.h"
#include <math.h>

/* One of the seven rounds: two products of 64 bits, crossed. */
static void philox_round(uint32_t x[4], const uint32_t key[2])
{
    const uint64_t even = (uint64_t)x[0] * UINT64_C(0xd2511f53), odd = (uint64_t)x[2] * UINT64_C(0xcd9e8d57);
    const uint32_t next[4] = {(uint32_t)(odd >> 32) ^ x[1] ^ key[0], (uint32_t)odd,
                              (uint32_t)(even >> 32) ^ x[3] ^ key[1], (uint32_t)even};
    for (int i = 0; i < 4; i++)
        x[i] = next[i];
}

void reference_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t words[4])
{
    for (int i = 0; i < 4; i++)
        words[i] = counter[i];
    for (uint32_t n = 0; n < 7; n++) {
        const uint32_t bumped[2] = {key[0] + n * UINT32_C(0x9e3779b9), key[1] + n * UINT32_C(0xbb67ae85)};
        philox_round(words, bumped);
    }
}

/* p of 4096, but at most 4095. */
static uint32_t threshold(double p)
{
    return (uint32_t)fmin(4095, round(4096.0 * p));
}

/* Bit `place` of a word that is turned left by n, however often around. */
static uint32_t bit_turned(uint32_t word, int64_t n, int64_t place)
{
    return word >> ((place - n) % 32 + 32) % 32 & 1;
}

/* A word of a call, turned. */
struct turned {
    int word, by;
};

/* Of 64 pairs' words, the first digits: each the exclusive or of one of these with the word before them. */
static const struct turned centre[2] = {{0, 0}, {2, 0}};
static const struct turned leaves[2][6] = {{{3, 18}, {4, 0}, {2, 2}, {1, 0}, {0, 9}, {1, 15}},
                                           {{1, 0}, {3, 0}, {5, 0}, {0, 1}, {3, 21}, {1, 6}}};

/* A pair's bit of one: words 0 to 3 are also turned by 1, -1, 13 and -13 times 24, 39, 54 or 69, as their block is; 4
 * and 5 are 0 and 1, but for that. */
static uint32_t bit_of(const uint32_t call[4], struct turned from, int64_t block, int64_t place)
{
    static const int times[] = {1, -1, 13, -13, 0, 0};
    return bit_turned(call[from.word % 4], from.by + times[from.word] * (15 * block + 24), place);
}

/* A pair's number, the first digit the highest: 0 where the bit is 1. */
static uint32_t number_of(const uint32_t call[4], int64_t block, int half, int64_t place)
{
    uint32_t number = 0;
    for (int n = 0; n < 6; n++)
        number =
            number * 2 + (1 ^ bit_of(call, leaves[half][n], block, place) ^ bit_of(call, centre[half], block, place));
    for (int n = 5; n >= 0; n--)
        number = number * 2 + (1 ^ bit_of(call, leaves[1 - half][n], block, place));
    return number;
}

/* The counter says which pairs share a call: of 512 keys that begin at a multiple of 512, those whose places in a group
 * of 8 are 2 g and 2 g + 1, with two rows that are 8 apart within 16. Each 128 of these keys are a block of two halves;
 * in a half, of whose words each pair has a bit, the 16 keys count for the byte, then the eight, the row and the key.
 */
bool reference_kept(const struct reference_problem *problem, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const struct reference_score *score = &problem->score;
    const uint32_t counter[4] = {(uint32_t)(j / 512 * 4 + j % 8 / 2), (uint32_t)(i / 16 * 8 + i % 8),
                                 (uint32_t)(b * problem->shape.heads + h), score->dropout_offset};
    const uint32_t key[2] = {(uint32_t)score->dropout_seed, (uint32_t)(score->dropout_seed >> 32)};
    uint32_t call[4];
    reference_philox(counter, key, call);
    const int64_t place = j % 64 / 16 * 8 + j % 16 / 8 * 4 + i % 16 / 8 * 2 + j % 2;
    return number_of(call, j % 512 / 128, (int)(j % 128 / 64), place) >= threshold(score->dropout_p);
}

double reference_keep(const struct reference_problem *problem, const struct reference_head *head, int64_t i, int64_t j)
{
    if (!reference_has(problem, CLATTN_DROPOUT))
        return 1.0;
    if (!reference_kept(problem, head->b, head->h, i, j))
        return 0.0;
    return 4096.0 / (4096.0 - (double)threshold(problem->score.dropout_p));
}
