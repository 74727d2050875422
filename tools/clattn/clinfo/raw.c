/* SPDX-License-Identifier: BSD-2-Clause */
#include "clinfo/fields.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The form is a line for each value:
 *
 *       CL_PLATFORM_NAME    Portable Computing Language         the platforms, one after the other,
 *     [POCL/...]  CL_PLATFORM_NAME    Portable Computing ...    then each again (its prefix ends in a star), with
 *     [POCL/0]    CL_DEVICE_NAME      pthread-...               its devices
 */

enum { MAX_PLATFORMS = 64 };

/* Where the reader is. */
struct position {
    struct clattn_capabilities *platforms; /* what was said of each platform */
    int platform_count;                    /* of those introduced without a prefix */
    int platform, device;                  /* where the lines with a prefix are; -1 before the first */
    struct clattn_capabilities *current;   /* NULL before the first device */
};

/* Splits "[POCL/0]   NAME   value" in place. False where it is no such line. */
static bool split_line(char *line, bool *prefixed, char **name, char **value)
{
    *prefixed = line[0] == '[';
    if (*prefixed) {
        line = strchr(line, ']');
        if (!line)
            return false;
        line++;
    }
    *name = line + strspn(line, " \t");
    if (strncmp(*name, "CL_", 3) != 0)
        return false;
    char *end = *name + strcspn(*name, " \t");
    *value = end + strspn(end, " \t");
    *end = '\0';
    return true;
}

static void start_platform(struct position *at, bool prefixed)
{
    if (prefixed) {
        at->platform++;
        at->device = -1;
        at->current = NULL;
    } else if (at->platform_count < MAX_PLATFORMS) {
        at->platform_count++;
    }
}

static bool start_device(struct position *at, struct clinfo_devices *devices)
{
    if (at->platform < 0) /* a form without lines for platforms */
        at->platform = 0;
    at->device++;
    struct clinfo_device *device = clinfo_append(devices, at->platform, at->device);
    if (!device)
        return false;
    at->current = &device->capabilities;
    if (at->platform < at->platform_count) {
        snprintf(at->current->platform_name, sizeof at->current->platform_name, "%s",
                 at->platforms[at->platform].platform_name);
        snprintf(at->current->platform_version, sizeof at->current->platform_version, "%s",
                 at->platforms[at->platform].platform_version);
    }
    return true;
}

static bool take_line(struct position *at, char *line, struct clinfo_devices *devices)
{
    bool prefixed;
    char *name, *value;
    if (!split_line(line, &prefixed, &name, &value))
        return true;
    if (!strcmp(name, "CL_PLATFORM_NAME"))
        start_platform(at, prefixed);
    if (!strncmp(name, "CL_PLATFORM_", 12)) {
        if (!prefixed && at->platform_count)
            clinfo_set(&at->platforms[at->platform_count - 1], name, value);
        return true;
    }
    if (!strcmp(name, "CL_DEVICE_NAME") && !start_device(at, devices))
        return false;
    if (at->current)
        clinfo_set(at->current, name, value);
    return true;
}

int clinfo_parse_raw(const char *name, const char *text, size_t size, struct clinfo_devices *devices,
                     struct failure *failure)
{
    struct position at = {.platforms = calloc(MAX_PLATFORMS, sizeof *at.platforms), .platform = -1, .device = -1};
    char *line = malloc(size + 1);
    bool enough = at.platforms && line;
    for (size_t start = 0, length; enough && start < size; start += length + 1) {
        const char *newline = memchr(text + start, '\n', size - start);
        length = newline ? (size_t)(newline - (text + start)) : size - start;
        memcpy(line, text + start, length);
        line[length && line[length - 1] == '\r' ? length - 1 : length] = '\0';
        enough = take_line(&at, line, devices);
    }
    for (int i = 0; i < devices->count; i++)
        clinfo_finish(&devices->items[i].capabilities);
    free(line);
    free(at.platforms);
    return enough ? STATUS_OK : fail(failure, STATUS_FILE, "%s: no memory for its devices", name);
}
