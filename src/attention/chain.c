/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/chain.h"
#include "device/clcall.h"

void cla_chain_start(struct cla_chain *chain, cl_command_queue queue, cl_uint wait_count, const cl_event *wait_list,
                     cl_event *first_event)
{
    *chain = (struct cla_chain){
        .queue = queue, .wait_count = wait_count, .wait_list = wait_list, .first_event = first_event};
}

static bool wants_first(const struct cla_chain *chain)
{
    return chain->first_event && !chain->first;
}

/* Keeps the event of the first command beside its other uses. */
static clattn_status note_first(struct cla_chain *chain, cl_event event, struct cla_error *error)
{
    if (!wants_first(chain))
        return CLATTN_SUCCESS;
    const clattn_status status = cla_cl_retain_event(event, error);
    if (!status)
        chain->first = event;
    return status;
}

clattn_status cla_chain_launch(struct cla_chain *chain, struct cla_kernel *kernel, const struct cla_argument *arguments,
                               cl_uint argument_count, size_t groups, size_t work_group_size, struct cla_error *error)
{
    const clattn_status status =
        cla_kernel_launch(kernel, chain->queue, arguments, argument_count, groups, work_group_size, chain->wait_count,
                          chain->wait_list, &chain->events[chain->count], error);
    return status ? status : note_first(chain, chain->events[chain->count++], error);
}

clattn_status cla_chain_launch_last(struct cla_chain *chain, struct cla_kernel *kernel,
                                    const struct cla_argument *arguments, cl_uint argument_count, size_t groups,
                                    size_t work_group_size, cl_event *event, struct cla_error *error)
{
    cla_chain_next(chain);
    if (!event && !wants_first(chain)) /* the one kernel of most calls: no event is made that nobody wants */
        return cla_kernel_launch(kernel, chain->queue, arguments, argument_count, groups, work_group_size,
                                 chain->wait_count, chain->wait_list, NULL, error);
    const clattn_status status =
        cla_chain_launch(chain, kernel, arguments, argument_count, groups, work_group_size, error);
    return status ? status : cla_chain_event(chain, event, error);
}

void cla_chain_next(struct cla_chain *chain)
{
    if (chain->count == chain->stage)
        return;
    chain->wait_list = chain->events + chain->stage;
    chain->wait_count = chain->count - chain->stage;
    chain->stage = chain->count;
}

clattn_status cla_chain_event(struct cla_chain *chain, cl_event *event, struct cla_error *error)
{
    if (!event && !wants_first(chain))
        return CLATTN_SUCCESS;
    if (chain->count != chain->stage + 1) {
        cla_chain_next(chain);
        clattn_status status = cla_cl_enqueue_marker(chain->queue, chain->wait_count, chain->wait_list,
                                                     &chain->events[chain->count], error);
        if (!status)
            status = note_first(chain, chain->events[chain->count++], error);
        if (status)
            return status;
    }
    if (event)
        *event = chain->events[--chain->count];
    return CLATTN_SUCCESS;
}

void cla_chain_finish(struct cla_chain *chain, clattn_status status)
{
    while (chain->count > 0)
        cla_cl_release_event(chain->events[--chain->count]);
    if (chain->first && status)
        cla_cl_release_event(chain->first);
    else if (chain->first)
        *chain->first_event = chain->first;
}

clattn_status cla_chain_nothing(cl_command_queue queue, cl_uint wait_count, const cl_event *wait_list,
                                cl_event *first_event, cl_event *event, struct cla_error *error)
{
    struct cla_chain chain;
    cla_chain_start(&chain, queue, wait_count, wait_list, first_event);
    const clattn_status status = cla_chain_event(&chain, event, error);
    cla_chain_finish(&chain, status);
    return status;
}
