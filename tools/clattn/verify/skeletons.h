/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_VERIFY_SKELETONS_H
#define CLATTN_TOOL_VERIFY_SKELETONS_H

#include <stdbool.h>

/* What `clattn verify` has to know of a skeleton to make cases for it. The ones for CPUs have no parallelism within a
 * work-group, so a GPU is not asked to run them. A CPU can run the others, but its compiler takes seconds for each
 * kernel of that shape, and half a minute for gradients: a quick run has one of the former and none of the latter. */
struct verify_skeleton {
    const char *name;
    bool backward;
    bool suits_cpu, suits_others;
    bool slow_to_compile_on_cpu;
    bool declines; /* what its matrix units do not serve */
    bool takes_fp32;
    bool any_order; /* it serves only problems that let dQ be added up in any order */
    bool chunks;    /* it takes keys in chunks */
    bool packs;     /* heads that share K and V can go together */
    int largest_d;
};

/* From what the library says of its skeletons, ended by one without a name. Made at the first call: to be called by one
 * thread. */
const struct verify_skeleton *verify_skeletons(void);

/* Emulations of matrix units, which only --skeleton takes, are not in the table: they are as what they stand for. NULL:
 * there is no such skeleton. */
const struct verify_skeleton *verify_skeleton_of(const char *name);

#endif
