/* SPDX-License-Identifier: BSD-2-Clause */
#include "table.h"
#include "system/terminal.h"
#include <stdlib.h>
#include <string.h>

static int width_of(const struct table_column *columns, int count, const bool *shown)
{
    int width = 0;
    for (int i = 0; i < count; i++)
        width += shown[i] ? abs(columns[i].width) + 1 : 0;
    return width - 1;
}

/* The shown column of the highest rank; -1 where all that are left must be shown. */
static int least_wanted(const struct table_column *columns, int count, const bool *shown)
{
    int found = -1;
    for (int i = 0; i < count; i++)
        if (shown[i] && columns[i].rank > (found < 0 ? 0 : columns[found].rank))
            found = i;
    return found;
}

void table_fit(const struct table_column *columns, int count, int more, FILE *stream, bool *shown)
{
    const int room = terminal_width(stream);
    for (int i = 0; i < count; i++)
        shown[i] = true;
    for (int i; room && width_of(columns, count, shown) + more > room; shown[i] = false)
        if ((i = least_wanted(columns, count, shown)) < 0)
            return;
}

static void print_cell(const struct table_column *column, const char *text, bool first, FILE *stream)
{
    fprintf(stream, "%s%*s", first ? "" : " ", column->width, text);
}

void table_print(const struct table_column *columns, int count, const bool *shown, table_cells cells, FILE *stream)
{
    bool first = true;
    for (int i = 0; i < count; i++) {
        if (!shown[i])
            continue;
        print_cell(&columns[i], cells[i], first, stream);
        first = false;
    }
}

void table_print_head(const struct table_column *columns, int count, const bool *shown, FILE *stream)
{
    table_cells heads;
    for (int i = 0; i < count; i++)
        snprintf(heads[i], sizeof heads[i], "%s", columns[i].head);
    table_print(columns, count, shown, heads, stream);
}
