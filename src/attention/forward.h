/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_FORWARD_H
#define CLA_FORWARD_H

#include "attention/plan.h"

/* clattn_forward_enqueue() without the report. `plan` is not NULL. */
clattn_status cla_forward_enqueue(const struct clattn_plan *plan, cl_command_queue queue,
                                  const struct clattn_forward_args *args, cl_uint wait_count, const cl_event *wait_list,
                                  cl_event *event, struct cla_error *error);

#endif
