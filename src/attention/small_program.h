/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_SMALL_PROGRAM_H
#define CLA_SMALL_PROGRAM_H

#include "device/context.h"
#include "plan/text.h"

/* Programs of the kernels that no planner chooses: those that go over rows, copy, or expand. */

/* Builds `files`, ended by NULL, under the #define lines of `defines`, which it frees, and the width of the device's
 * vectors. */
clattn_status cla_small_program(struct clattn_context *context, const char *name, struct cla_text *defines,
                                const char *const *files, cl_program *program, struct cla_error *error);

/* Work-items that share the work of a group: a power of two; 1 on a CPU. */
int cla_small_work_group(const struct clattn_capabilities *capabilities);

#endif
