/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_MPI_FAULTS_H
#define TEST_MPI_FAULTS_H

/* A layer between rings and MPI (MPI's profiling interface): what one message of this rank meets. */
enum fault { FAULT_NONE, FAULT_DROP, FAULT_DELAY, FAULT_FAIL, FAULT_KILL, FAULT_KINDS };

extern const char *const fault_names[FAULT_KINDS];

/* The `number`-th message that is sent from here on, counted from 1, meets the fault. */
void fault_set(enum fault fault, int number);

/* Messages sent since. */
int fault_count(void);

#endif
