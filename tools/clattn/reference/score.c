/* SPDX-License-Identifier: BSD-2-Clause */
#include "reference/parts.h"
#include <clattn/attention.h>
#include <math.h>
#include <string.h>

bool reference_has(const struct reference_problem *problem, unsigned feature)
{
    return (problem->score.features & feature) != 0;
}

size_t reference_place(const struct clattn_layout *layout, const int64_t sizes[4], int64_t b, int64_t h, int64_t i,
                       int64_t j)
{
    if (!layout->strided && !layout->batch && !layout->head && !layout->row && !layout->column)
        return (size_t)(layout->offset + ((b * sizes[1] + h) * sizes[2] + i) * sizes[3] + j);
    return (size_t)(layout->offset + b * layout->batch + h * layout->head + i * layout->row + j * layout->column);
}

static size_t pair_place(const struct reference_problem *problem, const struct clattn_layout *layout,
                         const struct reference_head *head, int64_t i, int64_t j)
{
    const struct clattn_shape *shape = &problem->shape;
    const int64_t sizes[4] = {shape->batch, shape->heads, shape->n_q, shape->n_kv};
    return reference_place(layout, sizes, head->b, head->h, i, j);
}

static bool in_window(const struct reference_score *score, int64_t key, int64_t j)
{
    return (score->window_left < 0 || j >= key - score->window_left || j < score->sink_keys) &&
           (score->window_right < 0 || j <= key + score->window_right);
}

/* Bits of words, of which all that a pair needs are looked up by their place in the array of the table. */
static bool off_tree(const struct reference_problem *problem, const struct reference_head *head, int64_t i, int64_t j)
{
    const int64_t bit = j - (head->n_kv - problem->score.tree_keys);
    return bit >= 0 && !((int64_t)reference_of_tensor(problem, head, "tree_mask", i, bit / 32) >> bit % 32 & 1);
}

static bool block_kept(const struct reference_problem *problem, const struct reference_head *head, int64_t i, int64_t j)
{
    const struct reference_score *score = &problem->score;
    const struct clattn_shape *shape = &problem->shape;
    const int64_t sizes[4] = {shape->batch, shape->heads, (shape->n_q + score->block_q - 1) / score->block_q,
                              (shape->n_kv + score->block_kv - 1) / score->block_kv};
    return score->block_mask[reference_place(&score->block_mask_at, sizes, head->b, head->h, i / score->block_q,
                                             j / score->block_kv)] != 0;
}

bool reference_hidden(const struct reference_problem *problem, const struct reference_head *head, int64_t i, int64_t j)
{
    const struct reference_score *score = &problem->score;
    if (j >= head->n_kv || (problem->causal != CLATTN_FULL && j > i + head->shift))
        return true;
    if (reference_has(problem, CLATTN_WINDOW) && !in_window(score, i + head->window_shift, j))
        return true;
    if (reference_has(problem, CLATTN_MASK) && !score->mask[pair_place(problem, &score->mask_at, head, i, j)])
        return true;
    if (reference_has(problem, CLATTN_BLOCK_MASK) && !block_kept(problem, head, i, j))
        return true;
    if (reference_has(problem, CLATTN_TREE_MASK) && off_tree(problem, head, i, j))
        return true;
    return score->mask_mod && !score->mask_mod((int)head->b, (int)head->h, (int)i, (int)j, score->data);
}

static double step(const struct reference_problem *problem, double value, bool rounded)
{
    return rounded ? (double)reference_round(reference_arithmetic(problem), (float)value) : value;
}

/* Where a score is so large that its own rounding moves it, the derivative passes that on. */
static void add(struct reference_modified *modified, double score)
{
    modified->score = score;
    if (isfinite(score))
        modified->magnitude += fabs(score);
}

static void cap(const struct reference_problem *problem, struct reference_modified *modified, bool rounded)
{
    const double most = problem->score.softcap, t = step(problem, tanh(modified->score / most), rounded);
    modified->grad = 1.0 - t * t;
    add(modified, step(problem, most * t, rounded));
    modified->magnitude += 1.5 * most; /* 1 - 2 / (e^2x + 1) is off by some roundings of 1, for any x */
}

static double bias_slope(const struct reference_problem *problem, const struct reference_head *head)
{
    return reference_has(problem, CLATTN_BIAS_SLOPES) ? reference_of_tensor(problem, head, "bias_slopes", 0, 0) : 1.0;
}

static double slope_of(const struct reference_problem *problem, const struct reference_head *head)
{
    const int64_t sizes[4] = {problem->shape.batch, problem->shape.heads, 1, 1};
    return (double)problem->score.alibi[reference_place(&problem->score.alibi_at, sizes, head->b, head->h, 0, 0)];
}

static double value_at(const struct cla_feature_tensor *row, const void *values, size_t place)
{
    return row->element == CLA_INT ? (double)((const int32_t *)values)[place] : (double)((const float *)values)[place];
}

