/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/half.h"
#include <string.h>

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Drops the lowest `shift` bits, rounding to nearest even. */
static uint32_t round_shift(uint32_t value, unsigned shift)
{
    const uint32_t half = 1u << (shift - 1);
    const uint32_t odd = (value >> shift) & 1u;
    return (value + half - 1u + odd) >> shift;
}

uint16_t cla_half_from_float(float value)
{
    const uint32_t bits = bits_of(value);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;

    if (magnitude > 0x7f800000u) /* NaN: keep the upper payload, set the quiet bit */
        return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu));
    if (magnitude >= 0x47800000u) /* 2^16 and infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude >=
        0x38800000u) /* normal in binary16; a carry out of the fraction raises the exponent, up to infinity */
        return (uint16_t)(sign | round_shift(magnitude - 0x38000000u, 13));
    if (magnitude < 0x33000000u) /* below half of the smallest subnormal */
        return (uint16_t)sign;
    const unsigned shift = 126u - (magnitude >> 23); /* 14 to 24: the subnormal's unit is 2^-24 */
    return (uint16_t)(sign | round_shift((magnitude & 0x7fffffu) | 0x800000u, shift));
}

float cla_half_to_float(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    const uint32_t exponent = (half >> 10) & 31u;
    const uint32_t fraction = half & 0x3ffu;

    if (exponent == 31)
        return float_of(sign | 0x7f800000u | fraction << 13);
    if (exponent)
        return float_of(sign | (exponent + 112u) << 23 | fraction << 13);
    const float magnitude = (float)fraction * 0x1p-24f;
    return sign ? -magnitude : magnitude;
}

uint16_t cla_bf16_from_float(float value)
{
    const uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)(((uint64_t)bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float cla_bf16_to_float(uint16_t bits)
{
    return float_of((uint32_t)bits << 16);
}
