/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_FAULT_STUCK_H
#define TEST_FAULT_STUCK_H

#include "fault/layer.h"
#include <clattn/clattn.h>

/* True where clattn_host_backward() says that a kernel has given up waiting, keeps its outputs to itself then, and
 * works again in the next call. */
bool stuck_is_told(clattn_context *context, const struct fault_control *layer);

#endif
