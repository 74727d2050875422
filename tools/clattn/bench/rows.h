/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_BENCH_ROWS_H
#define CLATTN_TOOL_BENCH_ROWS_H

#include "failure.h"
#include <jansson.h>
#include <stdbool.h>

/* What is done with measured rows, an array of objects as bench_json_row() makes them: measured just now, or kept. */

/* Reads what --json wrote. NULL with STATUS_FILE in *status where it is not that. */
json_t *bench_rows_read(const char *path, int *status, struct failure *failure);

/* A number of a row, 0 where it has none; a text, "" where it has none. */
double bench_row_number(const json_t *row, const char *name);
const char *bench_row_text(const json_t *row, const char *name);

/* `path` "-": the standard output. */
int bench_csv_print(const json_t *rows, const char *path, struct failure *failure);

/* What a comparison found. */
struct bench_comparison {
    int slower, faster, same, only_new, only_old;
};

/* Each row beside that of `old` that measured the same thing on the same device, as a table on `stream`. Times differ
 * where the quartiles of the repetitions (of rows without them, the extremes) lie apart, and medians by more than 3 %.
 * STATUS_REGRESSION where a row is slower; STATUS_NOTHING_SHARED where no row is in both. */
int bench_compare(const json_t *rows, const json_t *old, const char *old_path, FILE *stream,
                  struct bench_comparison *comparison, struct failure *failure);

/* The pictures of `path`, FILE.svg, .png or .pdf: FILE-speed.svg, FILE-memory.svg and FILE-roofline.svg, by gnuplot.
 * With `keep`, the script and data of each beside it, as FILE-speed.gp. Their names go to stderr unless `quiet`. */
int bench_plot(const json_t *rows, const char *path, bool keep, bool quiet, struct failure *failure);

/* Before anything is measured: whether gnuplot is there, and all pictures could be written; with `scripts` these, too.
 */
int bench_plot_check(const char *path, bool scripts, struct failure *failure);

#endif
