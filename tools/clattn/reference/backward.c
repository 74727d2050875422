/* SPDX-License-Identifier: BSD-2-Clause */
#include "reference/parts.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Bounds of what fp32 rounding may do to the gradients, row by row: first order, by the triangle inequality. */
struct bounds {
    double *d_k, *d_v, *d_sinks; /* of each row of K and V, of each head */
    double d_q, d_bias;          /* the largest so far */
    double *weights;             /* of each head: squares of what weights add to d_sinks */
};

struct backward {
    const struct reference_problem *problem;
    const float *q, *k, *v, *d_o;
    struct reference_gradients out;
    struct reference_weights weights;
    double *d_p;      /* the row's gradient of P */
    double *d_p_size; /* the same over the sizes of its products */
    double *o;        /* the row's output */
    struct bounds bounds;
};

static void backward_free(struct backward *b)
{
    reference_weights_free(&b->weights);
    free(b->d_p);
    free(b->d_p_size);
    free(b->o);
    free(b->bounds.d_k);
    free(b->bounds.d_v);
    free(b->bounds.d_sinks);
    free(b->bounds.weights);
}

static double *doubles(size_t count)
{
    return calloc(count + 1, sizeof(double));
}

static bool backward_make(struct backward *b)
{
    const struct reference_problem *problem = b->problem;
    const size_t keys = reference_key_count(problem);
    b->d_p = doubles((size_t)problem->shape.n_kv);
    b->d_p_size = doubles((size_t)problem->shape.n_kv);
    b->o = doubles((size_t)problem->d_v);
    b->bounds = (struct bounds){.d_k = doubles(keys),
                                .d_v = doubles(keys),
                                .d_sinks = doubles((size_t)problem->shape.heads),
                                .weights = doubles((size_t)problem->shape.heads)};
    return reference_weights_make(problem, &b->weights) && b->d_p && b->d_p_size && b->o && b->bounds.d_k &&
           b->bounds.d_v && b->bounds.d_sinks && b->bounds.weights;
}

static void clear(double *values, size_t count)
{
    if (values && count)
        memset(values, 0, count * sizeof *values);
}

static bool counts(const struct backward *b, int64_t j)
{
    return b->weights.pairs[j].score != -INFINITY;
}

/* dP = keep * dO V^T, and O on the way; answers delta, the sum of P dP less the gradient by LSE. */
static double weight_gradients(struct backward *b, const struct reference_head *head, int64_t i)
{
    const size_t d_v = (size_t)b->problem->d_v;
    const float *d_o = b->d_o + (head->rows + (size_t)i) * d_v;
    double delta = 0.0;
    clear(b->o, d_v);
    for (int64_t j = 0; j < head->n_kv; j++) {
        const double keep = counts(b, j) ? reference_keep(b->problem, head, i, j) : 0.0;
        const float *v = b->v + (head->keys + (size_t)j) * d_v;
        b->d_p[j] = b->d_p_size[j] = 0.0;
        for (size_t c = 0; c < d_v && keep != 0.0; c++) {
            const double product = keep * (double)d_o[c] * (double)v[c];
            b->d_p[j] += product;
            b->d_p_size[j] += fabs(product);
            b->o[c] += b->weights.p[j] * keep * (double)v[c];
        }
        delta += b->weights.p[j] * b->d_p[j];
    }
    return delta - reference_lse_gradient(b->problem, head, i);
}

static void add_products(double *sum, double factor, const float *values, size_t count)
{
    for (size_t c = 0; c < count && sum; c++)
        sum[c] += factor * (double)values[c];
}

static double *at(double *values, size_t index)
{
    return values ? values + index : NULL;
}

