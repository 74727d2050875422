/* SPDX-License-Identifier: BSD-2-Clause */
#include "random.h"
#include <math.h>

uint64_t random_next(struct random *random)
{
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int64_t random_below(struct random *random, int64_t limit)
{
    return (int64_t)(random_next(random) % (uint64_t)limit);
}

/* In (0, 1]: its logarithm is finite. */
static double unit(struct random *random)
{
    return (double)((random_next(random) >> 11) + 1) * 0x1p-53;
}

void random_normal(struct random *random, double deviation, float *values, size_t count)
{
    const double turn = 6.28318530717958647692;
    for (size_t i = 0; i < count; i += 2) { /* Box and Muller: two at a time */
        const double radius = deviation * sqrt(-2.0 * log(unit(random))), angle = turn * unit(random);
        values[i] = (float)(radius * cos(angle));
        if (i + 1 < count)
            values[i + 1] = (float)(radius * sin(angle));
    }
}
