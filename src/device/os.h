/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_OS_H
#define CLA_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the library asks of the operating system: os.c alone reads the environment, and with os_write.c touches
 * files; os_library.c loads libraries. */

/* The default cache directory as <clattn/cache.h> says; "" for none; false where it does not fit into size bytes. */
bool cla_os_cache_directory(char *path, size_t size);

/* The default tuning file as <clattn/tuning.h> says; "" for none; false where it does not fit into size bytes. */
bool cla_os_tuning_path(char *path, size_t size);

/* Whether the environment itself names that file, so that it is the user's choice and not found by default. */
bool cla_os_names_tuning_file(void);

/* Whether the environment's CLATTN_DISABLE, a list with commas or spaces between, has this word. */
bool cla_os_disables(const char *word);

/* The word at this place of that list, cut to size - 1 bytes; false behind the last. */
bool cla_os_disabled_word(size_t place, char *word, size_t size);

/* Whether PoCL, where the program uses it, runs work-groups by continuations: POCL_WORK_GROUP_METHOD is "cbs". */
bool cla_os_wants_pocl_cbs(void);

/* Makes the directory and its parents, for the user alone (0700). */
bool cla_os_make_directory(const char *path);

/* Reads a regular file of at most max_bytes into a malloc'ed block; NULL where that cannot be done. */
void *cla_os_read_file(const char *path, size_t max_bytes, size_t *size);

/* The same for a file that nobody but the user or root can have written: it and its directory belong to one of them,
 * and no one else may write to them. NULL where that is not so, too; *distrust, where not NULL, then says why, else
 * gets NULL. Only the directory itself counts: who can rename one above it can put none there that is the user's own.
 */
void *cla_os_read_own_file(const char *path, size_t max_bytes, size_t *size, const char **distrust);

/* Why nothing would be read from this directory so; NULL where it would, or where there is none. */
const char *cla_os_distrusts_directory(const char *path);

/* Writes data under a fresh name beside path, then renames: readers see the old file or the whole new one. */
bool cla_os_replace_file(const char *path, const void *data, size_t size);

/* The same for what cannot be made again: it is on the disk when this returns. Permissions of a file that is there, and
 * a link to it, stay; leftovers of writers of it that were killed go. */
bool cla_os_replace_kept_file(const char *path, const void *data, size_t size);

/* False where nothing of that name is there; true also where that cannot be told. */
bool cla_os_exists(const char *path);

/* Holds the lock that a file of this name stands for, waiting at most so long; -1 where it cannot be had. The file
 * stays: removing it would let two hold it. Threads of one process exclude each other, too. */
int cla_os_lock(const char *path, int milliseconds);
void cla_os_unlock(int lock);

/* Marks the file as used now. */
void cla_os_touch(const char *path);

void cla_os_remove_file(const char *path);

/* Removes files in `directory` that are named by 32 hexadecimal digits and `suffix`, those unused for longest first,
 * until the rest take at most max_bytes (0: all of them). Leftovers of writers that were killed go too.
 * Returns how many files were removed. */
int64_t cla_os_trim_directory(const char *directory, const char *suffix, uint64_t max_bytes);

/* Asks the system to let this process use the tiles of AMX; whether it does. The answer holds for all threads, and for
 * what the process starts later; it cannot be taken back. */
bool cla_os_allows_tiles(void);

/* Loads a shared library from where the system keeps them, for good; NULL and why not, in words that stay until the
 * thread's next call. */
void *cla_os_library(const char *file, const char **reason);

/* A function of it, its address; NULL where it has none of that name. */
void *cla_os_library_symbol(void *library, const char *name);

/* A function of the OpenCL library that the process has already; NULL where it has none of that name. */
void *cla_os_opencl_symbol(const char *name);

#endif
