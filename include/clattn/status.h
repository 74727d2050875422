/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_STATUS_H
#define CLATTN_STATUS_H

#include <clattn/export.h>

CLATTN_BEGIN_DECLS

/* What a call answers: 0 is success, everything else is negative.
 *
 * OpenCL's own codes keep their numbers (-5 is CL_OUT_OF_RESOURCES, -1001 is CL_PLATFORM_NOT_FOUND_KHR), and so do
 * CLBlast's (-2050 to -1003), which only the standard attention returns. The library's own stand apart, from -20001
 * down. */
typedef int clattn_status;

enum {
    CLATTN_SUCCESS = 0,
    CLATTN_INVALID_ARGUMENT = -20001,    /* a NULL handle or pointer, or a value out of its range */
    CLATTN_INVALID_SHAPE = -20002,       /* batch, heads, lengths or head dimensions that do not go together */
    CLATTN_INVALID_TYPE = -20003,        /* an element type that is unknown or does not match */
    CLATTN_INVALID_LAYOUT = -20004,      /* strides that overflow, or that make two elements of an output one */
    CLATTN_BUFFER_TOO_SMALL = -20005,    /* a tensor reaches past the end of its buffer */
    CLATTN_WORKSPACE_TOO_SMALL = -20006, /* less workspace than the plan's exact size */
    CLATTN_UNSUPPORTED_DEVICE = -20007,  /* the device cannot run compiled kernels: no compiler, or not available */
    CLATTN_NOTHING_FITS = -20008,        /* not even a 1 x 1 block fits the device's limits */
    CLATTN_BUILD_FAILED = -20009,        /* the device's compiler refused a kernel: its log is in the message */
    CLATTN_TOO_LARGE = -20010,           /* a size beyond what the device or the kernels can address */
    CLATTN_FILE_FAILED = -20011,         /* a file that cannot be read, locked or written */
    CLATTN_FILE_DAMAGED = -20012,        /* a file that is not what it should be: the message names the line */
    CLATTN_KERNEL_STUCK = -20013, /* a kernel waited for what never came, and gave up: see clattn_backward_check */
    CLATTN_UNAVAILABLE = -20014,  /* standard attention where there is no CLBlast: see <clattn/standard.h> */
    CLATTN_COMMUNICATION_FAILED = -20015, /* a message between ranks failed or did not come: see <clattn/mpi.h> */
    CLATTN_CANCELLED = -20016             /* the caller's own `cancel` ended the call: see <clattn/host.h> */
};

/* The name of a status, such as "CLATTN_INVALID_SHAPE" or "CL_OUT_OF_RESOURCES"; "unknown status" for any other number.
 * Static storage. Any thread. */
CLATTN_API const char *clattn_status_name(clattn_status status);

/* What the last call of this thread that failed had to say: which argument, its value, and what would be right. The
 * text is this thread's own, stays until the thread's next failing call, and is "" before the first. The same text has
 * gone to the context's logger. */
CLATTN_API const char *clattn_error_message(void);

CLATTN_END_DECLS

#endif
