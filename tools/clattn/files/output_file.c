/* SPDX-License-Identifier: BSD-2-Clause */
#define _POSIX_C_SOURCE 200809L
#include "files/output_file.h"
#include "files/cleanup.h"
#include "files/path.h"
#include "system/files.h"
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int cannot_write(const struct output_file *output, const char *path, struct failure *failure)
{
    const int reason = errno;
    return fail(failure, STATUS_FILE, "%s: cannot be written: %s", output->path ? output->path : path,
                strerror(reason));
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

static int make_locked(struct output_file *output, unsigned permissions)
{
    output->cleanup = cleanup_register(output->temporary);
    output->descriptor = files_make_locked(output->temporary, permissions, &output->lock);
    if (output->descriptor < 0)
        cleanup_forget(output->cleanup);
    return output->descriptor;
}

/* The permissions that any new file gets, or those of the file that will be replaced. */
static int open_temporary(struct output_file *output, unsigned permissions)
{
    const char *const name = path_name(output->path);
    const size_t size = strlen(output->path) + 64;
    output->temporary = malloc(size);
    if (!output->temporary)
        return -1;
    files_remove_left(output->path, is_temporary_of);
    for (int attempt = 0; attempt < 100; attempt++) {
        snprintf(output->temporary, size, "%.*s.%s.%ld.%d%s", (int)(name - output->path), output->path, name,
                 (long)getpid(), attempt, temporary_end);
        if (make_locked(output, permissions) >= 0 || errno != EEXIST)
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
    return output->descriptor = files_open_write(output->path);
}

int output_create(const char *path, struct output_file *output, struct failure *failure)
{
    *output = (struct output_file){.path = files_resolve(path), .descriptor = -1, .lock = -1, .cleanup = CLEANUP_NONE};
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
    if (output->temporary && files_replace(output->temporary, output->path))
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
