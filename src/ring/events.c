/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/clcall.h"
#include "ring/ring.h"

cl_event *cla_events_next(struct cla_events *events)
{
    if (events->count && !events->items[events->count - 1])
        events->count--; /* the command before has not been enqueued */
    events->items[events->count] = NULL;
    return &events->items[events->count++];
}

static bool is_done(cl_event event)
{
    struct cla_error ignored;
    bool done = true;
    return !event || cla_cl_event_is_done(event, &done, &ignored) || done;
}

bool cla_events_are_done(const struct cla_events *events)
{
    for (cl_uint i = 0; i < events->count; i++)
        if (!is_done(events->items[i]))
            return false;
    return true;
}

clattn_status cla_events_wait(struct cla_events *events, struct cla_wire *wire, struct cla_error *error)
{
    clattn_status first = CLATTN_SUCCESS;
    struct cla_error ignored;
    while (!cla_events_are_done(events))
        cla_wire_pause(wire);
    for (cl_uint i = 0; i < events->count; i++) {
        if (!events->items[i])
            continue;
        const clattn_status status = cla_cl_wait(1, &events->items[i], first ? &ignored : error);
        first = first ? first : status;
        cla_cl_release_event(events->items[i]);
    }
    events->count = 0;
    return first;
}
