/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_CHAIN_H
#define CLA_CHAIN_H

#include "device/launch.h"

/* The commands of one call, in stages: those of a stage may run together, and wait for all of the stage before. Events
 * carry this, so that it holds on queues of any kind. */
#define CLA_CHAIN_EVENTS 14 /* a recipe's stages (plan/recipe.h), those of every skeleton, and a marker */

struct cla_chain {
    cl_command_queue queue;
    cl_uint wait_count; /* what the present stage waits for: the caller's events, then those of the stage before */
    const cl_event *wait_list;
    cl_event events[CLA_CHAIN_EVENTS];
    cl_uint count, stage;  /* all events; the first one of the present stage */
    cl_event *first_event; /* NULL, or where the caller wants the event of the call's first command */
    cl_event first;        /* which is that, once there is one */
};

/* Where `first_event` is wanted, the first stage must be one command: no other then begins before it. */
void cla_chain_start(struct cla_chain *chain, cl_command_queue queue, cl_uint wait_count, const cl_event *wait_list,
                     cl_event *first_event);

/* Adds a kernel to the present stage. */
clattn_status cla_chain_launch(struct cla_chain *chain, struct cla_kernel *kernel, const struct cla_argument *arguments,
                               cl_uint argument_count, size_t groups, size_t work_group_size, struct cla_error *error);

/* The same for a kernel that alone is the last stage: gives its event, where `event` is not NULL. */
clattn_status cla_chain_launch_last(struct cla_chain *chain, struct cla_kernel *kernel,
                                    const struct cla_argument *arguments, cl_uint argument_count, size_t groups,
                                    size_t work_group_size, cl_event *event, struct cla_error *error);

/* What follows waits for the present stage. */
void cla_chain_next(struct cla_chain *chain);

/* Gives an event that completes with the present stage, where `event` is not NULL. A call without a command becomes a
 * marker, where one of its events is wanted. */
clattn_status cla_chain_event(struct cla_chain *chain, cl_event *event, struct cla_error *error);

/* To be called in every case, after an error too. Gives the first event where the call succeeded. */
void cla_chain_finish(struct cla_chain *chain, clattn_status status);

/* A call that has nothing to do. */
clattn_status cla_chain_nothing(cl_command_queue queue, cl_uint wait_count, const cl_event *wait_list,
                                cl_event *first_event, cl_event *event, struct cla_error *error);

#endif
