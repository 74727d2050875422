/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_PROBLEM_H
#define CLATTN_PROBLEM_H
#include <clattn/export.h>
#include <stddef.h>
#include <stdint.h>
CLATTN_BEGIN_DECLS
enum clattn_dtype {
    CLATTN_FP32 = 0,
    CLATTN_FP16 = 1,
    CLATTN_BF16 = 2
};
enum clattn_causal {
    CLATTN_FULL = 0,
    CLATTN_CAUSAL_BOTTOM_RIGHT = 1,
    CLATTN_CAUSAL_TOP_LEFT = 2
};
enum clattn_pass {
    CLATTN_FORWARD = 0,
    CLATTN_BACKWARD = 1,
    CLATTN_ACCUMULATE = 2,
    CLATTN_BACKWARD_ACCUMULATE = 3
};
enum clattn_feature {
    CLATTN_WINDOW = 1,
    CLATTN_SOFTCAP = 2,
    CLATTN_ALIBI = 4,
    CLATTN_BIAS = 8,
    CLATTN_MASK = 16,
    CLATTN_BLOCK_MASK = 32,
    CLATTN_KEY_LENGTHS = 64,
    CLATTN_VARLEN = 128,
    CLATTN_SINKS = 256,
    CLATTN_DROPOUT = 512
};
#define CLATTN_MAX_D 512
#define CLATTN_SPLITS_BY_SHAPE (-1)
#define CLATTN_MAX_SPLITS      256
struct clattn_problem {
    enum clattn_pass pass;
    enum clattn_dtype dtype;
    int d;
    int d_v;
    enum clattn_causal causal;
    float scale;
    unsigned features;
    int block_q, block_kv;
    float dropout_p;
    const char *score_mod;
    const char *score_mod_grad;
    const char *mask_mod;
    int unordered;
    int64_t expected_n_q;
    int64_t expected_n_kv;
    int64_t expected_heads;
    float expected_density;
    int splits;
    const char *skeleton;
    int b_r;
    int b_c;
    int work_group_size;
    const char *knobs;
    uint64_t reserved[32];
};
CLATTN_API int clattn_dtype_size(enum clattn_dtype dtype);
CLATTN_API const char *clattn_dtype_name(enum clattn_dtype dtype);
struct clattn_shape {
    int64_t batch;
    int64_t heads;
    int64_t kv_heads;
    int64_t n_q;
    int64_t n_kv;
    uint64_t reserved[3];
};
struct clattn_layout {
    int64_t offset;
    int64_t batch;
    int64_t head;
    int64_t row;
    int64_t column;
    uint64_t reserved[2];
};
CLATTN_API struct clattn_layout clattn_layout_bhnd(int64_t heads, int64_t n, int64_t d);
CLATTN_API struct clattn_layout clattn_layout_bnhd(int64_t heads, int64_t n, int64_t d);
CLATTN_END_DECLS
#endif
