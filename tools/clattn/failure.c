/* SPDX-License-Identifier: BSD-2-Clause */
#include "failure.h"
#include <stdarg.h>
#include <stdio.h>

int fail(struct failure *failure, int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(failure->text, sizeof failure->text, format, arguments);
    va_end(arguments);
    return status;
}
