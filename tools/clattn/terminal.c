/* SPDX-License-Identifier: BSD-2-Clause */
#define _POSIX_C_SOURCE 200809L
#include "terminal.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool terminal_moves(FILE *stream)
{
    const char *terminal = getenv("TERM");
    return terminal && strcmp(terminal, "dumb") != 0 && isatty(fileno(stream));
}

bool terminal_takes_colour(FILE *stream)
{
    const char *no_colour = getenv("NO_COLOR");
    return terminal_moves(stream) && (!no_colour || !*no_colour);
}
