/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench_pictures.h"
#include <stdint.h>
#include <string.h>

/* What a series of points has in common, and which number of its rows it shows. */
struct series {
    const char *dtype, *pass;
    bool standard;
};

enum { MOST_SERIES = 12, MOST_LENGTHS = 32, MOST_PANELS = 8, PASSES = 2 };

static const char *const dtypes[] = {"fp32", "fp16", "bf16", NULL};
static const char *const passes[PASSES] = {"forward", "backward"};

static bool is_of(const json_t *row, const char *name, const char *text)
{
    return !strcmp(bench_row_text(row, name), text);
}

static bool is_causal(const json_t *row)
{
    return json_is_true(json_object_get(row, "causal"));
}

static double standard_tflops(const json_t *row)
{
    const double standard_ms = bench_row_number(row, "standard_ms");
    return standard_ms > 0.0 ? bench_row_number(row, "tflops") * bench_row_number(row, "median_ms") / standard_ms : 0.0;
}

/* A text of gnuplot's, which doubles single quotes. */
static void write_text(const char *text, FILE *script)
{
    putc('\'', script);
    for (; *text; text++)
        fprintf(script, *text == '\'' ? "''" : "%c", *text);
    putc('\'', script);
}

static void write_title(const json_t *rows, const char *what, FILE *script)
{
    char title[512];
    const json_t *first = json_array_get(rows, 0);
    snprintf(title, sizeof title, "%s: %s, driver %s", what, bench_row_text(first, "device"),
             bench_row_text(first, "driver"));
    write_text(title, script);
}

/* ---- Speed: a panel for each pass, d and mask, a cluster of bars for each length. */

struct panel {
    const char *pass;
    int d;
    bool causal;
};

static bool is_speed(const json_t *row)
{
    return bench_row_number(row, "tflops") > 0.0 && !is_of(row, "grid", "memory") && !is_of(row, "grid", "decode");
}

static bool is_in(const json_t *row, const struct panel *panel)
{
    return is_speed(row) && is_of(row, "pass", panel->pass) && (int)bench_row_number(row, "d") == panel->d &&
           is_causal(row) == panel->causal;
}

static int list_panels(const json_t *rows, struct panel panels[MOST_PANELS])
{
    int count = 0;
    for (int pass = 0; pass < PASSES; pass++) {
        for (size_t i = 0; i < json_array_size(rows); i++) {
            const json_t *row = json_array_get(rows, i);
            const struct panel panel = {passes[pass], (int)bench_row_number(row, "d"), is_causal(row)};
            bool known = !is_in(row, &panel);
            for (int j = 0; j < count && !known; j++)
                known = is_in(row, &panels[j]);
            if (!known && count < MOST_PANELS)
                panels[count++] = panel;
        }
    }
    return count;
}

static const json_t *find_speed(const json_t *rows, const struct panel *panel, const struct series *series, int64_t n)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (is_in(row, panel) && is_of(row, "dtype", series->dtype) && (int64_t)bench_row_number(row, "n_kv") == n &&
            (!series->standard || standard_tflops(row) > 0.0))
            return row;
    }
    return NULL;
}

static int list_lengths(const json_t *rows, const struct panel *panel, int64_t lengths[MOST_LENGTHS])
{
    int count = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const int64_t n = (int64_t)bench_row_number(row, "n_kv");
        int at = 0;
        while (at < count && lengths[at] < n)
            at++;
        if (!is_in(row, panel) || count == MOST_LENGTHS || (at < count && lengths[at] == n))
            continue;
        memmove(lengths + at + 1, lengths + at, (size_t)(count - at) * sizeof *lengths);
        lengths[at] = n;
        count++;
    }
    return count;
}

static int list_series(const json_t *rows, const struct panel *panel, struct series series[MOST_SERIES])
{
    int count = 0;
    for (int standard = 0; standard < 2; standard++) {
        for (const char *const *dtype = dtypes; *dtype; dtype++) {
            const struct series one = {.dtype = *dtype, .standard = standard};
            bool any = false;
            for (size_t i = 0; i < json_array_size(rows) && !any; i++)
                any = find_speed(rows, panel, &one, (int64_t)bench_row_number(json_array_get(rows, i), "n_kv"));
            if (any && count < MOST_SERIES)
                series[count++] = one;
        }
    }
    return count;
}

