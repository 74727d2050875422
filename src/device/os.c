/* SPDX-License-Identifier: BSD-2-Clause */
#define _GNU_SOURCE /* secure_getenv, mkostemp */
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

/* Files are written under their name and this, where mkostemp() puts six characters of its own. */
static const char fresh_suffix[] = ".new-XXXXXX";
enum {
    FRESH_LENGTH = sizeof fresh_suffix - 1,
    FRESH_FIXED = FRESH_LENGTH - 6,
    HASH_DIGITS = 32,
    LEFTOVER_SECONDS = 3600,
    LOCK_STEP = 10 /* milliseconds between two attempts */
};

/* Touches path only where the whole fits. */
static bool join(char *path, size_t size, const char *directory, const char *rest)
{
    const size_t length = strlen(directory), rest_length = strlen(rest);
    if (length + rest_length >= size)
        return false;
    memcpy(path, directory, length);
    memcpy(path + length, rest, rest_length + 1);
    return true;
}

bool cla_os_cache_directory(char *path, size_t size)
{
    /* Of a set-user-ID program's environment, secure_getenv() knows nothing. */
    const char *directory = secure_getenv("CLATTN_CACHE_DIR");
    if (directory)
        return join(path, size, directory, "");
    directory = secure_getenv("XDG_CACHE_HOME");
    if (directory && directory[0] == '/') /* the XDG specification: a relative path is to be ignored */
        return join(path, size, directory, "/clattn");
    directory = secure_getenv("HOME");
    if (directory && directory[0])
        return join(path, size, directory, "/.cache/clattn");
    return join(path, size, "", "");
}

bool cla_os_tuning_path(char *path, size_t size)
{
    const char *file = secure_getenv("CLATTN_TUNING_FILE");
    if (file)
        return join(path, size, file, "");
    const char *directory = secure_getenv("XDG_CONFIG_HOME");
    if (directory && directory[0] == '/')
        return join(path, size, directory, "/clattn/tuning.json");
    directory = secure_getenv("HOME");
    if (directory && directory[0])
        return join(path, size, directory, "/.config/clattn/tuning.json");
    return join(path, size, "", "");
}

bool cla_os_disables(const char *path)
{
    const char *list = secure_getenv("CLATTN_DISABLE");
    const size_t length = strlen(path);
    for (const char *at = list; at && *at; at += strcspn(at, ", ")) {
        at += strspn(at, ", ");
        if (strcspn(at, ", ") == length && strncmp(at, path, length) == 0)
            return true;
    }
    return false;
}

static bool is_directory(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

bool cla_os_make_directory(const char *path)
{
    if (!path[0])
        return false;
    if (is_directory(path))
        return true;
    char *prefix = strdup(path);
    if (!prefix)
        return false;
    /* A parent that is there already, or that another process makes meanwhile, fails to be made and is right all the
     * same. */
    for (char *slash = strchr(prefix + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(prefix, 0700);
        *slash = '/';
    }
    mkdir(prefix, 0700);
    free(prefix);
    return is_directory(path);
}

/* Reads exactly size bytes. */
static bool read_all(int file, char *data, size_t size)
{
    while (size > 0) {
        const ssize_t count = read(file, data, size);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return false;
        data += count;
        size -= (size_t)count;
    }
    return true;
}

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

void *cla_os_read_file(const char *path, size_t max_bytes, size_t *size)
{
    struct stat status;
    char *data = NULL;
    /* Not blocking, so that a pipe put there is refused and not waited for. */
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return NULL;
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || (uintmax_t)status.st_size > max_bytes)
        goto done;
    data = malloc((size_t)status.st_size + 1);
    if (data && !read_all(file, data, (size_t)status.st_size)) {
        free(data);
        data = NULL;
    }
    if (data)
        *size = (size_t)status.st_size;
done:
    close(file);
    return data;
}

/* A file that is replaced passes its permissions on. */
static bool keep_mode(const char *path, int file)
{
    struct stat status;
    return stat(path, &status) != 0 || fchmod(file, status.st_mode & 0777) == 0;
}

static bool replace_file(const char *path, const void *data, size_t size, bool durable)
{
    const size_t length = strlen(path);
    char *fresh = malloc(length + sizeof fresh_suffix);
    if (!fresh)
        return false;
    memcpy(fresh, path, length);
    memcpy(fresh + length, fresh_suffix, sizeof fresh_suffix);
    bool done = false;
    const int file = mkostemp(fresh, O_CLOEXEC);
    if (file >= 0) {
        bool written = write_all(file, data, size);
        if (durable)
            written = written && keep_mode(path, file) && fsync(file) == 0;
        /* close() reports what a network or a quota refused late. */
        done = close(file) == 0 && written && rename(fresh, path) == 0;
        if (!done)
            unlink(fresh);
    }
    free(fresh);
    return done;
}

/* Without fsync(): a file that a power cut leaves empty is caught by its checksum. */
bool cla_os_replace_file(const char *path, const void *data, size_t size)
{
    return replace_file(path, data, size, false);
}

bool cla_os_replace_kept_file(const char *path, const void *data, size_t size)
{
    char *target = realpath(path, NULL); /* a link stays one */
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

bool cla_os_exists(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 || (errno != ENOENT && errno != ENOTDIR);
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
    return strlen(rest) == FRESH_LENGTH && strncmp(rest, fresh_suffix, FRESH_FIXED) == 0 ? LEFTOVER : FOREIGN;
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
    const time_t now = time(NULL);
    int64_t removed = 0;
    for (const struct dirent *entry; (entry = readdir(directory));) {
        struct stat status;
        const enum kind kind = classify(entry->d_name, suffix);
        if (kind == FOREIGN || fstatat(dirfd(directory), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(status.st_mode))
            continue;
        if (kind == KEPT)
            add_file(listing, entry->d_name, &status);
        else if (now - status.st_mtim.tv_sec > LEFTOVER_SECONDS)
            removed += unlinkat(dirfd(directory), entry->d_name, 0) == 0;
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
