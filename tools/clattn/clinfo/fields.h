/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_CLINFO_FIELDS_H
#define CLATTN_TOOL_CLINFO_FIELDS_H

#include "clinfo/clinfo.h"
#include <stdbool.h>

/* What both forms of a dump have in common: named values, which go to the fields of clattn_capabilities. */

/* Room for one device more; NULL without memory. */
struct clinfo_device *clinfo_append(struct clinfo_devices *devices, int platform, int device);

/* Takes one value as text: a number in decimal or hexadecimal ("1024", "0x10de"), CL_TRUE, a name, a list separated by
 * spaces. Names that do not matter and values that make no sense are passed over. */
void clinfo_set(struct clattn_capabilities *capabilities, const char *name, const char *text);

/* What follows from several values; once, when all have been set. The same rules as for a device that is here. */
void clinfo_finish(struct clattn_capabilities *capabilities);

/* The two forms. */
int clinfo_parse_json(const char *name, const char *text, size_t size, struct clinfo_devices *devices,
                      struct failure *failure);
int clinfo_parse_raw(const char *name, const char *text, size_t size, struct clinfo_devices *devices,
                     struct failure *failure);

#endif
