/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_NVIDIA_H
#define TEST_NVIDIA_H

#include <clattn/clattn.h>

/* A GPU as NVIDIA's driver describes it, with what is known of its compute capability (100 * major + minor) beyond
 * that. */
struct clattn_capabilities test_nvidia(uint32_t compute_capability, uint32_t compute_units);

/* The same without products by warp groups. */
struct clattn_capabilities test_nvidia_without_warp_groups(uint32_t compute_capability, uint32_t compute_units);

#endif
