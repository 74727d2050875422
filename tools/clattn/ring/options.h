/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_RING_OPTIONS_H
#define CLATTN_TOOL_RING_OPTIONS_H

#include "run/options.h"

/* What `clattn ring` was asked for: what `clattn run` may be, and how ranks share it out. */
struct ring_values {
    struct values run; /* first: the rows of both tables have the same places */
    int sharing;       /* enum clattn_ring_sharing; -1: by the causal mask */
    int64_t timeout;   /* seconds; 0: none */
};

/* As run_options_parse. */
int ring_options_parse(int argc, char **argv, struct ring_values *values, struct failure *failure);

#endif
