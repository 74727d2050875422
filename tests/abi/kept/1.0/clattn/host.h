/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_HOST_H
#define CLATTN_HOST_H
#include <clattn/attention.h>
CLATTN_BEGIN_DECLS
typedef struct clattn_host clattn_host;
struct clattn_host_params {
    clattn_context *context;
    cl_command_queue queue;
    uint64_t reserved[8];
};
CLATTN_API clattn_status clattn_host_create(clattn_host **host, const struct clattn_host_params *params);
CLATTN_API void clattn_host_destroy(clattn_host **host);
struct clattn_host_score_args {
    int64_t window_left, window_right;
    float softcap;
    const float *alibi;
    const void *bias;
    const uint8_t *mask;
    const uint8_t *block_mask;
    const int32_t *block_offsets;
    const int32_t *block_columns;
    int64_t block_count;
    struct clattn_layout alibi_layout, bias_layout, mask_layout, block_mask_layout, block_offsets_layout;
    const int32_t *key_lengths;
    const int32_t *cu_seqlens_q, *cu_seqlens_kv;
    int64_t total_q, total_kv;
    const float *sinks;
    float dropout_p;
    uint64_t dropout_seed;
    uint32_t dropout_offset;
    const float *data;
    int64_t data_count;
    uint64_t reserved[64];
};
struct clattn_host_forward_args {
    struct clattn_shape shape;
    const void *q, *k, *v;
    void *o;
    struct clattn_layout q_layout, k_layout, v_layout, o_layout;
    float *lse, *m, *l;
    struct clattn_host_score_args score;
    int64_t kv_chunk;
    void (*progress)(void *user, int64_t keys_done, int64_t keys);
    void *progress_user;
    uint64_t reserved[64];
};
struct clattn_host_backward_args {
    struct clattn_shape shape;
    const void *q, *k, *v, *o, *d_o;
    const float *lse;
    void *d_q, *d_k, *d_v, *d_bias;
    float *d_sinks;
    struct clattn_layout q_layout, k_layout, v_layout, o_layout, d_o_layout;
    struct clattn_layout d_q_layout, d_k_layout, d_v_layout, d_bias_layout;
    struct clattn_host_score_args score;
    int64_t kv_chunk;
    void (*progress)(void *user, int64_t keys_done, int64_t keys);
    void *progress_user;
    uint64_t reserved[64];
};
struct clattn_host_info {
    uint64_t device_bytes;
    int64_t kv_chunk;
    int splits;
    double copy_in_ms;
    double compute_ms;
    double copy_out_ms;
    uint64_t reserved[16];
};
CLATTN_API clattn_status clattn_host_forward(clattn_host *host, const struct clattn_problem *problem,
                                             const struct clattn_host_forward_args *args);
CLATTN_API clattn_status clattn_host_backward(clattn_host *host, const struct clattn_problem *problem,
                                              const struct clattn_host_backward_args *args);
CLATTN_API clattn_status clattn_host_last(const clattn_host *host, struct clattn_plan_info *plan,
                                          struct clattn_host_info *info);
CLATTN_END_DECLS
#endif
