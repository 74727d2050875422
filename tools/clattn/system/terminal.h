/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_TERMINAL_H
#define CLATTN_TOOL_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

/* Whether the stream is a terminal that can move its cursor (TERM is not "dumb"), and whether it is to have colours
 * (nor is NO_COLOR set to anything). */
bool terminal_moves(FILE *stream);
bool terminal_takes_colour(FILE *stream);

/* Characters in a line of it, as it says or else $COLUMNS does; 0: it is no terminal, or nobody knows. */
int terminal_width(FILE *stream);

#endif
