/* SPDX-License-Identifier: BSD-2-Clause */
#include "clinfo/fields.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 64 << 20 }; /* a dump has some 20 KB for each device */

static const char *find(const char *text, size_t size, const char *wanted)
{
    const size_t length = strlen(wanted);
    for (size_t i = 0; i + length <= size; i++)
        if (!memcmp(text + i, wanted, length))
            return text + i;
    return NULL;
}

int clinfo_parse(const char *name, const char *text, size_t size, struct clinfo_devices *devices,
                 struct failure *failure)
{
    *devices = (struct clinfo_devices){.items = NULL};
    const char *brace = find(text, size, "{"), *value = find(text, size, "CL_");
    int status;
    if (brace && (!value || brace < value))
        status = clinfo_parse_json(name, brace, size - (size_t)(brace - text), devices, failure);
    else
        status = clinfo_parse_raw(name, text, size, devices, failure);
    if (!status && !devices->count)
        status =
            fail(failure, STATUS_FILE, "%s: holds no device; make it with 'clinfo --json' or 'clinfo --raw'", name);
    if (status)
        clinfo_free(devices);
    return status;
}

static char *read_stream(FILE *stream, size_t *size)
{
    size_t capacity = 1 << 16;
    char *text = malloc(capacity);
    *size = 0;
    while (text) {
        *size += fread(text + *size, 1, capacity - *size, stream);
        if (*size < capacity || capacity >= MAX_BYTES)
            break;
        char *larger = realloc(text, capacity *= 2);
        if (!larger)
            free(text);
        text = larger;
    }
    if (text && ferror(stream)) {
        free(text);
        text = NULL;
    }
    return text;
}

int clinfo_read(const char *path, struct clinfo_devices *devices, struct failure *failure)
{
    *devices = (struct clinfo_devices){.items = NULL};
    const bool standard = !strcmp(path, "-");
    FILE *stream = standard ? stdin : fopen(path, "rb");
    if (!stream)
        return fail(failure, STATUS_FILE, "%s: %s", path, strerror(errno));
    size_t size;
    errno = 0;
    char *text = read_stream(stream, &size);
    const int reason = errno;
    if (!standard)
        fclose(stream);
    if (!text)
        return fail(failure, STATUS_FILE, "%s: cannot be read: %s", path, strerror(reason ? reason : ENOMEM));
    const int status = clinfo_parse(standard ? "standard input" : path, text, size, devices, failure);
    free(text);
    return status;
}
