/* SPDX-License-Identifier: BSD-2-Clause */
#include "reference/parts.h"
#include <math.h>

static void forward_row(const struct reference_problem *problem, const struct reference_head *head,
                        const struct reference_weights *weights, const float *v, int64_t i, double *o)
{
    const size_t d_v = (size_t)problem->d_v;
    for (size_t c = 0; c < d_v; c++)
        o[c] = 0.0;
    for (int64_t j = 0; j < head->n_kv; j++) {
        const double keep = weights->pairs[j].score == -INFINITY ? 0.0 : reference_keep(problem, head, i, j);
        const float *value = v + (head->keys + (size_t)j) * d_v;
        for (size_t c = 0; c < d_v && keep != 0.0; c++)
            o[c] += weights->p[j] * keep * (double)value[c];
    }
}

bool reference_attention(const struct reference_problem *problem, const float *q, const float *k, const float *v,
                         double *o, double *lse, double *m, double *l)
{
    struct reference_weights weights;
    if (!reference_weights_make(problem, &weights))
        return false;
    for (size_t n = 0; n < reference_head_count(problem); n++) {
        const struct reference_head head = reference_head_at(problem, n);
        for (int64_t i = 0; i < head.n_q; i++) {
            const size_t row = head.rows + (size_t)i;
            reference_weigh(problem, &head, q, k, i, &weights);
            forward_row(problem, &head, &weights, v, i, o + row * (size_t)problem->d_v);
            if (lse)
                lse[row] = weights.lse;
            if (m)
                m[row] = weights.m;
            if (l)
                l[row] = weights.l;
        }
    }
    reference_weights_free(&weights);
    return true;
}

static void naive_row(const struct reference_problem *problem, const struct reference_head *head,
                      const struct reference_weights *weights, const float *v, int64_t i, float *o)
{
    const size_t d_v = (size_t)problem->d_v;
    for (size_t c = 0; c < d_v; c++)
        o[c] = 0.0f;
    for (int64_t j = 0; j < head->n_kv; j++) {
        const double keep = weights->pairs[j].score == -INFINITY ? 0.0 : reference_keep(problem, head, i, j);
        const float p = reference_round(reference_arithmetic(problem), (float)(weights->p[j] * keep));
        const float *value = v + (head->keys + (size_t)j) * d_v;
        for (size_t c = 0; c < d_v && keep != 0.0; c++)
            o[c] += p * value[c];
    }
    for (size_t c = 0; c < d_v; c++)
        o[c] = reference_round(reference_type(problem, REFERENCE_O), o[c]);
}

bool reference_naive(const struct reference_problem *problem, const float *q, const float *k, const float *v, float *o)
{
    struct reference_weights weights;
    if (!reference_weights_make(problem, &weights))
        return false;
    for (size_t n = 0; n < reference_head_count(problem); n++) {
        const struct reference_head head = reference_head_at(problem, n);
        for (int64_t i = 0; i < head.n_q; i++) {
            reference_weigh_naively(problem, &head, q, k, i, &weights);
            naive_row(problem, &head, &weights, v, i, o + (head.rows + (size_t)i) * (size_t)problem->d_v);
        }
    }
    reference_weights_free(&weights);
    return true;
}