static void pair_gradients(struct backward *b, const struct reference_head *head, int64_t i, int64_t j, double delta)
{
    const struct reference_problem *problem = b->problem;
    const size_t d = (size_t)problem->d, d_v = (size_t)problem->d_v;
    const size_t row = head->rows + (size_t)i, key = head->keys + (size_t)j;
    const struct reference_modified *pair = &b->weights.pairs[j];
    const double d_s = b->weights.p[j] * (b->d_p[j] - delta), product = d_s * pair->grad * head->scale;
    const double keep = reference_keep(problem, head, i, j);
    add_products(at(b->out.d_q, row * d), product, b->k + key * d, d);
    add_products(at(b->out.d_k, key * d), product, b->q + row * d, d);
    if (keep != 0.0)
        add_products(at(b->out.d_v, key * d_v), b->weights.p[j] * keep, b->d_o + row * d_v, d_v);
    if (b->out.d_bias && reference_has(problem, CLATTN_BIAS))
        b->out.d_bias[reference_d_bias_place(problem, head, i, j)] += d_s * pair->bias_grad;
}

static const double unit[] = {[CLATTN_FP32] = 0x1p-24, [CLATTN_FP16] = 0x1p-11, [CLATTN_BF16] = 0x1p-8};

/* How far fp32 arithmetic may move delta: its sum, and O, which comes rounded to its type. */
static double delta_error(const struct backward *b, const struct reference_head *head, int64_t i)
{
    const size_t d_v = (size_t)b->problem->d_v;
    const float *d_o = b->d_o + (head->rows + (size_t)i) * d_v;
    double products = 0.0;
    for (size_t c = 0; c < d_v; c++)
        products += b->o[c] != 0.0 ? fabs((double)d_o[c] * b->o[c]) : 0.0;
    return (unit[reference_type(b->problem, REFERENCE_O)] + 4.0 * 0x1p-24) * products +
           4.0 * 0x1p-24 * fabs(reference_lse_gradient(b->problem, head, i));
}

/* The error of one dS: P is off by that of its score and of LSE, dP and delta by those of their sums. */
static double d_s_error(const struct backward *b, int64_t j, double delta, double of_delta, double *of_p)
{
    const double epsilon = FLT_EPSILON / 2, p = b->weights.p[j];
    *of_p = 4.0 * epsilon * (1.0 + b->weights.pairs[j].magnitude + fabs(b->weights.lse)) * p;
    return *of_p * (fabs(b->d_p[j]) + fabs(delta)) + p * (4.0 * epsilon * b->d_p_size[j] + of_delta);
}

static void row_bounds(struct backward *b, const struct reference_head *head, int64_t i, double delta)
{
    const struct reference_problem *problem = b->problem;
    const size_t d = (size_t)problem->d, d_v = (size_t)problem->d_v, row = head->rows + (size_t)i;
    const double of_delta = delta_error(b, head, i), query = reference_largest(b->q + row * d, d),
                 gradient = reference_largest(b->d_o + row * d_v, d_v);
    double d_q = 0.0, squares = 0.0;
    for (int64_t j = 0; j < head->n_kv; j++) {
        if (!counts(b, j))
            continue;
        squares += b->weights.p[j] * b->weights.p[j] * b->d_p[j] * b->d_p[j];
        const struct reference_modified *pair = &b->weights.pairs[j];
        const size_t key = head->keys + (size_t)j;
        double of_p;
        const double of_d_s = d_s_error(b, j, delta, of_delta, &of_p);
        const double product = of_d_s * fabs(pair->grad * head->scale);
        d_q += product * reference_largest(b->k + key * d, d);
        b->bounds.d_k[key] += product * query;
        b->bounds.d_v[key] += of_p * reference_keep(problem, head, i, j) * gradient;
        b->bounds.d_bias = fmax(b->bounds.d_bias, of_d_s * fabs(pair->bias_grad));
    }
    b->bounds.d_q = fmax(b->bounds.d_q, d_q);
    b->bounds.weights[head->h] += b->weights.sink * b->weights.sink * squares;
    b->bounds.d_sinks[head->h] +=
        b->weights.sink * (4.0 * FLT_EPSILON * (1.0 + fabs(b->weights.lse)) * fabs(delta) + of_delta);
}

