/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench.h"
#include "json_out.h"
#include "names.h"
#include <inttypes.h>
#include <math.h>

static bool has_standard(const struct bench_row *row)
{
    return row->standard_ms.median > 0.0;
}

static void print_modifications(const struct bench_shape *shape)
{
    char text[160];
    features_text(shape->features, text, sizeof text);
    if (!shape->features)
        return;
    printf("with %s", text);
    if (shape->features & CLATTN_WINDOW)
        printf("; window %" PRId64 ",%" PRId64, shape->window_left, shape->window_right);
    if (shape->features & CLATTN_BLOCK_MASK)
        printf("; %.3g %% of the blocks of %d x %d", 100.0 * shape->block_density, shape->block_q, shape->block_kv);
    printf("\n");
}

void bench_print_head(const struct session *session, double peak, const struct bench_shape *shape)
{
    char device[256];
    session_title(session, device, sizeof device);
    printf("device %s, driver %s\npeak %.1f GFLOP/s of fp32 multiply-adds at the start; each row has its own beside "
           "it\n(a share with a ! is above it: the clock changed, or matrix units are faster)\n",
           device, session->capabilities->driver_version, peak * 1e3);
    print_modifications(shape);
    printf("\n%-5s %5s %5s %6s %6s %4s %-6s %-8s %-13s %10s %9s %7s %12s %7s %9s %9s\n", "dtype", "batch", "heads",
           "n_q", "n_kv", "d", "causal", "pass", "path", "ms", "GFLOP/s", "peak", "standard ms", "faster", "extra",
           "standard");
}

void bench_print_row(const struct bench_row *row)
{
    const struct bench_shape *shape = &row->shape;
    char extra[32], standard_extra[32], standard[32] = "-", faster[32] = "-", share[32] = "-";
    bytes_text(row->extra_bytes, extra, sizeof extra);
    bytes_text(row->standard_bytes, standard_extra, sizeof standard_extra);
    if (row->peak_tflops.median > 0.0)
        snprintf(share, sizeof share, "%.1f%%%s", 100.0 * bench_share(row), bench_share_problem(row) ? "!" : " ");
    if (has_standard(row)) {
        snprintf(standard, sizeof standard, "%.3f", row->standard_ms.median);
        snprintf(faster, sizeof faster, "%.1fx", row->standard_ms.median / row->ms.median);
    }
    printf("%-5s %5" PRId64 " %5" PRId64 " %6" PRId64 " %6" PRId64
           " %4d %-6s %-8s %-13s %10.3f %9.1f %7s %12s %7s %9s %9s\n",
           clattn_dtype_name(shape->dtype), shape->sizes.batch, shape->sizes.heads, shape->sizes.n_q, shape->sizes.n_kv,
           shape->d, shape->causal ? "yes" : "no", pass_name(shape->pass), row->plan.skeleton, row->ms.median,
           bench_tflops(row) * 1e3, share, standard, faster, extra, row->standard_bytes ? standard_extra : "-");
    fflush(stdout);
}

static json_t *json_standard(const struct bench_row *row)
{
    return has_standard(row) ? json_measure(row->standard_ms.median) : json_null();
}

static json_t *json_problem(const char *problem)
{
    return problem ? json_text(problem) : json_null();
}

/* The score modifications of the row, with their numbers; null where it has none of that kind. */
static json_t *json_modifications(const struct bench_shape *shape)
{
    const bool window = shape->features & CLATTN_WINDOW, blocks = shape->features & CLATTN_BLOCK_MASK;
    json_t *names = json_array();
    for (unsigned bit = 1; bit <= CLATTN_DROPOUT; bit *= 2)
        if (shape->features & bit)
            json_array_append_new(names, json_text(feature_name(bit)));
    return json_pack("{s:o, s:o, s:o, s:o}", "features", names, "window",
                     window ? json_pack("[I, I]", (json_int_t)shape->window_left, (json_int_t)shape->window_right)
                            : json_null(),
                     "block_size", blocks ? json_pack("[i, i]", shape->block_q, shape->block_kv) : json_null(),
                     "block_density", blocks ? json_measure(shape->block_density) : json_null());
}

json_t *bench_json_row(const struct session *session, const struct bench_row *row)
{
    const struct bench_shape *shape = &row->shape;
    const struct clattn_shape *s = &shape->sizes;
    json_t *json = json_pack(
        "{s:o, s:o, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:b}", "device",
        json_text(session->capabilities->device_name), "driver", json_text(session->capabilities->driver_version),
        "path", row->plan.skeleton, "pass", pass_name(shape->pass), "dtype", clattn_dtype_name(shape->dtype), "batch",
        (json_int_t)s->batch, "heads", (json_int_t)s->heads, "kv_heads", (json_int_t)s->kv_heads, "n_q",
        (json_int_t)s->n_q, "n_kv", (json_int_t)s->n_kv, "d", shape->d, "d_v", shape->d_v, "causal", shape->causal);
    json_t *measures = json_pack(
        "{s:o, s:o, s:o, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:i, s:i, s:i, s:i}", "median_ms",
        json_measure(row->ms.median), "min_ms", json_measure(row->ms.minimum), "max_ms", json_measure(row->ms.maximum),
        "repetitions", row->repetitions, "tflops", json_measure(bench_tflops(row)), "peak_tflops",
        json_measure(row->peak_tflops.median), "share_of_peak", json_measure(bench_share(row)), "share_problem",
        json_problem(bench_share_problem(row)), "standard_ms", json_standard(row), "standard_problem",
        json_problem(row->standard_problem[0] ? row->standard_problem : NULL), "first_call_ms",
        json_measure(row->first_call_ms), "extra_bytes", (json_int_t)row->extra_bytes, "standard_bytes",
        (json_int_t)row->standard_bytes, "b_r", row->plan.b_r, "b_c", row->plan.b_c, "work_group_size",
        row->plan.work_group_size, "standard_repetitions", row->standard_repetitions);
    if (json && measures)
        json_object_update(json, measures);
    json_decref(measures);
    json_t *modifications = json_modifications(shape);
    if (json && modifications)
        json_object_update(json, modifications);
    json_decref(modifications);
    return json;
}
