/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_PROGRAM_H
#define CLA_PROGRAM_H

#include "plan/error.h"
#include "plan/hash.h"
#include <clattn/opencl.h>

struct clattn_context;

/* Every program is built with these, at least. The kernels are OpenCL C 1.2, which every driver has, OpenCL 3.0 ones
 * included. */
#define CLA_BUILD_OPTIONS "-cl-std=CL1.2"

/* The programs of one context: each text is built once, however many threads ask for it at the same time (the others
 * wait for the first), from the disk cache where it has it. */
struct cla_programs;

/* More programs than these and those not asked for longest are let go; plans that use them keep them alive. */
enum { CLA_PROGRAMS_KEPT = 256 };

struct cla_programs *cla_programs_create(int most); /* NULL where memory is short */
void cla_programs_destroy(struct cla_programs *programs);

/* Gets the built program of a text; the caller releases it. `name` is for messages. A failed build is not remembered:
 * the next call tries again. key gets the hash that names the program in the caches. */
clattn_status cla_program_get(struct clattn_context *context, const char *name, const char *text, const char *options,
                              cl_program *program, char key[CLA_HASH_HEX], struct cla_error *error);

#endif
