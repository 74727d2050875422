/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_CONTEXT_H
#define CLA_CONTEXT_H

#include "device/pointers.h"
#include "device/program.h"
#include "plan/tuning/tuning_db.h"
#include <clattn/device.h>

struct clattn_context {
    cl_context context;
    cl_device_id device;
    struct clattn_log log;
    struct clattn_capabilities capabilities;
    struct cla_pointers pointers;
    char cache_directory[1024];
    struct cla_tuning_db tuning; /* the caller's records */
    struct cla_programs *programs;
};

/* Whether kernels can be compiled for the device and run on it: CLATTN_UNSUPPORTED_DEVICE and the reason where not. */
clattn_status cla_check_device(const struct clattn_capabilities *capabilities, struct cla_error *error);

#endif
