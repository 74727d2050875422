/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_TEXT_FILE_H
#define CLATTN_TOOL_TEXT_FILE_H

#include "failure.h"

/* A file of the user's OpenCL C, which `option` names, as a string: the caller's to free, also after a failure. No
 * path: no string, and no failure. */
int text_file_read(const char *option, const char *path, char **text, struct failure *failure);

#endif
