/* SPDX-License-Identifier: BSD-2-Clause */
#include "statistics.h"
#include <stdlib.h>

static int ascending(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The value at a share of the way from the first to the last; between two, in proportion. */
static double at(const double *sorted, size_t count, double share)
{
    const double place = share * (double)(count - 1);
    const size_t below = (size_t)place, above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (place - (double)below) * (sorted[above] - sorted[below]);
}

struct statistics statistics_of(double *values, size_t count)
{
    if (!count)
        return (struct statistics){.median = 0.0};
    qsort(values, count, sizeof *values, ascending);
    const double median = (values[(count - 1) / 2] + values[count / 2]) / 2.0;
    const double range = values[count - 1] - values[0];
    return (struct statistics){.median = median,
                               .minimum = values[0],
                               .maximum = values[count - 1],
                               .lower = at(values, count, 0.25),
                               .upper = at(values, count, 0.75),
                               .spread = median != 0.0 ? range / median : 0.0};
}
