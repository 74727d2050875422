/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/rows.h"
#include "flow.h"
#include "system/terminal.h"
#include "table.h"
#include <string.h>

/* What two rows must have in common to measure the same thing. Names that either does not have are not compared. */
static const char *const identity[] = {
    "device", "pass",     "dtype",  "batch",      "heads",         "kv_heads", "n_q",      "n_kv",      "d",    "d_v",
    "causal", "features", "window", "block_size", "block_density", "k_format", "v_format", "page_keys", "calls"};

/* Medians closer than this are the same whatever the quartiles say: clocks alone differ by as much. */
static const double least_difference = 0.03;

static bool same_thing(const json_t *a, const json_t *b)
{
    for (size_t i = 0; i < sizeof identity / sizeof identity[0]; i++) {
        json_t *in_a = json_object_get(a, identity[i]), *in_b = json_object_get(b, identity[i]);
        if (in_a && in_b && !json_equal(in_a, in_b))
            return false;
    }
    return true;
}

static const json_t *find(const json_t *rows, const json_t *wanted)
{
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (same_thing(json_array_get(rows, i), wanted))
            return json_array_get(rows, i);
    return NULL;
}

/* Where most of the repetitions lie. */
struct interval {
    double low, high;
};

static struct interval interval_of(const json_t *row)
{
    const bool quartiles = bench_row_number(row, "q1_ms") > 0.0;
    return (struct interval){bench_row_number(row, quartiles ? "q1_ms" : "min_ms"),
                             bench_row_number(row, quartiles ? "q3_ms" : "max_ms")};
}

enum verdict { SAME, SLOWER, FASTER, UNKNOWN };

static enum verdict judge(const json_t *row, const json_t *old)
{
    const double now = bench_row_number(row, "median_ms"), before = bench_row_number(old, "median_ms");
    const struct interval here = interval_of(row), there = interval_of(old);
    if (now <= 0.0 || before <= 0.0)
        return UNKNOWN;
    if (here.low > there.high && now > before * (1.0 + least_difference))
        return SLOWER;
    return here.high < there.low && now * (1.0 + least_difference) < before ? FASTER : SAME;
}

enum { DTYPE, BATCH, HEADS, N_Q, N_KV, D, CAUSAL, PASS, OLD_MS, MS, RATIO, COLUMNS };

static const struct table_column columns[COLUMNS] = {
    [DTYPE] = {"dtype", -5, 2},   [BATCH] = {"batch", 5, 5}, [HEADS] = {"heads", 5, 4},    [N_Q] = {"n_q", 6, 0},
    [N_KV] = {"n_kv", 6, 0},      [D] = {"d", 4, 0},         [CAUSAL] = {"causal", -6, 1}, [PASS] = {"pass", -8, 0},
    [OLD_MS] = {"old ms", 10, 3}, [MS] = {"ms", 10, 0},      [RATIO] = {"ratio", 7, 0},
};

/* The verdict stands behind the columns, after a blank. */
enum { VERDICT_WIDTH = 9 };

static void fill_row(const json_t *row, const json_t *old, enum verdict verdict, table_cells cells)
{
    static const struct {
        int column;
        const char *name;
    } numbers[] = {{BATCH, "batch"}, {HEADS, "heads"}, {N_Q, "n_q"}, {N_KV, "n_kv"}, {D, "d"}};
    const double now = bench_row_number(row, "median_ms"), before = bench_row_number(old, "median_ms");
    for (int i = 0; i < COLUMNS; i++)
        snprintf(cells[i], TABLE_CELL, "-");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        snprintf(cells[numbers[i].column], TABLE_CELL, "%.0f", bench_row_number(row, numbers[i].name));
    snprintf(cells[DTYPE], TABLE_CELL, "%s", bench_row_text(row, "dtype"));
    snprintf(cells[CAUSAL], TABLE_CELL, "%s", json_is_true(json_object_get(row, "causal")) ? "yes" : "no");
    snprintf(cells[PASS], TABLE_CELL, "%s", bench_row_text(row, "pass"));
    if (verdict == UNKNOWN)
        return;
    snprintf(cells[OLD_MS], TABLE_CELL, "%.3f", before);
    snprintf(cells[MS], TABLE_CELL, "%.3f", now);
    snprintf(cells[RATIO], TABLE_CELL, "%.2fx", now / before);
}

static void print_row(const json_t *row, const json_t *old, enum verdict verdict, bool colour, FILE *stream)
{
    static const char *const words[] = {"same", "SLOWER", "faster", "not timed"};
    static const char *const colours[] = {"", "\033[31m", "\033[32m", ""};
    const bool tinted = colour && *colours[verdict];
    table_cells cells;
    bool shown[COLUMNS];
    fill_row(row, old, verdict, cells);
    table_fit(columns, COLUMNS, 1 + VERDICT_WIDTH, stream, shown);
    table_print(columns, COLUMNS, shown, cells, stream);
    fprintf(stream, " %s%s%s\n", tinted ? colours[verdict] : "", old ? words[verdict] : "only here",
            tinted ? "\033[0m" : "");
}

static void print_head(const char *old_path, FILE *stream)
{
    bool shown[COLUMNS];
    flow(stream, "\nbeside %s:\n", old_path);
    table_fit(columns, COLUMNS, 1 + VERDICT_WIDTH, stream, shown);
    table_print_head(columns, COLUMNS, shown, stream);
    putc('\n', stream);
}

static int none_shared(const json_t *rows, const json_t *old, const char *old_path, struct failure *failure)
{
    const char *before = bench_row_text(json_array_get(old, 0), "device"),
               *now = bench_row_text(json_array_get(rows, 0), "device");
    if (!strcmp(before, now))
        return fail(failure, STATUS_NOTHING_SHARED, "%s: has none of these rows: its shapes are others", old_path);
    return fail(failure, STATUS_NOTHING_SHARED, "%s: has none of these rows: it is of '%s', not '%s'", old_path, before,
                now);
}

int bench_compare(const json_t *rows, const json_t *old, const char *old_path, FILE *stream,
                  struct bench_comparison *comparison, struct failure *failure)
{
    const bool colour = terminal_takes_colour(stream);
    *comparison = (struct bench_comparison){.same = 0};
    print_head(old_path, stream);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i), *before = find(old, row);
        const enum verdict verdict = before ? judge(row, before) : UNKNOWN;
        print_row(row, before, verdict, colour, stream);
        comparison->only_new += !before;
        comparison->slower += verdict == SLOWER;
        comparison->faster += verdict == FASTER;
        comparison->same += verdict == SAME;
    }
    for (size_t i = 0; i < json_array_size(old); i++)
        comparison->only_old += !find(rows, json_array_get(old, i));
    flow(stream, "%d slower, %d faster, %d the same within noise; %d rows only here, %d only there\n",
         comparison->slower, comparison->faster, comparison->same, comparison->only_new, comparison->only_old);
    if (comparison->only_new == (int)json_array_size(rows))
        return none_shared(rows, old, old_path, failure);
    if (comparison->slower)
        return fail(failure, STATUS_REGRESSION, "%d of %zu rows are slower than in %s, beyond noise",
                    comparison->slower, json_array_size(rows), old_path);
    return STATUS_OK;
}
