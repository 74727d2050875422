/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_CLINFO_RUN_H
#define CLATTN_TOOL_CLINFO_RUN_H

#include "clinfo/clinfo.h"

/* Runs `program` (clinfo, looked up in PATH) with --json, and where that does not give a device with --raw.
 * STATUS_FILE, with a reason, where neither does. */
int clinfo_run(const char *program, struct clinfo_devices *devices, struct failure *failure);

/* Which device of `devices` is `wanted`, the wanted_index-th of those that `all` has: the one of the same platform,
 * name, vendor and driver, and where several are the same the one that comes as late among them. -1: none. */
int clinfo_match(const struct clinfo_devices *devices, const struct clinfo_devices *all, int wanted_index);

/* The names of what the two say otherwise, "local memory, compute units"; "" where they agree. */
void clinfo_differences(const struct clattn_capabilities *dumped, const struct clattn_capabilities *queried, char *text,
                        size_t size);

#endif
