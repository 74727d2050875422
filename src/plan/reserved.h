/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_RESERVED_H
#define CLA_RESERVED_H

#include "plan/error.h"
#include <stddef.h>

/* The structs of the public headers, each with where its reserved room lies and which other structs it holds. */
struct cla_struct;

extern const struct cla_struct cla_struct_problem, cla_struct_shape, cla_struct_layout, cla_struct_capabilities,
    cla_struct_log, cla_struct_context_params, cla_struct_plan_step, cla_struct_plan_stream, cla_struct_plan_info,
    cla_struct_traffic_params, cla_struct_tuning_record, cla_struct_tensor, cla_struct_score_args,
    cla_struct_forward_args, cla_struct_backward_args, cla_struct_accumulate_args, cla_struct_finish_args,
    cla_struct_append_params, cla_struct_append_args, cla_struct_host_params, cla_struct_host_score_args,
    cla_struct_score_more, cla_struct_kv_scales, cla_struct_host_kv_scales, cla_struct_host_forward_args,
    cla_struct_host_backward_args, cla_struct_host_cache_params, cla_struct_host_cache_args, cla_struct_ring_params,
    cla_struct_ring_transport, cla_struct_ring_part, cla_struct_ring_forward_args, cla_struct_ring_backward_args;

/* Whether all reserved room of a struct that a caller gave is 0, of the structs inside it, too. `name` is the
 * argument's: "args". NULL is what other checks refuse. Asked first of all at each public function, so that a value
 * that only a newer library knows is refused and not passed over. */
clattn_status cla_check_reserved(const struct cla_struct *type, const char *name, const void *given,
                                 struct cla_error *error);

#endif
