/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_COURSE_H
#define TEST_COURSE_H

#include "support/forward.h"

/* What the keys are multiplied by, from the first (0) to the last (1). */
typedef double (*course)(double share);

/* Gives the keys of a case of one batch such a course. */
void course_of_keys(const struct forward_case *forward, struct forward_arrays *arrays, course factor);

/* Makes all its scores lower by about so much. */
void course_lower_scores(const struct forward_case *forward, struct forward_arrays *arrays, double by);

#endif
