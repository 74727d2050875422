/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_TUNE_WORKER_H
#define CLATTN_TOOL_TUNE_WORKER_H

#include "child.h"
#include "clinfo/clinfo.h"
#include "tune/measure.h"

/* The two ends of a pipe: the process that works with OpenCL (`clattn tune --worker`), and the one that asks it.
 * Requests and answers are a line of JSON each. */

/* Serves requests on standard input until it ends. */
int tune_worker_main(void);

/* Starts this program as such a process. False, with errno set, where that cannot be. */
bool tune_worker_start(struct child *child);

/* The asking end. */
struct tune_remote {
    uint64_t memory_bytes; /* that the worker may take beyond what it has with an open device */
    struct option_device device;
    struct child child;
    const volatile sig_atomic_t *stop; /* set by Ctrl-C */
};

/* The devices of this machine by the library's own query. */
int tune_remote_devices(struct tune_remote *remote, struct clinfo_devices *devices, struct failure *failure);

/* What the device of remote->device gives, probes included. Starts the worker if there is none. */
int tune_remote_open(struct tune_remote *remote, struct clattn_capabilities *capabilities, struct failure *failure);

/* One measurement, which ends within `seconds`. A worker that dies or hangs with it is replaced at the next one, and
 * the candidate is what it is. Fails where no candidate could be measured. */
int tune_remote_measure(struct tune_remote *remote, const struct tune_problem *problem,
                        const struct tune_candidate *candidate, const struct tune_candidate *base,
                        const struct tune_request *request, double deadline, struct tune_answer *answer, char *text,
                        size_t size, struct failure *failure);

void tune_remote_close(struct tune_remote *remote);

#endif
