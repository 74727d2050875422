/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench.h"

static int64_t block_columns(const struct bench_shape *shape)
{
    return (shape->sizes.n_kv + shape->block_kv - 1) / shape->block_kv;
}

int64_t bench_kept_blocks(const struct bench_shape *shape)
{
    const int64_t columns = block_columns(shape), kept = (int64_t)(shape->block_density * (double)columns + 0.5);
    return kept < 1 ? 1 : kept > columns ? columns : kept;
}

/* Pairs inside the window, counted row by row. */
static double window_pairs(const struct bench_shape *shape)
{
    const struct clattn_shape *s = &shape->sizes;
    double pairs = 0.0;
    for (int64_t i = 0; i < s->n_q; i++) {
        const int64_t at = i + s->n_kv - s->n_q; /* the row's own place among the keys */
        int64_t first = shape->window_left < 0 ? 0 : at - shape->window_left;
        int64_t last = shape->window_right < 0 ? s->n_kv - 1 : at + shape->window_right;
        last = shape->causal && last > at ? at : last;
        first = first < 0 ? 0 : first;
        last = last >= s->n_kv ? s->n_kv - 1 : last;
        pairs += last >= first ? (double)(last - first + 1) : 0.0;
    }
    return pairs;
}

double bench_flops(const struct bench_shape *shape)
{
    const struct clattn_shape *s = &shape->sizes;
    double pairs = shape->features & CLATTN_WINDOW ? window_pairs(shape)
                                                   : (double)s->n_q * (double)s->n_kv * (shape->causal ? 0.5 : 1.0);
    if (shape->features & CLATTN_BLOCK_MASK)
        pairs *= (double)bench_kept_blocks(shape) / (double)block_columns(shape);
    return 2.0 * (double)(s->batch * s->heads) * pairs * (shape->d + shape->d_v) *
           (shape->pass == CLATTN_BACKWARD ? 2.5 : 1.0);
}

double bench_tflops(const struct bench_row *row)
{
    return row->ms.median > 0.0 ? bench_flops(&row->shape) / row->ms.median * 1e-9 : 0.0;
}

double bench_share(const struct bench_row *row)
{
    return row->peak_tflops.median > 0.0 ? bench_tflops(row) / row->peak_tflops.median : 0.0;
}

const char *bench_share_problem(const struct bench_row *row)
{
    if (row->peak_tflops.median <= 0.0)
        return "the peak could not be measured";
    if (bench_share(row) <= 1.0)
        return NULL;
    return row->shape.dtype == CLATTN_FP32
               ? "faster than the peak beside it: the clock or the machine's load changed in between"
               : "faster than the peak beside it, that of fp32 multiply-adds: by matrix units, or the clock or the "
                 "machine's load changed in between";
}
