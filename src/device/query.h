/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_QUERY_H
#define CLA_QUERY_H

#include "plan/error.h"
#include "plan/text.h"
#include <clattn/device.h>

/* Fills capabilities from clGetDeviceInfo alone: static_local_memory_bytes and half_loads stay 0. */
clattn_status cla_query(cl_device_id device, struct clattn_capabilities *capabilities, struct cla_error *error);

/* Adds the lines that tell a device, its driver and this library from any other: what every key of the disk cache
 * begins with. */
void cla_device_identity(const struct clattn_capabilities *capabilities, struct cla_text *text);

#endif
