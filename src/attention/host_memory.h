/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_HOST_MEMORY_H
#define CLA_HOST_MEMORY_H

#include "attention/host_job.h"

/* Plans the call for keys as a whole or in pieces, as job->streamed says, and adds to job->call.workspace_bytes and
 * job->state_bytes what the plan takes. `problem` is resolved, and becomes the plan's. */
typedef clattn_status (*cla_host_planner)(struct cla_host_job *job, struct clattn_problem *problem,
                                          struct cla_error *error);

/* Plans the call so that it stays within args.max_device_bytes (`most`; 0: any number): where it has to, its keys come
 * in pieces. Gives back buffers of earlier calls that are in its way. */
clattn_status cla_host_plan_within(struct cla_host_job *job, struct clattn_problem *problem, uint64_t most,
                                   cla_host_planner planner, struct cla_error *error);

#endif