static void write_panel(const json_t *rows, const struct panel *panel, int number, FILE *script)
{
    struct series series[MOST_SERIES];
    int64_t lengths[MOST_LENGTHS];
    const int count = list_series(rows, panel, series), length_count = list_lengths(rows, panel, lengths);
    fprintf(script, "$panel%d << EOD\n", number);
    for (int i = 0; i < length_count; i++) {
        fprintf(script, "%lld", (long long)lengths[i]);
        for (int j = 0; j < count; j++) {
            const json_t *row = find_speed(rows, panel, &series[j], lengths[i]);
            const double tflops = !row                 ? 0.0
                                  : series[j].standard ? standard_tflops(row)
                                                       : bench_row_number(row, "tflops");
            fprintf(script, row ? " %.6g" : " ?", tflops);
        }
        putc('\n', script);
    }
    fprintf(script, "EOD\nset title '%s, head dimension %d, %s'\nplot", panel->pass, panel->d,
            panel->causal ? "causal" : "full");
    for (int j = 0; j < count; j++)
        fprintf(script, "%s $panel%d using %d:xtic(1) title '%s %s' linecolor %d", j ? "," : "", number, j + 2,
                series[j].standard ? "standard" : "flash", series[j].dtype, j + 1);
    fputs("\n", script);
}

static size_t write_speed(const json_t *rows, FILE *script)
{
    struct panel panels[MOST_PANELS];
    const int count = list_panels(rows, panels);
    if (!count)
        return 0;
    fputs("set style data histograms\nset style histogram clustered gap 1\nset style fill solid 0.8 border -1\n"
          "set datafile missing '?'\nset key top left reverse Left\nset yrange [0:*]\nset offsets 0, 0, graph 0.25, 0\n"
          "set xlabel 'sequence length'\nset ylabel 'TFLOP/s'\nset grid ytics\n",
          script);
    fprintf(script, "set multiplot layout %d,%d title ", (count + 1) / 2, count > 1 ? 2 : 1);
    write_title(rows, "Speed", script);
    putc('\n', script);
    for (int i = 0; i < count; i++)
        write_panel(rows, &panels[i], i, script);
    fputs("unset multiplot\n", script);
    return (size_t)count;
}

static int speed_is_tall(const json_t *rows)
{
    struct panel panels[MOST_PANELS];
    return (list_panels(rows, panels) + 1) / 2;
}

/* ---- Points of rows, in blocks of data: memory over length, and the roofline. */

struct point {
    double x, y;
};

typedef bool (*point_of)(const json_t *row, const struct series *series, struct point *point);

/* Writes the data block of one series; how many points it has. */
static size_t write_block(const json_t *rows, const struct series *series, point_of of, int number, FILE *script)
{
    size_t count = 0;
    struct point point;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        if (!of(json_array_get(rows, i), series, &point))
            continue;
        if (!count++)
            fprintf(script, "$series%d << EOD\n", number);
        fprintf(script, "%.6g %.6g\n", point.x, point.y);
    }
    if (count)
        fputs("EOD\n", script);
    return count;
}

/* Those of all series that have points; `kept` gets them in order. */
static int write_blocks(const json_t *rows, point_of of, struct series kept[MOST_SERIES], FILE *script)
{
    int count = 0;
    for (int standard = 0; standard < 2; standard++)
        for (int pass = 0; pass < PASSES; pass++)
            for (const char *const *dtype = dtypes; *dtype; dtype++) {
                const struct series series = {.dtype = *dtype, .pass = passes[pass], .standard = standard};
                if (count < MOST_SERIES && write_block(rows, &series, of, count, script))
                    kept[count++] = series;
            }
    return count;
}

static bool is_series(const json_t *row, const struct series *series)
{
    return is_of(row, "dtype", series->dtype) && is_of(row, "pass", series->pass);
}

static bool memory_point(const json_t *row, const struct series *series, struct point *point)
{
    *point = (struct point){bench_row_number(row, "n_kv"),
                            bench_row_number(row, series->standard ? "standard_peak_bytes" : "peak_bytes") / 1048576.0};
    return is_series(row, series) && !is_of(row, "grid", "flash") && !is_of(row, "grid", "decode") && !is_causal(row) &&
           point->y > 0.0;
}

