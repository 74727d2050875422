/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_LOG_H
#define CLATTN_LOG_H
#include <clattn/export.h>
#include <stdint.h>
CLATTN_BEGIN_DECLS
enum clattn_log_level {
    CLATTN_LOG_NONE = 0,
    CLATTN_LOG_ERROR = 1,
    CLATTN_LOG_WARNING = 2,
    CLATTN_LOG_INFO = 3,
    CLATTN_LOG_DEBUG = 4
};
typedef void (*clattn_log_function)(void *user, enum clattn_log_level level, const char *text);
struct clattn_log {
    clattn_log_function function;
    void *user;
    enum clattn_log_level level;
    uint64_t reserved[2];
};
CLATTN_END_DECLS
#endif
