/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_FAULT_HOST_CALLS_H
#define TEST_FAULT_HOST_CALLS_H

#include "fault/layer.h"
#include <stddef.h>

/* What the library asks of the C library, made to fail as the layer makes OpenCL fail: memory, and files. The linker
 * puts these functions in place of malloc() and the others (--wrap, tests/meson.build), for everything that is linked
 * statically, which is all of clattn. Shared libraries (the OpenCL driver, CLBlast) keep their own. */

/* Allocation number `nth` finds no memory. `code` is not looked at. */
extern const struct fault_control host_memory;

/* Call number `nth` on files fails with errno `code`; below 0: with number -code of those in the function's row of the
 * table (host_calls.c), counted from 1 on and beyond the end from its start again. */
extern const struct fault_control host_files;

/* Codes that are no errno: half of the bytes are written or read, which is no error; no bytes are, as at a file's end;
 * the process is killed before the call. */
enum { FILE_SHORT = 1000, FILE_END, FILE_KILL };

/* How many failures the table has for a function that `victim` named. */
int host_file_codes(const char *name);

/* Blocks that are allocated now; those of the program count, too. */
long host_live_blocks(void);

#endif
