/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_PATH_H
#define CLATTN_TOOL_PATH_H

/* The name that a path ends with. */
const char *path_name(const char *path);

/* What stands before it, with the separator; "." and one where there is nothing. malloc'ed; NULL without memory. */
char *path_folder(const char *path);

#endif
