/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_FAULT_PASSES_H
#define TEST_FAULT_PASSES_H

#include "fault/scenario.h"

/* The backward pass and the streaming state, with score modifications that have arguments of every kind. */
extern const struct scenario pass_scenarios[];
extern const int pass_scenario_count;

/* Calls with score arguments that are wrong. True where each is refused, nothing was written, and OpenCL was not asked
 * (`calls` tells how often it was). */
bool pass_refuses_wrong_arguments(struct test_device *device, long (*calls)(void));

#endif
