/* SPDX-License-Identifier: BSD-2-Clause */
#include "files/file_uses.h"
#include "files/path.h"
#include "system/files.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Which file a path stands for: itself, or if it does not exist yet, its name in its directory. */
struct identity {
    enum { UNKNOWN, EXISTS, NEW } kind;
    struct files_identity file;
    const char *name;
};

static struct identity identity_of_new(const char *path)
{
    char *directory = path_folder(path);
    struct identity identity = {.kind = UNKNOWN, .name = path_name(path)};
    if (directory && files_identify(directory, &identity.file))
        identity.kind = NEW;
    free(directory);
    return identity;
}

static struct identity identity_of(const char *path)
{
    struct identity identity = {.kind = UNKNOWN, .name = ""};
    if (!strcmp(path, "-")) /* the standard output or input */
        return identity;
    if (!files_identify(path, &identity.file))
        return errno == ENOENT ? identity_of_new(path) : identity;
    identity.kind = identity.file.regular ? EXISTS : UNKNOWN;
    return identity;
}

static bool are_one(const struct identity *a, const struct identity *b)
{
    return a->kind != UNKNOWN && a->kind == b->kind && a->file.device == b->file.device &&
           a->file.number == b->file.number && !strcmp(a->name, b->name);
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
