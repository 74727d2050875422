/* SPDX-License-Identifier: BSD-2-Clause */
#include "reference/parts.h"
#include <math.h>
#include <stdlib.h>

bool reference_weights_make(const struct reference_problem *problem, struct reference_weights *weights)
{
    const size_t keys = (size_t)problem->shape.n_kv + 1;
    *weights = (struct reference_weights){.pairs = calloc(keys, sizeof *weights->pairs),
                                          .p = calloc(keys, sizeof *weights->p)};
    if (weights->pairs && weights->p)
        return true;
    reference_weights_free(weights);
    return false;
}

void reference_weights_free(struct reference_weights *weights)
{
    free(weights->pairs);
    free(weights->p);
    *weights = (struct reference_weights){0};
}

/* The sum of products, and *magnitude, that of their sizes: what the rounding of an fp32 sum is measured by. */
static double dot(const float *a, const float *b, size_t d, double *magnitude)
{
    double sum = 0.0, sizes = 0.0;
    for (size_t c = 0; c < d; c++) {
        const double product = (double)a[c] * (double)b[c];
        sum += product;
        sizes += fabs(product);
    }
    *magnitude = sizes;
    return sum;
}

static struct reference_modified hidden_pair(void)
{
    return (struct reference_modified){.score = -INFINITY};
}

static void normalise(const struct reference_problem *problem, const struct reference_head *head,
                      struct reference_weights *weights)
{
    const double sink = reference_sink(problem, head);
    weights->m = sink;
    for (int64_t j = 0; j < head->n_kv; j++)
        weights->m = fmax(weights->m, weights->pairs[j].score);
    weights->sees_none = weights->m == -INFINITY;
    const double base = weights->sees_none ? 0.0 : weights->m;
    weights->l = exp(sink - base);
    for (int64_t j = 0; j < head->n_kv; j++)
        weights->l += weights->p[j] = exp(weights->pairs[j].score - base);
    weights->lse = weights->sees_none ? -INFINITY : weights->m + log(weights->l);
    weights->sink = weights->sees_none ? 0.0 : exp(sink - base) / weights->l;
    for (int64_t j = 0; j < head->n_kv && !weights->sees_none; j++)
        weights->p[j] /= weights->l;
}

void reference_weigh(const struct reference_problem *problem, const struct reference_head *head, const float *q,
                     const float *k, int64_t i, struct reference_weights *weights)
{
    const size_t d = (size_t)problem->d;
    const float *row = q + (head->rows + (size_t)i) * d;
    for (int64_t j = 0; j < head->n_kv; j++) {
        weights->pairs[j] = hidden_pair();
        if (reference_hidden(problem, head, i, j))
            continue;
        double magnitude;
        const double score = head->scale * dot(row, k + (head->keys + (size_t)j) * d, d, &magnitude);
        struct reference_modified modified = reference_modify(problem, head, score, i, j, false);
        modified.magnitude += fabs(head->scale * modified.grad) * magnitude;
        weights->pairs[j] = modified;
    }
    normalise(problem, head, weights);
}

static float naive_dot(const struct reference_problem *problem, const float *row, const float *key, float factor)
{
    float sum = 0.0f;
    for (int c = 0; c < problem->d; c++)
        sum += row[c] * reference_round(reference_arithmetic(problem), key[c] * factor);
    return reference_round(reference_arithmetic(problem), sum);
}

/* As normalise, in fp32; each p is rounded to the type. */
static void normalise_naively(const struct reference_problem *problem, const struct reference_head *head,
                              struct reference_weights *weights)
{
    const float sink = (float)reference_sink(problem, head);
    float m = sink;
    for (int64_t j = 0; j < head->n_kv; j++)
        m = fmaxf(m, (float)weights->pairs[j].score);
    weights->sees_none = m == -INFINITY;
    const float base = weights->sees_none ? 0.0f : m;
    float l = expf(sink - base);
    for (int64_t j = 0; j < head->n_kv; j++) {
        const float p = expf((float)weights->pairs[j].score - base);
        weights->p[j] = (double)p;
        l += p;
    }
    weights->sink = weights->sees_none ? 0.0 : (double)(expf(sink - base) / l);
    for (int64_t j = 0; j < head->n_kv && !weights->sees_none; j++)
        weights->p[j] = (double)reference_round(reference_arithmetic(problem), (float)weights->p[j] / l);
}

void reference_weigh_naively(const struct reference_problem *problem, const struct reference_head *head, const float *q,
                             const float *k, int64_t i, struct reference_weights *weights)
{
    const size_t d = (size_t)problem->d;
    const float *row = q + (head->rows + (size_t)i) * d, factor = (float)head->scale;
    for (int64_t j = 0; j < head->n_kv; j++) {
        weights->pairs[j] = hidden_pair();
        if (reference_hidden(problem, head, i, j))
            continue;
        const float score = naive_dot(problem, row, k + (head->keys + (size_t)j) * d, factor);
        weights->pairs[j] = reference_modify(problem, head, (double)score, i, j, true);
    }
    normalise_naively(problem, head, weights);
}
