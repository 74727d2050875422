/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_RING_DEVICE_H
#define CLATTN_TOOL_RING_DEVICE_H

#include "opencl_select.h"
#include "ring/gather.h"

/* The device of this rank: --device for the first one on each host, and the platform's next ones in turn. */
int ring_open_device(const struct ring_ranks *ranks, const struct option_device *wanted, bool quiet,
                     struct session *session, struct failure *failure);

#endif
