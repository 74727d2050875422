/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One instruction, and a wave with room for its registers: what tests of single instructions share. */
#ifndef SIMULATED_BENCH_H
#define SIMULATED_BENCH_H

#include "access.h"
#include "decode.h"
#include "lanes.h"
#include "support/unit.h"

extern const struct chip bench_rdna3, bench_cdna3;

/* Edges of integers, and of floats: zeros, denormals, ones, halves, infinities, a NaN, the largest. */
enum { EDGES = 28 };
extern const uint32_t edges[EDGES];

struct bench {
    struct wave wave;
    struct group group;
    struct launch launch;
    struct kernel_code kernel;
    struct program program;
    uint32_t registers[VECTORS][MOST_LANES];
};
extern struct bench bench;

/* Decodes the instruction, for a wave whose lanes are all on; false where it is not known. */
bool bench_prepare(const struct chip *chip, const char *text);
void bench_run(void);

/* Whether two results are the same, where all NaNs are one. */
bool same_number(uint32_t a, uint32_t b);

/* Those of test_scalar.c. */
int run_scalar_tests(void);

#endif
