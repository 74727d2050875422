/* SPDX-License-Identifier: BSD-2-Clause */
#include "reference_parts.h"
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

static uint32_t threshold(double p)
{
    return (uint32_t)fmin(32767, round(32768.0 * p));
}

/* A word with its lowest bit at place n. */
static uint32_t turned(uint32_t word, uint32_t n)
{
    return (uint32_t)(((uint64_t)word << n | (uint64_t)word << n >> 32) & 0xffffffff);
}

/* The four words of the block: each of the call's, and the one after it, around, turned by 3, 8, 13 or 18. */
static void block_words(const uint32_t call[4], uint32_t block, uint32_t words[4])
{
    static const uint32_t turns[] = {3, 8, 13, 18};
    for (uint32_t n = 0; n < 4; n++)
        words[n] = call[n] + turned(call[(n + 1) % 4], turns[block]);
}

/* The counter says which pairs share a call: of 512 keys that begin at a multiple of 512, those whose places in a group
 * of 8 are 2 g and 2 g + 1, with two rows that are 8 apart within 16. Each 128 of these keys are a block with four
 * words of its own. Each 16 of the block have four words, for the lower and the higher eight and for both rows; the
 * first 16 the block's, the others three of these added up: from a word's own number on, around, the first, second and
 * third turned by a byte or not as the number of the 16 has its bits 2, 0 and 1. Two keys side by side have a word's
 * halves. */
bool reference_kept(const struct reference_problem *problem, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const struct reference_score *score = &problem->score;
    const uint32_t at = (uint32_t)(j % 8), block = (uint32_t)(j % 512 / 128), sixteen = (uint32_t)(j % 128 / 16);
    const uint32_t line = (uint32_t)(i / 16 * 8 + i % 8);
    const uint32_t counter[4] = {(uint32_t)(j / 512) * 4 + at / 2, line, (uint32_t)(b * problem->shape.heads + h),
                                 score->dropout_offset};
    const uint32_t key[2] = {(uint32_t)score->dropout_seed, (uint32_t)(score->dropout_seed >> 32)};
    const uint32_t own = (j % 16 >= 8 ? 2 : 0) + (i % 16 >= 8 ? 1 : 0);
    uint32_t call[4], words[4];
    reference_philox(counter, key, call);
    block_words(call, block, words);
    uint32_t word = turned(words[own], sixteen / 4 * 8);
    if (sixteen > 0)
        word += turned(words[(own + 1) % 4], sixteen % 2 * 8) + turned(words[(own + 2) % 4], sixteen / 2 % 2 * 8);
    const uint32_t number = (at % 2 ? word >> 16 : word) % 32768;
    return number < 32768 - threshold(score->dropout_p);
}

double reference_keep(const struct reference_problem *problem, const struct reference_head *head, int64_t i, int64_t j)
{
    if (!reference_has(problem, CLATTN_DROPOUT))
        return 1.0;
    if (!reference_kept(problem, head->b, head->h, i, j))
        return 0.0;
    return 32768.0 / (32768.0 - (double)threshold(problem->score.dropout_p));
}
