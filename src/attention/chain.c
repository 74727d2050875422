/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/chain.h"
#include "device/clcall.h"

void cla_chain_start(struct cla_chain *chain, const struct cla_dispatch *call, cl_event *first_event)
{
    *chain = (struct cla_chain){.next = *call, .first_event = first_event};
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
    struct cla_dispatch to = chain->next;
    to.event = &chain->events[chain->count];
    to.point = &chain->points[chain->count];
    const clattn_status status =
        cla_kernel_launch(kernel, &to, arguments, argument_count, groups, work_group_size, error);
    return status ? status : note_first(chain, chain->events[chain->count++], error);
}

clattn_status cla_chain_launch_last(struct cla_chain *chain, struct cla_kernel *kernel,
                                    const struct cla_argument *arguments, cl_uint argument_count, size_t groups,
                                    size_t work_group_size, struct cla_error *error)
{
    cla_chain_next(chain);
    if (!wants_first(chain)) /* the one kernel of most calls: no event is made that nobody wants */
        return cla_kernel_launch(kernel, &chain->next, arguments, argument_count, groups, work_group_size, error);
    const clattn_status status =
        cla_chain_launch(chain, kernel, arguments, argument_count, groups, work_group_size, error);
    return status ? status : cla_chain_event(chain, error);
}

void cla_chain_next(struct cla_chain *chain)
{
    if (chain->count == chain->stage)
        return;
    chain->next.wait_list = chain->events + chain->stage;
    chain->next.wait_points = chain->points + chain->stage;
    chain->next.wait_count = chain->count - chain->stage;
    chain->stage = chain->count;
}

/* The last stage is one kernel, or there is none at all. */
static clattn_status give_point(struct cla_chain *chain, struct cla_error *error)
{
    if (!chain->next.point)
        return CLATTN_SUCCESS;
    if (!chain->count)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "sync_point is not NULL, and a call without rows records nothing: it must be NULL then");
    *chain->next.point = chain->points[chain->count - 1];
    return CLATTN_SUCCESS;
}

clattn_status cla_chain_event(struct cla_chain *chain, struct cla_error *error)
{
    cl_event *const event = chain->next.event;
    if (chain->next.recorder)
        return give_point(chain, error);
    if (!event && !wants_first(chain))
        return CLATTN_SUCCESS;
    if (chain->count != chain->stage + 1) {
        cla_chain_next(chain);
        clattn_status status = cla_cl_enqueue_marker(chain->next.queue, chain->next.wait_count, chain->next.wait_list,
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

clattn_status cla_chain_nothing(const struct cla_dispatch *call, cl_event *first_event, struct cla_error *error)
{
    struct cla_chain chain;
    cla_chain_start(&chain, call, first_event);
    const clattn_status status = cla_chain_event(&chain, error);
    cla_chain_finish(&chain, status);
    return status;
}
