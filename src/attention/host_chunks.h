/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_HOST_CHUNKS_H
#define CLA_HOST_CHUNKS_H

#include "attention/host_job.h"

/* A forward pass whose keys stream through the device: job->plan is of pass CLATTN_ACCUMULATE, job->args a struct
 * clattn_host_forward_args with a kv_chunk. */
clattn_status cla_host_chunks_prepare(struct cla_host_job *job, struct cla_error *error);
clattn_status cla_host_chunks_compute(struct cla_host_job *job, cl_uint wait_count, const cl_event *waits,
                                      struct cla_error *error);

#endif
