/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_DIVISOR_H
#define CLA_DIVISOR_H

#include <stdint.h>

/* A number that kernels divide by, to the byte as cl/common/types.clh has it. For 0 <= a < 2^31 the quotient is
 * floor(2 a factor / 2^(32 + shift)): Granlund and Montgomery, "Division by invariant integers using multiplication"
 * (1994). */
struct cla_divisor {
    int32_t number;
    uint32_t factor, shift;
};

/* That of a number from 1 on. */
static inline struct cla_divisor cla_divisor_of(int32_t number)
{
    uint32_t shift = 0;
    while (INT64_C(1) << shift < number)
        shift++;
    /* With 2^(shift - 1) < number the factor is below 2^32. It is above 2^(31 + shift) / number by at most 1, which a
     * dividend below 2^31 multiplies to less than what a quotient lacks of the next integer. */
    const uint64_t factor = (UINT64_C(1) << (31 + shift)) / (uint32_t)number + 1;
    return (struct cla_divisor){number, (uint32_t)factor, shift};
}

#endif
