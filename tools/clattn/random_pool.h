/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_RANDOM_POOL_H
#define CLATTN_TOOL_RANDOM_POOL_H

#include <clattn/problem.h>
#include <stddef.h>

/* Random numbers that are made once and repeated: their making would take longer than a measurement. */
enum { RANDOM_POOL = 1 << 20 };

/* malloc'd, so many N(0, 1) elements of the type; NULL: no memory. */
void *random_pool(enum clattn_dtype dtype, uint64_t seed);

/* `elements` of them, the pool as often as it goes; NULL: no memory. */
void *random_array(enum clattn_dtype dtype, uint64_t seed, size_t elements);

#endif
