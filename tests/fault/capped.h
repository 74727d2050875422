/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_FAULT_CAPPED_H
#define TEST_FAULT_CAPPED_H

#include "fault/layer.h"
#include <clattn/clattn.h>

/* Whether calls of the host level stay within max_device_bytes, as the layer counts buffers; give the same results with
 * the least that would do, and more; and are refused with one byte less. */
bool capped_calls_stay_within(clattn_context *context, const struct fault_control *layer);

#endif
