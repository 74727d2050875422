/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/report.h"
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static _Thread_local char last_message[sizeof((struct cla_error *)0)->text];

const char *clattn_error_message(void)
{
    return last_message;
}

static bool wanted(const struct clattn_log *log, enum clattn_log_level level)
{
    if (!log || !log->function || level == CLATTN_LOG_NONE)
        return false;
    return level <= (log->level == CLATTN_LOG_NONE ? CLATTN_LOG_WARNING : log->level);
}

clattn_status cla_report(const struct clattn_log *log, const struct cla_error *error)
{
    snprintf(last_message, sizeof last_message, "%s", error->text);
    if (wanted(log, CLATTN_LOG_ERROR))
        log->function(log->user, CLATTN_LOG_ERROR, last_message);
    return error->status;
}

void cla_say(const struct clattn_log *log, enum clattn_log_level level, const char *format, ...)
{
    if (!wanted(log, level))
        return;
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    if ((size_t)length < sizeof line) {
        log->function(log->user, level, line);
        return;
    }
    /* Program texts are long. Without memory for all of it, the beginning is said. */
    char *text = malloc((size_t)length + 1);
    if (text) {
        va_start(arguments, format);
        vsnprintf(text, (size_t)length + 1, format, arguments);
        va_end(arguments);
    }
    log->function(log->user, level, text ? text : line);
    free(text);
}
