/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_ARGUMENTS_H
#define CLA_ARGUMENTS_H

#include "device/context.h"
#include "plan/problem.h"
#include <clattn/attention.h>

/* The arguments of a forward pass, checked: what the device level, the host level and the standard attention share. */

/* The tensors, in the order of the kernels' arguments; those from CLA_O on are outputs, those from CLA_LSE on vectors.
 */
enum { CLA_Q, CLA_K, CLA_V, CLA_O, CLA_LSE, CLA_M, CLA_L, CLA_OPERANDS };

struct cla_operand {
    cl_mem buffer;
    struct cla_sizes sizes;
    struct clattn_layout layout;
    int64_t end; /* one past the last element touched, from the start of the buffer; 0: none is */
    int element_bytes;
};

struct cla_forward {
    struct clattn_shape shape;
    struct cla_operand operands[CLA_OPERANDS];
    bool empty; /* there is nothing to write */
};

extern const char *const cla_operand_names[CLA_OPERANDS];

/* Checks the sizes and layouts. `problem` is resolved; layouts[i] NULL: that operand is not wanted. Leaves the buffers
 * NULL. */
clattn_status cla_forward_resolve(const struct clattn_problem *problem, const struct clattn_shape *shape,
                                  const struct clattn_layout *const layouts[CLA_OPERANDS], struct cla_forward *forward,
                                  struct cla_error *error);

/* The same for the arguments of the device level, whose buffers it also takes over. Asks OpenCL nothing. */
clattn_status cla_forward_arguments(const struct clattn_problem *problem, const struct clattn_forward_args *args,
                                    struct cla_forward *forward, struct cla_error *error);

/* What only OpenCL can tell: whether each tensor lies within its buffer. */
clattn_status cla_check_buffers(const struct cla_forward *forward, struct cla_error *error);

clattn_status cla_check_waits(cl_uint wait_count, const cl_event *wait_list, struct cla_error *error);

/* Whether the queue is one of this cl_context and device. */
clattn_status cla_check_queue(cl_command_queue queue, cl_context context, cl_device_id device, struct cla_error *error);

#endif
