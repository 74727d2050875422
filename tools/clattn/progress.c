/* SPDX-License-Identifier: BSD-2-Clause */
#define _POSIX_C_SOURCE 200809L
#include "progress.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void progress_start(struct progress *progress, int total, bool quiet)
{
    const char *terminal = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    const bool dumb = !terminal || !strcmp(terminal, "dumb");
    *progress = (struct progress){.shown = !quiet && !dumb && total > 0 && isatty(STDERR_FILENO),
                                  .colour = !no_colour || !*no_colour,
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
