/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef RULE_H
#define RULE_H

#include "support/backward.h"

/* Whether results keep FlashAttention's rule alone; backward_judge allows more where an LSE is large. Gradients may
 * have 3 times the error of the plain formula in the type, and the rounding of the result. O has the rule of its own.
 * Both say what is off. */
bool rule_of_gradients(const struct forward_case *forward, const struct backward_arrays *arrays);
bool rule_of_output(const struct forward_case *forward, const struct forward_arrays *arrays);

#endif
