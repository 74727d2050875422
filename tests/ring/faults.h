/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_RING_FAULTS_H
#define TEST_RING_FAULTS_H

#include <clattn/ring.h>

/* A layer between rings and their transport: what one message of this rank meets. */
enum fault { FAULT_NONE, FAULT_DROP, FAULT_DELAY, FAULT_FAIL, FAULT_KILL, FAULT_KINDS };

extern const char *const fault_names[FAULT_KINDS];

/* The transport with the layer, of this thread: one at a time. */
const struct clattn_ring_transport *fault_layer(const struct clattn_ring_transport *transport);

/* The `number`-th message that this thread sends from here on, counted from 1, meets the fault. */
void fault_set(enum fault fault, int number);

/* Messages sent since. */
int fault_count(void);

#endif
