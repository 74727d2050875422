/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_CHAIN_H
#define CLA_CHAIN_H

#include "device/launch.h"

/* The commands of one call, in stages: those of a stage may run together, and wait for all of the stage before. Events
 * carry this, so that it holds on queues of any kind, and sync points where the call is recorded. */
#define CLA_CHAIN_EVENTS 14 /* a recipe's stages (plan/recipe.h), those of every skeleton, and a marker */

struct cla_chain {
    struct cla_dispatch next; /* the present stage: it waits for what the caller's did, then for the stage before */
    cl_event events[CLA_CHAIN_EVENTS]; /* where it is recorded there are points instead */
    cl_uint points[CLA_CHAIN_EVENTS];
    cl_uint count, stage;  /* all of them; the first one of the present stage */
    cl_event *first_event; /* NULL, or where the caller wants the event of the call's first command */
    cl_event first;        /* which is that, once there is one */
};

/* Where `first_event` is wanted, the first stage must be one command: no other then begins before it. */
void cla_chain_start(struct cla_chain *chain, const struct cla_dispatch *call, cl_event *first_event);

/* Adds a kernel to the present stage. */
clattn_status cla_chain_launch(struct cla_chain *chain, struct cla_kernel *kernel, const struct cla_argument *arguments,
                               cl_uint argument_count, size_t groups, size_t work_group_size, struct cla_error *error);

/* The same for a kernel that alone is the last stage: gives its event, as cla_chain_event(). */
clattn_status cla_chain_launch_last(struct cla_chain *chain, struct cla_kernel *kernel,
                                    const struct cla_argument *arguments, cl_uint argument_count, size_t groups,
                                    size_t work_group_size, struct cla_error *error);

/* What follows waits for the present stage. */
void cla_chain_next(struct cla_chain *chain);

/* Gives the event or the sync point that completes with the present stage, where the call's dispatch wants it. A call
 * without a command becomes a marker, where one of its events is wanted; one that is recorded has nothing to give. */
clattn_status cla_chain_event(struct cla_chain *chain, struct cla_error *error);

/* To be called in every case, after an error too. Gives the first event where the call succeeded. */
void cla_chain_finish(struct cla_chain *chain, clattn_status status);

/* A call that has nothing to do. */
clattn_status cla_chain_nothing(const struct cla_dispatch *call, cl_event *first_event, struct cla_error *error);

#endif
