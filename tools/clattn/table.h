/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_TABLE_H
#define CLATTN_TOOL_TABLE_H

#include <stdbool.h>
#include <stdio.h>

/* Tables in text whose less important columns are left out where the terminal is too narrow for all. */

struct table_column {
    const char *head;
    int width; /* negative: its text begins at the left */
    int rank;  /* 0: always shown; else the largest goes first */
};

enum { TABLE_MOST_COLUMNS = 24, TABLE_CELL = 32 };

typedef char table_cells[TABLE_MOST_COLUMNS][TABLE_CELL];

/* Which of `count` columns fit, with `more` characters behind them. A stream that is no terminal has room for all. */
void table_fit(const struct table_column *columns, int count, int more, FILE *stream, bool *shown);

/* A row, and the line of names; without the end of the line. */
void table_print(const struct table_column *columns, int count, const bool *shown, table_cells cells, FILE *stream);
void table_print_head(const struct table_column *columns, int count, const bool *shown, FILE *stream);

#endif
