/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_STATUS_H
#define CLATTN_STATUS_H
#include <clattn/export.h>
CLATTN_BEGIN_DECLS
typedef int clattn_status;
enum {
    CLATTN_SUCCESS = 0,
    CLATTN_INVALID_ARGUMENT = -20001,
    CLATTN_INVALID_SHAPE = -20002,
    CLATTN_INVALID_TYPE = -20003,
    CLATTN_INVALID_LAYOUT = -20004,
    CLATTN_BUFFER_TOO_SMALL = -20005,
    CLATTN_WORKSPACE_TOO_SMALL = -20006,
    CLATTN_UNSUPPORTED_DEVICE = -20007,
    CLATTN_NOTHING_FITS = -20008,
    CLATTN_BUILD_FAILED = -20009,
    CLATTN_TOO_LARGE = -20010,
    CLATTN_FILE_FAILED = -20011,
    CLATTN_FILE_DAMAGED = -20012
};
CLATTN_API const char *clattn_status_name(clattn_status status);
CLATTN_API const char *clattn_error_message(void);
CLATTN_END_DECLS
#endif
