/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/pictures.h"
#include "bench/series.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Speed over length: a panel for each pass, head dimension and mask, all of one scale; in it a cluster of bars for each
 * length, clattn's, its peers' and standard attention's. A line on a bar goes over most of its repetitions. */

struct panel {
    const char *pass;
    int d;
    bool causal;
};

enum { MOST_LENGTHS = 64, MOST_PANELS = 48, COLUMNS = 2, KEY_COLUMNS = 3 };
enum { HEAD = 64, KEY_LINE = 22, PANEL = 210, GAP = 62, FOOT = 78 }; /* heights */

/* What the picture has: every panel with its lengths, every series of each pass. */
struct layout {
    struct panel panels[MOST_PANELS];
    int panel_count, columns;
    int64_t lengths[MOST_LENGTHS];
    int length_count;
    int left_out; /* rows that would stand where another stands already, or for which there is no place */
    double most;  /* TFLOP/s */
};

static const char *const passes[] = {"forward", "backward", NULL};

static bool is_speed(const json_t *row)
{
    return !bench_row_is(row, "grid", "memory") && !bench_row_is(row, "grid", "decode");
}

static bool is_in(const json_t *row, const struct panel *panel)
{
    return is_speed(row) && bench_row_is(row, "pass", panel->pass) && (int)bench_row_number(row, "d") == panel->d &&
           bench_row_is_causal(row) == panel->causal;
}

static const json_t *find_row(const json_t *rows, const struct panel *panel, const char *dtype, int64_t n)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (is_in(row, panel) && bench_row_is(row, "dtype", dtype) && (int64_t)bench_row_number(row, "n_kv") == n)
            return row;
    }
    return NULL;
}

static int compare_panels(const void *a, const void *b)
{
    const struct panel *one = a, *other = b;
    const int pass = strcmp(other->pass, one->pass); /* forward first */
    return pass ? pass : one->d != other->d ? one->d - other->d : one->causal - other->causal;
}

static int compare_lengths(const void *a, const void *b)
{
    const int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;
    return (one > other) - (one < other);
}

static void add_panel(struct layout *layout, const json_t *row)
{
    const char *pass = bench_row_is(row, "pass", passes[0]) ? passes[0] : passes[1];
    const struct panel panel = {pass, (int)bench_row_number(row, "d"), bench_row_is_causal(row)};
    for (int i = 0; i < layout->panel_count; i++)
        if (!compare_panels(&layout->panels[i], &panel))
            return;
    if (layout->panel_count < MOST_PANELS)
        layout->panels[layout->panel_count++] = panel;
}

static void add_length(struct layout *layout, const json_t *row)
{
    const int64_t n = (int64_t)bench_row_number(row, "n_kv");
    for (int i = 0; i < layout->length_count; i++)
        if (layout->lengths[i] == n)
            return;
    if (layout->length_count < MOST_LENGTHS)
        layout->lengths[layout->length_count++] = n;
}

static bool has_place(const struct layout *layout, const json_t *rows, const json_t *row)
{
    bool length = false;
    for (int i = 0; i < layout->length_count; i++)
        length = length || layout->lengths[i] == (int64_t)bench_row_number(row, "n_kv");
    for (int i = 0; i < layout->panel_count && length; i++)
        if (is_in(row, &layout->panels[i]))
            return find_row(rows, &layout->panels[i], bench_row_text(row, "dtype"),
                            (int64_t)bench_row_number(row, "n_kv")) == row;
    return false;
}

static double most_of(const json_t *rows, const char *pass)
{
    struct bench_series series[BENCH_MOST_SERIES];
    const int count = bench_series_list(rows, pass, series);
    double most = 0.0;
    for (size_t i = 0; i < json_array_size(rows); i++)
        for (int j = 0; j < count; j++) {
            struct bench_speed speed;
            if (is_speed(json_array_get(rows, i)) && bench_series_speed(json_array_get(rows, i), &series[j], &speed) &&
                speed.high > most)
                most = speed.high;
        }
    return most;
}

