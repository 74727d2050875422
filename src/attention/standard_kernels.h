/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_STANDARD_KERNELS_H
#define CLA_STANDARD_KERNELS_H

#include "attention/standard_plan.h"
#include "device/launch.h"

/* The kernels of standard attention that are not CLBlast's: the softmax of a run of heads, and the copies to and from
 * the workspace. Commands wait for nothing but what the queue's order gives. */
struct cla_standard_kernels {
    struct cla_kernel softmax, pack, unpack;
    size_t work_group_size; /* the work-items of a row */
};

/* Makes those that the pass needs. `kernels` is all zero, and to be finished also after an error. */
clattn_status cla_standard_kernels_make(struct cla_standard_kernels *kernels, struct clattn_context *context,
                                        const struct clattn_problem *problem, const struct cla_standard *standard,
                                        struct cla_error *error);
void cla_standard_kernels_finish(struct cla_standard_kernels *kernels);

/* Scores to probabilities, in place at the start of `scores`, and lse, m and l. `scores` may be NULL where there are no
 * keys. */
clattn_status cla_standard_softmax(struct cla_standard_kernels *kernels, cl_command_queue queue,
                                   const struct cla_standard *standard, cl_mem scores, int64_t first, int64_t count,
                                   struct cla_error *error);

/* Copies a tensor (CLA_Q ...) to its place in the workspace, or from it: there `workspace` NULL means zeros. */
clattn_status cla_standard_pack(struct cla_standard_kernels *kernels, cl_command_queue queue,
                                const struct cla_standard *standard, int which, cl_mem workspace,
                                struct cla_error *error);
clattn_status cla_standard_unpack(struct cla_standard_kernels *kernels, cl_command_queue queue,
                                  const struct cla_standard *standard, int which, cl_mem workspace,
                                  struct cla_error *error);

#endif
