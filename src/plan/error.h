/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_ERROR_H
#define CLA_ERROR_H

#include <clattn/status.h>

/* An error on its way out: what failed and the sentence that names the argument, its value and what would be right.
 * Pure code fills it; the public entry point that the caller came through reports it once (src/device/report.h). */
struct cla_error {
    clattn_status status;
    char text[4096];
};

/* Fills *error and returns status, so that `return cla_fail(error, ...)` reads as one thought. Longer text is cut.
 * NULL: the text is not wanted. */
__attribute__((format(printf, 3, 4))) clattn_status cla_fail(struct cla_error *error, clattn_status status,
                                                             const char *format, ...);

#endif
