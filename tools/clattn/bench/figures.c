/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/bench.h"
#include <math.h>
#include <string.h>

static int64_t block_columns(const struct bench_shape *shape)
{
    return (shape->sizes.n_kv + shape->block_kv - 1) / shape->block_kv;
}

int64_t bench_kept_blocks(const struct bench_shape *shape)
{
    const int64_t columns = block_columns(shape), kept = (int64_t)(shape->block_density * (double)columns + 0.5);
    return kept < 1 ? 1 : kept > columns ? columns : kept;
}

/* Pairs that are seen, counted row by row. */
static double seen_pairs(const struct bench_shape *shape)
{
    const struct clattn_shape *s = &shape->sizes;
    const bool window = shape->features & CLATTN_WINDOW;
    const int64_t left = window ? shape->window_left : -1, right = window ? shape->window_right : -1;
    double pairs = 0.0;
    for (int64_t i = 0; i < s->n_q; i++) {
        const int64_t at = i + s->n_kv - s->n_q; /* the row's own place among the keys */
        int64_t first = left < 0 ? 0 : at - left;
        int64_t last = right < 0 ? s->n_kv - 1 : at + right;
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
    const bool counted = shape->features & CLATTN_WINDOW || (shape->causal && s->n_q != s->n_kv);
    double pairs = counted ? seen_pairs(shape) : (double)s->n_q * (double)s->n_kv * (shape->causal ? 0.5 : 1.0);
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

double bench_intensity(const struct bench_row *row)
{
    return row->traffic.least > 0.0 ? bench_flops(&row->shape) / row->traffic.least : 0.0;
}

/* TFLOP/s while inputs and outputs pass at the speed of a copy. */
static double memory_roof(const struct bench_row *row)
{
    return row->copy_gbps * 1e-3 * bench_intensity(row);
}

bool bench_is_bound_by_memory(const struct bench_row *row)
{
    return memory_roof(row) < row->peak_tflops.median;
}

double bench_limit(const struct bench_row *row)
{
    return fmin(memory_roof(row), row->peak_tflops.median);
}

double bench_share_of_limit(const struct bench_row *row)
{
    return bench_limit(row) > 0.0 ? bench_tflops(row) / bench_limit(row) : 0.0;
}

double bench_share_of_read(const struct bench_row *row)
{
    const double ms = row->read_gbps > 0.0 ? row->traffic.least / row->read_gbps * 1e-6 : 0.0;
    return row->ms.median > 0.0 ? ms / row->ms.median : 0.0;
}

const char *bench_share_problem(const struct bench_row *row)
{
    if (row->problem[0])
        return NULL;
    if (row->peak_tflops.median <= 0.0)
        return "the peak could not be measured";
    if (bench_share(row) <= 1.0)
        return NULL;
    return row->unit == UNIT_MATRIX
               ? "faster than the peak beside it, that of products by one sub-group: by larger ones, or the clock or "
                 "the "
                 "machine's load changed in between"
               : "faster than the peak beside it: the clock or the machine's load changed in between";
}

/* Skeletons that decline what it does not serve have a matrix unit; those of CPUs say by a knob what they
 * take. */
enum bench_unit bench_unit_of(const struct clattn_plan_info *plan)
{
    struct clattn_skeleton_info info;
    for (int i = 0; i < clattn_skeleton_count() && !clattn_skeleton_get_info(i, &info); i++)
        if (!strcmp(info.name, plan->skeleton) && (info.emulated || info.declines))
            return info.emulated ? UNIT_MATRIX_EMULATED : UNIT_MATRIX;
    return !strncmp(plan->knobs, "dot=1 ", 6) ? UNIT_DOT : !strncmp(plan->knobs, "dot=3 ", 6) ? UNIT_AMX : UNIT_FMA;
}

const char *bench_unit_name(enum bench_unit unit)
{
    static const char *const names[UNITS] = {[UNIT_FMA] = "fp32 multiply-adds",
                                             [UNIT_DOT] = "multiply-adds of pairs of bf16",
                                             [UNIT_AMX] = "tiles of bf16",
                                             [UNIT_MATRIX] = "matrix units",
                                             [UNIT_MATRIX_EMULATED] = "emulated matrix units"};
    return names[unit];
}
