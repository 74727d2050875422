/* SPDX-License-Identifier: BSD-2-Clause */
#include "reference.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>

static int64_t kv_heads(const struct reference_problem *problem)
{
    return problem->shape.kv_heads ? problem->shape.kv_heads : problem->shape.heads;
}

static double scale(const struct reference_problem *problem)
{
    return problem->scale != 0.0 ? problem->scale : 1.0 / sqrt(problem->d);
}

size_t reference_row_count(const struct reference_problem *problem)
{
    return (size_t)(problem->shape.batch * problem->shape.heads * problem->shape.n_q);
}

size_t reference_q_count(const struct reference_problem *problem)
{
    return reference_row_count(problem) * (size_t)problem->d;
}

size_t reference_o_count(const struct reference_problem *problem)
{
    return reference_row_count(problem) * (size_t)problem->d_v;
}

static size_t key_count(const struct reference_problem *problem)
{
    return (size_t)(problem->shape.batch * kv_heads(problem) * problem->shape.n_kv);
}

size_t reference_k_count(const struct reference_problem *problem)
{
    return key_count(problem) * (size_t)problem->d;
}

size_t reference_v_count(const struct reference_problem *problem)
{
    return key_count(problem) * (size_t)problem->d_v;
}

int64_t reference_visible(enum clattn_causal causal, int64_t n_q, int64_t n_kv, int64_t i)
{
    const int64_t shift = causal == CLATTN_CAUSAL_BOTTOM_RIGHT ? n_kv - n_q : 0;
    const int64_t count = causal == CLATTN_FULL ? n_kv : i + 1 + shift;
    return count < 0 ? 0 : count > n_kv ? n_kv : count;
}

double reference_visible_pairs(enum clattn_causal causal, int64_t n_q, int64_t n_kv)
{
    if (causal == CLATTN_FULL)
        return (double)n_q * (double)n_kv;
    double pairs = 0.0;
    for (int64_t i = 0; i < n_q; i++)
        pairs += (double)reference_visible(causal, n_q, n_kv, i);
    return pairs;
}

/* One row of queries and where its keys and values begin. */
struct row {
    size_t index; /* of the row in [batch, heads, n_q] */
    size_t keys;  /* of its first key in [batch, kv_heads, n_kv] */
    int64_t visible;
};

static struct row row_at(const struct reference_problem *problem, size_t index)
{
    const struct clattn_shape *shape = &problem->shape;
    const int64_t i = (int64_t)index % shape->n_q, head = (int64_t)index / shape->n_q % shape->heads;
    const int64_t batch = (int64_t)index / shape->n_q / shape->heads, group = shape->heads / kv_heads(problem);
    return (struct row){.index = index,
                        .keys = (size_t)((batch * kv_heads(problem) + head / group) * shape->n_kv),
                        .visible = reference_visible(problem->causal, shape->n_q, shape->n_kv, i)};
}

static void exact_row(const struct reference_problem *problem, const struct row *row, const float *q, const float *k,
                      const float *v, double *scores, double *o, double *m, double *l)
{
    const size_t d = (size_t)problem->d, d_v = (size_t)problem->d_v;
    *m = -INFINITY;
    *l = 0.0;
    for (int64_t j = 0; j < row->visible; j++) {
        double dot = 0.0;
        for (size_t c = 0; c < d; c++)
            dot += (double)q[row->index * d + c] * (double)k[(row->keys + (size_t)j) * d + c];
        scores[j] = dot * scale(problem);
        *m = fmax(*m, scores[j]);
    }
    for (size_t c = 0; c < d_v; c++)
        o[c] = 0.0;
    for (int64_t j = 0; j < row->visible; j++) {
        const double p = exp(scores[j] - *m);
        *l += p;
        for (size_t c = 0; c < d_v; c++)
            o[c] += p * (double)v[(row->keys + (size_t)j) * d_v + c];
    }
    for (size_t c = 0; c < d_v && row->visible; c++)
        o[c] /= *l;
}

bool reference_attention(const struct reference_problem *problem, const float *q, const float *k, const float *v,
                         double *o, double *lse, double *m, double *l)
{
    double *scores = malloc((size_t)(problem->shape.n_kv + 1) * sizeof *scores);
    if (!scores)
        return false;
    for (size_t i = 0; i < reference_row_count(problem); i++) {
        const struct row row = row_at(problem, i);
        double maximum, sum;
        exact_row(problem, &row, q, k, v, scores, o + i * (size_t)problem->d_v, &maximum, &sum);
        if (lse)
            lse[i] = row.visible ? maximum + log(sum) : -INFINITY;
        if (m)
            m[i] = maximum;
        if (l)
            l[i] = sum;
    }
    free(scores);
    return true;
}

