/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_HOST_SCORE_H
#define CLA_HOST_SCORE_H

#include "attention/host_job.h"

/* The score modifications of a call on arrays. First as arguments whose buffers are the arrays (CLA_ARRAYS), for the
 * checks that all calls share; then what only the host can check, the numbers that the arrays hold; at last as
 * arguments on the device. */
struct clattn_score_args cla_host_score_arrays(const struct cla_host_job *job,
                                               const struct clattn_host_score_args *args);
clattn_status cla_host_score_check(struct cla_host_job *job, const struct clattn_host_score_args *args,
                                   struct cla_error *error);
struct clattn_score_args cla_host_score_device(const struct cla_host_job *job,
                                               const struct clattn_host_score_args *args);

/* The arguments of a backward pass, a struct clattn_host_backward_args, on the device. */
struct clattn_backward_args cla_host_backward_arguments(const struct cla_host_job *job);

#endif
