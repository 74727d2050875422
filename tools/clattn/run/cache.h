/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_RUN_CACHE_H
#define CLATTN_TOOL_RUN_CACHE_H

#include "run/job.h"

/* `clattn run --cache FILE`: K and V are new keys, which go behind those of the file. */

/* Makes what will take the file's name, so that a directory that is missing costs no time. */
int run_cache_create(struct run *run, struct failure *failure);

/* Computes O, and LSE where it is wanted, over all keys, and writes these keys to what will take the file's name. */
int run_cache_compute(struct run *run, struct failure *failure);

/* One line on stderr; a JSON object on stdout. */
void run_cache_print_summary(const struct run *run);
int run_cache_print_json(const struct run *run, struct failure *failure);

#endif
