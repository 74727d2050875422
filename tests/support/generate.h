/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_GENERATE_H
#define TEST_GENERATE_H

#include "support/forward.h"

/* Fills q, k and v with normal data that has values of the case's type: q and k such that the scores have the case's
 * spread, v of deviation 1. The same seed gives the same data everywhere. */
void generate_inputs(const struct forward_case *forward, struct forward_arrays *arrays);

#endif
