/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef MODEL_SCHEDULES_H
#define MODEL_SCHEDULES_H

#include "model/machine.h"

/* What a model's program does: MODEL [SCHEDULES [FIRST_SEED]] runs so many schedules, each of its own seed; without
 * them as many as $CLATTN_TEST_SCHEDULES says, or as half a second takes. 1 at the first that does not end well, of
 * which `said` tells why. */
int schedules_main(int argc, char **argv, enum machine_end (*run)(uint64_t seed), const char *(*said)(void));

#endif