static bool lay_out(const json_t *rows, struct layout *layout)
{
    *layout = (struct layout){.columns = 1};
    for (const char *const *pass = passes; *pass; pass++) {
        const double most = most_of(rows, *pass);
        layout->most = most > layout->most ? most : layout->most;
    }
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (!is_speed(row))
            continue;
        add_panel(layout, row);
        add_length(layout, row);
        layout->columns = layout->panels[0].causal != bench_row_is_causal(row) ? COLUMNS : layout->columns;
    }
    qsort(layout->panels, (size_t)layout->panel_count, sizeof layout->panels[0], compare_panels);
    qsort(layout->lengths, (size_t)layout->length_count, sizeof layout->lengths[0], compare_lengths);
    for (size_t i = 0; i < json_array_size(rows); i++)
        layout->left_out += is_speed(json_array_get(rows, i)) && !has_place(layout, rows, json_array_get(rows, i));
    return layout->most > 0.0;
}

/* Which line a panel stands on: those that differ in nothing but the mask share one. */
static int line_of(const struct layout *layout, int number)
{
    int line = 0;
    for (int i = 1; i <= number; i++) {
        const struct panel *one = &layout->panels[i - 1], *other = &layout->panels[i];
        line += layout->columns == 1 || strcmp(one->pass, other->pass) || one->d != other->d;
    }
    return line;
}

static int line_count(const struct layout *layout)
{
    return layout->panel_count ? line_of(layout, layout->panel_count - 1) + 1 : 0;
}

/* Every series of the picture; the key shows each once, whatever passes have it. */
static int key_series(const json_t *rows, struct bench_series keys[2 * BENCH_MOST_SERIES])
{
    int count = 0;
    for (const char *const *pass = passes; *pass; pass++) {
        struct bench_series series[BENCH_MOST_SERIES];
        const int found = bench_series_list(rows, *pass, series);
        for (int i = 0; i < found; i++) {
            bool known = false;
            for (int j = 0; j < count; j++)
                known = known || (keys[j].kind == series[i].kind && !strcmp(keys[j].dtype, series[i].dtype) &&
                                  (series[i].kind != SERIES_PEER || !strcmp(keys[j].peer, series[i].peer)));
            if (!known)
                keys[count++] = series[i];
        }
    }
    return count;
}

static int key_lines(const json_t *rows)
{
    struct bench_series keys[2 * BENCH_MOST_SERIES];
    return (key_series(rows, keys) + KEY_COLUMNS - 1) / KEY_COLUMNS;
}

static int height_of(const json_t *rows, const struct layout *layout)
{
    const int lines = line_count(layout);
    return HEAD + KEY_LINE * key_lines(rows) + lines * PANEL + (lines - 1) * GAP + FOOT;
}

/* The series of a panel, and where their bars stand: of each length those whose type was measured there, side by side.
 */
struct bars {
    struct bench_series series[BENCH_MOST_SERIES];
    int count, most; /* series; the most of one length */
};

static bool is_measured(const json_t *rows, const struct panel *panel, const struct bench_series *series, int64_t n)
{
    return find_row(rows, panel, series->dtype, n) != NULL;
}

/* How many of the first `before` series stand at a length. */
static int bars_before(const json_t *rows, const struct panel *panel, const struct bars *bars, int before, int64_t n)
{
    int count = 0;
    for (int i = 0; i < before; i++)
        count += is_measured(rows, panel, &bars->series[i], n);
    return count;
}

static struct bars bars_of(const json_t *rows, const struct layout *layout, const struct panel *panel)
{
    struct bars bars = {.most = 1};
    bars.count = bench_series_list(rows, panel->pass, bars.series);
    for (int i = 0; i < layout->length_count; i++) {
        const int count = bars_before(rows, panel, &bars, bars.count, layout->lengths[i]);
        bars.most = count > bars.most ? count : bars.most;
    }
    return bars;
}

static double bar_width(const struct bars *bars)
{
    return bars->most > 1 ? 0.84 / bars->most : 0.42;
}

/* What of a series is written, each as data of its own: bars, by place, speed, and from where to where most repetitions
 * lie; the places of marks where it has none though others were measured, or, of the first series, where nothing was;
 * and the upper ends of bars that other work disturbed. */
enum element { BAR, MISSING, DISTURBED, ELEMENTS };
static const char element_names[ELEMENTS + 1] = "smd";

/* Whether a series has that element at a length. */
static bool has_element(const json_t *row, const struct bench_series *series, enum element element, bool first_of_none,
                        struct bench_speed *speed)
{
    const bool bar = row && bench_series_speed(row, series, speed);
    if (element == MISSING)
        return row ? !bar : first_of_none;
    return bar && (element == BAR || bench_series_is_disturbed(row, series));
}

