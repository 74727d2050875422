/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_FAILURE_H
#define CLATTN_TOOL_FAILURE_H

#include <clattn/status.h>

/* What the command exits with; its manual page has the same list. Functions of the command return one of these, 0 for
 * success. */
enum {
    STATUS_HELP = -1, /* --help was asked for and given: nothing more to do, exit 0 */
    STATUS_OK = 0,
    STATUS_MISMATCH = 1,      /* verification failed */
    STATUS_USAGE = 2,         /* an unknown subcommand or option, or a value that is not right */
    STATUS_FILE = 3,          /* an input that is missing or bad, an output that cannot be written */
    STATUS_DEVICE = 4,        /* no device, or OpenCL or the library refused */
    STATUS_REGRESSION = 5,    /* of `bench --compare`: a row is slower than before */
    STATUS_NOTHING_SHARED = 6 /* of the same: no row is in both files */
};

/* Why something failed: one sentence that names the thing, its value and what would be right. main() prints it. */
struct command_spec;
struct failure {
    char text[4096];
    const struct command_spec *command; /* whose options were read; NULL: none yet */
};

/* Fills *failure and returns `status`, so that `return fail(failure, ...)` reads as one thought. Longer text is cut. */
__attribute__((format(printf, 3, 4))) int fail(struct failure *failure, int status, const char *format, ...);

/* The same for a call of OpenCL or the library that returned `code`: STATUS_DEVICE. */
int fail_code(struct failure *failure, const char *call, clattn_status code);

/* And for a call of clattn, whose own message says what was wrong. Fields that the command has options for go by
 * these. */
int fail_library(struct failure *failure, const char *what, clattn_status code);

#endif
