/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_VISITS_H
#define CLA_VISITS_H

#include "ring/ring.h"

/* A run of a rank's rows that goes to another rank's keys, as messages: what these rows take along, and what of them
 * comes home. Both are pieces, one behind the other. */
struct cla_visit {
    const clattn_ring *ring;
    const struct cla_job *job; /* of this rank, whichever it is */
    int64_t from;              /* whose rows they are */
    int run;                   /* which of its runs */
    int64_t to;                /* whose keys */
    bool home;                 /* what comes of them: the state; or dQ and the bias's gradient, in their types */
};

/* All rows that an array has of the run; of bias, masks and the bias's gradient the columns of one run of keys. */
struct cla_visit_piece {
    int number;             /* -1: before the first */
    int which;              /* CLA_STATE, or another operand */
    struct cla_sizes sizes; /* dense; what is broadcast is there once */
    bool of_keys;           /* columns are of keys, */
    int64_t column;         /* the first of them so many of the whole */
    int element_bytes;
    uint64_t offset, bytes; /* within the run's message */
};

/* The next piece that is not empty; false: there is none. */
bool cla_visit_next(const struct cla_visit *visit, struct cla_visit_piece *piece);

/* The message of the run; a multiple of 64. Where no row of it sees a key it is empty. */
uint64_t cla_visit_bytes(const struct cla_visit *visit);

/* Where the message of its run begins, behind that of run 0. */
uint64_t cla_visit_at(const struct cla_visit *visit);

/* An operand as another rank gave it for a run of its rows: sizes, and the strides that a dense one has. */
struct cla_array cla_visit_array(const struct cla_visit *visit, int which);

#endif
