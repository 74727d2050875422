/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/philox.h"

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

uint32_t cla_dropout_threshold(float p)
{
    const uint32_t rounded = (uint32_t)(32768.0 * (double)p + 0.5);
    return rounded < 32767 ? rounded : 32767;
}

/* What shares a call of Philox: clattn_dropout_group, _line and _word of cl/common/philox.clh. */
static uint32_t group_of(int64_t j)
{
    return (uint32_t)((j >> 9) * 4 + ((j >> 1) & 3));
}

static uint32_t line_of(uint32_t i)
{
    return (i >> 4) * 8 + (i & 7);
}

static int word_of(uint32_t i, int64_t j)
{
    return (int)((j >> 3) & 1) * 2 + (int)(i >> 3 & 1);
}

static uint32_t turned(uint32_t word, int bits)
{
    return bits ? word << bits | word >> (32 - bits) : word;
}

uint32_t cla_dropout_word(const uint32_t call[4], int block, int piece, int word)
{
    uint32_t words[4];
    for (int n = 0; n < 4; n++)
        words[n] = call[n] + turned(call[(n + 1) % 4], 5 * block + 3);
    if (piece == 0)
        return words[word];
    return turned(words[word], piece & 4 ? 8 : 0) + turned(words[(word + 1) % 4], piece & 1 ? 8 : 0) +
           turned(words[(word + 2) % 4], piece & 2 ? 8 : 0);
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
    uint32_t words[4][4];
    for (int64_t c = 0; c < key_count; c++) {
        const int64_t j = first_key + c;
        if (c == 0 || (j & 511) == 0)
            draw(seed, offset, head_number, i, j & ~INT64_C(511), words);
        const uint32_t word =
            cla_dropout_word(words[group_of(j) & 3], (int)(j >> 7 & 3), (int)(j >> 4 & 7), word_of(i, j));
        mask[c] = (word >> (16 * (j & 1)) & 0x7fff) < 32768 - threshold;
    }
}
