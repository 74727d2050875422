/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The larger and the smaller float, for vectors and scalars. */
#ifndef SIMULATED_FLOATS_H
#define SIMULATED_FLOATS_H

#include "lanes.h"

static inline uint32_t quiet(uint32_t nan)
{
    return nan | 0x400000;
}

static inline bool is_nan(uint32_t x)
{
    return (x & 0x7fffffff) > 0x7f800000;
}

/* The larger; of a NaN and a number the number; 0 is above -0. */
static inline uint32_t larger(uint32_t a, uint32_t b)
{
    const float x = as_float(a), y = as_float(b);
    const uint32_t numbers = x == y ? a & b : x > y ? a : b;
    return is_nan(a) ? (is_nan(b) ? quiet(a) : b) : is_nan(b) ? a : numbers;
}

static inline uint32_t smaller(uint32_t a, uint32_t b)
{
    const float x = as_float(a), y = as_float(b);
    const uint32_t numbers = x == y ? a | b : x < y ? a : b;
    return is_nan(a) ? (is_nan(b) ? quiet(a) : b) : is_nan(b) ? a : numbers;
}

static inline bool signals(uint32_t x)
{
    return is_nan(x) && quiet(x) != x;
}

/* As the generations before RDNA 4 have it, in the mode that kernels run in (IEEE): a signalling NaN makes a NaN. */
static inline uint32_t larger_ieee(uint32_t a, uint32_t b)
{
    return signals(a) ? quiet(a) : signals(b) ? quiet(b) : larger(a, b);
}

static inline uint32_t smaller_ieee(uint32_t a, uint32_t b)
{
    return signals(a) ? quiet(a) : signals(b) ? quiet(b) : smaller(a, b);
}

#endif
