/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_REFERENCE_H
#define CLATTN_TOOL_REFERENCE_H

#include "plan/features/feature.h"
#include <clattn/problem.h>
#include <stdbool.h>
#include <stddef.h>

/* The judge: attention in float64 by the obvious loops, and the rule that says how far a fast result may be from it.
 *
 * Everything here is dense [batch, heads, n, d] and already widened to float; reference_scatter() and
 * reference_gather() take it to and from the storage and the layout that a device sees. With variable lengths it is
 * [heads, total, d]. */

/* What struct clattn_score_args says, for arrays. Layouts count elements of the arrays, as on the device: all strides 0
 * is dense, a stride of 0 among others broadcasts. Of `features` (enum clattn_feature) those that are not there leave
 * their fields unread. */
struct reference_score {
    unsigned features;
    int64_t window_left, window_right; /* -1: no limit */
    enum clattn_causal window_corner;  /* CLATTN_FULL: none of its own */
    int64_t sink_keys;                 /* first keys that window_left does not hide */
    double softcap;
    const float *alibi; /* [batch, heads] */
    struct clattn_layout alibi_at;
    const float *bias; /* [batch, heads, n_q, n_kv], as are the others */
    struct clattn_layout bias_at;
    const uint8_t *mask;
    struct clattn_layout mask_at;
    const uint8_t *block_mask; /* of blocks */
    struct clattn_layout block_mask_at;
    int block_q, block_kv;
    const int32_t *key_lengths;
    const int32_t *cu_seqlens_q, *cu_seqlens_kv;
    int64_t total_q, total_kv;
    const float *sinks; /* [heads] */
    int64_t tree_keys;
    double dropout_p;
    uint64_t dropout_seed;
    uint32_t dropout_offset;

    /* Later features, in the order of their table (plan/features/feature.h): values of their tensors, and numbers. */
    const void *more[CLA_SCORE_TENSORS]; /* int32 where the table says CLA_INT */
    struct clattn_layout more_at[CLA_SCORE_TENSORS];
    double more_numbers[CLA_SCORE_NUMBERS];

    /* The user's functions, NULL for none. */
    double (*score_mod)(double score, int b, int h, int i, int j, const float *data);
    double (*score_mod_grad)(double score, int b, int h, int i, int j, const float *data);
    bool (*mask_mod)(int b, int h, int i, int j, const float *data);
    const float *data;
};

/* Operands that may each have a type of their own. */
enum reference_operand { REFERENCE_Q, REFERENCE_K, REFERENCE_V, REFERENCE_O, REFERENCE_BIAS, REFERENCE_OPERANDS };

struct reference_problem {
    enum clattn_dtype dtype;                            /* the inputs hold values of this type, */
    enum clattn_operand_type types[REFERENCE_OPERANDS]; /* unless one of its own is said here */
    int d, d_v;
    enum clattn_causal causal;
    double scale;              /* 0: 1 / sqrt(d) */
    struct clattn_shape shape; /* kv_heads 0: heads */
    struct reference_score score;
};

/* The type of an operand, and of its gradient. */
enum clattn_dtype reference_type(const struct reference_problem *problem, enum reference_operand operand);

/* The type that the plain formula computes in: that of Q, K and V, or fp32 where these have several. */
enum clattn_dtype reference_arithmetic(const struct reference_problem *problem);

/* Sizes of the tensors in elements. */
size_t reference_q_count(const struct reference_problem *problem);
size_t reference_k_count(const struct reference_problem *problem);
size_t reference_v_count(const struct reference_problem *problem);
size_t reference_o_count(const struct reference_problem *problem);
size_t reference_row_count(const struct reference_problem *problem); /* elements of lse, m, l */

/* Elements of d_bias: dense [batch, heads, n_q, n_kv], with 1 for what the bias is broadcast over. */
size_t reference_d_bias_count(const struct reference_problem *problem);

/* How many keys row i sees under a causal mask alone: always the first so many. And the sum over all rows of one head.
 */
int64_t reference_visible(enum clattn_causal causal, int64_t n_q, int64_t n_kv, int64_t i);
double reference_visible_pairs(enum clattn_causal causal, int64_t n_q, int64_t n_kv);

