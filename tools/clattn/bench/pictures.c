/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/pictures.h"
#include "bench/series.h"
#include <math.h>
#include <string.h>

/* Points of rows, in blocks of data: memory over length, and the roofline. */

struct point {
    double x, y;
};

typedef bool (*point_of)(const json_t *row, const struct bench_series *series, struct point *point);

static const char *const passes[] = {"forward", "backward", NULL};
static const char *const dtypes[] = {"fp32", "fp16", "bf16", NULL};

/* Writes the data block of one series; how many points it has. */
static size_t write_block(const json_t *rows, const struct bench_series *series, point_of of, int number, FILE *script)
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
static int write_blocks(const json_t *rows, point_of of, struct bench_series kept[BENCH_MOST_SERIES], FILE *script)
{
    static const enum bench_series_kind kinds[] = {SERIES_CLATTN, SERIES_STANDARD};
    int count = 0;
    for (int kind = 0; kind < 2; kind++)
        for (const char *const *pass = passes; *pass; pass++)
            for (const char *const *dtype = dtypes; *dtype; dtype++) {
                const struct bench_series series = {.kind = kinds[kind], .dtype = *dtype, .pass = *pass};
                if (count < BENCH_MOST_SERIES && write_block(rows, &series, of, count, script))
                    kept[count++] = series;
            }
    return count;
}

/* The end of a series' element of a plot: its sign, colour and title. Passes have signs of their own, filled for
 * clattn. */
static void write_look(const json_t *rows, const struct bench_series *series, FILE *script)
{
    const bool backward = !strcmp(series->pass, passes[1]), standard = series->kind == SERIES_STANDARD;
    char title[128];
    bench_series_title(series, title, sizeof title);
    snprintf(title + strlen(title), sizeof title - strlen(title), ", %s", series->pass);
    fprintf(script, " pointtype %d pointsize 0.8 linecolor rgb '%s' title ", (standard ? 4 : 5) + (backward ? 4 : 2),
            bench_series_colour(rows, series));
    bench_write_text(title, script);
}

static bool is_series(const json_t *row, const struct bench_series *series)
{
    return bench_row_is(row, "dtype", series->dtype) && bench_row_is(row, "pass", series->pass);
}

static bool is_memory(const json_t *row)
{
    return !bench_row_is(row, "grid", "flash") && !bench_row_is(row, "grid", "decode") && !bench_row_is_causal(row);
}

/* In bytes, which gnuplot writes as KiB, MiB, GiB. */
static bool memory_point(const json_t *row, const struct bench_series *series, struct point *point)
{
    const bool standard = series->kind == SERIES_STANDARD;
    *point = (struct point){bench_row_number(row, "n_kv"),
                            bench_row_number(row, standard ? "standard_peak_bytes" : "peak_bytes")};
    return is_series(row, series) && is_memory(row) && point->y > 0.0;
}

/* A mark at each length where standard attention was to run and did not, and what it means. */
static void write_refused(const json_t *rows, FILE *script)
{
    int count = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (is_memory(row) && bench_row_is(row, "pass", passes[0]) && *bench_row_text(row, "standard_problem") &&
            ++count)
            fprintf(script, "set label 'x' at first %.0f, graph 0.97 center\n", bench_row_number(row, "n_kv"));
    }
    if (count)
        fputs("set label 'x: standard attention did not run' at graph 0.99, graph 0.04 right textcolor rgb '#555555'\n",
              script);
}

/* Marks at 1 and 32 of each unit. */
static void write_byte_marks(FILE *script)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", NULL};
    double bytes = 1.0;
    int number = 0;
    fputs("set ytics (", script);
    for (const char *const *unit = units; *unit; unit++, bytes *= 1024.0)
        for (double count = 1.0; count < 1024.0; count *= 32.0, number++)
            fprintf(script, "%s'%.0f %s' %.0f", number ? ", " : "", count, *unit, bytes * count);
    fputs(")\n", script);
}

