/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Branches, barriers, waits and the end. */
#ifndef SIMULATED_CONTROL_H
#define SIMULATED_CONTROL_H

#include "machine.h"

/* The function of an instruction that changes where a wave goes on, or whether; NULL: there is none of that name. */
run_function *control_find(const char *name);

/* What an instruction leaves under way, by the text behind its name; false where it is no wait, or not understood. */
bool wait_counts(const char *name, const char *operands, int counts[COUNTERS]);
run_function wait_for;

/* Name number n of the first kind, and of waits but s_waitcnt; NULL: there are no more. */
const char *control_name(int n);
const char *wait_name(int n);

/* Those that neither registers nor memory show: hints, priorities, caches. */
bool is_hint(const char *name);
run_function do_nothing;

#endif
