/* SPDX-License-Identifier: BSD-2-Clause */
#include "files/path.h"
#include "system/files.h"
#include <stdlib.h>
#include <string.h>

const char *path_name(const char *path)
{
    const char *name = path;
    for (const char *at = path; *(at += strcspn(at, files_separators));)
        name = ++at;
    return name;
}

char *path_folder(const char *path)
{
    const size_t length = (size_t)(path_name(path) - path);
    char *folder = malloc(length + sizeof "./");
    if (!folder)
        return NULL;
    memcpy(folder, path, length);
    strcpy(folder + length, length ? "" : "./");
    return folder;
}
