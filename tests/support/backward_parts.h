/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_BACKWARD_PARTS_H
#define TEST_BACKWARD_PARTS_H

#include "support/backward.h"

/* What the runs and the verdicts of backward passes share. */
enum { D_Q, D_K, D_V, D_BIAS, D_SINKS, GRADIENTS };
extern const char *const backward_names[GRADIENTS];

/* The gradients of a case, in order, and how many elements each has; 0: the case has none such. */
struct gradients {
    float *values[GRADIENTS];
    size_t counts[GRADIENTS];
};
struct gradients backward_gradients(const struct forward_case *forward, const struct backward_arrays *arrays);

#endif