static void naive_row(const struct reference_problem *problem, const struct row *row, const float *q, const float *k,
                      const float *v, float *scores, float *o)
{
    const enum clattn_dtype dtype = problem->dtype;
    const size_t d = (size_t)problem->d, d_v = (size_t)problem->d_v;
    const float factor = (float)scale(problem);
    float m = -INFINITY, l = 0.0f;
    for (int64_t j = 0; j < row->visible; j++) {
        float dot = 0.0f;
        for (size_t c = 0; c < d; c++)
            dot += q[row->index * d + c] * reference_round(dtype, k[(row->keys + (size_t)j) * d + c] * factor);
        scores[j] = reference_round(dtype, dot);
        m = fmaxf(m, scores[j]);
    }
    for (int64_t j = 0; j < row->visible; j++)
        l += scores[j] = expf(scores[j] - m);
    for (int64_t j = 0; j < row->visible; j++)
        scores[j] = reference_round(dtype, scores[j] / l);
    for (size_t c = 0; c < d_v; c++) {
        float sum = 0.0f;
        for (int64_t j = 0; j < row->visible; j++)
            sum += scores[j] * v[(row->keys + (size_t)j) * d_v + c];
        o[c] = reference_round(dtype, sum);
    }
}

bool reference_naive(const struct reference_problem *problem, const float *q, const float *k, const float *v, float *o)
{
    float *scores = malloc((size_t)(problem->shape.n_kv + 1) * sizeof *scores);
    if (!scores)
        return false;
    for (size_t i = 0; i < reference_row_count(problem); i++) {
        const struct row row = row_at(problem, i);
        naive_row(problem, &row, q, k, v, scores, o + i * (size_t)problem->d_v);
    }
    free(scores);
    return true;
}

static double largest_norm(const float *rows, size_t count, size_t d)
{
    double largest = 0.0;
    for (size_t i = 0; i < count; i++) {
        double sum = 0.0;
        for (size_t c = 0; c < d; c++)
            sum += (double)rows[i * d + c] * (double)rows[i * d + c];
        largest = fmax(largest, sum);
    }
    return sqrt(largest);
}

static double largest_magnitude(const float *values, size_t count)
{
    double largest = 0.0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs((double)values[i]));
    return largest;
}

/* FlashAttention's measure of what storing in a type costs at the size of these values: add 0.3, take it away, look. */
static double storage_noise(enum clattn_dtype dtype, const double *values, size_t count)
{
    double noise = 0.0;
    for (size_t i = 0; i < count; i++) {
        const float stored = reference_round(dtype, (float)values[i]);
        const float there = reference_round(dtype, stored + 0.3f), back = reference_round(dtype, there - 0.3f);
        noise = fmax(noise, fabs((double)back - (double)stored));
    }
    return noise;
}

struct reference_floor reference_floor(const struct reference_problem *problem, const float *q, const float *k,
                                       const float *v, const double *o)
{
    const double epsilon = FLT_EPSILON / 2;
    const double logits = fabs(scale(problem)) * largest_norm(q, reference_row_count(problem), (size_t)problem->d) *
                          largest_norm(k, key_count(problem), (size_t)problem->d);
    const double values = largest_magnitude(v, reference_v_count(problem)), n = (double)problem->shape.n_kv;
    return (struct reference_floor){.o = 2.0 * storage_noise(problem->dtype, o, reference_o_count(problem)) +
                                         4.0 * epsilon * (1.0 + logits) * values,
                                    .rows = 16.0 * epsilon * (1.0 + logits + log1p(n)) + 2.0 * epsilon * sqrt(n)};
}

/* Infinities of one sign agree; a NaN agrees with nothing. */
static double distance(double a, double b)
{
    if (isnan(a) || isnan(b))
        return INFINITY;
    return a == b ? 0.0 : fabs(a - b);
}

struct reference_verdict reference_judge(const float *out, const double *reference, const float *naive, size_t count,
                                         double floor)
{
    struct reference_verdict verdict = {.allowed = 0.0};
    for (size_t i = 0; i < count; i++) {
        const double error = distance((double)out[i], reference[i]);
        if (error > verdict.error) {
            verdict.error = error;
            verdict.at = i;
        }
        if (naive)
            verdict.allowed = fmax(verdict.allowed, distance((double)naive[i], reference[i]));
    }
    verdict.allowed = 2.0 * verdict.allowed + floor;
    /* A reference beyond the type's range makes `allowed` infinite, and then says nothing. */
    verdict.pass = isfinite(verdict.allowed) && verdict.error <= verdict.allowed;
    return verdict;
}
