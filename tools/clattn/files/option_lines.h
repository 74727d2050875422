/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_OPTION_LINES_H
#define CLATTN_TOOL_OPTION_LINES_H

#include "failure.h"

/* A file of command lines: each line has the options of one piece of work, parted by blanks; ' and " keep blanks, and a
 * backslash the character behind it, as in a shell. Empty lines, and what follows a # at a word's beginning, are left
 * out. */
struct option_line {
    int number; /* from 1 on, in the file */
    int argc;
    char **argv; /* NULL behind the last */
};

struct option_lines {
    struct option_line *items;
    int count;
    char *text; /* what the words lie in */
};

/* `path` - is the standard input. Each line's words follow those of `first`, which are only pointed at. */
int option_lines_read(const char *path, int argc, char **first, struct option_lines *lines, struct failure *failure);
void option_lines_free(struct option_lines *lines); /* zero-initialised ones, too */

#endif
