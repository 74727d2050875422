/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_BUILD_H
#define CLA_BUILD_H

#include "plan/error.h"
#include <clattn/opencl.h>

/* Builds a program's text for the device; a text with marks is retargeted (plan/retarget.h). On success the caller owns
 * *program. */
clattn_status cla_build_text(cl_context context, cl_device_id device, const char *text, const char *options,
                             cl_program *program, struct cla_error *error);

#endif
