/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TURN_H
#define TURN_H

#include <stdbool.h>

/* Whether a run takes a case of an enumeration that is cut into `of` turns, where it stands at `place`. With
 * CLATTN_TEST_TURN=N it takes those of turn N % of; without the variable, or with CLATTN_TEST_FULL=1, all.
 * tools/check.sh has another turn for each commit. Which cases there are, and what is in them, a turn does not change:
 * who draws at random draws for those that are passed over, too. */
bool test_is_turn(int place, int of);

#endif
