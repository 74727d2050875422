/* SPDX-License-Identifier: BSD-2-Clause */
#define _GNU_SOURCE /* mkostemp */
#include "device/os.h"
#include "device/os_system.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Files are written under their name and this, where mkostemp() puts six characters of its own. Who writes one holds
 * its lock, so that one that nobody holds was left by a writer that was killed. */
static const char fresh_suffix[] = ".new-XXXXXX";
enum {
    FRESH_LENGTH = sizeof fresh_suffix - 1,
    FRESH_FIXED = FRESH_LENGTH - 6,
    FRESH_ATTEMPTS = 16,
    LEFTOVER_SECONDS = 3600, /* where files cannot be locked */
    LOCK_STEP = 10           /* milliseconds between two attempts */
};

static bool write_all(int file, const char *data, size_t size)
{
    while (size > 0) {
        const ssize_t count = write(file, data, size);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return false;
        data += count;
        size -= (size_t)count;
    }
    return true;
}

/* A file that is replaced passes its permissions on. */
static bool keep_mode(const char *path, int file)
{
    struct stat status;
    return stat(path, &status) != 0 || fchmod(file, status.st_mode & 0777) == 0;
}

/* Makes a file of a fresh name, which goes to `fresh` behind the `length` bytes there, and locks it. Between the two,
 * another writer may have taken it for a leftover. */
static int make_fresh(char *fresh, size_t length)
{
    for (int attempt = 0; attempt < FRESH_ATTEMPTS; attempt++) {
        struct stat status;
        memcpy(fresh + length, fresh_suffix, sizeof fresh_suffix);
        const int file = mkostemp(fresh, O_CLOEXEC);
        if (file < 0)
            return -1;
        if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
            close(file);
            continue;
        }
        const bool known = fstat(file, &status) == 0;
        if (known && status.st_nlink)
            return file;
        if (!known) /* so it is still there, as far as can be told */
            unlink(fresh);
        close(file);
    }
    return -1;
}

/* Closes the file and gives it its name, under its lock until then. */
static bool close_and_rename(int file, const char *fresh, const char *path)
{
    const int lock = dup(file);
    /* close() reports what a network or a quota refused late. */
    const bool done = close(file) == 0 && rename(fresh, path) == 0;
    const int reason = errno;
    if (lock >= 0)
        close(lock);
    errno = reason;
    return done;
}

static bool replace_file(const char *path, const void *data, size_t size, bool durable)
{
    const size_t length = strlen(path);
    char *fresh = malloc(length + sizeof fresh_suffix);
    if (!fresh)
        return false;
    memcpy(fresh, path, length);
    bool done = false;
    const int file = make_fresh(fresh, length);
    if (file >= 0) {
        bool written = write_all(file, data, size);
        if (durable)
            written = written && keep_mode(path, file) && fsync(file) == 0;
        if (written)
            done = close_and_rename(file, fresh, path);
        else
            close(file);
        if (!done)
            unlink(fresh);
    }
    free(fresh);
    return done;
}

/* Removes a file that nobody writes to any more; under its lock, so that nobody begins to. */
static bool remove_abandoned(int directory, const char *name)
{
    struct stat status;
    const int file = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0)
        return false;
    bool abandoned = flock(file, LOCK_EX | LOCK_NB) == 0;
    const bool lockable = abandoned || errno == EWOULDBLOCK;
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || !status.st_nlink)
        abandoned = false;
    else if (!lockable)
        abandoned = time(NULL) - status.st_mtim.tv_sec > LEFTOVER_SECONDS;
    const bool removed = abandoned && unlinkat(directory, name, 0) == 0;
    close(file);
    return removed;
}

bool cla_os_is_fresh(const char *rest)
{
    return strlen(rest) == FRESH_LENGTH && strncmp(rest, fresh_suffix, FRESH_FIXED) == 0;
}

/* Removes what killed writers of this file have left beside it. */
static void remove_leftovers(const char *path)
{
    const char *const slash = strrchr(path, '/'), *const name = slash ? slash + 1 : path;
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    DIR *directory = folder ? opendir(folder) : NULL;
    const size_t length = strlen(name);
    free(folder);
    if (!directory)
        return;
    for (const struct dirent *entry; (entry = readdir(directory));)
        if (strncmp(entry->d_name, name, length) == 0 && cla_os_is_fresh(entry->d_name + length))
            remove_abandoned(dirfd(directory), entry->d_name);
    closedir(directory);
}

/* Without fsync(): a file that a power cut leaves empty is caught by its checksum. */
bool cla_os_replace_file(const char *path, const void *data, size_t size)
{
    return replace_file(path, data, size, false);
}

bool cla_os_replace_kept_file(const char *path, const void *data, size_t size)
{
    char *target = realpath(path, NULL); /* a link stays one */
    remove_leftovers(target ? target : path);
    const bool done = replace_file(target ? target : path, data, size, true);
    free(target);
    return done;
}

void cla_os_touch(const char *path)
{
    utimensat(AT_FDCWD, path, NULL, 0);
}

void cla_os_remove_file(const char *path)
{
    unlink(path);
}

int cla_os_lock(const char *path, int milliseconds)
{
    const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0)
        return -1;
    while (flock(file, LOCK_EX | LOCK_NB) != 0) {
        if ((errno != EWOULDBLOCK && errno != EINTR) || milliseconds <= 0) {
            close(file);
            return -1;
        }
        nanosleep(&(struct timespec){.tv_nsec = LOCK_STEP * 1000000}, NULL);
        milliseconds -= LOCK_STEP;
    }
    return file;
}

void cla_os_unlock(int lock)
{
    close(lock);
}

struct cla_os_folder {
    DIR *directory;
};

struct cla_os_folder *cla_os_folder_open(const char *path)
{
    DIR *const directory = opendir(path);
    struct cla_os_folder *const folder = directory ? malloc(sizeof *folder) : NULL;
    if (folder)
        folder->directory = directory;
    else if (directory)
        closedir(directory);
    return folder;
}

void cla_os_folder_close(struct cla_os_folder *folder)
{
    closedir(folder->directory);
    free(folder);
}

bool cla_os_folder_next(struct cla_os_folder *folder, struct cla_os_file *file)
{
    for (const struct dirent *entry; (entry = readdir(folder->directory));) {
        struct stat status;
        if (strlen(entry->d_name) >= sizeof file->name ||
            fstatat(dirfd(folder->directory), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(status.st_mode))
            continue;
        strcpy(file->name, entry->d_name);
        file->seconds = status.st_mtim.tv_sec;
        file->nanoseconds = status.st_mtim.tv_nsec;
        file->bytes = (uint64_t)status.st_size;
        return true;
    }
    return false;
}

bool cla_os_folder_remove(struct cla_os_folder *folder, const char *name)
{
    return unlinkat(dirfd(folder->directory), name, 0) == 0;
}

bool cla_os_folder_remove_abandoned(struct cla_os_folder *folder, const char *name)
{
    return remove_abandoned(dirfd(folder->directory), name);
}
