/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_FENCE_H
#define TEST_FENCE_H

#include "random.h"
#include "support/device.h"

/* Buffers whose host memory the device works on (PoCL does), or has a copy of (GPUs do). Each begins or ends at a page
 * that must not be touched, as `chance` has it. */

/* From a multiple of `align` on, filled with a byte. *memory, where not NULL, gets where they are. No bytes: NULL. */
cl_mem fence_make(const struct test_device *device, struct random *chance, size_t bytes, size_t align, int fill,
                  char **memory);

/* The device gets what the host wrote to their memory since they were made; the host gets what the device wrote. */
void fence_to_device(const struct test_device *device);
void fence_from_device(const struct test_device *device);

/* All that were made, once the device is done with them. */
void fence_drop_all(void);

#endif
