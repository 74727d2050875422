/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_OPENCL_SELECT_H
#define CLATTN_TOOL_OPENCL_SELECT_H

#include "failure.h"
#include "options/options.h"
#include <clattn/clattn.h>

/* The platforms and devices of this machine, by the numbers that --device takes. */
struct opencl_platform {
    cl_platform_id id;
    char name[128];
    int device_count;
    cl_device_id *devices;
};

struct opencl_platforms {
    struct opencl_platform *items;
    int count;
};

/* STATUS_DEVICE, with a message that says what to install, where there is no platform. A platform may have no device.
 */
int opencl_list(struct opencl_platforms *platforms, struct failure *failure);
void opencl_list_free(struct opencl_platforms *platforms);

/* One device, ready for work. */
struct compile_watch;

struct session {
    int platform, device; /* P:D */
    cl_device_id id;
    cl_context context;
    cl_command_queue queue; /* in order, with profiling */
    clattn_context *clattn;
    struct compile_watch *watch;
    const struct clattn_capabilities *capabilities;
};

/* The records of the default tuning file. NULL, with a warning on stderr unless `quiet`, where it cannot be used. */
clattn_tuning *tuning_default(bool quiet);

/* Opens the device of --device, or else the first GPU, or else the first device. Warnings of the library go to stderr
 * unless `quiet`. On failure there is nothing to close. */
int session_open(struct session *session, const struct option_device *wanted, bool quiet, struct failure *failure);
void session_close(struct session *session); /* zero-initialised and closed sessions too */

/* Whether --skeleton named one: STATUS_USAGE and the names that there are. NULL, not given, is right. */
int check_skeleton(const struct clattn_capabilities *capabilities, const char *skeleton, struct failure *failure);

/* The same for one that computes gradients, named by --`option`; and for --skeleton where it may be of either kind. */
int check_backward_skeleton(const struct clattn_capabilities *capabilities, const char *option, const char *skeleton,
                            struct failure *failure);
int check_any_skeleton(const struct clattn_capabilities *capabilities, const char *skeleton, struct failure *failure);

/* Knobs (NULL: none) and block sizes (0: planned) are those of a skeleton that is named. */
int check_forced(const char *skeleton, const char *knobs, int64_t b_r, int64_t b_c, int64_t work_group_size,
                 struct failure *failure);

/* "0:1 NVIDIA H200 (NVIDIA CUDA)" */
void session_title(const struct session *session, char *text, size_t size);

#endif