/* All points with room around them, so that none lies on an edge. */
static void write_memory_range(const json_t *rows, const struct bench_series *series, int count, FILE *script)
{
    struct point least = {HUGE_VAL, HUGE_VAL}, most = {0.0, 0.0};
    for (int i = 0; i < count; i++)
        for (size_t j = 0; j < json_array_size(rows); j++) {
            struct point point;
            if (!memory_point(json_array_get(rows, j), &series[i], &point))
                continue;
            least = (struct point){fmin(least.x, point.x), fmin(least.y, point.y)};
            most = (struct point){fmax(most.x, point.x), fmax(most.y, point.y)};
        }
    fprintf(script, "set xrange [%.6g:%.6g]\nset yrange [%.6g:%.6g]\n", least.x / 1.3, most.x * 1.3, least.y / 2.0,
            most.y * 8.0);
}

size_t bench_write_memory(const json_t *rows, FILE *script)
{
    struct bench_series series[BENCH_MOST_SERIES];
    const int count = write_blocks(rows, memory_point, series, script);
    if (!count)
        return 0;
    write_refused(rows, script);
    write_byte_marks(script);
    write_memory_range(rows, series, count, script);
    fputs(
        "set logscale x 2\nset logscale y 2\nset format x '%.0f'\n"
        "set key top left reverse Left\nset grid linecolor rgb '#dddddd' linetype 1\nset border 3\nset tics nomirror\n"
        "set xlabel 'n'\nset ylabel 'device memory'\nset "
        "title ",
        script);
    bench_write_title(rows, "Memory", script);
    fputs("\nplot", script);
    for (int i = 0; i < count; i++) {
        fprintf(script, "%s $series%d using 1:2 with linespoints linewidth 2 dashtype %d", i ? "," : "", i,
                !strcmp(series[i].pass, passes[1]) ? 2 : 1);
        write_look(rows, &series[i], script);
    }
    fputs("\n", script);
    return (size_t)count;
}

static bool roofline_point(const json_t *row, const struct bench_series *series, struct point *point)
{
    const double intensity = bench_row_number(row, "intensity"), least = bench_row_number(row, "least_bytes");
    const double traffic = bench_row_number(row, "standard_traffic_bytes");
    struct bench_speed speed;
    if (!bench_series_speed(row, series, &speed))
        return false;
    point->x = series->kind == SERIES_CLATTN ? intensity : traffic > 0.0 ? intensity * least / traffic : 0.0;
    point->y = speed.value;
    return point->x > 0.0;
}

