/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_CLINFO_H
#define CLATTN_TOOL_CLINFO_H

#include "failure.h"
#include <clattn/device.h>

/* Devices that are not here, from what clinfo printed where they are: `clinfo --json` or `clinfo --raw`. Both forms
 * differ between versions and drivers, so whatever is missing, doubled or an error message counts as not known. */

struct clinfo_device {
    int platform, device;
    struct clattn_capabilities capabilities;
};

struct clinfo_devices {
    struct clinfo_device *items;
    int count;
};

/* Reads a dump of either form. `path` "-" is the standard input. STATUS_FILE where it holds no device. */
int clinfo_read(const char *path, struct clinfo_devices *devices, struct failure *failure);

/* The same from memory; `name` is for messages. The text need not be terminated. */
int clinfo_parse(const char *name, const char *text, size_t size, struct clinfo_devices *devices,
                 struct failure *failure);

void clinfo_free(struct clinfo_devices *devices);

#endif
