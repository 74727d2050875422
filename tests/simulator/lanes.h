/* SPDX-License-Identifier: BSD-2-Clause
 *
 * How functions of instructions read and write registers, for all lanes at once. */
#ifndef SIMULATED_LANES_H
#define SIMULATED_LANES_H

#include "machine.h"
#include <math.h>
#include <string.h>

/* A number of lanes of which the compiler knows that it is a multiple of 32. */
#define LANES(wave) ((wave)->lanes & ~31)

static inline float as_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t as_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float half_to_float(uint32_t half)
{
    const uint16_t bits = (uint16_t)half;
    _Float16 x;
    memcpy(&x, &bits, sizeof x);
    return (float)x;
}

static inline uint32_t float_to_half(float x)
{
    const _Float16 half = (_Float16)x;
    uint16_t bits;
    memcpy(&bits, &half, sizeof bits);
    return bits;
}

/* One word of a source, for each lane; `room` is used where it does not lie in a register. */
const uint32_t *lanes_of(const struct wave *wave, const struct source *source, int word, uint32_t *room);

/* Writes a word of the result in the lanes that are on, as the instruction's output modifiers want. */
void put_lanes(struct wave *wave, const struct instruction *i, int word, const uint32_t *values);

/* Scalars: 1 or 2 words. Those of a mask are as many as a wave's lanes want. */
uint32_t scalar_of(const struct wave *wave, const struct source *source);
uint64_t scalar_pair(const struct wave *wave, const struct source *source);
void put_scalar(struct wave *wave, const struct source *to, uint32_t value);
void put_scalar_pair(struct wave *wave, const struct source *to, uint64_t value);
uint64_t mask_of(const struct wave *wave, const struct source *source);
void put_mask(struct wave *wave, const struct source *to, uint64_t mask);

void set_exec(struct wave *wave, uint64_t exec);

/* Bit l: whether the word of lane l is not 0. */
uint64_t mask_from(const struct wave *wave, const uint32_t *lanes);

#endif