/* The largest number called `name` of the rows whose peak is that of `unit`; NULL: of all. */
static double largest(const json_t *rows, const char *name, const char *unit)
{
    double most = 0.0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const double value = bench_row_number(row, name);
        if ((!unit || bench_row_is(row, "peak_of", unit)) && value > most)
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

/* From where to where the picture goes: around all points, and the roofs. */
struct frame {
    double left, right, low, high;
};

static struct frame frame_of(const json_t *rows, const struct bench_series *series, int count, double roof)
{
    struct frame frame = {HUGE_VAL, 0.0, HUGE_VAL, roof};
    for (int i = 0; i < count; i++)
        for (size_t j = 0; j < json_array_size(rows); j++) {
            struct point point;
            if (!roofline_point(json_array_get(rows, j), &series[i], &point))
                continue;
            frame.left = fmin(frame.left, point.x);
            frame.right = fmax(frame.right, point.x);
            frame.low = fmin(frame.low, point.y);
            frame.high = fmax(frame.high, point.y);
        }
    return (struct frame){frame.left / 2.0, frame.right * 2.0, frame.low / 2.0, frame.high * 3.0};
}

/* Names on the lines: along the slope, and above each flat part at the right. */
static void write_labels(const json_t *rows, double gbps, const struct frame *frame, struct bench_unit_of_speed unit,
                         FILE *script)
{
    static const char *const units[] = {"fp32 multiply-adds", "matrix units", "emulated matrix units", NULL};
    const double least = gbps * 1e-3 * frame->left > frame->low ? frame->left : frame->low / (gbps * 1e-3);
    if (gbps > 0.0)
        fprintf(script, "set label 'copy, %.4g GB/s' at %.6g,%.6g offset 1.5,-0.6 left textcolor rgb '#222222'\n", gbps,
                1.3 * least, 1.3 * least * gbps * 1e-3 * unit.factor);
    for (const char *const *name = units; *name; name++) {
        const double peak = largest(rows, "peak_tflops", *name);
        if (peak > 0.0)
            fprintf(script, "set label '%s, %.4g %s' at %.6g,%.6g offset 0,1 right textcolor rgb '#222222'\n", *name,
                    peak * unit.factor, unit.name, frame->right / 1.1, peak * unit.factor);
    }
}

/* One line for each kind of peak, and for the copy: flat and sloping parts up to where they meet. */
static void write_roofs(const json_t *rows, double gbps, struct bench_unit_of_speed unit, FILE *script)
{
    static const char *const units[] = {"fp32 multiply-adds", "matrix units", "emulated matrix units", NULL};
    const double slope = gbps * 1e-3 * unit.factor, roof = largest(rows, "peak_tflops", NULL) * unit.factor;
    fprintf(script, " (x * %.6g < %.6g ? x * %.6g : 1/0) with lines linecolor rgb '#222222' dashtype 2 notitle", slope,
            roof, slope);
    for (const char *const *name = units; *name; name++) {
        const double peak = largest(rows, "peak_tflops", *name) * unit.factor;
        if (peak > 0.0)
            fprintf(script, ", (x * %.6g >= %.6g ? %.6g : 1/0) with lines linecolor rgb '#222222' notitle", slope, peak,
                    peak);
    }
}

/* A sign at each point that other work disturbed, and what it means. */
static void write_disturbed(const json_t *rows, const struct bench_series *series, int count, double factor,
                            FILE *script)
{
    int found = 0;
    for (int i = 0; i < count; i++)
        for (size_t j = 0; j < json_array_size(rows); j++) {
            struct point point;
            const json_t *row = json_array_get(rows, j);
            if (!bench_series_is_disturbed(row, &series[i]) || !roofline_point(row, &series[i], &point))
                continue;
            fprintf(script, "set label '!' at %.6g,%.6g center offset 0,0.8\n", point.x, point.y * factor);
            found++;
        }
    if (found)
        fputs("set label '!: disturbed by other work' at graph 0.01, graph 0.97 left textcolor rgb '#555555'\n",
              script);
}

size_t bench_write_roofline(const json_t *rows, FILE *script)
{
    struct bench_series series[BENCH_MOST_SERIES];
    const int count = write_blocks(rows, roofline_point, series, script);
    if (!count)
        return 0;
    const double gbps = device_memory_gbps(rows);
    const struct frame frame = frame_of(rows, series, count, largest(rows, "peak_tflops", NULL));
    const struct bench_unit_of_speed unit = bench_unit_of_speed(frame.high / 3.0);
    write_labels(rows, gbps, &frame, unit, script);
    write_disturbed(rows, series, count, unit.factor, script);
    fprintf(script,
            "set logscale xy 10\nset key bottom right reverse Left\nset grid linecolor rgb '#dddddd' linetype 1\nset "
            "border 3\n"
            "set tics nomirror\nset samples 500\nset format '%%g'\nset xlabel 'FLOP for each byte moved (clattn: "
            "inputs and outputs; "
            "standard: its matrices too)'\nset ylabel '%s'\nset title ",
            unit.name);
    bench_write_title(rows, "Roofline", script);
    fprintf(script, "\nset xrange [%.6g:%.6g]\nset yrange [%.6g:%.6g]\nplot", frame.left, frame.right,
            frame.low * unit.factor, frame.high * unit.factor);
    write_roofs(rows, gbps, unit, script);
    for (int i = 0; i < count; i++) {
        fprintf(script, ", $series%d using 1:($2 * %g) with points", i, unit.factor);
        write_look(rows, &series[i], script);
    }
    fputs("\n", script);
    return (size_t)count;
}

const struct bench_picture bench_pictures[] = {{"speed", bench_write_speed, bench_speed_height, 1000, 0},
                                               {"memory", bench_write_memory, NULL, 800, 500},
                                               {"roofline", bench_write_roofline, NULL, 800, 540},
                                               {NULL, NULL, NULL, 0, 0}};
