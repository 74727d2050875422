/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/chain.h"
#include "device/clcall.h"

void cla_chain_start(struct cla_chain *chain, cl_command_queue queue, cl_uint wait_count, const cl_event *wait_list)
{
    *chain = (struct cla_chain){.queue = queue, .wait_count = wait_count, .wait_list = wait_list};
}

clattn_status cla_chain_launch(struct cla_chain *chain, struct cla_kernel *kernel, const struct cla_argument *arguments,
                               cl_uint argument_count, size_t groups, size_t work_group_size, struct cla_error *error)
{
    const clattn_status status =
        cla_kernel_launch(kernel, chain->queue, arguments, argument_count, groups, work_group_size, chain->wait_count,
                          chain->wait_list, &chain->events[chain->count], error);
    if (!status)
        chain->count++;
    return status;
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
    if (!event)
        return CLATTN_SUCCESS;
    if (chain->count == chain->stage + 1) {
        *event = chain->events[--chain->count];
        return CLATTN_SUCCESS;
    }
    cla_chain_next(chain);
    return cla_cl_enqueue_marker(chain->queue, chain->wait_count, chain->wait_list, event, error);
}

void cla_chain_finish(struct cla_chain *chain)
{
    while (chain->count > 0)
        cla_cl_release_event(chain->events[--chain->count]);
}
