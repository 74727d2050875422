/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_STANDARD_H
#define CLATTN_STANDARD_H
#include <clattn/attention.h>
CLATTN_BEGIN_DECLS
CLATTN_API clattn_status clattn_standard_workspace_bytes(const clattn_context *context,
                                                         const struct clattn_problem *problem,
                                                         const struct clattn_forward_args *args, size_t *bytes);
CLATTN_API clattn_status clattn_standard_enqueue(clattn_context *context, const struct clattn_problem *problem,
                                                 cl_command_queue queue, const struct clattn_forward_args *args,
                                                 cl_uint wait_count, const cl_event *wait_list, cl_event *event);
CLATTN_END_DECLS
#endif
