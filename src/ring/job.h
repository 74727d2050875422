/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_RING_JOB_H
#define CLA_RING_JOB_H

#include "plan/operand.h"
#include "plan/problem.h"
#include "ring/parts.h"

/* A call on this rank's arrays: where they are and what they hold. Nothing here asks OpenCL or MPI. */

struct cla_array {
    const void *data; /* NULL: there is none. Outputs alone are written to */
    struct clattn_layout layout;
    struct cla_sizes sizes; /* of the array, not of the rank's part of it */
    int element_bytes;
    int rows_each; /* rows of the problem that one row of it stands for; 0: it has none, and serves all rows */
    bool output;
    bool pinned; /* dense, in memory that a device may copy from later */
    bool sum;    /* in fp32 on the device, whatever it is here */
};

struct cla_job {
    const struct clattn_problem *problem; /* the caller's, resolved */
    struct clattn_shape shape;
    struct clattn_ring_part rows, keys;
    bool whole;
    const struct clattn_host_score_args *score;
    struct cla_meeting meeting;
    struct cla_array arrays[CLA_OPERANDS];
    void (*progress)(void *user, int64_t keys_done, int64_t keys);
    void *progress_user;
};

/* What a ring can compute. */
clattn_status cla_ring_check_problem(const struct clattn_problem *problem, struct cla_error *error);

/* Takes over the arguments and checks them as far as this rank alone can. */
clattn_status cla_job_of_forward(struct cla_job *job, const struct clattn_problem *problem,
                                 const struct clattn_ring_forward_args *args, struct cla_error *error);
clattn_status cla_job_of_backward(struct cla_job *job, const struct clattn_problem *problem,
                                  const struct clattn_ring_backward_args *args, struct cla_error *error);

/* Rows and keys of the whole, packed ones where they are packed; the batch of tensors. */
int64_t cla_job_rows(const struct cla_job *job);
int64_t cla_job_keys(const struct cla_job *job);
int64_t cla_job_batch(const struct cla_job *job);

/* The layout of an array with its defaults in place. */
clattn_status cla_job_layout(const struct cla_job *job, int which, struct cla_layout *layout, struct cla_error *error);

/* What all ranks must give alike (ring/round.h: facts): as numbers, by which the names below are found again. */
void cla_facts_of_problem(const struct clattn_problem *problem, int64_t passing, int64_t *facts);
void cla_facts_of_job(const struct cla_job *job, int64_t *facts);

/* The first that two ranks do not agree on. */
clattn_status cla_facts_compare(bool of_job, const int64_t *facts, const int64_t *others, int other_rank,
                                struct cla_error *error);

#endif
