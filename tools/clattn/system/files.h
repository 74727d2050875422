/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_SYSTEM_FILES_H
#define CLATTN_TOOL_SYSTEM_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What systems have each in their own way of files: files_posix.c and files_windows.c. Descriptors are for read(),
 * write(), lseek(), dup() and close(), which both have; programs that are started do not inherit them. Where one cannot
 * be had it is -1, and errno says why. */

/* Characters that part the names of a path. */
extern const char files_separators[];

int files_open_read(const char *path);
int files_open_write(const char *path); /* of what is there */
int files_open_nowhere(void);           /* takes anything, holds nothing */

/* A file without a name, for reading and writing; it goes with its stream. NULL where it cannot be had. */
FILE *files_temporary(void);

/* Which file a path leads to: two that are equal are one. False, with errno, where there is none. */
struct files_identity {
    uint64_t device, number;
    bool regular;
};

bool files_identify(const char *path, struct files_identity *identity);

/* A path without links, malloc'ed; of one that is not there as it is. NULL, with errno, where it cannot be told. */
char *files_resolve(const char *path);

/* Makes a file that only this process writes, and that any other knows as being written for as long as one of both
 * descriptors is open. The name must be new: else -1 with EEXIST. */
int files_make_locked(const char *path, unsigned permissions, int *lock);

/* Removes those files beside `path` that `is_left` says belong to it, and that nobody writes any more. */
void files_remove_left(const char *path, bool (*is_left)(const char *entry, const char *name));

/* Gives a file another's name, and its place. 0, or -1 with errno. */
int files_replace(const char *from, const char *to);

/* Opens, or makes, a file for reading it and adding to its end, for this process alone. EWOULDBLOCK: another has it. */
int files_open_log(const char *path);

/* A new folder of this user's own among temporary files, and its end with all files in it. */
bool files_make_folder(const char *prefix, char *path, size_t size);
void files_remove_folder(const char *path);

#endif
