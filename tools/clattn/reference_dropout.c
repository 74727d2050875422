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

/* The counter says which pairs share a call: of 32 keys that begin at a multiple of 32, those whose places in a group
 * of 8 are 2 g and 2 g + 1, with two rows that are 8 apart within 16. Keys are numbered by eighths first, then by which
 * of the two; to the second row the bytes of each word, from the lowest on, begin with the fourth. */
bool reference_kept(const struct reference_problem *problem, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const struct reference_score *score = &problem->score;
    const uint32_t block = (uint32_t)(j / 32), in_block = (uint32_t)(j % 32), eighth = in_block / 8, at = in_block % 8;
    const uint32_t line = (uint32_t)(i / 16 * 8 + i % 8);
    const uint32_t counter[4] = {block * 4 + at / 2, line, (uint32_t)(b * problem->shape.heads + h),
                                 score->dropout_offset};
    const uint32_t key[2] = {(uint32_t)score->dropout_seed, (uint32_t)(score->dropout_seed >> 32)};
    uint32_t words[4], bytes[4];
    reference_philox(counter, key, words);
    for (uint32_t n = 0; n < 4; n++)
        bytes[n] = words[eighth] >> (8 * ((n + (i % 16 >= 8 ? 3 : 0)) % 4)) & 0xff;
    const uint32_t number = (bytes[at % 2 * 2 + 1] & 0x7f) << 8 | bytes[at % 2 * 2];
    return number >= threshold(score->dropout_p);
}

double reference_keep(const struct reference_problem *problem, const struct reference_head *head, int64_t i, int64_t j)
{
    if (!reference_has(problem, CLATTN_DROPOUT))
        return 1.0;
    if (!reference_kept(problem, head->b, head->h, i, j))
        return 0.0;
    return 32768.0 / (32768.0 - (double)threshold(problem->score.dropout_p));
}
