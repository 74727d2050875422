/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_COMPILE_WATCH_H
#define CLATTN_TOOL_COMPILE_WATCH_H

#include <clattn/log.h>
#include <stdbool.h>

/* Counts the kernels that are compiled. Where `shown`, it tells people on stderr which one is, once that has taken a
 * second: on a terminal with the seconds counted, else in one line. */
struct compile_watch;

/* NULL where there is no memory. */
struct compile_watch *compile_watch_start(bool shown);
void compile_watch_stop(struct compile_watch *watch); /* NULL, too */

/* What the library says (clattn/log.h), for any thread. */
void compile_watch_hear(struct compile_watch *watch, enum clattn_log_level level, const char *text);

/* How many kernels the library began to compile. */
int compile_watch_count(struct compile_watch *watch);

#endif
