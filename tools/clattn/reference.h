/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_REFERENCE_H
#define CLATTN_TOOL_REFERENCE_H

#include <clattn/problem.h>
#include <stdbool.h>
#include <stddef.h>

/* The judge: attention in float64 by the obvious loops, and the rule that says how far a fast result may be from it.
 *
 * Everything here is dense [batch, heads, n, d] and already widened to float; reference_scatter() and
 * reference_gather() take it to and from the storage and the layout that a device sees. */
struct reference_problem {
    enum clattn_dtype dtype; /* the inputs hold values of this type */
    int d, d_v;
    enum clattn_causal causal;
    double scale;              /* 0: 1 / sqrt(d) */
    struct clattn_shape shape; /* kv_heads 0: heads */
};

/* Sizes of the tensors in elements. */
size_t reference_q_count(const struct reference_problem *problem);
size_t reference_k_count(const struct reference_problem *problem);
size_t reference_v_count(const struct reference_problem *problem);
size_t reference_o_count(const struct reference_problem *problem);
size_t reference_row_count(const struct reference_problem *problem); /* elements of lse, m, l */

/* How many keys row i sees: always the first so many. And the sum over all rows of one head. */
int64_t reference_visible(enum clattn_causal causal, int64_t n_q, int64_t n_kv, int64_t i);
double reference_visible_pairs(enum clattn_causal causal, int64_t n_q, int64_t n_kv);

/* Computes in float64. lse, m and l may be NULL. False where memory for one row of scores is lacking. */
bool reference_attention(const struct reference_problem *problem, const float *q, const float *k, const float *v,
                         double *o, double *lse, double *m, double *l);

/* The plain formula in the problem's own type, every intermediate rounded to it, sums kept in fp32 as hardware does,
 * and with the scale applied to K instead of to the scores: what any honest implementation of that type may be off by.
 */
bool reference_naive(const struct reference_problem *problem, const float *q, const float *k, const float *v, float *o);

/* What rounding alone may cost, derived from the data. For O: rounding the output to its type, and fp32 rounding of
 * scores and sums. For lse, m and ln l: fp32 rounding of the scores, of a sum over n_kv keys, and of its logarithm. */
struct reference_floor {
    double o;
    double rows;
};
struct reference_floor reference_floor(const struct reference_problem *problem, const float *q, const float *k,
                                       const float *v, const double *o);

/* The worst place of an output. `error` is infinite where the output is NaN, or infinite where the reference is not. */
struct reference_verdict {
    double error, allowed;
    size_t at; /* index of the worst element */
    bool pass;
};

/* FlashAttention's rule: max |out - ref| <= 2 max |naive - ref| + floor. `naive` NULL: the floor alone. */
struct reference_verdict reference_judge(const float *out, const double *reference, const float *naive, size_t count,
                                         double floor);

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