static size_t write_memory(const json_t *rows, FILE *script)
{
    struct series series[MOST_SERIES];
    const int count = write_blocks(rows, memory_point, series, script);
    if (!count)
        return 0;
    fputs("set logscale x 2\nset logscale y 10\nset format '%g'\nset key top left reverse Left\nset grid\n"
          "set xlabel 'sequence length'\nset ylabel 'device memory, MiB'\nset title ",
          script);
    write_title(rows, "Memory", script);
    fputs("\nplot", script);
    for (int i = 0; i < count; i++)
        fprintf(script, "%s $series%d using 1:2 with linespoints linewidth 2 pointtype %d title '%s %s, %s'",
                i ? "," : "", i, series[i].standard ? 5 : 7, series[i].standard ? "standard" : "flash", series[i].dtype,
                series[i].pass);
    fputs("\n", script);
    return (size_t)count;
}

static bool roofline_point(const json_t *row, const struct series *series, struct point *point)
{
    const double intensity = bench_row_number(row, "intensity"), least = bench_row_number(row, "least_bytes");
    const double traffic = bench_row_number(row, "standard_traffic_bytes");
    *point = series->standard ? (struct point){traffic > 0.0 ? intensity * least / traffic : 0.0, standard_tflops(row)}
                              : (struct point){intensity, bench_row_number(row, "tflops")};
    return is_series(row, series) && point->x > 0.0 && point->y > 0.0;
}

/* The largest number called `name` of the rows whose peak is that of `unit`; NULL: of all. */
static double largest(const json_t *rows, const char *name, const char *unit)
{
    double most = 0.0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const double value = bench_row_number(row, name);
        if ((!unit || is_of(row, "peak_of", unit)) && value > most)
            most = value;
    }
    return most;
}

/* Of the row that moves most, which no cache holds. */
static double device_memory_gbps(const json_t *rows)
{
    const double most = largest(rows, "least_bytes", NULL);
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (bench_row_number(json_array_get(rows, i), "least_bytes") >= most)
            return bench_row_number(json_array_get(rows, i), "copy_gbps");
    return 0.0;
}

/* One line for each kind of peak, and for the copy: flat and sloping parts up to where they meet. */
static void write_roofs(const json_t *rows, double gbps, FILE *script)
{
    static const char *const units[] = {"fp32 multiply-adds", "matrix units", "emulated matrix units", NULL};
    fprintf(script,
            " (x * %.6g < roof ? x * %.6g : 1/0) with lines linecolor 'black' dashtype 2 title 'copy, %.4g GB/s'",
            gbps * 1e-3, gbps * 1e-3, gbps);
    for (const char *const *unit = units; *unit; unit++) {
        const double peak = largest(rows, "peak_tflops", *unit);
        if (peak > 0.0)
            fprintf(script, ", (x * %.6g >= %.6g ? %.6g : 1/0) with lines linecolor 'black' title '%s, %.4g TFLOP/s'",
                    gbps * 1e-3, peak, peak, *unit, peak);
    }
}

static size_t write_roofline(const json_t *rows, FILE *script)
{
    struct series series[MOST_SERIES];
    const int count = write_blocks(rows, roofline_point, series, script);
    if (!count)
        return 0;
    const double gbps = device_memory_gbps(rows);
    fputs(
        "set logscale xy 10\nset key top left reverse Left\nset grid\nset samples 500\nset xlabel 'FLOP for each byte "
        "moved: "
        "flash, inputs and outputs; standard, its matrices too'\nset ylabel 'TFLOP/s'\nset title ",
        script);
    write_title(rows, "Roofline", script);
    fprintf(script, "\nroof = %.6g\nset xrange [0.1:*]\nset yrange [*:30 * roof]\nplot",
            largest(rows, "peak_tflops", NULL));
    write_roofs(rows, gbps, script);
    for (int i = 0; i < count; i++)
        fprintf(script, ", $series%d using 1:2 with points pointtype %d pointsize 0.8 linecolor %d title '%s %s, %s'",
                i, series[i].standard ? 4 : 7, i + 1, series[i].standard ? "standard" : "flash", series[i].dtype,
                series[i].pass);
    fputs("\n", script);
    return (size_t)count;
}

const struct bench_picture bench_pictures[] = {{"speed", write_speed, speed_is_tall, 1000, 400},
                                               {"memory", write_memory, NULL, 800, 520},
                                               {"roofline", write_roofline, NULL, 800, 560},
                                               {NULL, NULL, NULL, 0, 0}};
