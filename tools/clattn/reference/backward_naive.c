/* SPDX-License-Identifier: BSD-2-Clause */
#include "reference/parts.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The gradients as automatic differentiation of the plain formula makes them: P, dP and dS are tensors of the problem's
 * type, each product sums in fp32. */
struct naive {
    const struct reference_problem *problem;
    const float *q, *k, *v, *d_o;
    struct reference_naive_gradients out;
    struct reference_weights weights;
    float *d_p; /* the row's gradient of P */
};

static float rounded(const struct naive *n, double value)
{
    return reference_round(reference_arithmetic(n->problem), (float)value);
}

static bool counts(const struct naive *n, int64_t j)
{
    return n->weights.pairs[j].score != -INFINITY;
}

static float weight_gradients(struct naive *n, const struct reference_head *head, int64_t i)
{
    const size_t d_v = (size_t)n->problem->d_v;
    const float *d_o = n->d_o + (head->rows + (size_t)i) * d_v;
    float delta = 0.0f;
    for (int64_t j = 0; j < head->n_kv; j++) {
        const double keep = counts(n, j) ? reference_keep(n->problem, head, i, j) : 0.0;
        const float *v = n->v + (head->keys + (size_t)j) * d_v;
        float sum = 0.0f;
        for (size_t c = 0; c < d_v && keep != 0.0; c++)
            sum += d_o[c] * v[c];
        n->d_p[j] = keep != 0.0 ? rounded(n, (double)rounded(n, (double)sum) * keep) : 0.0f;
        delta += (float)n->weights.p[j] * n->d_p[j];
    }
    return delta - (float)reference_lse_gradient(n->problem, head, i);
}

static void add_products(float *sum, float factor, const float *values, size_t count)
{
    for (size_t c = 0; c < count; c++)
        sum[c] += factor * values[c];
}

static void pair_gradients(struct naive *n, const struct reference_head *head, int64_t i, int64_t j, float delta)
{
    const struct reference_problem *problem = n->problem;
    const size_t d = (size_t)problem->d, d_v = (size_t)problem->d_v;
    const size_t row = head->rows + (size_t)i, key = head->keys + (size_t)j;
    const struct reference_modified *pair = &n->weights.pairs[j];
    const float p = (float)n->weights.p[j], scale = (float)head->scale;
    const float d_s = rounded(n, (double)(p * (n->d_p[j] - delta)));
    const float product = rounded(n, (double)(rounded(n, (double)d_s * pair->grad) * scale));
    const double keep = reference_keep(problem, head, i, j);
    if (n->out.d_q)
        add_products(n->out.d_q + row * d, product, n->k + key * d, d);
    if (n->out.d_k)
        add_products(n->out.d_k + key * d, product, n->q + row * d, d);
    if (n->out.d_v && keep != 0.0)
        add_products(n->out.d_v + key * d_v, rounded(n, (double)p * keep), n->d_o + row * d_v, d_v);
    if (n->out.d_bias && reference_has(problem, CLATTN_BIAS))
        n->out.d_bias[reference_d_bias_place(problem, head, i, j)] += rounded(n, (double)d_s * pair->bias_grad);
}

static void head_gradients(struct naive *n, const struct reference_head *head)
{
    for (int64_t i = 0; i < head->n_q; i++) {
        reference_weigh_naively(n->problem, head, n->q, n->k, i, &n->weights);
        if (n->weights.sees_none)
            continue;
        const float delta = weight_gradients(n, head, i);
        for (int64_t j = 0; j < head->n_kv; j++)
            if (counts(n, j))
                pair_gradients(n, head, i, j, delta);
        if (n->out.d_sinks && reference_has(n->problem, CLATTN_SINKS))
            n->out.d_sinks[head->h] -= (float)n->weights.sink * delta;
    }
}

static void clear(float *values, size_t count)
{
    if (values && count)
        memset(values, 0, count * sizeof *values);
}

static void round_all(enum clattn_dtype dtype, float *values, size_t count)
{
    for (size_t i = 0; i < count && values; i++)
        values[i] = reference_round(dtype, values[i]);
}

bool reference_naive_backward(const struct reference_problem *problem, const float *q, const float *k, const float *v,
                              const float *d_o, const struct reference_naive_gradients *gradients)
{
    struct naive n = {.problem = problem, .q = q, .k = k, .v = v, .d_o = d_o, .out = *gradients};
    n.d_p = calloc((size_t)problem->shape.n_kv + 1, sizeof *n.d_p);
    const bool made = reference_weights_make(problem, &n.weights) && n.d_p;
    float *const outputs[] = {gradients->d_q, gradients->d_k, gradients->d_v, gradients->d_bias};
    const enum clattn_dtype types[] = {reference_type(problem, REFERENCE_Q), reference_type(problem, REFERENCE_K),
                                       reference_type(problem, REFERENCE_V), problem->dtype};
    const size_t sizes[] = {reference_q_count(problem), reference_k_count(problem), reference_v_count(problem),
                            reference_d_bias_count(problem)};
    for (int i = 0; i < 4; i++)
        clear(outputs[i], sizes[i]);
    clear(gradients->d_sinks, reference_has(problem, CLATTN_SINKS) ? (size_t)problem->shape.heads : 0);
    for (size_t number = 0; number < reference_head_count(problem) && made; number++) {
        const struct reference_head head = reference_head_at(problem, number);
        head_gradients(&n, &head);
    }
    for (int i = 0; i < 4; i++)
        round_all(types[i], outputs[i], sizes[i]);
    reference_weights_free(&n.weights);
    free(n.d_p);
    return made;
}
