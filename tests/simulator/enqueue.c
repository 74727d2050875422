/* SPDX-License-Identifier: BSD-2-Clause */
#include "platform.h"
#include <string.h>

static cl_int copy_out(struct command *command)
{
    memcpy(command->host, command->buffer->bytes + command->offset, command->size);
    return CL_SUCCESS;
}

static cl_int copy_in(struct command *command)
{
    memcpy(command->buffer->bytes + command->offset, command->host, command->size);
    return CL_SUCCESS;
}

static cl_int fill(struct command *command)
{
    for (size_t at = 0; at < command->size; at += command->pattern_size)
        memcpy(command->buffer->bytes + command->offset + at, command->pattern, command->pattern_size);
    return CL_SUCCESS;
}

/* Queue and buffer of one context, and a part of the buffer. */
static cl_int check(cl_command_queue queue, cl_mem buffer, size_t offset, size_t size)
{
    if (!object_is(queue, QUEUE))
        return CL_INVALID_COMMAND_QUEUE;
    if (!object_is(buffer, BUFFER))
        return CL_INVALID_MEM_OBJECT;
    const struct head *context = buffer->parent ? buffer->parent->head.owner : buffer->head.owner;
    if (context != queue->head.owner)
        return CL_INVALID_CONTEXT;
    return offset > buffer->size || size > buffer->size - offset || !size ? CL_INVALID_VALUE : CL_SUCCESS;
}

static cl_int transfer(cl_command_queue queue, cl_bool blocking, cl_command_type type, const struct command *command,
                       cl_uint waits, const cl_event *list, cl_event *event)
{
    objects_lock();
    cl_int code = check(queue, command->buffer, command->offset, command->size);
    if (!code && type != CL_COMMAND_FILL_BUFFER && !command->host)
        code = CL_INVALID_VALUE;
    if (!code)
        code = command_add(queue, type, command, blocking, waits, list, event);
    objects_unlock();
    return code;
}

cl_int enqueue_read(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t size, void *host,
                    cl_uint waits, const cl_event *list, cl_event *event)
{
    const struct command command = {.run = copy_out, .buffer = buffer, .offset = offset, .size = size, .host = host};
    return transfer(queue, blocking, CL_COMMAND_READ_BUFFER, &command, waits, list, event);
}

cl_int enqueue_write(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t size,
                     const void *host, cl_uint waits, const cl_event *list, cl_event *event)
{
    const struct command command = {
        .run = copy_in, .buffer = buffer, .offset = offset, .size = size, .host = (void *)host};
    return transfer(queue, blocking, CL_COMMAND_WRITE_BUFFER, &command, waits, list, event);
}

cl_int enqueue_fill(cl_command_queue queue, cl_mem buffer, const void *pattern, size_t pattern_size, size_t offset,
                    size_t size, cl_uint waits, const cl_event *list, cl_event *event)
{
    struct command command = {
        .run = fill, .buffer = buffer, .offset = offset, .size = size, .pattern_size = pattern_size};
    if (!pattern || !pattern_size || pattern_size > sizeof command.pattern || size % pattern_size ||
        offset % pattern_size)
        return CL_INVALID_VALUE;
    memcpy(command.pattern, pattern, pattern_size);
    return transfer(queue, CL_FALSE, CL_COMMAND_FILL_BUFFER, &command, waits, list, event);
}

cl_int enqueue_marker(cl_command_queue queue, cl_uint waits, const cl_event *list, cl_event *event)
{
    objects_lock();
    cl_int code = object_is(queue, QUEUE) ? CL_SUCCESS : CL_INVALID_COMMAND_QUEUE;
    if (!code)
        code = command_add(queue, CL_COMMAND_MARKER, &(struct command){0}, CL_FALSE, waits, list, event);
    objects_unlock();
    return code;
}

/* Sizes that the kernel and the device take; the launch is of one dimension, as clattn's are. */
static cl_int take_sizes(cl_kernel kernel, cl_uint dimensions, const size_t *offset, const size_t *global,
                         const size_t *local, struct command *command)
{
    const cl_program program = (cl_program)kernel->head.owner;
    const struct object_kernel *of = &program->object.kernels[kernel->number];
    if (dimensions < 1 || dimensions > 3)
        return CL_INVALID_WORK_DIMENSION;
    if (!global || offset)
        return offset ? CL_INVALID_GLOBAL_OFFSET : CL_INVALID_GLOBAL_WORK_SIZE;
    command->dimensions = dimensions;
    for (cl_uint d = 0; d < 3; d++) {
        const size_t wanted = of->required_group[d];
        command->global[d] = d < dimensions ? global[d] : 1;
        command->local[d] = d >= dimensions ? 1 : local ? local[d] : wanted ? wanted : 1;
        if (!command->global[d] || command->global[d] > UINT32_MAX)
            return CL_INVALID_GLOBAL_WORK_SIZE;
        if (!command->local[d] || command->global[d] % command->local[d] || (d && command->local[d] > 1) ||
            (wanted && command->local[d] != wanted))
            return CL_INVALID_WORK_GROUP_SIZE;
    }
    return command->local[0] > of->most_items ? CL_INVALID_WORK_GROUP_SIZE : CL_SUCCESS;
}

cl_int enqueue_kernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t *offset,
                      const size_t *global, const size_t *local, cl_uint waits, const cl_event *list, cl_event *event)
{
    struct command command = {.run = kernel_run};
    objects_lock();
    cl_int code = !object_is(queue, QUEUE)            ? CL_INVALID_COMMAND_QUEUE
                  : !object_is(kernel, KERNEL_OBJECT) ? CL_INVALID_KERNEL
                                                      : CL_SUCCESS;
    if (!code)
        code = take_sizes(kernel, dimensions, offset, global, local, &command);
    if (!code)
        command.kernel = kernel_copy(kernel, &code);
    if (!code)
        code = command_add(queue, CL_COMMAND_NDRANGE_KERNEL, &command, CL_FALSE, waits, list, event);
    objects_unlock();
    return code;
}
