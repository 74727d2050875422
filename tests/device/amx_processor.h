/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_AMX_PROCESSOR_H
#define TEST_AMX_PROCESSOR_H

#include <stdbool.h>

/* A processor with AMX. On one that has none each of its instructions is an illegal one, and is carried out by a
 * handler of that signal. It stands in the place of src/device/processor_x86.c and os_tiles_linux.c. */
struct amx_processor {
    bool is_real;     /* the processor has it: no instruction is counted, and products are right */
    bool is_there;    /* what CPUID says */
    bool is_allowed;  /* what the system says when it is asked */
    bool is_wrong;    /* products come out wrong */
    int requests;     /* how often the system was asked */
    int instructions; /* how many were carried out */
    int stray;        /* of these, how many without a configuration */
};

extern struct amx_processor amx_processor;

/* From the beginning: nothing is counted yet. False where the rest of what kernels need (AVX512-BF16) is missing. */
bool amx_processor_start(void);

#endif