/* The place of a pair's value; of heads with several numbers i says which. */
static size_t place_of(const struct reference_problem *problem, const struct cla_feature_tensor *row, int n,
                       const struct reference_head *head, int64_t i, int64_t j)
{
    const struct clattn_shape *shape = &problem->shape;
    const struct clattn_layout *at = &problem->score.more_at[n];
    struct cla_sizes sizes = {shape->batch, shape->heads, shape->n_q, (problem->score.tree_keys + 31) / 32};
    if (row->extent == CLA_OF_BATCH)
        return (size_t)head->b;
    if (row->extent == CLA_OF_ROWS) /* dense, as LSE is */
        return head->rows + (size_t)i;
    cla_feature_sizes(row, shape, &sizes); /* of a tree they are those */
    const int64_t lengths[4] = {sizes.batch, sizes.heads, sizes.rows, sizes.columns};
    const int64_t b = sizes.batch == 1 ? 0 : head->b, last = sizes.columns == 1 ? 0 : j;
    const int64_t row_number = row->extent == CLA_OF_EACH_KEY ? j : sizes.rows == 1 ? 0 : i;
    return reference_place(at, lengths, b, head->h, row_number, last);
}

double reference_of_tensor(const struct reference_problem *problem, const struct reference_head *head, const char *name,
                           int64_t i, int64_t j)
{
    const struct cla_feature *of;
    const struct cla_feature_tensor *row;
    for (int n = 0; (row = cla_feature_tensor(n, &of)); n++)
        if (strcmp(row->name, name) == 0)
            return value_at(row, problem->score.more[n], place_of(problem, row, n, head, i, j));
    return NAN;
}

double reference_of_number(const struct reference_problem *problem, const char *name)
{
    const struct cla_feature *of;
    const struct cla_feature_number *row;
    for (int n = 0; (row = cla_feature_number(n, &of)); n++)
        if (strcmp(row->name, name) == 0)
            return problem->score.more_numbers[n];
    return NAN;
}

double reference_lse_gradient(const struct reference_problem *problem, const struct reference_head *head, int64_t i)
{
    return reference_has(problem, CLATTN_LSE_GRADIENT) ? reference_of_tensor(problem, head, "d_lse", i, 0) : 0.0;
}

/* A step that multiplies the derivatives by `slope`. */
static void change(struct reference_modified *modified, double score, double slope)
{
    modified->grad *= slope;
    modified->bias_grad *= slope;
    modified->magnitude *= fmax(1.0, fabs(slope));
    add(modified, score);
}

/* The features behind the bias, in the order of their table: each calls change() with what it makes of the score,
 * rounded by step(), and with its derivative. */
static void modify_further(const struct reference_problem *problem, const struct reference_head *head, int64_t i,
                           int64_t j, bool rounded, struct reference_modified *modified)
{
    const struct reference_score *how = &problem->score;
    const int b = (int)head->b, h = (int)head->h;
    if (how->score_mod)
        change(modified, step(problem, how->score_mod(modified->score, b, h, (int)i, (int)j, how->data), rounded),
               how->score_mod_grad ? how->score_mod_grad(modified->score, b, h, (int)i, (int)j, how->data) : 1.0);
}

struct reference_modified reference_modify(const struct reference_problem *problem, const struct reference_head *head,
                                           double score, int64_t i, int64_t j, bool rounded)
{
    const struct reference_score *how = &problem->score;
    const double slope = bias_slope(problem, head);
    struct reference_modified modified = {.score = score, .grad = 1.0, .bias_grad = slope};
    if (reference_has(problem, CLATTN_SOFTCAP))
        cap(problem, &modified, rounded);
    if (reference_has(problem, CLATTN_ALIBI))
        add(&modified,
            step(problem, modified.score - slope_of(problem, head) * fabs((double)(i + head->shift - j)), rounded));
    if (reference_has(problem, CLATTN_BIAS))
        add(&modified,
            step(problem, modified.score + slope * (double)how->bias[pair_place(problem, &how->bias_at, head, i, j)],
                 rounded));
    modify_further(problem, head, i, j, rounded, &modified);
    return modified;
}

double reference_sink(const struct reference_problem *problem, const struct reference_head *head)
{
    return reference_has(problem, CLATTN_SINKS) ? (double)problem->score.sinks[head->h] : -INFINITY;
}

size_t reference_d_bias_place(const struct reference_problem *problem, const struct reference_head *head, int64_t i,
                              int64_t j)
{
    const struct clattn_layout *bias = &problem->score.bias_at;
    const bool dense = !bias->batch && !bias->head && !bias->row && !bias->column;
    const int64_t heads = dense || bias->head ? problem->shape.heads : 1;
    const int64_t b = dense || bias->batch ? head->b : 0, h = dense || bias->head ? head->h : 0;
    const int64_t rows = dense || bias->row ? problem->shape.n_q : 1;
    return (size_t)(((b * heads + h) * rows + (rows > 1 ? i : 0)) * problem->shape.n_kv + j);
}

size_t reference_d_bias_count(const struct reference_problem *problem)
{
    const struct clattn_shape *shape = &problem->shape;
    const struct reference_head last = {.b = shape->batch - 1, .h = shape->heads - 1};
    if (!reference_has(problem, CLATTN_BIAS) || !shape->batch || !shape->heads || !shape->n_q || !shape->n_kv)
        return 0;
    return reference_d_bias_place(problem, &last, shape->n_q - 1, shape->n_kv - 1) + 1;
}