static void write_datum(enum element element, double place, const struct bench_speed *speed, double factor, int64_t n,
                        FILE *script)
{
    fprintf(script, "%.4f ", place);
    if (element == MISSING)
        fputs("0", script);
    else if (element == DISTURBED)
        fprintf(script, "%.6g", speed->high * factor);
    else
        fprintf(script, "%.6g %.6g %.6g", speed->value * factor, speed->low * factor, speed->high * factor);
    fprintf(script, " # n %lld\n", (long long)n);
}

/* As data of the name $p2s0: panel 2, series 0; how many there are. */
static int write_data(const json_t *rows, const struct layout *layout, int panel_number, const struct bars *bars,
                      int number, enum element element, FILE *script)
{
    const struct panel *panel = &layout->panels[panel_number];
    const struct bench_series *series = &bars->series[number];
    int count = 0;
    for (int i = 0; i < layout->length_count; i++) {
        const int64_t n = layout->lengths[i];
        const int side_by_side = bars_before(rows, panel, bars, bars->count, n);
        const int rank = bars_before(rows, panel, bars, number, n);
        const double place = side_by_side ? i + (rank - (side_by_side - 1) / 2.0) * bar_width(bars) : i;
        struct bench_speed speed;
        if (!has_element(find_row(rows, panel, series->dtype, n), series, element, !side_by_side && !number, &speed))
            continue;
        if (!count++)
            fprintf(script, "$p%d%c%d << EOD\n", panel_number, element_names[element], number);
        write_datum(element, place, &speed, bench_unit_of_speed(layout->most).factor, n, script);
    }
    if (count)
        fputs("EOD\n", script);
    return count;
}

/* Its place on the page, as shares of the picture. */
static void write_margins(const struct layout *layout, int number, int height, int top, FILE *script)
{
    const int line = line_of(layout, number), column = layout->columns == 2 && layout->panels[number].causal;
    const double left = 0.085, gap = 0.045, right = 0.985;
    const double width = (right - left - (layout->columns - 1) * gap) / layout->columns;
    const double upper = 1.0 - (double)(top + line * (PANEL + GAP)) / height;
    fprintf(script,
            "set lmargin at screen %.5f\nset rmargin at screen %.5f\nset tmargin at screen %.5f\nset bmargin at screen "
            "%.5f\n",
            left + column * (width + gap), left + column * (width + gap) + width, upper,
            upper - (double)PANEL / height);
    fprintf(script, "set ylabel '%s'\nset format y '%s'\nset xlabel '%s' offset 0,0.5\n",
            column ? "" : bench_unit_of_speed(layout->most).name, column ? "" : "%g",
            line == line_count(layout) - 1 ? "n" : "");
}

/* The key has a stripe of its own, as wide as the page. */
static void write_keys(const json_t *rows, int height, FILE *script)
{
    struct bench_series keys[2 * BENCH_MOST_SERIES];
    const int count = key_series(rows, keys);
    fprintf(
        script,
        "set lmargin at screen 0.05\nset rmargin at screen 0.95\nset tmargin at screen %.5f\nset bmargin at screen "
        "%.5f\n"
        "unset border\nunset tics\nset xrange [0:1]\nset yrange [0:1]\nset key center center horizontal Left reverse "
        "maxcols %d samplen 1.5 width 2\nplot NaN notitle",
        1.0 - 34.0 / height, 1.0 - (34.0 + KEY_LINE * key_lines(rows)) / height, KEY_COLUMNS);
    for (int i = 0; i < count; i++) {
        char title[128];
        bench_series_title(&keys[i], title, sizeof title);
        fprintf(script, ", NaN with boxes fillstyle %s fillcolor rgb '%s' title ", bench_series_fill(rows, &keys[i]),
                bench_series_colour(rows, &keys[i]));
        bench_write_text(title, script);
    }
    fputs("\nunset key\nunset label\nset tics\n", script);
}

