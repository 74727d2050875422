/* SPDX-License-Identifier: BSD-2-Clause */
#include "failure.h"
#include "options/options.h"

/* Apart from failure.c, so that tests of what needs no library link without it. */

int fail_code(struct failure *failure, const char *call, clattn_status code)
{
    return fail(failure, STATUS_DEVICE, "%s failed with %s (%d)", call, clattn_status_name(code), code);
}

int fail_library(struct failure *failure, const char *what, clattn_status code)
{
    const char *text = clattn_error_message();
    char named[2048];
    if (failure->command)
        options_name_fields(failure->command, text, named, sizeof named);
    else
        snprintf(named, sizeof named, "%s", text);
    return fail(failure, STATUS_DEVICE, "%s: %s (%s)", what, *named ? named : "failed", clattn_status_name(code));
}
