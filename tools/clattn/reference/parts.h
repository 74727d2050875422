/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_REFERENCE_PARTS_H
#define CLATTN_TOOL_REFERENCE_PARTS_H

#include "reference/reference.h"

/* What the files of the reference share. */

/* One head of one batch element, or of one sequence. */
struct reference_head {
    int64_t b, h;
    int64_t n_q, n_kv;           /* its rows; the keys that exist */
    int64_t shift, window_shift; /* row i is aligned with key i + shift, in a window with i + window_shift */
    size_t rows, keys;           /* its first row among the problem's rows, its first key among the problem's keys */
    double scale;
};

/* How many heads a problem has, and the one of that number. */
size_t reference_head_count(const struct reference_problem *problem);
struct reference_head reference_head_at(const struct reference_problem *problem, size_t number);

size_t reference_key_count(const struct reference_problem *problem); /* rows of K and V, of all heads */

bool reference_has(const struct reference_problem *problem, unsigned feature);

bool reference_hidden(const struct reference_problem *problem, const struct reference_head *head, int64_t i, int64_t j);

/* Of a later feature the value that a pair meets of a tensor, and a number. Where heads have several numbers each, i is
 * which of them. */
double reference_of_tensor(const struct reference_problem *problem, const struct reference_head *head, const char *name,
                           int64_t i, int64_t j);
double reference_of_number(const struct reference_problem *problem, const char *name);

/* The gradient of the loss by LSE of a row; 0 where there is none. */
double reference_lse_gradient(const struct reference_problem *problem, const struct reference_head *head, int64_t i);

/* A score on its way: the value, its derivatives by the scaled product and by the bias, and the sum of the magnitudes
 * whose fp32 rounding moves it, beyond those of the product itself. */
struct reference_modified {
    double score, grad, bias_grad, magnitude;
};

/* `rounded`: each step is rounded to the problem's type. */
struct reference_modified reference_modify(const struct reference_problem *problem, const struct reference_head *head,
                                           double score, int64_t i, int64_t j, bool rounded);

/* 0 where dropout takes the pair, else what its weight is multiplied by. */
double reference_keep(const struct reference_problem *problem, const struct reference_head *head, int64_t i, int64_t j);

double reference_sink(const struct reference_problem *problem, const struct reference_head *head); /* -inf: none */

/* Where a pair's (or a block's, a head's) element lies in an array of these sizes. */
size_t reference_place(const struct clattn_layout *layout, const int64_t sizes[4], int64_t b, int64_t h, int64_t i,
                       int64_t j);

/* The pair's element of d_bias. */
size_t reference_d_bias_place(const struct reference_problem *problem, const struct reference_head *head, int64_t i,
                              int64_t j);

/* The largest magnitude. */
double reference_largest(const float *a, size_t d);

/* FlashAttention's measure of what storing in a type costs at the size of these values: add 0.3, take it away, look. */
double reference_storage_noise(enum clattn_dtype dtype, const double *values, size_t count);

/* The weights of one row, in float64. `score` is -inf where the pair is hidden, and its other fields are then not set.
 */
struct reference_weights {
    struct reference_modified *pairs; /* n_kv of each */
    double *p;                        /* normalised, before dropout */
    double m, l, lse;
    double sink; /* the share of the sink */
    bool sees_none;
};
bool reference_weights_make(const struct reference_problem *problem, struct reference_weights *weights);
void reference_weights_free(struct reference_weights *weights);
void reference_weigh(const struct reference_problem *problem, const struct reference_head *head, const float *q,
                     const float *k, int64_t i, struct reference_weights *weights);

/* The same in the problem's own type: scores rounded, exponentials in fp32, p rounded. pairs[j].score is -inf for none.
 */
void reference_weigh_naively(const struct reference_problem *problem, const struct reference_head *head, const float *q,
                             const float *k, int64_t i, struct reference_weights *weights);

#endif
