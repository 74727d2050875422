/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_COMPARE_H
#define TEST_COMPARE_H

#include "support/forward.h"

/* Judges o, lse, m and l in `arrays` against the float64 reference by FlashAttention's rule. Says what is wrong. */
bool compare_outputs(const struct forward_case *forward, const struct forward_arrays *arrays);

/* True where the outputs of two runs are the same to the bit. */
bool compare_bits(const struct forward_case *forward, const struct forward_arrays *a, const struct forward_arrays *b);

/* Says and answers whether max |a - b| <= allowed; a NaN is further from anything than that. */
bool compare_close(const char *what, const float *a, const float *b, size_t count, double allowed);

#endif
