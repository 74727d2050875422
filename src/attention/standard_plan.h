/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_STANDARD_PLAN_H
#define CLA_STANDARD_PLAN_H

#include "attention/arguments.h"

/* How a pass of standard attention is laid out, decided without OpenCL.
 *
 * CLBlast takes fp32 matrices with dense rows. What is not one is copied to the workspace first (O: from there). Query
 * heads are taken in runs of heads whose matrices follow each other at a constant stride, so that one batched call
 * serves them; S holds one run, at the start of the workspace. */

/* One of Q, K, V and O as CLBlast sees it. All numbers count floats. */
struct cla_matrix {
    int64_t offset, batch, head, ld;
    int64_t rows, columns;
    int64_t share; /* query heads that use one head of it */
    bool packed;   /* in the workspace */
};

struct cla_standard {
    struct cla_call forward;
    struct cla_matrix matrices[CLA_LSE]; /* q, k, v, o */
    int64_t heads;                       /* all query heads, through the batch */
    int64_t heads_at_once;               /* the longest run */
    size_t workspace_bytes;
};

/* `align_bytes`: what regions of the workspace are aligned to. */
clattn_status cla_standard_plan(const struct cla_call *forward, size_t align_bytes, struct cla_standard *standard,
                                struct cla_error *error);

/* Where the matrix of a query head starts. */
int64_t cla_matrix_offset(const struct cla_matrix *matrix, const struct cla_standard *standard, int64_t head);

/* How many heads from `first` on make a run. */
int64_t cla_standard_run(const struct cla_standard *standard, int64_t first);

#endif
