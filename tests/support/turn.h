/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Which part of an enumeration a run takes. One that is long on a CPU, where a kernel takes seconds to compile, is cut
 * into turns: CLATTN_TEST_TURN=N takes turn N, the numbers going round. Without the variable a CPU has turn 0, and
 * other devices have all, as with CLATTN_TEST_TURN=all or CLATTN_TEST_FULL=1. tools/check.sh has another turn for each
 * commit. Which cases there are, and what is in them, a turn does not change: who draws at random draws for those that
 * are passed over, too.
 */
#ifndef TURN_H
#define TURN_H

#include "support/device.h"
#include <stdbool.h>

/* Whether a run takes a case that stands at `place` of an enumeration that is cut into `of` turns. */
bool test_is_turn(int place, int of);

/* Whether it takes a scene with a skeleton, where scenes walk all skeletons: those for CPUs, and the one that
 * CLATTN_TEST_SKELETON names, always; of those for GPUs every other one, in another order in each scene. */
bool test_is_turn_of(const struct cla_skeleton *skeleton, const char *scene);

#endif
