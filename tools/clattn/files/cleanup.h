/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_CLEANUP_H
#define CLATTN_TOOL_CLEANUP_H

/* Temporary files that a signal which ends the command (system_before_end()) removes first. A name is
 * registered before its file is made, and forgotten when the file is gone or has another name. */

enum {
    CLEANUP_NONE = -1
}; /* too many, or too long a name: whoever writes beside it next removes it (files/output_file.c) */

int cleanup_register(const char *path);
void cleanup_forget(int slot); /* CLEANUP_NONE, too */

#endif
