/* SPDX-License-Identifier: BSD-2-Clause */
#define _DEFAULT_SOURCE /* TIOCGWINSZ */
#include "system/terminal.h"
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
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

int terminal_width(FILE *stream)
{
    struct winsize size;
    if (!isatty(fileno(stream)))
        return 0;
    if (!ioctl(fileno(stream), TIOCGWINSZ, &size) && size.ws_col)
        return size.ws_col;
    const char *columns = getenv("COLUMNS");
    const long said = columns ? strtol(columns, NULL, 10) : 0;
    return said > 0 && said < 10000 ? (int)said : 0;
}
