/* SPDX-License-Identifier: BSD-2-Clause */
#include "platform.h"

cl_event event_user(cl_context context, cl_int *code)
{
    objects_lock();
    cl_event event = object_is(context, CONTEXT) ? object_new(sizeof *event, EVENT, context) : NULL;
    if (event) {
        event->status = CL_SUBMITTED;
        event->type = CL_COMMAND_USER;
    }
    objects_unlock();
    if (code)
        *code = event ? CL_SUCCESS : CL_INVALID_CONTEXT;
    return event;
}

cl_int event_set(cl_event event, cl_int status)
{
    objects_lock();
    cl_int code = object_is(event, EVENT) ? CL_SUCCESS : CL_INVALID_EVENT;
    if (!code && status > CL_COMPLETE)
        code = CL_INVALID_VALUE;
    if (!code && event->status <= CL_COMPLETE)
        code = CL_INVALID_OPERATION;
    if (!code) {
        event->status = status;
        commands_run();
        objects_changed();
    }
    objects_unlock();
    return code;
}

cl_int event_wait(cl_uint count, const cl_event *events)
{
    cl_int code = count && events ? CL_SUCCESS : CL_INVALID_VALUE;
    objects_lock();
    for (cl_uint n = 0; !code && n < count; n++)
        if (!object_is(events[n], EVENT))
            code = CL_INVALID_EVENT;
    for (cl_uint n = 0; !code && n < count; n++)
        while (events[n]->status > CL_COMPLETE)
            objects_wait();
    for (cl_uint n = 0; !code && n < count; n++)
        if (events[n]->status < 0)
            code = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
    objects_unlock();
    return code;
}

cl_int event_retain(cl_event event)
{
    objects_lock();
    const bool ok = object_is(event, EVENT);
    if (ok)
        object_retain(event);
    objects_unlock();
    return ok ? CL_SUCCESS : CL_INVALID_EVENT;
}

cl_int event_release(cl_event event)
{
    objects_lock();
    const bool ok = object_is(event, EVENT);
    if (ok)
        object_release(event);
    objects_unlock();
    return ok ? CL_SUCCESS : CL_INVALID_EVENT;
}

cl_int event_info(cl_event event, cl_event_info name, size_t room, void *to, size_t *wanted)
{
    if (!object_is(event, EVENT))
        return CL_INVALID_EVENT;
    switch (name) {
    case CL_EVENT_COMMAND_EXECUTION_STATUS:
        return answer(&event->status, sizeof event->status, room, to, wanted);
    case CL_EVENT_COMMAND_TYPE:
        return answer(&event->type, sizeof event->type, room, to, wanted);
    case CL_EVENT_COMMAND_QUEUE:
        return answer(&event->queue, sizeof event->queue, room, to, wanted);
    case CL_EVENT_CONTEXT:
        return answer(&event->head.owner, sizeof event->head.owner, room, to, wanted);
    default:
        return CL_INVALID_VALUE;
    }
}

cl_int event_times(cl_event event, cl_profiling_info name, size_t room, void *to, size_t *wanted)
{
    if (!object_is(event, EVENT))
        return CL_INVALID_EVENT;
    if (event->type == CL_COMMAND_USER || event->status != CL_COMPLETE ||
        !(event->queue->properties & CL_QUEUE_PROFILING_ENABLE))
        return CL_PROFILING_INFO_NOT_AVAILABLE;
    if (name < CL_PROFILING_COMMAND_QUEUED || name > CL_PROFILING_COMMAND_END)
        return CL_INVALID_VALUE;
    return answer(&event->times[name - CL_PROFILING_COMMAND_QUEUED], sizeof(cl_ulong), room, to, wanted);
}
