/* SPDX-License-Identifier: BSD-2-Clause */
#define _POSIX_C_SOURCE 200809L
#include "files/file_uses.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Which file a path stands for: itself, or if it does not exist yet, its name in its directory. */
struct identity {
    enum { UNKNOWN, EXISTS, NEW } kind;
    dev_t device;
    ino_t number;
    const char *name;
};

static struct identity identity_of_new(const char *path)
{
    struct stat status;
    const char *const slash = strrchr(path, '/');
    char *directory = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    struct identity identity = {.kind = UNKNOWN};
    if (directory && stat(directory, &status) == 0)
        identity = (struct identity){NEW, status.st_dev, status.st_ino, slash ? slash + 1 : path};
    free(directory);
    return identity;
}

static struct identity identity_of(const char *path)
{
    struct stat status;
    if (!strcmp(path, "-")) /* the standard output or input */
        return (struct identity){.kind = UNKNOWN};
    if (stat(path, &status) == 0)
        return (struct identity){S_ISREG(status.st_mode) ? EXISTS : UNKNOWN, status.st_dev, status.st_ino, ""};
    return errno == ENOENT ? identity_of_new(path) : (struct identity){.kind = UNKNOWN};
}

static bool are_one(const struct identity *a, const struct identity *b)
{
    return a->kind != UNKNOWN && a->kind == b->kind && a->device == b->device && a->number == b->number &&
           !strcmp(a->name, b->name);
}

static int refuse(const struct file_use *output, const struct file_use *other, struct failure *failure)
{
    if (other->output)
        return fail(failure, STATUS_USAGE,
                    "'%s' (--%s) and '%s' (--%s) are one file, named for two outputs: each needs its own", other->path,
                    other->option, output->path, output->option);
    return fail(failure, STATUS_USAGE,
                "'%s' (--%s) and '%s' (--%s) are one file: an output needs a file that is not an input, too",
                output->path, output->option, other->path, other->option);
}

int file_uses_check(const struct file_use *uses, size_t count, struct failure *failure)
{
    for (size_t i = 0; i < count; i++) {
        if (!uses[i].output || !uses[i].path)
            continue;
        const struct identity own = identity_of(uses[i].path);
        for (size_t j = 0; j < count; j++) {
            if (!uses[j].path || j == i || (uses[j].output && j > i))
                continue;
            const struct identity other = identity_of(uses[j].path);
            if (are_one(&own, &other))
                return refuse(&uses[i], &uses[j], failure);
        }
    }
    return STATUS_OK;
}
