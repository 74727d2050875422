/* SPDX-License-Identifier: BSD-2-Clause */
#include "judge.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COLUMNS = 1024 };

static void read_row(const struct ggml_tensor *tensor, int64_t i1, int64_t i2, int64_t i3, float *row)
{
    const char *at = (const char *)tensor->data + (size_t)i1 * tensor->nb[1] + (size_t)i2 * tensor->nb[2] +
                     (size_t)i3 * tensor->nb[3];
    if (tensor->type == GGML_TYPE_F32)
        memcpy(row, at, (size_t)tensor->ne[0] * sizeof *row);
    else
        ggml_get_type_traits(tensor->type)->to_float(at, row, tensor->ne[0]);
}

/* The factor of the mask, for max_bias above 0: slopes as ALiBi has them (arXiv:2108.12409), those of the next smaller
 * power of two heads, and between them further ones. */
static double slope_of(double max_bias, int64_t heads, int64_t h)
{
    int64_t even = 1;
    while (2 * even <= heads)
        even *= 2;
    const double exponent = h < even ? (double)(h + 1) : (double)(2 * (h - even) + 1) / 2;
    return max_bias > 0 ? pow(2, -max_bias * exponent / (double)even) : 1;
}

struct head {
    const struct ggml_tensor *k, *v, *mask;
    int64_t b, k_head, v_head, mask_head, mask_batch;
    double scale, softcap, slope, sink;
};

static struct head open_head(const struct ggml_tensor *node, int64_t b, int64_t h)
{
    const struct ggml_tensor *const *src = (const struct ggml_tensor *const *)node->src;
    const int64_t heads = src[0]->ne[2];
    float numbers[3];
    memcpy(numbers, node->op_params, sizeof numbers);
    return (struct head){.k = src[1],
                         .v = src[2],
                         .mask = src[3],
                         .b = b,
                         .k_head = h / (heads / src[1]->ne[2]),
                         .v_head = h / (heads / src[2]->ne[2]),
                         .mask_head = src[3] ? h % src[3]->ne[2] : 0,
                         .mask_batch = src[3] ? b % src[3]->ne[3] : 0,
                         .scale = (double)numbers[0],
                         .slope = slope_of((double)numbers[1], heads, h),
                         .softcap = (double)numbers[2],
                         .sink = src[4] ? (double)((const float *)src[4]->data)[h] : -INFINITY};
}

static void expected_row(const struct head *head, const float *q, int64_t i, double *row)
{
    float k[MOST_COLUMNS], v[MOST_COLUMNS];
    float *mask = calloc((size_t)head->k->ne[1] + 1, sizeof *mask);
    double largest = head->sink, sum = 0;
    double *scores = calloc((size_t)head->k->ne[1] + 1, sizeof *scores);
    if (head->mask)
        read_row(head->mask, i, head->mask_head, head->mask_batch, mask);
    for (int64_t j = 0; j < head->k->ne[1]; j++) {
        read_row(head->k, j, head->k_head, head->b, k);
        for (int64_t x = 0; x < head->k->ne[0]; x++)
            scores[j] += (double)q[x] * (double)k[x];
        scores[j] *= head->scale;
        if (head->softcap != 0)
            scores[j] = head->softcap * tanh(scores[j] / head->softcap);
        scores[j] += head->slope * (double)mask[j];
        largest = fmax(largest, scores[j]);
    }
    memset(row, 0, (size_t)head->v->ne[0] * sizeof *row);
    for (int64_t j = 0; j < head->k->ne[1] && largest > -INFINITY; j++) {
        const double weight = exp(scores[j] - largest);
        sum += weight;
        read_row(head->v, j, head->v_head, head->b, v);
        for (int64_t x = 0; x < head->v->ne[0]; x++)
            row[x] += weight * (double)v[x];
    }
    sum += largest > -INFINITY ? exp(head->sink - largest) : 0;
    for (int64_t x = 0; x < head->v->ne[0] && sum > 0; x++)
        row[x] /= sum;
    free(scores);
    free(mask);
}

void judge_expected(const struct ggml_tensor *node, double *expected)
{
    const struct ggml_tensor *q = node->src[0];
    float row[MOST_COLUMNS];
    for (int64_t b = 0; b < q->ne[3]; b++) {
        for (int64_t h = 0; h < q->ne[2]; h++) {
            const struct head head = open_head(node, b, h);
            for (int64_t i = 0; i < q->ne[1]; i++) {
                read_row(q, i, h, b, row);
                expected_row(&head, row, i, expected + ((b * q->ne[1] + i) * q->ne[2] + h) * node->ne[0]);
            }
        }
    }
}

struct judge_distance judge_compare(const float *given, const double *expected, size_t count)
{
    double largest = 0, squares = 0, all = 0;
    for (size_t i = 0; i < count; i++) {
        const double difference = fabs((double)given[i] - expected[i]);
        if (!(difference <= largest)) /* NaN counts, too */
            largest = difference;
        squares += difference * difference;
        all += expected[i] * expected[i];
    }
    return (struct judge_distance){largest, all > 0 ? squares / all : squares};
}

void judge_draw(float *row, size_t count, unsigned *seed)
{
    for (size_t i = 0; i < count; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        row[i] = (float)(*seed >> 8) / (float)(1 << 23) - 1.0f;
    }
}
