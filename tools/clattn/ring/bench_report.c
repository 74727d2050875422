/* SPDX-License-Identifier: BSD-2-Clause */
#include "json_out.h"
#include "ring/bench_row.h"
#include "ring/sharing.h"
#include "table.h"
#include <inttypes.h>
#include <stdio.h>

/* A causal mask hides a triangle of the shorter side, and of the longer one's rest all or nothing. */
static double pairs_of(const struct ring_bench_row *row)
{
    const double rows = (double)row->shape.n_q, keys = (double)row->shape.n_kv, least = rows < keys ? rows : keys;
    if (!row->problem.causal)
        return rows * keys;
    const bool top_left = row->problem.causal == CLATTN_CAUSAL_TOP_LEFT;
    return top_left == (rows > keys) ? rows * keys - 0.5 * least * least : 0.5 * least * least;
}

static double tflops(const struct ring_bench_row *row, bool backward)
{
    const double all =
        2.0 * (double)(row->shape.batch * row->shape.heads) * pairs_of(row) * (row->problem.d + row->problem.d_v);
    return all * (backward ? 2.5 : 1.0) / row->ms.median * 1e-9;
}

static const struct table_column columns[] = {
    {"pass", -8, 0},   {"n", 8, 0},      {"ms", 10, 0},    {"min", 10, 3},     {"max", 10, 3},   {"tokens/s", 12, 0},
    {"TFLOP/s", 8, 1}, {"waited", 7, 0}, {"passed", 6, 0}, {"sent MB", 10, 2}, {"KV MB", 10, 2}, {"Q MB", 10, 2}};
enum { COLUMNS = sizeof columns / sizeof *columns };

void ring_bench_print(const struct ring_bench_row *row, bool backward)
{
    table_cells cells;
    bool shown[COLUMNS];
    table_fit(columns, COLUMNS, 0, stdout, shown);
    snprintf(cells[0], TABLE_CELL, "%s", backward ? "backward" : "forward");
    snprintf(cells[1], TABLE_CELL, "%" PRId64, row->shape.n_q);
    snprintf(cells[2], TABLE_CELL, "%.3f", row->ms.median);
    snprintf(cells[3], TABLE_CELL, "%.3f", row->ms.minimum);
    snprintf(cells[4], TABLE_CELL, "%.3f", row->ms.maximum);
    snprintf(cells[5], TABLE_CELL, "%.0f", (double)(row->shape.batch * row->shape.n_q) / row->ms.median * 1e3);
    snprintf(cells[6], TABLE_CELL, "%.3f", tflops(row, backward));
    snprintf(cells[7], TABLE_CELL, "%.1f %%", row->waited * 100);
    snprintf(cells[8], TABLE_CELL, "%s", row->rows_pass ? "q" : "kv");
    snprintf(cells[9], TABLE_CELL, "%.1f", row->sent_mb);
    snprintf(cells[10], TABLE_CELL, "%.1f", row->kv_mb);
    snprintf(cells[11], TABLE_CELL, "%.1f", row->q_mb);
    table_print(columns, COLUMNS, shown, cells, stdout);
    printf("\n");
    fflush(stdout);
}

json_t *ring_bench_json(const struct ring_bench_row *row, bool backward)
{
    char device[256];
    session_title(row->session, device, sizeof device);
    return json_pack("{s:s, s:i, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, "
                     "s:o, s:o, s:o, s:o}",
                     "device", device, "ranks", row->ranks->count, "pass", backward ? "backward" : "forward", "dtype",
                     clattn_dtype_name(row->problem.dtype), "batch", (json_int_t)row->shape.batch, "heads",
                     (json_int_t)row->shape.heads, "kv_heads", (json_int_t)row->shape.kv_heads, "n",
                     (json_int_t)row->shape.n_kv, "n_q", (json_int_t)row->shape.n_q, "d", row->problem.d, "d_v",
                     row->problem.d_v, "causal", option_word_of(option_causal, row->problem.causal), "sharing",
                     option_word_of(ring_sharings, row->values->sharing), "passing", row->rows_pass ? "q" : "kv",
                     "median_ms", json_measure(row->ms.median), "min_ms", json_measure(row->ms.minimum), "max_ms",
                     json_measure(row->ms.maximum), "tokens_per_s",
                     json_measure((double)(row->shape.batch * row->shape.n_q) / row->ms.median * 1e3), "tflops",
                     json_measure(tflops(row, backward)), "waited_share", json_measure(row->waited), "sent_mb",
                     json_measure(row->sent_mb), "kv_mb", json_measure(row->kv_mb), "q_mb", json_measure(row->q_mb));
}

void ring_bench_print_head(void)
{
    bool shown[COLUMNS];
    table_fit(columns, COLUMNS, 0, stdout, shown);
    table_print_head(columns, COLUMNS, shown, stdout);
    printf("\n");
}
