/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/binary_cache.h"
#include "device/os.h"
#include "plan/binary_format.h"
#include "plan/hash.h"
#include <clattn/cache.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The path of an identity's file, malloc'ed; NULL where nothing is kept or memory is short. */
static char *path_of(const char *directory, const char *identity)
{
    char hex[CLA_HASH_HEX];
    if (!directory[0])
        return NULL;
    const size_t size = strlen(directory) + sizeof hex + sizeof CLA_BINARY_CACHE_SUFFIX;
    char *path = malloc(size);
    if (!path)
        return NULL;
    cla_hash_hex(cla_hash_bytes(identity, strlen(identity)), hex);
    snprintf(path, size, "%s/%s%s", directory, hex, CLA_BINARY_CACHE_SUFFIX);
    return path;
}

bool cla_binary_cache_load(const char *directory, const char *identity, void **payload, size_t *size)
{
    const void *found = NULL;
    size_t file_size = 0, found_size = 0;
    char *path = path_of(directory, identity);
    char *file = path ? cla_os_read_own_file(path, CLATTN_CACHE_MAX_BYTES, &file_size, NULL) : NULL;
    const bool good = file && cla_binary_decode(file, file_size, identity, &found, &found_size);
    if (good) {
        cla_os_touch(path);
        memmove(file, found, found_size);
        *payload = file;
        *size = found_size;
    } else {
        free(file);
    }
    free(path);
    return good;
}

bool cla_binary_cache_store(const char *directory, const char *identity, const void *payload, size_t size)
{
    size_t file_size = 0;
    bool done = false;
    char *path = path_of(directory, identity);
    void *file = path ? cla_binary_encode(identity, payload, size, &file_size) : NULL;
    if (file && file_size <= CLATTN_CACHE_MAX_BYTES && cla_os_make_directory(directory) &&
        !cla_os_distrusts_directory(directory))
        done = cla_os_replace_file(path, file, file_size);
    if (done)
        cla_os_trim_directory(directory, CLA_BINARY_CACHE_SUFFIX, CLATTN_CACHE_MAX_BYTES);
    free(file);
    free(path);
    return done;
}

void cla_binary_cache_drop(const char *directory, const char *identity)
{
    char *path = path_of(directory, identity);
    if (path)
        cla_os_remove_file(path);
    free(path);
}
