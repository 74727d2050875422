/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_RUN_THREADS_H
#define CLATTN_TOOL_RUN_THREADS_H

#include "failure.h"

/* Runs work(user, 0) to work(user, count - 1), each in a thread of its own, and waits for all: the status of the first
 * that failed, and its text. None begins where not all threads can be had: they may wait for each other. */
int threads_run(int count, int (*work)(void *user, int number, struct failure *failure), void *user,
                struct failure *failure);

#endif
