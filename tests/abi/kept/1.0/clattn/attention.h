/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_ATTENTION_H
#define CLATTN_ATTENTION_H
#include <clattn/device.h>
#include <clattn/plan.h>
#include <clattn/problem.h>
CLATTN_BEGIN_DECLS
typedef struct clattn_plan clattn_plan;
CLATTN_API clattn_status clattn_plan_create(clattn_plan **plan, clattn_context *context,
                                            const struct clattn_problem *problem);
CLATTN_API void clattn_plan_destroy(clattn_plan **plan);
CLATTN_API clattn_status clattn_plan_get_info(const clattn_plan *plan, struct clattn_plan_info *info);
CLATTN_API clattn_status clattn_plan_workspace_bytes(const clattn_plan *plan, const struct clattn_shape *shape,
                                                     size_t *bytes);
struct clattn_tensor {
    cl_mem buffer;
    struct clattn_layout layout;
    uint64_t reserved[3];
};
#define CLATTN_UNLIMITED INT64_C(-1)
struct clattn_score_args {
    int64_t window_left, window_right;
    float softcap;
    struct clattn_tensor alibi;
    struct clattn_tensor bias;
    struct clattn_tensor mask;
    struct clattn_tensor block_mask;
    struct clattn_tensor block_offsets;
    cl_mem block_columns;
    int64_t block_count;
    struct clattn_tensor key_lengths;
    struct clattn_tensor cu_seqlens_q, cu_seqlens_kv;
    int64_t total_q, total_kv;
    struct clattn_tensor sinks;
    float dropout_p;
    uint64_t dropout_seed;
    uint32_t dropout_offset;
    cl_mem data;
    uint64_t reserved[64];
};
struct clattn_forward_args {
    struct clattn_shape shape;
    struct clattn_tensor q, k, v, o;
    struct clattn_tensor lse, m, l;
    struct clattn_score_args score;
    cl_mem workspace;
    size_t workspace_bytes;
    cl_event *first_event;
    uint64_t reserved[64];
};
CLATTN_API clattn_status clattn_forward_enqueue(const clattn_plan *plan, cl_command_queue queue,
                                                const struct clattn_forward_args *args, cl_uint wait_count,
                                                const cl_event *wait_list, cl_event *event);
struct clattn_backward_args {
    struct clattn_shape shape;
    struct clattn_tensor q, k, v, o, d_o;
    struct clattn_tensor lse;
    struct clattn_tensor d_q, d_k, d_v;
    struct clattn_tensor d_bias, d_sinks;
    struct clattn_score_args score;
    cl_mem workspace;
    size_t workspace_bytes;
    cl_event *first_event;
    int64_t first_key, key_count;
    uint64_t reserved[64];
};
CLATTN_API clattn_status clattn_backward_enqueue(const clattn_plan *plan, cl_command_queue queue,
                                                 const struct clattn_backward_args *args, cl_uint wait_count,
                                                 const cl_event *wait_list, cl_event *event);
CLATTN_API clattn_status clattn_dropout_mask(float p, uint64_t seed, uint32_t offset, int64_t heads, int64_t b,
                                             int64_t h, int64_t first_row, int64_t row_count, int64_t first_key,
                                             int64_t key_count, uint8_t *mask);
CLATTN_END_DECLS
#endif
