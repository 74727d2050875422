/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Queues, and the commands that wait. A command runs once it is the first of its queue's and its events are complete,
 * in the thread whose call made that so. */
#include "platform.h"
#include <stdlib.h>
#include <time.h>

struct waiting {
    struct command command;
    cl_command_queue queue;
    cl_event event, *list;
    cl_uint waits;
    struct waiting *next;
};

static struct waiting *waiting;

static cl_ulong now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (cl_ulong)time.tv_sec * 1000000000u + (cl_ulong)time.tv_nsec;
}

/* 0: not yet; 1: it may run; less: an event that it waits for failed. */
static int readiness(const struct waiting *one)
{
    for (const struct waiting *before = waiting; before != one; before = before->next)
        if (before->queue == one->queue)
            return 0;
    int ready = 1;
    for (cl_uint n = 0; n < one->waits; n++) {
        const cl_int status = one->list[n]->status;
        if (status > CL_COMPLETE)
            return 0;
        ready = status < 0 ? -1 : ready;
    }
    return ready;
}

static void end(struct waiting *one)
{
    struct waiting **at = &waiting;
    while (*at != one)
        at = &(*at)->next;
    *at = one->next;
    for (cl_uint n = 0; n < one->waits; n++)
        object_release(one->list[n]);
    free(one->list);
    object_release(one->command.buffer);
    object_release(one->command.kernel);
    object_release(one->event);
    object_release(one->queue);
    free(one);
}

static void carry_out(struct waiting *one, int ready)
{
    cl_int code = ready < 0 ? CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST : CL_SUCCESS;
    one->event->times[1] = one->event->times[2] = now();
    if (!code && one->queue->broken)
        code = CL_OUT_OF_RESOURCES;
    if (!code && one->command.run)
        code = one->command.run(&one->command);
    one->queue->broken |= code == CL_OUT_OF_RESOURCES;
    one->event->times[3] = now();
    if (one->event->times[3] <= one->event->times[2])
        one->event->times[3] = one->event->times[2] + 1;
    one->event->status = code;
    end(one);
    objects_changed();
}

void commands_run(void)
{
    for (struct waiting *one = waiting; one;) {
        const int ready = readiness(one);
        if (ready)
            carry_out(one, ready);
        one = ready ? waiting : one->next;
    }
}

static bool has_waiting(const struct _cl_command_queue *queue)
{
    for (const struct waiting *one = waiting; one; one = one->next)
        if (one->queue == queue)
            return true;
    return false;
}

static cl_int check_list(cl_command_queue queue, cl_uint waits, const cl_event *list)
{
    if (!waits != !list)
        return CL_INVALID_EVENT_WAIT_LIST;
    for (cl_uint n = 0; n < waits; n++) {
        if (!object_is(list[n], EVENT))
            return CL_INVALID_EVENT_WAIT_LIST;
        if (list[n]->head.owner != queue->head.owner)
            return CL_INVALID_CONTEXT;
    }
    return CL_SUCCESS;
}

static struct waiting *waiting_new(cl_command_queue queue, cl_command_type type, const struct command *command,
                                   cl_uint waits, const cl_event *list)
{
    struct waiting *one = calloc(1, sizeof *one);
    cl_event event = one ? object_new(sizeof *event, EVENT, queue->head.owner) : NULL;
    if (!event || !(one->list = calloc(waits + 1, sizeof *list))) {
        free(one);
        return NULL;
    }
    event->status = CL_QUEUED;
    event->type = type;
    event->queue = queue;
    event->times[0] = now();
    one->command = *command;
    one->queue = queue;
    one->event = event;
    one->waits = waits;
    object_retain(queue);
    if (command->buffer)
        object_retain(command->buffer);
    for (cl_uint n = 0; n < waits; n++) {
        one->list[n] = list[n];
        object_retain(list[n]);
    }
    return one;
}

/* The lock is held. Takes the command's kernel, not its buffer. */
cl_int command_add(cl_command_queue queue, cl_command_type type, const struct command *command, cl_bool blocking,
                   cl_uint waits, const cl_event *list, cl_event *event)
{
    cl_int code = check_list(queue, waits, list);
    struct waiting *one = code ? NULL : waiting_new(queue, type, command, waits, list), **at = &waiting;
    if (!one) {
        object_release(command->kernel);
        return code ? code : CL_OUT_OF_HOST_MEMORY;
    }
    cl_event own = one->event;
    object_retain(own);
    while (*at)
        at = &(*at)->next;
    *at = one;
    commands_run();
    while (blocking && own->status > CL_COMPLETE)
        objects_wait();
    code = blocking && own->status < 0 ? own->status : CL_SUCCESS;
    if (event && !code)
        *event = own;
    else
        object_release(own);
    return code;
}

cl_command_queue queue_create(cl_context context, cl_device_id device, cl_command_queue_properties properties,
                              cl_int *code)
{
    objects_lock();
    cl_int said = CL_SUCCESS;
    cl_command_queue queue = NULL;
    if (!object_is(context, CONTEXT))
        said = CL_INVALID_CONTEXT;
    else if (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
        said = CL_INVALID_QUEUE_PROPERTIES;
    else if (!(queue = object_new(sizeof *queue, QUEUE, context)))
        said = CL_OUT_OF_HOST_MEMORY;
    if (queue) {
        queue->device = device;
        queue->properties = properties;
    }
    objects_unlock();
    if (code)
        *code = said;
    return queue;
}

cl_int queue_retain(cl_command_queue queue)
{
    objects_lock();
    const bool ok = object_is(queue, QUEUE);
    if (ok)
        object_retain(queue);
    objects_unlock();
    return ok ? CL_SUCCESS : CL_INVALID_COMMAND_QUEUE;
}

cl_int queue_release(cl_command_queue queue)
{
    objects_lock();
    const bool ok = object_is(queue, QUEUE);
    if (ok)
        object_release(queue);
    objects_unlock();
    return ok ? CL_SUCCESS : CL_INVALID_COMMAND_QUEUE;
}

cl_int queue_info(cl_command_queue queue, cl_command_queue_info name, size_t room, void *to, size_t *wanted)
{
    if (!object_is(queue, QUEUE))
        return CL_INVALID_COMMAND_QUEUE;
    switch (name) {
    case CL_QUEUE_CONTEXT:
        return answer(&queue->head.owner, sizeof queue->head.owner, room, to, wanted);
    case CL_QUEUE_DEVICE:
        return answer(&queue->device, sizeof queue->device, room, to, wanted);
    case CL_QUEUE_PROPERTIES:
        return answer(&queue->properties, sizeof queue->properties, room, to, wanted);
    default:
        return CL_INVALID_VALUE;
    }
}

cl_int queue_flush(cl_command_queue queue)
{
    return object_is(queue, QUEUE) ? CL_SUCCESS : CL_INVALID_COMMAND_QUEUE;
}

cl_int queue_finish(cl_command_queue queue)
{
    objects_lock();
    cl_int code = object_is(queue, QUEUE) ? CL_SUCCESS : CL_INVALID_COMMAND_QUEUE;
    while (!code && has_waiting(queue))
        objects_wait();
    if (!code && queue->broken)
        code = CL_OUT_OF_RESOURCES;
    objects_unlock();
    return code;
}
