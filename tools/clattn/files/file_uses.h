/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_FILE_USES_H
#define CLATTN_TOOL_FILE_USES_H

#include "failure.h"
#include <stdbool.h>
#include <stddef.h>

/* A file that the command's options name. */
struct file_use {
    const char *option, *path; /* path NULL: it is not named */
    bool output;
};

/* STATUS_USAGE where an output is named twice, or is an input, in whatever spelling: by another path, a link or a hard
 * link. What is no regular file (/dev/null) may be named often. */
int file_uses_check(const struct file_use *uses, size_t count, struct failure *failure);

#endif
