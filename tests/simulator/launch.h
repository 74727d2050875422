/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SIMULATED_LAUNCH_H
#define SIMULATED_LAUNCH_H

#include "machine.h"

/* Runs all groups, spread over the cores; false where one ended in a fault, whose text goes to `fault`. */
bool launch_run(const struct launch *launch, char *fault, size_t fault_bytes, struct executed *executed);

#endif
