/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_BENCH_PICTURES_H
#define CLATTN_TOOL_BENCH_PICTURES_H

#include "bench/rows.h"

/* The pictures, as scripts for gnuplot with their data in them. Each writes its script, without terminal and output,
 * and says how many rows or panels it drew; 0: nothing was written. */
struct bench_picture {
    const char *name;
    size_t (*write)(const json_t *rows, FILE *script);
    int (*height_of)(const json_t *rows); /* NULL: `height` */
    int width, height;                    /* in points of a screen, 96 an inch */
};

extern const struct bench_picture bench_pictures[]; /* ended by one without a name */

size_t bench_write_speed(const json_t *rows, FILE *script);
int bench_speed_height(const json_t *rows);
size_t bench_write_memory(const json_t *rows, FILE *script);
size_t bench_write_roofline(const json_t *rows, FILE *script);

#endif
