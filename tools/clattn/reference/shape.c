/* SPDX-License-Identifier: BSD-2-Clause */
#include "reference/parts.h"
#include <math.h>

static int64_t kv_heads(const struct reference_problem *problem)
{
    return problem->shape.kv_heads ? problem->shape.kv_heads : problem->shape.heads;
}

static bool packed(const struct reference_problem *problem)
{
    return reference_has(problem, CLATTN_VARLEN);
}

size_t reference_row_count(const struct reference_problem *problem)
{
    const struct clattn_shape *shape = &problem->shape;
    return (size_t)(shape->heads * (packed(problem) ? problem->score.total_q : shape->batch * shape->n_q));
}

size_t reference_q_count(const struct reference_problem *problem)
{
    return reference_row_count(problem) * (size_t)problem->d;
}

size_t reference_o_count(const struct reference_problem *problem)
{
    return reference_row_count(problem) * (size_t)problem->d_v;
}

size_t reference_key_count(const struct reference_problem *problem)
{
    const struct clattn_shape *shape = &problem->shape;
    return (size_t)(kv_heads(problem) * (packed(problem) ? problem->score.total_kv : shape->batch * shape->n_kv));
}

size_t reference_k_count(const struct reference_problem *problem)
{
    return reference_key_count(problem) * (size_t)problem->d;
}

size_t reference_v_count(const struct reference_problem *problem)
{
    return reference_key_count(problem) * (size_t)problem->d_v;
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

size_t reference_head_count(const struct reference_problem *problem)
{
    return (size_t)(problem->shape.batch * problem->shape.heads);
}

static int64_t clamp(int64_t value, int64_t least, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

/* Where sequence b begins, and how long it is. */
struct extent {
    int64_t first, length;
};

static struct extent sequence(const int32_t *cu_seqlens, int64_t b, int64_t total, int64_t longest)
{
    const int64_t first = clamp(cu_seqlens[b], 0, total), next = clamp(cu_seqlens[b + 1], first, total);
    return (struct extent){first, next - first < longest ? next - first : longest};
}

struct reference_head reference_head_at(const struct reference_problem *problem, size_t number)
{
    const struct clattn_shape *shape = &problem->shape;
    const struct reference_score *score = &problem->score;
    const int64_t b = (int64_t)number / shape->heads, h = (int64_t)number % shape->heads;
    const int64_t kv_head = h / (shape->heads / kv_heads(problem));
    struct reference_head head = {.b = b, .h = h, .n_q = shape->n_q, .n_kv = shape->n_kv};
    head.scale = problem->scale != 0.0 ? problem->scale : 1.0 / sqrt(problem->d);
    head.rows = (size_t)((b * shape->heads + h) * shape->n_q);
    head.keys = (size_t)((b * kv_heads(problem) + kv_head) * shape->n_kv);
    if (packed(problem)) {
        const struct extent rows = sequence(score->cu_seqlens_q, b, score->total_q, shape->n_q);
        const struct extent keys = sequence(score->cu_seqlens_kv, b, score->total_kv, shape->n_kv);
        head.n_q = rows.length;
        head.n_kv = keys.length;
        head.rows = (size_t)(h * score->total_q + rows.first);
        head.keys = (size_t)(kv_head * score->total_kv + keys.first);
    }
    if (reference_has(problem, CLATTN_KEY_LENGTHS))
        head.n_kv = clamp(score->key_lengths[b], 0, head.n_kv);
    if (reference_has(problem, CLATTN_QUERY_LENGTHS))
        head.n_q = clamp((int64_t)reference_of_tensor(problem, &head, "query_lengths", 0, 0), 0, head.n_q);
    head.shift = problem->causal == CLATTN_CAUSAL_TOP_LEFT ? 0 : head.n_kv - head.n_q;
    if (reference_has(problem, CLATTN_ROW_SHIFTS))
        head.shift = clamp((int64_t)reference_of_tensor(problem, &head, "row_shifts", 0, 0), -(1 << 29), 1 << 29);
    head.window_shift = score->window_corner == CLATTN_FULL              ? head.shift
                        : score->window_corner == CLATTN_CAUSAL_TOP_LEFT ? 0
                                                                         : head.n_kv - head.n_q;
    return head;
}
