/* SPDX-License-Identifier: BSD-2-Clause */
#include "failure.h"

/* Apart from failure.c, so that tests of what needs no library link without it. */

int fail_code(struct failure *failure, const char *call, clattn_status code)
{
    return fail(failure, STATUS_DEVICE, "%s failed with %s (%d)", call, clattn_status_name(code), code);
}

int fail_library(struct failure *failure, const char *what, clattn_status code)
{
    const char *text = clattn_error_message();
    return fail(failure, STATUS_DEVICE, "%s: %s (%s)", what, *text ? text : "failed", clattn_status_name(code));
}
