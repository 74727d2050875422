/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/error.h"
#include <stdarg.h>
#include <stdio.h>

clattn_status cla_fail(struct cla_error *error, clattn_status status, const char *format, ...)
{
    va_list arguments;
    if (!error)
        return status;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    error->status = status;
    return status;
}
