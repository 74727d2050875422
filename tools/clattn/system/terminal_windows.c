/* SPDX-License-Identifier: BSD-2-Clause */
#include "system/terminal.h"
#include <io.h>
#include <stdlib.h>
#include <windows.h>

/* The console of a stream; NULL where it is none. */
static HANDLE console_of(FILE *stream, DWORD *mode)
{
    const HANDLE handle = (HANDLE)_get_osfhandle(_fileno(stream));
    return GetConsoleMode(handle, mode) ? handle : NULL;
}

/* Windows 10's consoles move their cursor as terminals do, when they are told to. */
bool terminal_moves(FILE *stream)
{
    DWORD mode;
    const HANDLE console = console_of(stream, &mode);
    return console && SetConsoleMode(console, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
}

bool terminal_takes_colour(FILE *stream)
{
    const char *no_colour = getenv("NO_COLOR");
    return terminal_moves(stream) && (!no_colour || !*no_colour);
}

int terminal_width(FILE *stream)
{
    CONSOLE_SCREEN_BUFFER_INFO size;
    DWORD mode;
    const HANDLE console = console_of(stream, &mode);
    return console && GetConsoleScreenBufferInfo(console, &size) ? size.srWindow.Right - size.srWindow.Left + 1 : 0;
}
