/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_FAULT_FAILED_EVENTS_H
#define TEST_FAULT_FAILED_EVENTS_H

#include <clattn/opencl.h>
#include <stdbool.h>

/* The events that the layer has end in an error. Whether this is one of them; `change`: from now on it is one, or none.
 * Any thread may ask. */
bool fault_failed_event(cl_event event, bool change, bool failed);

/* Whether one of them is among these. */
bool fault_waits_for_failed(cl_uint number, const cl_event *events);

/* None is one any more. */
void fault_forget_events(void);

#endif
