/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_LOG_H
#define CLATTN_LOG_H

#include <clattn/export.h>
#include <stdint.h>

CLATTN_BEGIN_DECLS

enum clattn_log_level {
    CLATTN_LOG_NONE = 0,
    CLATTN_LOG_ERROR = 1,   /* why a call failed; the text clattn_error_message() also has */
    CLATTN_LOG_WARNING = 2, /* the call went on, but something is not as it should be */
    CLATTN_LOG_INFO = 3,    /* what was planned, built or found in a cache */
    CLATTN_LOG_DEBUG = 4    /* the same in detail: program texts, keys, times */
};

/* Where a library that never prints says what it has to say. `text` has no newline at its end and lives until the
 * callback returns. It may be called from any thread that calls into the context, and from several at once; it must
 * not call the library.
 *
 * Compiling a kernel may take seconds: "kernel NAME: compiling" comes before it as CLATTN_LOG_INFO, and another text or
 * the error behind it. No other text is promised. */
typedef void (*clattn_log_function)(void *user, enum clattn_log_level level, const char *text);

/* function NULL: nothing is said. level: the most that is passed on; 0 means CLATTN_LOG_WARNING. */
struct clattn_log {
    clattn_log_function function;
    void *user;
    enum clattn_log_level level;
    uint64_t reserved[2]; /* 0: clattn/version.h */
};

CLATTN_END_DECLS

#endif
