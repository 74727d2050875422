/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_PROGRESS_H
#define CLATTN_TOOL_PROGRESS_H

#include <stdbool.h>

/* A bar on stderr while work goes on. Nothing is drawn where stderr is no terminal, or TERM is "dumb". */
struct progress {
    bool shown, colour;
    int total, done;
};

void progress_start(struct progress *progress, int total, bool quiet);

/* Shows `text` beside the bar, before the next piece of work. */
void progress_step(struct progress *progress, const char *text);

/* The same for work that is measured in time: how much of it is done. */
void progress_show(const struct progress *progress, double share, const char *text);

/* Takes the bar away, so that lines can be printed; the next step draws it again. */
void progress_clear(const struct progress *progress);

#endif