/* One series of a panel: bars, the lines on them, marks where there are none. */
static void write_elements(const json_t *rows, const struct bench_series *series, int number, int i,
                           const int counts[ELEMENTS], FILE *script)
{
    if (counts[BAR])
        fprintf(script,
                ", $p%ds%d using 1:2 with boxes fillstyle %s fillcolor rgb '%s' notitle,"
                " $p%ds%d using 1:3:(0):($4 - $3) with vectors nohead linewidth 1.5 linecolor rgb '#222222' notitle",
                number, i, bench_series_fill(rows, series), bench_series_colour(rows, series), number, i);
    for (int element = MISSING; element < ELEMENTS; element++)
        if (counts[element])
            fprintf(script, ", $p%d%c%d using 1:2:('%c') with labels textcolor rgb '#222222' offset 0,0.5 notitle",
                    number, element_names[element], i, element == MISSING ? 'x' : '!');
}

static void write_panel(const json_t *rows, const struct layout *layout, int number, int height, int top, FILE *script)
{
    const struct panel *panel = &layout->panels[number];
    const struct bars bars = bars_of(rows, layout, panel);
    int counts[BENCH_MOST_SERIES][ELEMENTS];
    for (int i = 0; i < bars.count; i++)
        for (int element = 0; element < ELEMENTS; element++)
            counts[i][element] = write_data(rows, layout, number, &bars, i, (enum element)element, script);
    write_margins(layout, number, height, top, script);
    fprintf(script, "set boxwidth %.5f\nset title '%s, d %d, %s' offset 0,-0.5\nplot NaN notitle",
            0.94 * bar_width(&bars), panel->pass, panel->d, panel->causal ? "causal" : "full");
    for (int i = 0; i < bars.count; i++)
        write_elements(rows, &bars.series[i], number, i, counts[i], script);
    putc('\n', script);
}

static void write_axes(const struct layout *layout, FILE *script)
{
    const struct bench_unit_of_speed unit = bench_unit_of_speed(layout->most);
    fprintf(script,
            "set grid ytics "
            "linecolor rgb "
            "'#dddddd' linetype 1\nset border 3\nset tics nomirror\nset xtics scale 0\nset xlabel 'n' offset 0,0.7\n"
            "set xrange [-0.5:%d.5]\nset yrange [0:%.6g]\nset ylabel '%s'\nset xtics (",
            layout->length_count - 1, layout->most * unit.factor * 1.04, unit.name);
    for (int i = 0; i < layout->length_count; i++)
        fprintf(script, "%s'%lld' %d", i ? ", " : "", (long long)layout->lengths[i], i);
    fputs(")\n", script);
}

static bool any_disturbed(const json_t *rows)
{
    struct bench_series keys[2 * BENCH_MOST_SERIES];
    const int count = key_series(rows, keys);
    bool any = false;
    for (size_t i = 0; i < json_array_size(rows); i++)
        for (int j = 0; j < count && is_speed(json_array_get(rows, i)); j++)
            any = any || bench_series_is_disturbed(json_array_get(rows, i), &keys[j]);
    return any;
}

/* Title, key, and below the panels what signs mean and what is not shown. */
static void write_page(const json_t *rows, const struct layout *layout, int height, FILE *script)
{
    fputs("set multiplot\nset label 1 ", script);
    bench_write_title(rows, "Speed", script);
    fprintf(script, " at screen 0.5,%.5f center\n", 1.0 - 18.0 / height);
    fprintf(script, "set label 2 'Line on a bar: where most repetitions lie. x: not measured, or did not run.%s%s",
            any_disturbed(rows) ? " !: disturbed by other work." : "", layout->left_out ? "" : "' ");
    if (layout->left_out)
        fprintf(script, " %d rows of other shapes or features at the same place are not shown.' ", layout->left_out);
    fprintf(script, "at screen 0.5,%.5f center textcolor rgb '#555555'\n", 14.0 / height);
}

size_t bench_write_speed(const json_t *rows, FILE *script)
{
    struct layout layout;
    if (!lay_out(rows, &layout))
        return 0;
    const int height = height_of(rows, &layout), top = HEAD + KEY_LINE * key_lines(rows);
    write_page(rows, &layout, height, script);
    write_keys(rows, height, script);
    write_axes(&layout, script);
    for (int i = 0; i < layout.panel_count; i++)
        write_panel(rows, &layout, i, height, top, script);
    fputs("unset multiplot\n", script);
    return (size_t)layout.panel_count;
}

int bench_speed_height(const json_t *rows)
{
    struct layout layout;
    return lay_out(rows, &layout) ? height_of(rows, &layout) : 1;
}
