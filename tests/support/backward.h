/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_BACKWARD_H
#define TEST_BACKWARD_H

#include "support/forward.h"

/* The gradients a backward pass is asked for; all where none is named. */
enum {
    BACKWARD_D_Q = 1,
    BACKWARD_D_K = 2,
    BACKWARD_D_V = 4,
    BACKWARD_D_BIAS = 8,
    BACKWARD_D_SINKS = 16,
    BACKWARD_ALL = 31
};

/* What a backward pass gets beside the inputs of its forward pass (whose o, m and l it reads), and what it gives. */
struct backward_arrays {
    struct forward_arrays forward;
    bool lse_alone; /* lse in the place of m and l */
    float *d_o, *d_q, *d_k, *d_v, *d_bias, *d_sinks;
};

/* Generates the inputs; o, lse, m and l are the reference's, o rounded to its type. The case's path is not
 * looked at.
 */
bool backward_arrays_make(const struct forward_case *forward, struct backward_arrays *arrays);
void backward_arrays_free(struct backward_arrays *arrays);

/* Sets o, lse, m and l to the reference's answer for inputs that were changed. */
bool backward_arrays_refresh(const struct forward_case *forward, struct backward_arrays *arrays);

/* Runs the case on what lies in `arrays`, checks the guards, and puts those gradients there that `wanted` names.
 * `plan` NULL: one is made. */
bool backward_run(const struct test_device *device, const clattn_plan *plan, const struct forward_case *forward,
                  unsigned wanted, struct backward_arrays *arrays);

/* The same so many times, on the same memory and not in chunks: whether all give the same bits. */
bool backward_repeats(const struct test_device *device, const clattn_plan *plan, const struct forward_case *forward,
                      unsigned wanted, struct backward_arrays *arrays, int runs);

/* Judges gradients by FlashAttention's rule. */
bool backward_judge(const struct forward_case *forward, unsigned wanted, const struct backward_arrays *arrays);

/* True where the gradients of two runs are the same to the bit. */
bool backward_same(const struct forward_case *forward, unsigned wanted, const struct backward_arrays *a,
                   const struct backward_arrays *b);

/* All of it. Says which case failed. */
bool backward_check(const struct test_device *device, const struct forward_case *forward, unsigned wanted);

#endif
