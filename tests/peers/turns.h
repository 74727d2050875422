/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_PEERS_TURNS_H
#define CLATTN_PEERS_TURNS_H

/* What programs that time calls in turns share. Before the first include: #define _POSIX_C_SOURCE 199309L. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline double cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static inline int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline _Noreturn void stop(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

#endif
