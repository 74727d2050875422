/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_PARTS_H
#define CLA_PARTS_H

#include "plan/error.h"
#include <clattn/ring.h>
#include <stdbool.h>

/* Which rows and keys meet: numbers alone. */

enum { CLA_RUNS = 2 }; /* consecutive rows, or keys, of a part */

/* What decides on it. Lengths and shifts are one for each batch element, or packed sequence. */
struct cla_meeting {
    int64_t batch, n_q, n_kv; /* of the whole; with packed sequences their totals */
    const struct clattn_host_score_args *score;
    enum clattn_causal causal;
    enum clattn_causal corner; /* by which rows and keys are aligned, without shifts of the caller's */
    unsigned features;
};

/* Rows of a batch element (sequence) that lie in a run of rows: so many, from the row `first` of the element on; and
 * the key at which that element's row 0 has its place. */
struct cla_rows_met {
    int64_t first, count, shift;
};
struct cla_rows_met cla_rows_met(const struct cla_meeting *meeting, int64_t b, int64_t first, int64_t count);

/* Where the b-th packed sequence's rows begin in all; of others, 0. */
int64_t cla_rows_begin_of(const struct cla_meeting *meeting, int64_t b);

/* Whether a row of the run, or of the part, sees a key of the other run. */
bool cla_runs_meet(const struct cla_meeting *meeting, int64_t row, int64_t rows, int64_t key, int64_t keys);
bool cla_part_meets(const struct cla_meeting *meeting, const struct clattn_ring_part *rows, int64_t key, int64_t keys);

int64_t cla_part_count(const struct clattn_ring_part *part);

/* Where run `run` begins in arrays of the part alone. */
int64_t cla_part_at(const struct clattn_ring_part *part, int run);

/* Whether it is part of so many; `name` is the argument's. */
clattn_status cla_part_check(const char *name, const struct clattn_ring_part *part, int64_t total,
                             struct cla_error *error);

/* Whether the parts, so many bytes apart, share out the whole. */
clattn_status cla_parts_check(const char *name, const struct clattn_ring_part *parts, size_t apart, int count,
                              int64_t total, struct cla_error *error);

#endif
