/* SPDX-License-Identifier: BSD-2-Clause */
#include "flow.h"
#include "json_out.h"
#include "options/names.h"
#include "reference/reference.h"
#include "run/job.h"
#include <inttypes.h>

/* Score modifications that hide pairs which the shape alone does not tell of. */
static const unsigned hiding = CLATTN_WINDOW | CLATTN_MASK | CLATTN_BLOCK_MASK | CLATTN_KEY_LENGTHS | CLATTN_VARLEN |
                               CLATTN_ROW_SHIFTS | CLATTN_QUERY_LENGTHS | CLATTN_TREE_MASK;

/* 0 where the work is not known. */
static double flops(const struct run *run)
{
    const struct arrays *arrays = &run->arrays;
    const struct score_options *score = &run->values->score;
    if (score_features(score) & hiding || score->mask_mod)
        return 0.0;
    const double pairs =
        reference_visible_pairs((enum clattn_causal)run->values->causal, arrays->shape.n_q, arrays->shape.n_kv);
    return 2.0 * (double)(arrays->shape.batch * arrays->shape.heads) * pairs * (arrays->d + arrays->d_v);
}

static double rate(double work, double ms)
{
    return ms > 0.0 ? work / ms / 1e6 : 0.0;
}

static json_t *json_rate(double work, double ms)
{
    return work > 0.0 ? json_measure(rate(work, ms)) : json_null();
}

static json_t *json_features(const struct run *run)
{
    const unsigned features = score_features(&run->values->score);
    json_t *names = json_features_of(features);
    if (run->score.score_mod)
        json_array_append_new(names, json_text("score_mod"));
    if (run->score.mask_mod)
        json_array_append_new(names, json_text("mask_mod"));
    return names;
}

/* What a backward pass adds; null without one. */
static json_t *json_backward(const struct run *run)
{
    if (!run_wants_gradients(run->values))
        return json_null();
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:I}", "path", run->backward_plan.skeleton, "compute_ms",
                     json_measure(run->backward_info.compute_ms), "copy_in_ms",
                     json_measure(run->backward_info.copy_in_ms), "copy_out_ms",
                     json_measure(run->backward_info.copy_out_ms), "gflops",
                     json_rate(2.5 * flops(run), run->backward_info.compute_ms), "device_bytes",
                     (json_int_t)run->backward_info.device_bytes);
}

int run_print_json(const struct run *run, struct failure *failure)
{
    const struct clattn_shape *s = &run->arrays.shape;
    char device[256];
    session_title(&run->shared->session, device, sizeof device);
    json_t *summary = json_pack(
        "{s:o, s:o, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:s, s:o, s:I, s:i, s:o, s:o, "
        "s:o, s:o, s:I, s:o}",
        "device", json_text(device), "driver", json_text(run->shared->session.capabilities->driver_version), "path",
        run->plan.skeleton, "dtype", clattn_dtype_name(run->arrays.dtype), "k_format", format_name(run->arrays.k_type),
        "v_format", format_name(run->arrays.v_type), "batch", (json_int_t)s->batch, "heads", (json_int_t)s->heads,
        "kv_heads", (json_int_t)s->kv_heads, "n_q", (json_int_t)s->n_q, "n_kv", (json_int_t)s->n_kv, "d", run->arrays.d,
        "d_v", run->arrays.d_v, "causal", causal_name((enum clattn_causal)run->values->causal), "features",
        json_features(run), "kv_chunk", (json_int_t)run->info.kv_chunk, "splits", run->info.splits, "compute_ms",
        json_measure(run->info.compute_ms), "copy_in_ms", json_measure(run->info.copy_in_ms), "copy_out_ms",
        json_measure(run->info.copy_out_ms), "gflops", json_rate(flops(run), run->info.compute_ms), "device_bytes",
        (json_int_t)run->info.device_bytes, "backward", json_backward(run));
    return json_print(summary, NULL, failure);
}

/* "forward_cpu, 1.234 ms, 300.0 GFLOP/s" */
static void work_text(const char *path, double ms, double work, char *text, size_t size)
{
    const int length = snprintf(text, size, "%s, %.3f ms", path, ms);
    if (work > 0.0 && length > 0 && (size_t)length < size)
        snprintf(text + length, size - (size_t)length, ", %.1f GFLOP/s", rate(work, ms));
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* "fp16", or "fp32 with fp16, bf16": what Q is, and K and V. */
static void types_text(const struct arrays *arrays, char *text, size_t size)
{
    const char *q = clattn_dtype_name(arrays->dtype);
    if (arrays->k_type == (int)arrays->dtype && arrays->v_type == (int)arrays->dtype)
        snprintf(text, size, "%s", q);
    else
        snprintf(text, size, "%s with %s, %s", q, format_name(arrays->k_type), format_name(arrays->v_type));
}

void run_print_summary(const struct run *run)
{
    const struct clattn_shape *s = &run->arrays.shape;
    char device[256], memory[32], features[160], forward[128], backward[128] = "", splits[40] = "", types[40];
    session_title(&run->shared->session, device, sizeof device);
    types_text(&run->arrays, types, sizeof types);
    bytes_text(larger(run->info.device_bytes, run->backward_info.device_bytes), memory, sizeof memory);
    features_text(score_features(&run->values->score), features, sizeof features);
    work_text(run->plan.skeleton, run->info.compute_ms, flops(run), forward, sizeof forward);
    if (run->info.splits > 1)
        snprintf(splits, sizeof splits, ", keys split into %d", run->info.splits);
    if (run_wants_gradients(run->values))
        work_text(run->backward_plan.skeleton, run->backward_info.compute_ms, 2.5 * flops(run), backward,
                  sizeof backward);
    flow(stderr,
         "%s batch %" PRId64 ", heads %" PRId64 "/%" PRId64 ", n %" PRId64 " x %" PRId64
         ", d %d/%d, causal %s%s%s%s%s on %s: %s%s%s%s, %s of device memory\n",
         types, s->batch, s->heads, s->kv_heads, s->n_q, s->n_kv, run->arrays.d, run->arrays.d_v,
         causal_name((enum clattn_causal)run->values->causal), features[0] ? ", " : "", features,
         run->score.score_mod ? ", score_mod" : "", run->score.mask_mod ? ", mask_mod" : "", device, forward, splits,
         backward[0] ? "; " : "", backward, memory);
}
