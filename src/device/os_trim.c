/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/os.h"
#include "device/os_system.h"
#include <stdlib.h>
#include <string.h>

enum { HASH_DIGITS = 32 };

struct listing {
    struct cla_os_file *files;
    size_t count, capacity;
    uint64_t bytes;
};

enum kind { FOREIGN, KEPT, LEFTOVER };

/* A cache file is named by its hash and the suffix; one that was never renamed has more behind that. */
static enum kind classify(const char *name, const char *suffix)
{
    const size_t suffix_length = strlen(suffix);
    if (strspn(name, "0123456789abcdef") != HASH_DIGITS || strncmp(name + HASH_DIGITS, suffix, suffix_length) != 0)
        return FOREIGN;
    const char *rest = name + HASH_DIGITS + suffix_length;
    if (!rest[0])
        return KEPT;
    return cla_os_is_fresh(rest) ? LEFTOVER : FOREIGN;
}

static void add_file(struct listing *listing, const struct cla_os_file *file)
{
    if (listing->count == listing->capacity) {
        const size_t capacity = listing->capacity ? 2 * listing->capacity : 64;
        struct cla_os_file *files = realloc(listing->files, capacity * sizeof *files);
        if (!files)
            return;
        listing->files = files;
        listing->capacity = capacity;
    }
    listing->files[listing->count++] = *file;
    listing->bytes += file->bytes;
}

/* Lists the files of the cache and removes what interrupted writes have left; returns how many those were. */
static int64_t list_files(struct cla_os_folder *folder, const char *suffix, struct listing *listing)
{
    struct cla_os_file file;
    int64_t removed = 0;
    while (cla_os_folder_next(folder, &file)) {
        const enum kind kind = classify(file.name, suffix);
        if (kind == KEPT)
            add_file(listing, &file);
        else if (kind == LEFTOVER)
            removed += cla_os_folder_remove_abandoned(folder, file.name);
    }
    return removed;
}

static int by_use(const void *left, const void *right)
{
    const struct cla_os_file *a = left, *b = right;
    if (a->seconds != b->seconds)
        return a->seconds < b->seconds ? -1 : 1;
    if (a->nanoseconds != b->nanoseconds)
        return a->nanoseconds < b->nanoseconds ? -1 : 1;
    return strcmp(a->name, b->name);
}

int64_t cla_os_trim_directory(const char *path, const char *suffix, uint64_t max_bytes)
{
    struct listing listing = {0};
    struct cla_os_folder *const folder = cla_os_folder_open(path);
    if (!folder)
        return 0;
    int64_t removed = list_files(folder, suffix, &listing);
    if (listing.count)
        qsort(listing.files, listing.count, sizeof *listing.files, by_use);
    /* With max_bytes 0 everything goes, empty files included. */
    for (size_t i = 0; i < listing.count && (listing.bytes > max_bytes || max_bytes == 0); i++) {
        removed += cla_os_folder_remove(folder, listing.files[i].name);
        listing.bytes -= listing.files[i].bytes;
    }
    free(listing.files);
    cla_os_folder_close(folder);
    return removed;
}
