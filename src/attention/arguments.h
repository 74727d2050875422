/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_ARGUMENTS_H
#define CLA_ARGUMENTS_H

#include "attention/operands.h"

/* The arguments of a call, checked: what all passes, the host level and standard attention share. */

/* Starts a call: its shape, and the scalars of the score modifications (`score` NULL: there are none to look at). */
clattn_status cla_call_begin(struct cla_call *call, const struct clattn_problem *problem, unsigned features,
                             enum cla_source source, const struct clattn_shape *shape,
                             const struct clattn_score_args *score, struct cla_error *error);

/* Makes it a call on some of the keys, those of the whole that k and v hold: with CLATTN_VARLEN of the packed ones. */
clattn_status cla_call_take_chunk(struct cla_call *call, int64_t first_key, int64_t key_count, struct cla_error *error);

/* The score's tensors and the workspace, behind all others; and whether any two that may not do share memory. */
clattn_status cla_call_place_rest(struct cla_call *call, const struct clattn_score_args *score,
                                  struct cla_bytes workspace, struct cla_error *error);

/* All of it for the arguments of a forward pass but for the last step. The workspace begins with `first_bytes` that
 * the plan needs. */
clattn_status cla_forward_arguments(const struct clattn_problem *problem, unsigned features, enum cla_source source,
                                    const struct clattn_forward_args *args, size_t first_bytes, struct cla_call *call,
                                    struct cla_error *error);

/* Whether all events of the list are of this cl_context. */
clattn_status cla_check_waits(cl_uint wait_count, const cl_event *wait_list, cl_context context,
                              struct cla_error *error);

/* Whether the queue is one of this cl_context and device. */
clattn_status cla_check_queue(cl_command_queue queue, cl_context context, cl_device_id device, struct cla_error *error);

#endif
