/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef GGML_JUDGE_H
#define GGML_JUDGE_H

#include <ggml.h>

/* What GGML_OP_FLASH_ATTN_EXT is to be, in float64, from a node whose tensors lie in the host's memory, each element as
 * ggml expands it: dense, in the result's order of dimensions. */
void judge_expected(const struct ggml_tensor *node, double *expected);

/* How far `count` numbers are from what was expected: the largest difference, and the sum of squares of all, divided
 * by that of the expected numbers (as ggml's own tests measure, whose limit is 5e-4). */
struct judge_distance {
    double largest, squares;
};
struct judge_distance judge_compare(const float *given, const double *expected, size_t count);

/* Fills a row with numbers from -1 to 1 that follow from *seed. */
void judge_draw(float *row, size_t count, unsigned *seed);

#endif
