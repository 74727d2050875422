/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_RUN_DEVICES_H
#define CLATTN_TOOL_RUN_DEVICES_H

#include "run/job.h"

/* A run whose sequence the devices of --devices share: fills the results, and says in a line who had how much. */
int run_devices_compute(struct run *run, struct failure *failure);

#endif
