/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_CPU_H
#define TEST_CPU_H

#include <clattn/clattn.h>

/* A CPU of two cores, with vectors of so many floats. */
struct clattn_capabilities test_cpu(uint32_t width);

#endif
