/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_STATE_H
#define CLATTN_STATE_H
#include <clattn/attention.h>
CLATTN_BEGIN_DECLS
CLATTN_API clattn_status clattn_state_bytes(const clattn_plan *plan, const struct clattn_shape *shape, size_t *bytes);
CLATTN_API clattn_status clattn_state_begin_enqueue(const clattn_plan *plan, cl_command_queue queue,
                                                    const struct clattn_shape *shape, cl_mem state, cl_uint wait_count,
                                                    const cl_event *wait_list, cl_event *event);
struct clattn_accumulate_args {
    struct clattn_shape shape;
    int64_t first_key, key_count;
    struct clattn_tensor q;
    struct clattn_tensor k, v;
    cl_mem state;
    struct clattn_score_args score;
    cl_mem workspace;
    size_t workspace_bytes;
    cl_event *first_event;
    uint64_t reserved[64];
};
CLATTN_API clattn_status clattn_state_accumulate_enqueue(const clattn_plan *plan, cl_command_queue queue,
                                                         const struct clattn_accumulate_args *args, cl_uint wait_count,
                                                         const cl_event *wait_list, cl_event *event);
CLATTN_API clattn_status clattn_state_merge_enqueue(const clattn_plan *plan, cl_command_queue queue,
                                                    const struct clattn_shape *shape, cl_mem into, cl_mem from,
                                                    cl_uint wait_count, const cl_event *wait_list, cl_event *event);
struct clattn_finish_args {
    struct clattn_shape shape;
    cl_mem state;
    struct clattn_tensor o, lse, m, l;
    struct clattn_score_args score;
    uint64_t reserved[32];
};
CLATTN_API clattn_status clattn_state_finish_enqueue(const clattn_plan *plan, cl_command_queue queue,
                                                     const struct clattn_finish_args *args, cl_uint wait_count,
                                                     const cl_event *wait_list, cl_event *event);
CLATTN_END_DECLS
#endif
