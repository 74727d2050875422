/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_RANDOM_H
#define CLATTN_TOOL_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* SplitMix64: the same numbers from the same seed everywhere, so that a reported seed reproduces a failure. */
struct random {
    uint64_t state;
};

uint64_t random_next(struct random *random);

/* Uniform in 0 .. limit - 1. */
int64_t random_below(struct random *random, int64_t limit);

/* N(0, deviation). */
void random_normal(struct random *random, double deviation, float *values, size_t count);

#endif
