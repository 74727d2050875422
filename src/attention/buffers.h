/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_BUFFERS_H
#define CLA_BUFFERS_H

#include "attention/operands.h"
#include "device/context.h"

/* What only OpenCL can tell of a call's memory: whether each operand's is a buffer of this cl_context, made for what
 * the call does with it and large enough, and whether an output shares bytes with anything else through sub-buffers. Of
 * addresses, whether the device takes them, and of those of USM whether the allocation is large enough. */
clattn_status cla_check_buffers(struct cla_call *call, const struct clattn_context *context, struct cla_error *error);

#endif
