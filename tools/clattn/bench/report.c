/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/bench.h"
#include "bench/steady.h"
#include "flow.h"
#include "options/names.h"
#include "table.h"
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
    flow(stdout, "with %s%s%s%s%s", shape->features ? text : "", shape->features && modified ? ", " : "",
         shape->texts->score_mod ? "score_mod" : "", shape->texts->score_mod && shape->texts->mask_mod ? ", " : "",
         shape->texts->mask_mod ? "mask_mod" : "");
    if (shape->features & CLATTN_WINDOW)
        flow(stdout, "; window %" PRId64 ",%" PRId64, shape->window_left, shape->window_right);
    if (shape->features & CLATTN_BLOCK_MASK)
        flow(stdout, "; %.3g %% of the blocks of %d x %d", 100.0 * shape->block_density, shape->block_q,
             shape->block_kv);
    flow(stdout, "\n");
}

enum {
    DTYPE,
    KEYS,
    BATCH,
    HEADS,
    N_Q,
    N_KV,
    D,
    CAUSAL,
    PASS,
    PATH,
    MS,
    SPREAD,
    HOST_US,
    GFLOPS,
    PEAK,
    LIMIT,
    READ,
    STANDARD_MS,
    FASTER,
    EXTRA,
    STANDARD_EXTRA,
    TRAFFIC,
    COLUMNS
};

static const struct table_column columns[COLUMNS] = {
    [DTYPE] = {"dtype", -5, 0},
    [KEYS] = {"k, v", -9, 13},
    [BATCH] = {"batch", 5, 4},
    [HEADS] = {"heads", 5, 3},
    [N_Q] = {"n_q", 6, 0},
    [N_KV] = {"n_kv", 6, 0},
    [D] = {"d", 4, 0},
    [CAUSAL] = {"causal", -6, 0},
    [PASS] = {"pass", -8, 0},
    [PATH] = {"path", -13, 1},
    [MS] = {"ms", 10, 0},
    [SPREAD] = {"spread", 7, 7},
    [HOST_US] = {"host us", 8, 11},
    [GFLOPS] = {"GFLOP/s", 8, 0},
    [PEAK] = {"peak", 7, 5},
    [LIMIT] = {"limit", 8, 6},
    [READ] = {"read", 7, 14},
    [STANDARD_MS] = {"standard ms", 12, 8},
    [FASTER] = {"faster", 7, 2},
    [EXTRA] = {"extra", 9, 9},
    [STANDARD_EXTRA] = {"standard", 9, 10},
    [TRAFFIC] = {"traffic", 9, 12},
};

void bench_print_head(const struct session *session, double peak, double copy, const struct bench_shape *shape)
{
    char device[256];
    session_title(session, device, sizeof device);
    flow(stdout,
         "device %s, driver %s\nat the start: peak %.1f GFLOP/s of fp32 multiply-adds, copy %.1f GB/s; each row has "
         "its own beside it\n(limit: the share of the lower of peak and of what inputs and outputs allow at the "
         "speed of a copy; m: the latter;\nread: the time to read the inputs once, of the row's;\nhost: how long the "
         "call takes that enqueues it; a share with a ! is above "
         "its peak: the clock changed;\na spread or standard with a !: other work disturbed all rounds of the row)\n",
         device, session->capabilities->driver_version, peak * 1e3, copy);
    print_modifications(shape);
    bool shown[COLUMNS];
    table_fit(columns, COLUMNS, 0, stdout, shown);
    putchar('\n');
    table_print_head(columns, COLUMNS, shown, stdout);
    putchar('\n');
}

static void print_share(double share, const char *mark, char *text, size_t size)
{
    if (share > 0.0)
        snprintf(text, size, "%.1f%%%s", 100.0 * share, mark);
    else
        snprintf(text, size, "-");
}

#define CELL(column_, ...) snprintf(cells[column_], TABLE_CELL, __VA_ARGS__)

/* "q8_0", "int8/fp16", and with pages "q8_0/p16". */
static void fill_keys(const struct bench_shape *shape, char *text)
{
    const char *k = shape->k_type ? format_name(shape->k_type - CLATTN_AS_FP32) : clattn_dtype_name(shape->dtype);
    const char *v = shape->v_type ? format_name(shape->v_type - CLATTN_AS_FP32) : clattn_dtype_name(shape->dtype);
    char pages[16] = "";
    if (shape->page_keys)
        snprintf(pages, sizeof pages, "/p%" PRId64, shape->page_keys);
    if (shape->k_type == shape->v_type)
        snprintf(text, TABLE_CELL, "%s%s", k, pages);
    else
        snprintf(text, TABLE_CELL, "%s,%s%s", k, v, pages);
}

static void fill_shape(const struct bench_row *row, table_cells cells)
{
    const struct bench_shape *shape = &row->shape;
    fill_keys(shape, cells[KEYS]);
    CELL(DTYPE, "%s", clattn_dtype_name(shape->dtype));
    CELL(BATCH, "%" PRId64, shape->sizes.batch);
    CELL(HEADS, "%" PRId64, shape->sizes.heads);
    CELL(N_Q, "%" PRId64, shape->sizes.n_q);
    CELL(N_KV, "%" PRId64, shape->sizes.n_kv);
    CELL(D, "%d", shape->d);
    CELL(CAUSAL, "%s", shape->causal ? "yes" : "no");
    CELL(PASS, "%s", pass_name(shape->pass));
    CELL(PATH, "%.31s", row->plan.skeleton);
}

/* Half the way between the quartiles, of the median. */
static double spread(const struct statistics *ms)
{
    return ms->median > 0.0 ? 50.0 * (ms->upper - ms->lower) / ms->median : 0.0;
}

static const char *mark_of(double disagreement)
{
    return steady_is_disturbed(disagreement) ? "!" : " ";
}

static void fill_times(const struct bench_row *row, table_cells cells)
{
    CELL(MS, "%.3f", row->ms.median);
    CELL(SPREAD, "%.1f%%%s", spread(&row->ms), mark_of(row->disagreement));
    CELL(HOST_US, "%.1f", row->enqueue_us.median);
    CELL(GFLOPS, "%.1f", bench_tflops(row) * 1e3);
    print_share(bench_share(row), bench_share_problem(row) ? "!" : " ", cells[PEAK], TABLE_CELL);
    print_share(bench_share_of_limit(row), bench_is_bound_by_memory(row) ? "m" : " ", cells[LIMIT], TABLE_CELL);
    print_share(bench_share_of_read(row), " ", cells[READ], TABLE_CELL);
    if (!has_standard(row))
        return;
    CELL(STANDARD_MS, "%.3f%s", row->standard_ms.median, mark_of(row->standard_disagreement));
    CELL(FASTER, "%.1fx", row->standard_ms.median / row->ms.median);
}

void bench_print_row(const struct bench_row *row)
{
    table_cells cells;
    bool shown[COLUMNS];
    for (int i = 0; i < COLUMNS; i++)
        CELL(i, "-");
    fill_shape(row, cells);
    if (!row->problem[0])
        fill_times(row, cells);
    bytes_text(row->extra_bytes, cells[EXTRA], TABLE_CELL);
    if (row->standard_bytes)
        bytes_text(row->standard_bytes, cells[STANDARD_EXTRA], TABLE_CELL);
    bytes_text((uint64_t)row->traffic.flash, cells[TRAFFIC], TABLE_CELL);
    table_fit(columns, COLUMNS, 0, stdout, shown);
    table_print(columns, COLUMNS, shown, cells, stdout);
    putchar('\n');
    if (row->problem[0])
        flow(stdout, "      %s\n", row->problem);
    fflush(stdout);
}
