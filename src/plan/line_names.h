/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_LINE_NAMES_H
#define CLA_LINE_NAMES_H

#include "plan/error.h"

/* A compiler that does not heed #line (NVIDIA's) counts the lines of the whole program text, as "<kernel>:N". Puts in
 * the error's text, for each of these, the name and the line that the #line directives of `program` give it. */
void cla_name_lines(const char *program, struct cla_error *error);

#endif
