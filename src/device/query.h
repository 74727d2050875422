/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_QUERY_H
#define CLA_QUERY_H

#include "plan/error.h"
#include <clattn/device.h>

/* Fills capabilities from clGetDeviceInfo alone: static_local_memory_bytes and half_loads stay 0. */
clattn_status cla_query(cl_device_id device, struct clattn_capabilities *capabilities, struct cla_error *error);

#endif
