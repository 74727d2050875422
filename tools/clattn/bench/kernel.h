/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_BENCH_KERNEL_H
#define CLATTN_TOOL_BENCH_KERNEL_H

#include "opencl_select.h"

/* A kernel that measures one of the device's ceilings: one entry of embedded text, and how long a launch takes. */
struct bench_kernel {
    cl_program program;
    cl_kernel kernel;
};

/* `files` names embedded files, in order, ended by NULL; `defines` stands above them. */
cl_int bench_kernel_build(const struct session *session, const char *const *files, const char *defines,
                          const char *entry, struct bench_kernel *built);
void bench_kernel_release(struct bench_kernel *kernel); /* zero-initialised and released ones too */

/* Launches and waits; by the device's clock. */
cl_int bench_kernel_time(const struct session *session, const struct bench_kernel *kernel, size_t groups, size_t local,
                         double *seconds);

#endif
