/* SPDX-License-Identifier: BSD-2-Clause */
#define _DEFAULT_SOURCE /* flock */
#define _XOPEN_SOURCE   700
#include "files/output_file.h"
#include "files/cleanup.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int cannot_write(const struct output_file *output, const char *path, struct failure *failure)
{
    const int reason = errno;
    return fail(failure, STATUS_FILE, "%s: cannot be written: %s", output->path ? output->path : path,
                strerror(reason));
}

/* A link is followed, so that it stays and its target is replaced. A name that does not exist yet is kept as it is. */
static char *resolve(const char *path)
{
    char *resolved = realpath(path, NULL);
    return resolved || errno != ENOENT ? resolved : strdup(path);
}

/* ".NAME." and ".part", with the writer's number and that of its attempt between. */
static const char temporary_end[] = ".part";

/* A temporary file of this name, whatever the writer. */
static bool is_temporary_of(const char *entry, const char *name)
{
    const size_t length = strlen(name);
    if (entry[0] != '.' || strncmp(entry + 1, name, length) != 0 || entry[1 + length] != '.')
        return false;
    const char *at = entry + 2 + length;
    const size_t writer = strspn(at, "0123456789");
    if (!writer || at[writer] != '.')
        return false;
    at += writer + 1;
    const size_t attempt = strspn(at, "0123456789");
    return attempt && !strcmp(at + attempt, temporary_end);
}

/* Removes temporary files of this name whose writers were killed: who writes one holds its lock. */
static void remove_leftovers(const char *path)
{
    const char *const slash = strrchr(path, '/'), *const name = slash ? slash + 1 : path;
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    DIR *directory = folder ? opendir(folder) : NULL;
    free(folder);
    if (!directory)
        return;
    for (const struct dirent *entry; (entry = readdir(directory));) {
        if (!is_temporary_of(entry->d_name, name))
            continue;
        const int file = openat(dirfd(directory), entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0)
            unlinkat(dirfd(directory), entry->d_name, 0);
        if (file >= 0)
            close(file);
    }
    closedir(directory);
}

/* Makes and locks a file. -1 with EEXIST, too, where another took it for a leftover before it was locked. */
static int make_locked(struct output_file *output, mode_t mode)
{
    struct stat status;
    output->cleanup = cleanup_register(output->temporary);
    output->descriptor = open(output->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (output->descriptor < 0) {
        cleanup_forget(output->cleanup);
        return -1;
    }
    const bool taken = flock(output->descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (!taken && (fstat(output->descriptor, &status) != 0 || status.st_nlink)) {
        output->lock = dup(output->descriptor); /* until the file has its name */
        return output->descriptor;
    }
    close(output->descriptor);
    cleanup_forget(output->cleanup);
    errno = EEXIST;
    return output->descriptor = -1;
}

/* The permissions that any new file gets, or those of the file that will be replaced. */
static int open_temporary(struct output_file *output, mode_t mode)
{
    const char *slash = strrchr(output->path, '/');
    const int directory = slash ? (int)(slash - output->path) + 1 : 0;
    const size_t size = strlen(output->path) + 64;
    output->temporary = malloc(size);
    if (!output->temporary)
        return -1;
    remove_leftovers(output->path);
    for (int attempt = 0; attempt < 100; attempt++) {
        snprintf(output->temporary, size, "%.*s.%s.%ld.%d%s", directory, output->path, output->path + directory,
                 (long)getpid(), attempt, temporary_end);
        if (make_locked(output, mode) >= 0 || errno != EEXIST)
            break;
    }
    if (output->descriptor < 0) {
        const int reason = errno;
        free(output->temporary);
        output->temporary = NULL;
        errno = reason;
    }
    return output->descriptor;
}

static int open_output(struct output_file *output)
{
    struct stat existing;
    if (stat(output->path, &existing))
        return open_temporary(output, 0666);
    if (access(output->path, W_OK)) /* renaming would replace even what its owner made read-only */
        return -1;
    if (S_ISREG(existing.st_mode))
        return open_temporary(output, existing.st_mode & 0777);
    return output->descriptor = open(output->path, O_WRONLY | O_CLOEXEC);
}

int output_create(const char *path, struct output_file *output, struct failure *failure)
{
    *output = (struct output_file){.path = resolve(path), .descriptor = -1, .lock = -1, .cleanup = CLEANUP_NONE};
    if (!strcmp(path, "-"))
        output->descriptor = dup(STDOUT_FILENO);
    else if (output->path)
        open_output(output);
    if (output->path && output->descriptor >= 0)
        return STATUS_OK;
    const int status = cannot_write(output, path, failure);
    output_discard(output);
    return status;
}

static int write_all(int descriptor, const char *bytes, size_t count)
{
    while (count) {
        const size_t piece = count < 1u << 30 ? count : 1u << 30; /* one write() moves less than 2 GiB on Linux */
        const ssize_t written = write(descriptor, bytes, piece);
        if (written < 0 && errno != EINTR)
            return -1;
        if (written > 0) {
            bytes += written;
            count -= (size_t)written;
        }
    }
    return 0;
}

int output_write(struct output_file *output, const void *bytes, size_t count, struct failure *failure)
{
    return write_all(output->descriptor, bytes, count) ? cannot_write(output, NULL, failure) : STATUS_OK;
}

int output_finish(struct output_file *output, struct failure *failure)
{
    const int error = close(output->descriptor);
    output->descriptor = -1;
    return error ? cannot_write(output, NULL, failure) : STATUS_OK;
}

int output_commit(struct output_file *output, struct failure *failure)
{
    int status = STATUS_OK;
    if (output->temporary && rename(output->temporary, output->path))
        status = cannot_write(output, NULL, failure);
    if (!status) {
        free(output->temporary);
        output->temporary = NULL;
    }
    output_discard(output);
    return status;
}

void output_discard(struct output_file *output)
{
    if (!output->path) /* never created */
        return;
    if (output->descriptor >= 0)
        close(output->descriptor);
    if (output->temporary)
        unlink(output->temporary);
    if (output->lock >= 0)
        close(output->lock);
    cleanup_forget(output->cleanup);
    free(output->temporary);
    free(output->path);
    *output = (struct output_file){.descriptor = -1};
}

int output_try(const char *path, struct failure *failure)
{
    struct output_file output = {.descriptor = -1};
    struct stat existing;
    if (!stat(path, &existing) && !S_ISREG(existing.st_mode)) { /* opening a pipe would wait for its reader */
        errno = S_ISDIR(existing.st_mode) ? EISDIR : 0;
        return errno || access(path, W_OK) ? cannot_write(&output, path, failure) : STATUS_OK;
    }
    const int status = output_create(path, &output, failure);
    if (!status)
        output_discard(&output);
    return status;
}

int output_write_whole(const char *path, const void *bytes, size_t count, struct failure *failure)
{
    struct output_file output;
    int status = output_create(path, &output, failure);
    if (!status)
        status = output_write(&output, bytes, count, failure);
    if (!status)
        status = output_finish(&output, failure);
    if (!status)
        return output_commit(&output, failure);
    output_discard(&output);
    return status;
}
