/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_BENCH_SERIES_H
#define CLATTN_TOOL_BENCH_SERIES_H

#include "bench/rows.h"

/* What the pictures show of rows: series of points that have a kind, a type and a pass in common. A row may hold times
 * of peers, measured beside it in the same run: "peers": {"cuDNN": {"median_ms": 1.1, "min_ms": 1.0, "max_ms": 1.2,
 * "disturbed": false}}, of which all but median_ms may be left out. */
enum bench_series_kind { SERIES_CLATTN, SERIES_PEER, SERIES_STANDARD };

struct bench_series {
    enum bench_series_kind kind;
    const char *dtype, *pass;
    const char *peer; /* of SERIES_PEER */
};

enum { BENCH_MOST_SERIES = 24 };

/* A speed in TFLOP/s, and between which speeds most repetitions lay (as value, where that is not known). */
struct bench_speed {
    double value, low, high;
};

/* A unit in which a picture's speeds are numbers that can be read: "GFLOP/s" and 1000, or "TFLOP/s" and 1. */
struct bench_unit_of_speed {
    const char *name;
    double factor;
};

bool bench_row_is(const json_t *row, const char *name, const char *text);
bool bench_row_is_causal(const json_t *row);

/* False where the row does not have it. */
bool bench_series_speed(const json_t *row, const struct bench_series *series, struct bench_speed *speed);

/* Whether other work disturbed that measurement however often it was taken. */
bool bench_series_is_disturbed(const json_t *row, const struct bench_series *series);

/* The series of all rows as those of `pass`, in the order in which pictures show them; how many. */
int bench_series_list(const json_t *rows, const char *pass, struct bench_series series[BENCH_MOST_SERIES]);

/* "clattn fp16", "cuDNN fp16", "standard fp16"; and its colour, "#0072B2", of those that people who are colour-blind
 * tell apart (Okabe and Ito). */
void bench_series_title(const struct bench_series *series, char *text, size_t size);
const char *bench_series_colour(const json_t *rows, const struct bench_series *series);

/* How bars are filled: types of one peer, which share a colour, by patterns. */
const char *bench_series_fill(const json_t *rows, const struct bench_series *series);

struct bench_unit_of_speed bench_unit_of_speed(double most_tflops);

/* Texts of gnuplot's, in single quotes, which it doubles; control characters become spaces, since a file's text must
 * not end a command. The title: what, the device and its driver. */
void bench_write_text(const char *text, FILE *script);
void bench_write_title(const json_t *rows, const char *what, FILE *script);

#endif
