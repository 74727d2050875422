/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_RECORDER_H
#define CLA_RECORDER_H

#include "plan/error.h"
#include <clattn/opencl.h>

/* Command buffers (cl_khr_command_buffer), by the one function of the extension that all its versions from 0.9.0 on
 * have alike: OpenCL's headers need not know any of it. */
struct _cl_command_buffer_khr;

typedef cl_int(CL_API_CALL *cla_command_kernel)(struct _cl_command_buffer_khr *buffer, cl_command_queue queue,
                                                const void *properties, cl_kernel kernel, cl_uint dimensions,
                                                const size_t *offset, const size_t *global, const size_t *local,
                                                cl_uint wait_count, const cl_uint *wait_points, cl_uint *point,
                                                void *mutable_handle);

/* A command buffer of the caller's that is being recorded, and what cla_recorder_open() finds out. */
struct cla_recorder {
    struct _cl_command_buffer_khr *buffer; /* not NULL */
    cla_command_kernel command_kernel;
};

/* What a device has, as it says (cl_name_version). */
struct cla_extension {
    cl_uint version; /* major << 22 | minor << 12 | patch */
    char name[64];
};

/* Whether the extension is among them, in a version that is known. */
clattn_status cla_recorder_check_version(const struct cla_extension *extensions, size_t count, struct cla_error *error);

/* Fills the rest of *recorder; refuses devices without the extension or with a version that is not known, and command
 * buffers that are not being recorded or are for several queues. */
clattn_status cla_recorder_open(struct cla_recorder *recorder, cl_device_id device, struct cla_error *error);

/* `point` may be NULL. */
clattn_status cla_record_kernel(const struct cla_recorder *recorder, cl_kernel kernel, size_t global, size_t local,
                                cl_uint wait_count, const cl_uint *wait_points, cl_uint *point,
                                struct cla_error *error);

#endif
