/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEXTS_WRITE_H
#define TEXTS_WRITE_H

#include "plan/planner.h"

/* Writes the text of one entry of a planned variant, DIRECTORY/NAME.cl, where the name begins with the prefix and the
 * device's name, and says so in a line on stdout: texts.c has what is in it. Not 0 where it failed. */
int texts_write(const char *directory, const char *device, const char *prefix, const struct clattn_problem *problem,
                const struct cla_choice *choice, int number);

/* Says on stderr what failed; 1. */
int texts_complain(const char *what, const struct cla_error *error);

#endif
