/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_BENCH_PICTURES_H
#define CLATTN_TOOL_BENCH_PICTURES_H

#include "bench_rows.h"

/* The pictures, as scripts for gnuplot with their data in them. Each writes its script, without terminal and output,
 * and says how many rows it drew; 0: nothing was written. */
struct bench_picture {
    const char *name;
    size_t (*write)(const json_t *rows, FILE *script);
    int (*tall)(const json_t *rows); /* how many panels stand above each other; NULL: one */
    int width, height;               /* of the picture, and of one of these panels */
};

extern const struct bench_picture bench_pictures[]; /* ended by one without a name */

#endif
