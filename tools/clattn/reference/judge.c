/* SPDX-License-Identifier: BSD-2-Clause */
#include "reference/parts.h"
#include <float.h>
#include <math.h>

static double norm(const float *a, size_t d)
{
    double sum = 0.0;
    for (size_t c = 0; c < d; c++)
        sum += (double)a[c] * (double)a[c];
    return sqrt(sum);
}

double reference_largest(const float *a, size_t d)
{
    float largest = 0.0f; /* (in double, gcc 12 for aarch64 breaks down here) */
    for (size_t c = 0; c < d; c++)
        largest = fmaxf(largest, fabsf(a[c]));
    return largest;
}

static double largest_norm(const float *rows, size_t count, size_t d)
{
    double largest = 0.0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, norm(rows + i * d, d));
    return largest;
}

double reference_storage_noise(enum clattn_dtype dtype, const double *values, size_t count)
{
    double noise = 0.0;
    for (size_t i = 0; i < count; i++) {
        const float stored = reference_round(dtype, (float)values[i]);
        const float there = reference_round(dtype, stored + 0.3f), back = reference_round(dtype, there - 0.3f);
        noise = fmax(noise, fabs((double)back - (double)stored));
    }
    return noise;
}

/* What the fp32 error of scores is measured by: for O, times the values it weighs; and for m and LSE. */
struct sizes {
    double o, rows;
};

/* Where nothing modifies or hides, of the largest norms there are. */
static struct sizes sizes_of_all(const struct reference_problem *problem, const float *q, const float *k,
                                 const float *v)
{
    const double scale = problem->scale != 0.0 ? fabs(problem->scale) : 1.0 / sqrt(problem->d);
    const double logits = scale * largest_norm(q, reference_row_count(problem), (size_t)problem->d) *
                          largest_norm(k, reference_key_count(problem), (size_t)problem->d);
    return (struct sizes){.o = (1.0 + logits) * reference_largest(v, reference_v_count(problem)), .rows = logits};
}

/* Else pair by pair: each weight is off by the error of its score, and so is the sum that all are divided by. What may
 * be the maximum counts for m. */
static struct sizes sizes_of_row(const struct reference_problem *problem, const struct reference_head *head,
                                 const struct reference_weights *weights, const float *v, int64_t i)
{
    const size_t d_v = (size_t)problem->d_v;
    double values = 0.0, off = 0.0, mean = 0.0,
           largest = fabs(weights->sink > 0.0 ? reference_sink(problem, head) : 0.0);
    for (int64_t j = 0; j < head->n_kv; j++) {
        const struct reference_modified *pair = &weights->pairs[j];
        if (pair->score == -INFINITY)
            continue;
        const double keep = reference_keep(problem, head, i, j);
        const double value = keep != 0.0 ? keep * reference_largest(v + (head->keys + (size_t)j) * d_v, d_v) : 0.0;
        off += weights->p[j] * (1.0 + pair->magnitude) * value;
        values += weights->p[j] * value;
        mean += weights->p[j] * pair->magnitude;
        if (weights->m - pair->score < 0.1)
            largest = fmax(largest, pair->magnitude);
    }
    return (struct sizes){.o = off + (1.0 + mean) * values, .rows = mean + largest};
}

static struct sizes sizes_of_pairs(const struct reference_problem *problem, const float *q, const float *k,
                                   const float *v)
{
    struct sizes most = {0};
    struct reference_weights weights;
    if (!reference_weights_make(problem, &weights))
        return most;
    for (size_t n = 0; n < reference_head_count(problem); n++) {
        const struct reference_head head = reference_head_at(problem, n);
        for (int64_t i = 0; i < head.n_q; i++) {
            reference_weigh(problem, &head, q, k, i, &weights);
            const struct sizes row = sizes_of_row(problem, &head, &weights, v, i);
            most.o = fmax(most.o, row.o);
            most.rows = fmax(most.rows, row.rows);
        }
    }
    reference_weights_free(&weights);
    return most;
}

struct reference_floor reference_floor(const struct reference_problem *problem, const float *q, const float *k,
                                       const float *v, const double *o)
{
    const double epsilon = FLT_EPSILON / 2, n = (double)problem->shape.n_kv;
    const bool plain = !problem->score.features && !problem->score.score_mod && !problem->score.mask_mod;
    const struct sizes sizes = plain ? sizes_of_all(problem, q, k, v) : sizes_of_pairs(problem, q, k, v);
    /* ln l may be as large as ln n, and is rounded on the way to LSE. */
    return (struct reference_floor){
        .o = 2.0 * reference_storage_noise(reference_type(problem, REFERENCE_O), o, reference_o_count(problem)) +
             4.0 * epsilon * sizes.o,
        .rows = 16.0 * epsilon * (1.0 + sizes.rows + 2.0 * log1p(n)) + 2.0 * epsilon * sqrt(n)};
}

/* Infinities of one sign agree; a NaN agrees with nothing. */
static double distance(double a, double b)
{
    if (isnan(a) || isnan(b))
        return INFINITY;
    return a == b ? 0.0 : fabs(a - b);
}

static struct reference_verdict judge(const float *out, const double *reference, const float *naive, size_t count,
                                      double factor, double floor)
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
    verdict.allowed = factor * verdict.allowed + floor;
    /* A reference beyond the type's range makes `allowed` infinite, and then says nothing. */
    verdict.pass = isfinite(verdict.allowed) && verdict.error <= verdict.allowed;
    return verdict;
}

struct reference_verdict reference_judge(const float *out, const double *reference, const float *naive, size_t count,
                                         double floor)
{
    return judge(out, reference, naive, count, 2.0, floor);
}

struct reference_verdict reference_judge_gradient(const float *out, const double *reference, const float *naive,
                                                  size_t count, double floor)
{
    return judge(out, reference, naive, count, 3.0, floor);
}
