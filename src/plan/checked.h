/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_CHECKED_H
#define CLA_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

/* Sizes and strides come from callers and files: each product and sum of them is checked. True if the result is right.
 */
static inline bool cla_multiply(int64_t a, int64_t b, int64_t *result)
{
    return !__builtin_mul_overflow(a, b, result);
}

static inline bool cla_add(int64_t a, int64_t b, int64_t *result)
{
    return !__builtin_add_overflow(a, b, result);
}

static inline int64_t cla_ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

static inline int64_t cla_smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t cla_larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

#endif
