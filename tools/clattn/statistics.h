/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_STATISTICS_H
#define CLATTN_TOOL_STATISTICS_H

#include <stddef.h>

/* What a list of times says. */
struct statistics {
    double median, minimum, maximum;
    double lower,
        upper;     /* quartiles: a quarter of the values is not above, not below; between values as the median is */
    double spread; /* (maximum - minimum) / median; 0 where the median is */
};

/* Sorts `values` in place. All 0 where count is. The median of an even number is the mean of the middle two. */
struct statistics statistics_of(double *values, size_t count);

#endif
