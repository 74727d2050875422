/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_BENCH_PAUSE_H
#define CLATTN_TOOL_BENCH_PAUSE_H

#include "bench/kernel.h"

/* What keeps the device at work for a while (cl/pause.cl), so that the host has enqueued all of what is behind it
 * before that begins. */
struct bench_pause {
    const struct session *session;
    struct bench_kernel kernel;
    cl_mem out;
    double steps_per_second;
};

cl_int bench_pause_create(const struct session *session, struct bench_pause *pause);
void bench_pause_destroy(struct bench_pause *pause); /* zero-initialised ones too */

/* For about so long, up to a second. */
cl_int bench_pause_enqueue(const struct bench_pause *pause, double seconds);

#endif
