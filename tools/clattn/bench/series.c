/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/series.h"
#include <string.h>

static const char *const dtypes[] = {"fp32", "fp16", "bf16", NULL};

bool bench_row_is(const json_t *row, const char *name, const char *text)
{
    return !strcmp(bench_row_text(row, name), text);
}

bool bench_row_is_causal(const json_t *row)
{
    return json_is_true(json_object_get(row, "causal"));
}

/* Speeds go with the inverse of times. Where a time is not known, it is the median. */
static bool speed_of(double tflop, double median_ms, double least_ms, double most_ms, struct bench_speed *speed)
{
    if (tflop <= 0.0 || median_ms <= 0.0)
        return false;
    speed->value = tflop / median_ms;
    speed->low = tflop / (most_ms > 0.0 ? most_ms : median_ms);
    speed->high = tflop / (least_ms > 0.0 ? least_ms : median_ms);
    return true;
}

/* Quartiles, or the extremes of rows without them. */
static bool own_speed(const json_t *row, double tflop, struct bench_speed *speed)
{
    const bool quartiles = bench_row_number(row, "q1_ms") > 0.0;
    return speed_of(tflop, bench_row_number(row, "median_ms"), bench_row_number(row, quartiles ? "q1_ms" : "min_ms"),
                    bench_row_number(row, quartiles ? "q3_ms" : "max_ms"), speed);
}

bool bench_series_speed(const json_t *row, const struct bench_series *series, struct bench_speed *speed)
{
    const double tflop = bench_row_number(row, "tflops") * bench_row_number(row, "median_ms"); /* times 10^-3 s */
    if (!bench_row_is(row, "dtype", series->dtype) || !bench_row_is(row, "pass", series->pass))
        return false;
    if (series->kind == SERIES_CLATTN)
        return own_speed(row, tflop, speed);
    if (series->kind == SERIES_STANDARD)
        return speed_of(tflop, bench_row_number(row, "standard_ms"), bench_row_number(row, "standard_min_ms"),
                        bench_row_number(row, "standard_max_ms"), speed);
    const json_t *peer = json_object_get(json_object_get(row, "peers"), series->peer);
    return speed_of(tflop, bench_row_number(peer, "median_ms"), bench_row_number(peer, "min_ms"),
                    bench_row_number(peer, "max_ms"), speed);
}

bool bench_series_is_disturbed(const json_t *row, const struct bench_series *series)
{
    const json_t *peer = json_object_get(json_object_get(row, "peers"), series->peer ? series->peer : "");
    const bool standard = series->kind == SERIES_STANDARD;
    return json_is_true(series->kind == SERIES_PEER
                            ? json_object_get(peer, "disturbed")
                            : json_object_get(row, standard ? "standard_disturbed" : "disturbed"));
}

/* In either pass: where a series has the other one alone, pictures mark what is missing. */
static bool any_row(const json_t *rows, const struct bench_series *series)
{
    struct bench_speed speed;
    bool any = false;
    for (size_t i = 0; i < json_array_size(rows) && !any; i++) {
        struct bench_series one = *series;
        one.pass = bench_row_text(json_array_get(rows, i), "pass");
        any = bench_series_speed(json_array_get(rows, i), &one, &speed);
    }
    return any;
}

static int add_series(const json_t *rows, struct bench_series one, struct bench_series *series, int count)
{
    for (const char *const *dtype = dtypes; *dtype; dtype++) {
        one.dtype = *dtype;
        if (count < BENCH_MOST_SERIES && any_row(rows, &one))
            series[count++] = one;
    }
    return count;
}

/* The nth name of a peer, in the order in which rows have them; NULL: there are not so many. */
static const char *peer_name(const json_t *rows, int n)
{
    const char *seen[BENCH_MOST_SERIES];
    int count = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const char *name;
        json_t *value, *peers = json_object_get(json_array_get(rows, i), "peers");
        json_object_foreach(peers, name, value)
        {
            bool known = false;
            for (int j = 0; j < count; j++)
                known = known || !strcmp(seen[j], name);
            if (!known && count == n)
                return name;
            if (!known && count < BENCH_MOST_SERIES)
                seen[count++] = name;
        }
    }
    return NULL;
}

int bench_series_list(const json_t *rows, const char *pass, struct bench_series series[BENCH_MOST_SERIES])
{
    int count = add_series(rows, (struct bench_series){.kind = SERIES_CLATTN, .pass = pass}, series, 0);
    for (int i = 0; i < BENCH_MOST_SERIES && peer_name(rows, i); i++)
        count = add_series(rows, (struct bench_series){.kind = SERIES_PEER, .pass = pass, .peer = peer_name(rows, i)},
                           series, count);
    return add_series(rows, (struct bench_series){.kind = SERIES_STANDARD, .pass = pass}, series, count);
}

void bench_series_title(const struct bench_series *series, char *text, size_t size)
{
    snprintf(text, size, "%s %s",
             series->kind == SERIES_CLATTN     ? "clattn"
             : series->kind == SERIES_STANDARD ? "standard"
                                               : series->peer,
             series->dtype);
}

/* How many types that come before a series' own the rows have. */
static int number_of_dtype(const json_t *rows, const struct bench_series *series)
{
    int number = 0;
    for (const char *const *dtype = dtypes; *dtype && strcmp(*dtype, series->dtype); dtype++) {
        bool any = false;
        for (size_t i = 0; i < json_array_size(rows) && !any; i++)
            any = bench_row_is(json_array_get(rows, i), "dtype", *dtype);
        number += any;
    }
    return number;
}

const char *bench_series_colour(const json_t *rows, const struct bench_series *series)
{
    static const char *const own[] = {"#0072B2", "#56B4E9", "#003C5E"}, *const standard[] = {"#999999", "#C8C8C8",
                                                                                             "#5A5A5A"};
    static const char *const peers[] = {"#D55E00", "#009E73", "#E69F00", "#CC79A7", "#F0E442", "#000000"};
    enum { PEERS = sizeof peers / sizeof peers[0] };
    int number = 0;
    if (series->kind != SERIES_PEER)
        return (series->kind == SERIES_CLATTN ? own : standard)[number_of_dtype(rows, series)];
    for (const char *name = peer_name(rows, 0); name && strcmp(name, series->peer); name = peer_name(rows, ++number)) {
    }
    return peers[number % PEERS];
}

const char *bench_series_fill(const json_t *rows, const struct bench_series *series)
{
    static const char *const fills[] = {"solid 1.0 noborder", "pattern 1 noborder", "pattern 2 noborder"};
    return fills[series->kind == SERIES_PEER ? number_of_dtype(rows, series) : 0];
}

struct bench_unit_of_speed bench_unit_of_speed(double most_tflops)
{
    return most_tflops < 2.0 ? (struct bench_unit_of_speed){"GFLOP/s", 1e3}
                             : (struct bench_unit_of_speed){"TFLOP/s", 1.0};
}

void bench_write_text(const char *text, FILE *script)
{
    putc('\'', script);
    for (; *text; text++)
        fprintf(script, *text == '\'' ? "''" : "%c", (unsigned char)*text < ' ' ? ' ' : *text);
    putc('\'', script);
}

void bench_write_title(const json_t *rows, const char *what, FILE *script)
{
    char title[512];
    const json_t *first = json_array_get(rows, 0);
    snprintf(title, sizeof title, "%s: %s, driver %s", what, bench_row_text(first, "device"),
             bench_row_text(first, "driver"));
    bench_write_text(title, script);
}