static void head_gradients(struct backward *b, const struct reference_head *head, bool bounded)
{
    for (int64_t i = 0; i < head->n_q; i++) {
        reference_weigh(b->problem, head, b->q, b->k, i, &b->weights);
        if (b->weights.sees_none)
            continue;
        const double delta = weight_gradients(b, head, i);
        for (int64_t j = 0; j < head->n_kv; j++)
            if (counts(b, j))
                pair_gradients(b, head, i, j, delta);
        if (b->out.d_sinks && reference_has(b->problem, CLATTN_SINKS))
            b->out.d_sinks[head->h] -= b->weights.sink * delta;
        if (bounded)
            row_bounds(b, head, i, delta);
    }
}

static double largest(const double *values, size_t count)
{
    double most = 0.0;
    for (size_t i = 0; i < count; i++)
        most = fmax(most, values[i]);
    return most;
}

static double noise(enum clattn_dtype dtype, const double *values, size_t count)
{
    return values ? 2.0 * reference_storage_noise(dtype, values, count) : 0.0;
}

/* Matrix units take O from weights that are rounded to the type of V, whatever O is stored as, and delta from that. In
 * a head's one number these errors add up by chance: four times their deviation, where each is anything within a
 * rounding. The naive run cannot tell, since its own error of one number may be none by luck. */
static double sinks_floor(const struct backward *b)
{
    const double share = 4.0 / sqrt(3.0) * unit[reference_type(b->problem, REFERENCE_V)];
    double most = 0.0;
    for (int64_t h = 0; h < b->problem->shape.heads; h++)
        most = fmax(most, b->bounds.d_sinks[h] + share * sqrt(b->bounds.weights[h]));
    return most;
}

static struct reference_gradient_floor floor_of(const struct backward *b)
{
    const struct reference_problem *problem = b->problem;
    const size_t keys = reference_key_count(problem), shared = reference_d_bias_count(problem);
    const size_t pairs =
        (size_t)(problem->shape.batch * problem->shape.heads * problem->shape.n_q * problem->shape.n_kv);
    return (struct reference_gradient_floor){
        .d_q = noise(reference_type(problem, REFERENCE_Q), b->out.d_q, reference_q_count(problem)) + b->bounds.d_q,
        .d_k = noise(reference_type(problem, REFERENCE_K), b->out.d_k, reference_k_count(problem)) +
               largest(b->bounds.d_k, keys),
        .d_v = noise(reference_type(problem, REFERENCE_V), b->out.d_v, reference_v_count(problem)) +
               largest(b->bounds.d_v, keys),
        .d_bias =
            shared ? noise(problem->dtype, b->out.d_bias, shared) + b->bounds.d_bias * (double)(pairs / shared) : 0.0,
        .d_sinks = sinks_floor(b)};
}

bool reference_backward(const struct reference_problem *problem, const float *q, const float *k, const float *v,
                        const float *d_o, const struct reference_gradients *gradients,
                        struct reference_gradient_floor *floor)
{
    struct backward b = {.problem = problem, .q = q, .k = k, .v = v, .d_o = d_o, .out = *gradients};
    const bool made = backward_make(&b);
    clear(gradients->d_q, reference_q_count(problem));
    clear(gradients->d_k, reference_k_count(problem));
    clear(gradients->d_v, reference_v_count(problem));
    clear(gradients->d_bias, reference_d_bias_count(problem));
    clear(gradients->d_sinks, reference_has(problem, CLATTN_SINKS) ? (size_t)problem->shape.heads : 0);
    for (size_t n = 0; n < reference_head_count(problem) && made; n++) {
        const struct reference_head head = reference_head_at(problem, n);
        head_gradients(&b, &head, floor != NULL);
    }
    if (made && floor)
        *floor = floor_of(&b);
    backward_free(&b);
    return made;
}
