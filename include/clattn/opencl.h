/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_OPENCL_H
#define CLATTN_OPENCL_H

/* OpenCL's own header, at the version that the program chose, else at the one that the library needs: 1.2.
 *
 * The version is settled by whoever includes CL/cl.h first. A program that calls functions newer than 1.2 defines
 * CL_TARGET_OPENCL_VERSION (200, 300, ...) before it includes any header of clattn. A program that includes CL/cl.h
 * itself may do so before or after: before, its own choice holds, and without one CL/cl.h takes its newest version and
 * says so. */
#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif

#ifdef __APPLE__
#include <OpenCL/cl.h>
#else
#include <CL/cl.h>
#endif

#endif
