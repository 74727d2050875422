/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_OPENCL_H
#define CLATTN_OPENCL_H
#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#ifdef __APPLE__
#include <OpenCL/cl.h>
#else
#include <CL/cl.h>
#endif
#endif
