/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_FAULT_CODES_H
#define TEST_FAULT_CODES_H

#include <clattn/opencl.h>

/* The error codes that OpenCL 1.2 allows an entry point, ended by 0. Those of images are left out. */
const cl_int *fault_codes_of(const char *entry_point);

#endif
