/* SPDX-License-Identifier: BSD-2-Clause */
#define _GNU_SOURCE /* mkostemp */
#include "device/os.h"
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
    HASH_DIGITS = 32,
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

static bool is_fresh_name(const char *rest)
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
        if (strncmp(entry->d_name, name, length) == 0 && is_fresh_name(entry->d_name + length))
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

/* A file of the cache, and when it was last used. */
struct file {
    char name[64];
    struct timespec used;
    uint64_t bytes;
};

struct listing {
    struct file *files;
    size_t count, capacity;
    uint64_t bytes;
};

enum kind { FOREIGN, KEPT, LEFTOVER };

/* A cache file is named by its hash and the suffix; one that was never renamed has what mkostemp() added, too. */
static enum kind classify(const char *name, const char *suffix)
{
    const size_t suffix_length = strlen(suffix);
    if (strspn(name, "0123456789abcdef") != HASH_DIGITS || strncmp(name + HASH_DIGITS, suffix, suffix_length) != 0)
        return FOREIGN;
    const char *rest = name + HASH_DIGITS + suffix_length;
    if (!rest[0])
        return KEPT;
    return is_fresh_name(rest) ? LEFTOVER : FOREIGN;
}

static bool add_file(struct listing *listing, const char *name, const struct stat *status)
{
    if (listing->count == listing->capacity) {
        const size_t capacity = listing->capacity ? 2 * listing->capacity : 64;
        struct file *files = realloc(listing->files, capacity * sizeof *files);
        if (!files)
            return false;
        listing->files = files;
        listing->capacity = capacity;
    }
    struct file *file = &listing->files[listing->count];
    const int length = snprintf(file->name, sizeof file->name, "%s", name);
    if (length < 0 || (size_t)length >= sizeof file->name)
        return false;
    file->used = status->st_mtim;
    file->bytes = (uint64_t)status->st_size;
    listing->bytes += file->bytes;
    listing->count++;
    return true;
}

/* Lists the files of the cache and removes what interrupted writes have left; returns how many those were. */
static int64_t list_files(DIR *directory, const char *suffix, struct listing *listing)
{
    int64_t removed = 0;
    for (const struct dirent *entry; (entry = readdir(directory));) {
        struct stat status;
        const enum kind kind = classify(entry->d_name, suffix);
        if (kind == FOREIGN || fstatat(dirfd(directory), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(status.st_mode))
            continue;
        if (kind == KEPT)
            add_file(listing, entry->d_name, &status);
        else
            removed += remove_abandoned(dirfd(directory), entry->d_name);
    }
    return removed;
}

static int by_use(const void *left, const void *right)
{
    const struct file *a = left, *b = right;
    if (a->used.tv_sec != b->used.tv_sec)
        return a->used.tv_sec < b->used.tv_sec ? -1 : 1;
    if (a->used.tv_nsec != b->used.tv_nsec)
        return a->used.tv_nsec < b->used.tv_nsec ? -1 : 1;
    return strcmp(a->name, b->name);
}

int64_t cla_os_trim_directory(const char *path, const char *suffix, uint64_t max_bytes)
{
    struct listing listing = {0};
    DIR *directory = opendir(path);
    if (!directory)
        return 0;
    int64_t removed = list_files(directory, suffix, &listing);
    if (listing.count)
        qsort(listing.files, listing.count, sizeof *listing.files, by_use);
    /* With max_bytes 0 everything goes, empty files included. */
    for (size_t i = 0; i < listing.count && (listing.bytes > max_bytes || max_bytes == 0); i++) {
        removed += unlinkat(dirfd(directory), listing.files[i].name, 0) == 0;
        listing.bytes -= listing.files[i].bytes;
    }
    free(listing.files);
    closedir(directory);
    return removed;
}
