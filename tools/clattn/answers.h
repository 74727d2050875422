/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_ANSWERS_H
#define CLATTN_TOOL_ANSWERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* What a process that answers another by lines does at its own end of the pipes (child.h is the other). */

/* Where answers go: where standard output was. Drivers print where they should not; what is printed goes to standard
 * error from now on. NULL where that cannot be had. */
FILE *answers_open(void);

/* The next line of standard input, malloc'ed and grown as getline() does it. False at the end. */
bool answers_hear(char **line, size_t *capacity);

#endif
