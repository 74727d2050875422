/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_BACKWARD_H
#define CLA_BACKWARD_H

#include "attention/plan.h"

/* Checks the arguments of a backward pass, as cla_forward_arguments() does. plan NULL: not made yet; the workspace then
 * lacks what cla_backward_extend adds. */
clattn_status cla_backward_arguments(const struct clattn_problem *problem, unsigned features,
                                     const struct clattn_plan *plan, enum cla_source source,
                                     const struct clattn_backward_args *args, struct cla_call *call,
                                     struct cla_error *error);

/* Adds what the plan's kernels need in the workspace beside what any plan's do. */
clattn_status cla_backward_extend(const struct clattn_plan *plan, struct cla_call *call, struct cla_error *error);

/* clattn_backward_enqueue() and clattn_backward_record() without the report. `plan` is not NULL. */
clattn_status cla_backward_dispatch(const struct clattn_plan *plan, const struct clattn_backward_args *args,
                                    const struct cla_dispatch *to, struct cla_error *error);

/* clattn_backward_check() without the report. `plan` is not NULL. */
clattn_status cla_backward_check(const struct clattn_plan *plan, cl_command_queue queue,
                                 const struct clattn_backward_args *args, cl_uint wait_count, const cl_event *wait_list,
                                 struct cla_error *error);

#endif
