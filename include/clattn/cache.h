/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_CACHE_H
#define CLATTN_CACHE_H

#include <clattn/export.h>
#include <clattn/status.h>
#include <stddef.h>
#include <stdint.h>

CLATTN_BEGIN_DECLS

/* Compiled programs are kept twice: in the context, where each program is built once however many threads ask for it,
 * and on disk, one file a program, so that the next run need not compile.
 *
 * The directory is the one given to the context; by default $CLATTN_CACHE_DIR, else $XDG_CACHE_HOME/clattn, else
 * $HOME/.cache/clattn (macOS: $HOME/Library/Caches/clattn); on Windows %LOCALAPPDATA%\clattn\cache instead of these.
 * CLATTN_CACHE_DIR set to the empty string keeps nothing. In a set-user-ID program the variables
 * are ignored.
 *
 * A file's name is a 128-bit hash of the program's text, its build options, the platform's, device's and driver's names
 * and versions and the library's version, so that a changed driver or library never meets an old file. The file repeats
 * that identity and carries a checksum; one that is damaged, foreign or stale is quietly compiled anew and replaced.
 * So is one that anybody but the user (the effective one) or root owns or may write to. A directory that anybody else
 * owns or may write to is not used at all, which a warning says (clattn/log.h): programs from it would run as the user.
 * Files are written under another name and renamed, so readers never see half of one. The directory is kept below
 * CLATTN_CACHE_MAX_BYTES by removing the files that have not been used for longest. */
#define CLATTN_CACHE_MAX_BYTES (256u << 20)

/* Writes the default directory to `path` (`size` bytes with the terminating 0). "" where nothing is to be kept.
 * Errors: CLATTN_INVALID_ARGUMENT where path is NULL or too small. Any thread. */
CLATTN_API clattn_status clattn_cache_default_directory(char *path, size_t size);

/* Removes the library's files, and no others, from `directory` (NULL: the default). *removed, where not NULL, gets
 * their number. A directory that does not exist is empty. Any thread; other processes may be using the directory. */
CLATTN_API clattn_status clattn_cache_clear(const char *directory, int64_t *removed);

CLATTN_END_DECLS

#endif
