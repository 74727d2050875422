/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One instruction, and a wave with room for its registers: what tests of single instructions share. */
#ifndef SIMULATED_BENCH_H
#define SIMULATED_BENCH_H

#include "access.h"
#include "decode.h"
#include "lanes.h"
#include "support/unit.h"

extern const struct chip bench_rdna3, bench_rdna4, bench_cdna2, bench_cdna3;

/* Edges of integers, and of floats and halves: zeros, denormals, ones, halves, infinities, NaNs that are quiet or not,
 * the largest, powers of two at which a division is scaled; a field that ends beyond the bits; and random bits. */
enum { EDGES = 49 };
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

/* Decodes the instruction, or one in each line, for a wave whose lanes are all on; false where one is not known. */
bool bench_prepare(const struct chip *chip, const char *text);
void bench_run(void);

/* Whether two results are the same, where all NaNs are one. */
bool same_number(uint32_t a, uint32_t b);

/* Whether the name, without its prefix, is among those that a table of tests has. */
bool vector_is_checked(const char *name);
bool crossing_is_checked(const char *name);
bool product_is_checked(const char *name);

/* Instructions and cases of a file that folded.py makes; the number of those that are wrong. */
int check_folded(const char *path);

/* Those of the other files. */
int run_scalar_tests(void);
int run_vector_tests(void);
int run_crossing_tests(void);
int run_memory_tests(void);

#endif
