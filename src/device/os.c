/* SPDX-License-Identifier: BSD-2-Clause */
#define _GNU_SOURCE /* O_DIRECTORY of all C libraries */
#include "device/os.h"
#include "device/os_system.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool cla_os_is_absolute(const char *path)
{
    return path[0] == '/';
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

/* What an open file holds, if it is a regular one; closes it. */
static void *read_and_close(int file, size_t max_bytes, size_t *size)
{
    struct stat status;
    char *data = NULL;
    if (file < 0)
        return NULL;
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && (uintmax_t)status.st_size <= max_bytes)
        data = malloc((size_t)status.st_size + 1);
    if (data && !read_all(file, data, (size_t)status.st_size)) {
        free(data);
        data = NULL;
    }
    if (data)
        *size = (size_t)status.st_size;
    const int reason = errno;
    close(file);
    errno = reason;
    return data;
}

/* Not blocking, so that a pipe put there is refused and not waited for. */
enum { READING = O_RDONLY | O_CLOEXEC | O_NONBLOCK };

void *cla_os_read_file(const char *path, size_t max_bytes, size_t *size)
{
    return read_and_close(open(path, READING), max_bytes, size);
}

/* Of the opened file itself, which no one can change for another meanwhile. */
static const char *distrust_of(int file)
{
    struct stat status;
    if (fstat(file, &status) != 0)
        return strerror(errno);
    if (status.st_uid != geteuid() && status.st_uid != 0)
        return "it belongs to another user";
    return status.st_mode & (S_IWGRP | S_IWOTH) ? "other users may write to it" : NULL;
}

/* The directory that a path names, opened; or where `of_file` that of the file that it names. */
static int open_directory(const char *path, bool of_file)
{
    const char *const slash = strrchr(path, '/');
    if (of_file && !slash)
        return open(".", READING | O_DIRECTORY);
    char *name = of_file ? strndup(path, (size_t)(slash - path) + 1) : strdup(path);
    if (!name)
        return -1;
    const int directory = open(name, READING | O_DIRECTORY);
    free(name);
    return directory;
}

const char *cla_os_distrusts_directory(const char *path)
{
    const int directory = open_directory(path, false);
    if (directory < 0)
        return NULL; /* what is not there, or cannot be opened, gives nothing */
    const char *const distrust = distrust_of(directory);
    close(directory);
    return distrust;
}

void *cla_os_read_own_file(const char *path, size_t max_bytes, size_t *size, const char **distrust)
{
    const char *const slash = strrchr(path, '/'), *said = NULL;
    const int directory = open_directory(path, true);
    void *data = NULL;
    if (directory >= 0 && distrust_of(directory)) {
        said = "other users may write to its directory, or own it";
    } else if (directory >= 0) {
        const int file = openat(directory, slash ? slash + 1 : path, READING);
        said = file >= 0 ? distrust_of(file) : NULL;
        if (!said)
            data = read_and_close(file, max_bytes, size);
        else
            close(file);
    }
    const int reason = errno;
    if (directory >= 0)
        close(directory);
    errno = reason;
    if (distrust)
        *distrust = said;
    return data;
}

bool cla_os_exists(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 || (errno != ENOENT && errno != ENOTDIR);
}
