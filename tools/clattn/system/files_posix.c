/* SPDX-License-Identifier: BSD-2-Clause */
#define _DEFAULT_SOURCE /* flock */
#define _XOPEN_SOURCE   700
#include "files/path.h"
#include "system/files.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

const char files_separators[] = "/";

int files_open_read(const char *path)
{
    return open(path, O_RDONLY | O_CLOEXEC);
}

int files_open_write(const char *path)
{
    return open(path, O_WRONLY | O_CLOEXEC);
}

int files_open_nowhere(void)
{
    return open("/dev/null", O_RDWR | O_CLOEXEC);
}

FILE *files_temporary(void)
{
    return tmpfile();
}

bool files_identify(const char *path, struct files_identity *identity)
{
    struct stat status;
    if (stat(path, &status))
        return false;
    *identity = (struct files_identity){status.st_dev, status.st_ino, S_ISREG(status.st_mode)};
    return true;
}

char *files_resolve(const char *path)
{
    char *resolved = realpath(path, NULL);
    return resolved || errno != ENOENT ? resolved : strdup(path);
}

/* -1 with EEXIST, too, where another took it for a leftover before it was locked. */
int files_make_locked(const char *path, unsigned permissions, int *lock)
{
    struct stat status;
    const int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, (mode_t)permissions);
    if (descriptor < 0)
        return -1;
    const bool taken = flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (!taken && (fstat(descriptor, &status) != 0 || status.st_nlink)) {
        *lock = dup(descriptor);
        return descriptor;
    }
    close(descriptor);
    errno = EEXIST;
    return -1;
}

/* Who writes one holds its lock. */
void files_remove_left(const char *path, bool (*is_left)(const char *entry, const char *name))
{
    char *folder = path_folder(path);
    DIR *directory = folder ? opendir(folder) : NULL;
    free(folder);
    if (!directory)
        return;
    for (const struct dirent *entry; (entry = readdir(directory));) {
        if (!is_left(entry->d_name, path_name(path)))
            continue;
        const int file = openat(dirfd(directory), entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0)
            unlinkat(dirfd(directory), entry->d_name, 0);
        if (file >= 0)
            close(file);
    }
    closedir(directory);
}

int files_replace(const char *from, const char *to)
{
    return rename(from, to);
}

int files_open_log(const char *path)
{
    const int descriptor = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (descriptor < 0 || !flock(descriptor, LOCK_EX | LOCK_NB))
        return descriptor;
    close(descriptor);
    errno = EWOULDBLOCK;
    return -1;
}

bool files_make_folder(const char *prefix, char *path, size_t size)
{
    const char *place = getenv("TMPDIR");
    snprintf(path, size, "%s/%s-XXXXXX", place && *place ? place : "/tmp", prefix);
    return mkdtemp(path);
}

void files_remove_folder(const char *path)
{
    DIR *entries = opendir(path);
    for (const struct dirent *entry = entries ? readdir(entries) : NULL; entry; entry = readdir(entries))
        unlinkat(dirfd(entries), entry->d_name, 0); /* refuses "." and ".." */
    if (entries)
        closedir(entries);
    rmdir(path);
}
