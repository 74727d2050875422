/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_COURSE_H
#define TEST_COURSE_H

#include "support/forward.h"

/* Something of each key, from the first (0) to the last (1). */
typedef double (*course)(double share);

/* Multiplies the keys of a case of one batch by it. */
void course_of_keys(const struct forward_case *forward, struct forward_arrays *arrays, course factor);

/* Adds about so much to all scores of each key, times `times`. */
void course_add_to_scores(const struct forward_case *forward, struct forward_arrays *arrays, course term, double times);

#endif
