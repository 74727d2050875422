/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_SWEEP_H
#define TEST_SWEEP_H

#include "fault/layer.h"
#include "fault/scenario.h"
#include "support/device.h"

/* Makes the first OpenCL call of an operation fail, then the second, the third, ... until the operation runs through
 * without having met a fault. Each time: the right status, no crash, nothing leaked, and the same objects still good
 * for the same operation without a fault.
 *
 * One way to fail meets every call; the others, which leave by the same ways out, and builds under a sanitizer meet one
 * in STRIDE, from another first one each time. On a GPU, whose driver takes seconds for what PoCL compiles in tenths,
 * all meet one in GPU_STRIDE. CLATTN_TEST_FULL=1 takes them all.
 *
 * An operation is made of steps, of which one meets the fault. Building programs takes nearly all of the time, and on
 * some drivers making OpenCL contexts to probe the device in: objects are made anew for each fault only where that
 * changes which calls there are to fail. */

/* Takes what it works with, and makes a folder for the disk cache. False: there is none. */
bool sweep_begin(const struct fault_control *control, struct test_device *on);

/* A test: asserts that the scenario of that name survives. */
void sweep_scenario(const char *name);

/* What is made to fail. */
enum fault_source {
    FAULT_CALLS,  /* of OpenCL */
    FAULT_EVENTS, /* of commands that were enqueued */
    FAULT_MEMORY, /* allocations of the host */
    FAULT_FILES   /* calls on files */
};

/* What a check may find. */
enum complaint {
    COMPLAINT_STATUS,       /* not the status, or no message */
    COMPLAINT_INCONSISTENT, /* success without its results */
    COMPLAINT_SILENT,       /* success in spite of an event that ended in an error */
    COMPLAINT_TOUCHED,      /* outputs written by a call that failed */
    COMPLAINT_UNUSABLE,     /* the same call without a fault fails */
    COMPLAINT_LEAK,
    COMPLAINT_WRONG, /* results */
    COMPLAINTS
};

/* Each call of one kind, once and from there on; with `all_codes` each code that the specification has for the call:
 * all of them with CLATTN_TEST_FULL=1, else a sample. Answers how many did harm. */
int sweep_source(const struct scenario *scenario, enum fault_source source, bool all_codes);

/* The same of a scenario that is wrong on purpose, without a word: how often the check complained so. */
long sweep_mutant(const struct scenario *scenario, enum fault_source source, enum complaint kind);

/* Empties the folder; removes it, and answers how many faults were met in all. */
void sweep_clear(void);
long sweep_end(void);

#endif
