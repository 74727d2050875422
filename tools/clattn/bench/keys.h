/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_BENCH_KEYS_H
#define CLATTN_TOOL_BENCH_KEYS_H

#include "bench/buffers.h"

/* K and V of a row that are quantised, or lie in pages. Scales are those of keys; pages are in random order. */

/* Their part of the problem; and whether there is any. */
void bench_keys_problem(const struct bench_shape *shape, struct clattn_problem *problem);
bool bench_keys_are_apart(const struct bench_shape *shape);

/* Rows of K, or of V; and the bytes of one of K (v: of V). */
uint64_t bench_key_rows(const struct bench_shape *shape);
uint64_t bench_key_bytes(const struct bench_shape *shape, bool v);

/* Quantised rows, and the table of pages; in place of the layouts and buffers of `args`. */
int bench_keys_create(const struct session *session, const struct bench_shape *shape, struct bench_buffers *buffers,
                      struct failure *failure);
void bench_keys_destroy(struct bench_buffers *buffers);

#endif