/* Computes in float64. lse, m and l may be NULL. What K and V hold for hidden pairs is never read, nor V for dropped
 * ones. False where memory for one row of scores is lacking. */
bool reference_attention(const struct reference_problem *problem, const float *q, const float *k, const float *v,
                         double *o, double *lse, double *m, double *l);

/* The plain formula in the problem's own type (reference_arithmetic), every intermediate rounded to it, sums kept in
 * fp32 as hardware does, and with the scale applied to K instead of to the scores: what any honest implementation of
 * that type may be off by. */
bool reference_naive(const struct reference_problem *problem, const float *q, const float *k, const float *v, float *o);

/* What rounding alone may cost, derived from the data. For O: rounding the output to its type, and fp32 rounding of
 * scores and sums. For lse, m and ln l: fp32 rounding of the scores, of a sum over n_kv keys, and of its logarithm. */
struct reference_floor {
    double o;
    double rows;
};
struct reference_floor reference_floor(const struct reference_problem *problem, const float *q, const float *k,
                                       const float *v, const double *o);

/* The gradients of sum(O * d_o). Each may be NULL. d_sinks is [heads]; it and d_bias are not touched where the problem
 * has none. */
struct reference_gradients {
    double *d_q, *d_k, *d_v, *d_bias, *d_sinks;
};

/* What rounding alone may cost each of them: fp32 rounding of scores, exponentials, of the gradient of P and of sums,
 * the rounding of O, from which delta is made, and that of the stored result. */
struct reference_gradient_floor {
    double d_q, d_k, d_v, d_bias, d_sinks;
};

/* In float64. `floor` may be NULL. False where memory is lacking. */
bool reference_backward(const struct reference_problem *problem, const float *q, const float *k, const float *v,
                        const float *d_o, const struct reference_gradients *gradients,
                        struct reference_gradient_floor *floor);

/* The plain formula in the problem's own type, as reference_naive: S, P, dP and dS are rounded to it. Each may be NULL.
 */
struct reference_naive_gradients {
    float *d_q, *d_k, *d_v, *d_bias, *d_sinks;
};
bool reference_naive_backward(const struct reference_problem *problem, const float *q, const float *k, const float *v,
                              const float *d_o, const struct reference_naive_gradients *gradients);

/* Dropout: the words of Philox 4x32-7, and whether a pair is kept. */
void reference_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t words[4]);
bool reference_kept(const struct reference_problem *problem, int64_t b, int64_t h, int64_t i, int64_t j);

/* The worst place of an output. `error` is infinite where the output is NaN, or infinite where the reference is not. */
struct reference_verdict {
    double error, allowed;
    size_t at; /* index of the worst element */
    bool pass;
};

/* FlashAttention's rule: max |out - ref| <= 2 max |naive - ref| + floor. `naive` NULL: the floor alone. */
struct reference_verdict reference_judge(const float *out, const double *reference, const float *naive, size_t count,
                                         double floor);

/* Its rule for gradients, with 3 in place of 2. */
struct reference_verdict reference_judge_gradient(const float *out, const double *reference, const float *naive,
                                                  size_t count, double floor);

/* Rounds to the nearest value of the type. */
float reference_round(enum clattn_dtype dtype, float value);

/* Between dense floats and stored elements at their places. `sizes` are batch, heads, n and d of the tensor. */
void reference_scatter(enum clattn_dtype dtype, const int64_t sizes[4], const struct clattn_layout *layout,
                       const float *dense, void *storage);
void reference_gather(enum clattn_dtype dtype, const int64_t sizes[4], const struct clattn_layout *layout,
                      const void *storage, float *dense);

/* One past the last element that the tensor touches; the offset where it is empty. */
size_t reference_extent(const int64_t sizes[4], const struct clattn_layout *layout);

/* Sets every byte of the tensor's elements, and nothing between them, to 0xff. */
void reference_erase(enum clattn_dtype dtype, const int64_t sizes[4], const struct clattn_layout *layout,
                     void *storage);

#endif
