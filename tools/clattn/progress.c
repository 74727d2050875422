/* SPDX-License-Identifier: BSD-2-Clause */
#include "progress.h"
#include "system/terminal.h"
#include <stdio.h>
#include <string.h>

void progress_start(struct progress *progress, int total, bool quiet)
{
    *progress = (struct progress){.shown = !quiet && total > 0 && terminal_moves(stderr),
                                  .colour = terminal_takes_colour(stderr),
                                  .total = total};
}

enum { BAR = 20 };

/* The bar, what is counted and as much of the text as one line of the terminal holds. */
static void draw(const struct progress *progress, double share, const char *count, const char *text, int most)
{
    static const char full[] = "####################", empty[] = "....................";
    const int filled = share <= 0 ? 0 : share >= 1 ? BAR : (int)(share * BAR);
    const int width = terminal_width(stderr), left = width - BAR - (int)strlen(count) - 2;
    if (width && left < most)
        most = left > 0 ? left : 0;
    fprintf(stderr, "\r\033[K%s%.*s%s%.*s%s %.*s", progress->colour ? "\033[32m" : "", filled, full,
            progress->colour ? "\033[0m" : "", BAR - filled, empty, count, most, text);
    fflush(stderr);
}

void progress_step(struct progress *progress, const char *text)
{
    const double share = progress->total ? (double)progress->done / progress->total : 0.0;
    char count[32];
    progress->done++;
    snprintf(count, sizeof count, " %d/%d", progress->done, progress->total);
    if (progress->shown)
        draw(progress, share, count, text, 60);
}

void progress_show(const struct progress *progress, double share, const char *text)
{
    if (progress->shown)
        draw(progress, share, "", text, 90);
}

void progress_clear(const struct progress *progress)
{
    if (progress->shown) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
}
