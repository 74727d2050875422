/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_OS_SYSTEM_H
#define CLA_OS_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What systems have each in their own way, below os.h: the build takes os.c, os_write.c and os_library.c of a POSIX
 * system, or os_windows.c and os_windows_write.c; of the small ones (os_environment_*.c, os_places_*.c, os_tiles_*.c)
 * the system's own. */

/* The environment's value; NULL where there is none, and always in a set-user-ID program. */
const char *cla_os_variable(const char *name);

/* Where a file goes by default: below the directory that the first of these variables names. */
struct cla_os_place {
    const char *variable; /* NULL ends a list */
    const char *below;
    bool absolute; /* a relative path is to be ignored */
};

extern const struct cla_os_place cla_os_cache_places[], cla_os_tuning_places[];

bool cla_os_is_absolute(const char *path);

/* The files of a directory. */
struct cla_os_folder;

struct cla_os_file {
    char name[64];                /* of a longer one nothing is told */
    int64_t seconds, nanoseconds; /* when it was last used */
    uint64_t bytes;
};

struct cla_os_folder *cla_os_folder_open(const char *path); /* NULL where that cannot be done */
void cla_os_folder_close(struct cla_os_folder *folder);

/* The next file, a regular one; false at the end. */
bool cla_os_folder_next(struct cla_os_folder *folder, struct cla_os_file *file);

bool cla_os_folder_remove(struct cla_os_folder *folder, const char *name);

/* The same for a file that was being written, unless somebody still writes to it. */
bool cla_os_folder_remove_abandoned(struct cla_os_folder *folder, const char *name);

/* Whether `rest` is what the name of a file that is being written has behind its own. */
bool cla_os_is_fresh(const char *rest);

#endif
