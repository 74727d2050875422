/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What an instruction keeps busy, by its name. */
#ifndef SIMULATED_UNITS_H
#define SIMULATED_UNITS_H

#include "machine.h"

enum unit unit_of(const char *name);

/* Words of a lane that pass local memory's port; 0: none do. */
int local_words_of(const char *name);

#endif
