/* SPDX-License-Identifier: BSD-2-Clause */
#include "progress.h"
#include "terminal.h"
#include <stdio.h>

void progress_start(struct progress *progress, int total, bool quiet)
{
    *progress = (struct progress){.shown = !quiet && total > 0 && terminal_moves(stderr),
                                  .colour = terminal_takes_colour(stderr),
                                  .total = total};
}

void progress_step(struct progress *progress, const char *text)
{
    static const char full[] = "####################", empty[] = "....................";
    const int width = (int)sizeof full - 1;
    const int filled = progress->total ? progress->done * width / progress->total : 0;
    progress->done++;
    if (!progress->shown)
        return;
    fprintf(stderr, "\r\033[K%s%.*s%s%.*s %d/%d %.60s", progress->colour ? "\033[32m" : "", filled, full,
            progress->colour ? "\033[0m" : "", width - filled, empty, progress->done, progress->total, text);
    fflush(stderr);
}

void progress_show(const struct progress *progress, double share, const char *text)
{
    static const char full[] = "####################", empty[] = "....................";
    const int width = (int)sizeof full - 1;
    const int filled = share <= 0 ? 0 : share >= 1 ? width : (int)(share * width);
    if (!progress->shown)
        return;
    fprintf(stderr, "\r\033[K%s%.*s%s%.*s %.90s", progress->colour ? "\033[32m" : "", filled, full,
            progress->colour ? "\033[0m" : "", width - filled, empty, text);
    fflush(stderr);
}

void progress_clear(const struct progress *progress)
{
    if (progress->shown) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
}
