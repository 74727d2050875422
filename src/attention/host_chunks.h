/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_HOST_CHUNKS_H
#define CLA_HOST_CHUNKS_H

#include "attention/host_job.h"

/* Passes whose keys stream through the device (job->streamed): job->plan is of pass CLATTN_ACCUMULATE and job->args a
 * struct clattn_host_forward_args, or of CLATTN_BACKWARD_ACCUMULATE and a struct clattn_host_backward_args; its
 * kv_chunk is not 0. */
clattn_status cla_host_chunks_prepare(struct cla_host_job *job, struct cla_error *error);
clattn_status cla_host_chunks_compute(struct cla_host_job *job, cl_uint wait_count, const cl_event *waits,
                                      struct cla_error *error);

clattn_status cla_host_backward_chunks_prepare(struct cla_host_job *job, struct cla_error *error);
clattn_status cla_host_backward_chunks_compute(struct cla_host_job *job, cl_uint wait_count, const cl_event *waits,
                                               struct cla_error *error);

#endif
