/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_FAULT_LIVE_BYTES_H
#define TEST_FAULT_LIVE_BYTES_H

#include <stdint.h>

/* Bytes of the buffers that were made since they are watched and are still there; the most of them at a time. */
void live_bytes_watch(void);
uint64_t live_bytes_peak(void);

/* Counts what `table`'s clCreateBuffer makes from now on. */
struct _cl_icd_dispatch;
void live_bytes_take_over(struct _cl_icd_dispatch *table);

#endif
