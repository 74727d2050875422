/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/bench.h"
#include "options/names.h"
#include <inttypes.h>
#include <math.h>

static bool has_standard(const struct bench_row *row)
{
    return row->standard_ms.median > 0.0;
}

static void print_modifications(const struct bench_shape *shape)
{
    char text[160];
    const bool modified = shape->texts->score_mod || shape->texts->mask_mod;
    features_text(shape->features, text, sizeof text);
    if (!shape->features && !modified)
        return;
    printf("with %s%s%s%s%s", shape->features ? text : "", shape->features && modified ? ", " : "",
           shape->texts->score_mod ? "score_mod" : "", shape->texts->score_mod && shape->texts->mask_mod ? ", " : "",
           shape->texts->mask_mod ? "mask_mod" : "");
    if (shape->features & CLATTN_WINDOW)
        printf("; window %" PRId64 ",%" PRId64, shape->window_left, shape->window_right);
    if (shape->features & CLATTN_BLOCK_MASK)
        printf("; %.3g %% of the blocks of %d x %d", 100.0 * shape->block_density, shape->block_q, shape->block_kv);
    printf("\n");
}

void bench_print_head(const struct session *session, double peak, double copy, const struct bench_shape *shape)
{
    char device[256];
    session_title(session, device, sizeof device);
    printf("device %s, driver %s\nat the start: peak %.1f GFLOP/s of fp32 multiply-adds, copy %.1f GB/s; each row has "
           "its own beside it\n(limit: the share of the lower of peak and of what inputs and outputs allow at the "
           "speed of a copy; m: the latter;\nhost: how long the call takes that enqueues it; a share with a ! is above "
           "its peak: the clock changed)\n",
           device, session->capabilities->driver_version, peak * 1e3, copy);
    print_modifications(shape);
    printf("\n%-5s %5s %5s %6s %6s %4s %-6s %-8s %-13s %10s %6s %8s %9s %7s %8s %12s %7s %9s %9s %9s\n", "dtype",
           "batch", "heads", "n_q", "n_kv", "d", "causal", "pass", "path", "ms", "spread", "host us", "GFLOP/s", "peak",
           "limit", "standard ms", "faster", "extra", "standard", "traffic");
}

static void print_share(double share, const char *mark, char *text, size_t size)
{
    if (share > 0.0)
        snprintf(text, size, "%.1f%%%s", 100.0 * share, mark);
    else
        snprintf(text, size, "-");
}

static void print_shape(const struct bench_row *row)
{
    const struct bench_shape *shape = &row->shape;
    printf("%-5s %5" PRId64 " %5" PRId64 " %6" PRId64 " %6" PRId64 " %4d %-6s %-8s %-13s ",
           clattn_dtype_name(shape->dtype), shape->sizes.batch, shape->sizes.heads, shape->sizes.n_q, shape->sizes.n_kv,
           shape->d, shape->causal ? "yes" : "no", pass_name(shape->pass), row->plan.skeleton);
}

/* Half the way between the quartiles, of the median. */
static double spread(const struct statistics *ms)
{
    return ms->median > 0.0 ? 50.0 * (ms->upper - ms->lower) / ms->median : 0.0;
}

void bench_print_row(const struct bench_row *row)
{
    char extra[32], standard_extra[32], traffic[32], standard[32] = "-", faster[32] = "-", share[32], limit[32];
    bytes_text(row->extra_bytes, extra, sizeof extra);
    bytes_text(row->standard_bytes, standard_extra, sizeof standard_extra);
    bytes_text((uint64_t)row->traffic.flash, traffic, sizeof traffic);
    print_share(bench_share(row), bench_share_problem(row) ? "!" : " ", share, sizeof share);
    print_share(bench_share_of_limit(row), bench_is_bound_by_memory(row) ? "m" : " ", limit, sizeof limit);
    if (has_standard(row)) {
        snprintf(standard, sizeof standard, "%.3f", row->standard_ms.median);
        snprintf(faster, sizeof faster, "%.1fx", row->standard_ms.median / row->ms.median);
    }
    print_shape(row);
    if (row->problem[0])
        printf("%10s %6s %8s %9s %7s %8s %12s %7s", "-", "-", "-", "-", "-", "-", "-", "-");
    else
        printf("%10.3f %5.1f%% %8.1f %9.1f %7s %8s %12s %7s", row->ms.median, spread(&row->ms), row->enqueue_us.median,
               bench_tflops(row) * 1e3, share, limit, standard, faster);
    printf(" %9s %9s %9s\n", extra, row->standard_bytes ? standard_extra : "-", traffic);
    if (row->problem[0])
        printf("      %s\n", row->problem);
    fflush(stdout);
}
