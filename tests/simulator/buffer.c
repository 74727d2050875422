/* SPDX-License-Identifier: BSD-2-Clause */
#include "platform.h"
#include <stdlib.h>
#include <string.h>

/* Buffers begin where the device says that they do, and no other lies next to them. */
enum { ALIGNMENT = 256, FRESH = 0xcd };

cl_mem buffer_create(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *code)
{
    cl_int said = CL_SUCCESS;
    cl_mem buffer = NULL;
    objects_lock();
    if (!object_is(context, CONTEXT))
        said = CL_INVALID_CONTEXT;
    else if (!size)
        said = CL_INVALID_BUFFER_SIZE;
    else if (flags & CL_MEM_USE_HOST_PTR || (flags & CL_MEM_COPY_HOST_PTR && !host))
        said = CL_INVALID_HOST_PTR; /* memory of the host's is nothing that clattn uses */
    else if (!(buffer = object_new(sizeof *buffer, BUFFER, context)))
        said = CL_OUT_OF_HOST_MEMORY;
    else if (!(buffer->bytes = aligned_alloc(ALIGNMENT, (size + 2 * ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT))) {
        object_release(buffer);
        buffer = NULL;
        said = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    } else {
        buffer->flags = flags & (CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY) ? flags : flags | CL_MEM_READ_WRITE;
        buffer->size = size;
        if (host)
            memcpy(buffer->bytes, host, size);
        else
            memset(buffer->bytes, FRESH, size);
    }
    objects_unlock();
    if (code)
        *code = said;
    return buffer;
}

cl_mem buffer_part(cl_mem parent, cl_mem_flags flags, cl_buffer_create_type type, const void *data, cl_int *code)
{
    const cl_buffer_region *region = data;
    cl_int said = CL_SUCCESS;
    cl_mem buffer = NULL;
    objects_lock();
    if (!object_is(parent, BUFFER) || parent->parent)
        said = CL_INVALID_MEM_OBJECT;
    else if (type != CL_BUFFER_CREATE_TYPE_REGION || !region || region->origin > parent->size ||
             region->size > parent->size - region->origin)
        said = CL_INVALID_VALUE;
    else if (!region->size)
        said = CL_INVALID_BUFFER_SIZE;
    else if (region->origin % (1024 / 8))
        said = CL_MISALIGNED_SUB_BUFFER_OFFSET;
    else if (!(buffer = object_new(sizeof *buffer, BUFFER, parent)))
        said = CL_OUT_OF_HOST_MEMORY;
    else {
        buffer->flags = flags ? flags : parent->flags;
        buffer->bytes = parent->bytes + region->origin;
        buffer->size = region->size;
        buffer->offset = region->origin;
        buffer->parent = parent;
    }
    objects_unlock();
    if (code)
        *code = said;
    return buffer;
}

cl_mem image_create(cl_context context, cl_mem_flags flags, const cl_image_format *format, const cl_image_desc *how,
                    void *host, cl_int *code)
{
    (void)context;
    (void)flags;
    (void)format;
    (void)how;
    (void)host;
    if (code)
        *code = CL_INVALID_OPERATION; /* the device has none */
    return NULL;
}

void buffer_end(cl_mem buffer)
{
    if (!buffer->parent)
        free(buffer->bytes);
}

cl_int buffer_retain(cl_mem buffer)
{
    objects_lock();
    const bool ok = object_is(buffer, BUFFER);
    if (ok)
        object_retain(buffer);
    objects_unlock();
    return ok ? CL_SUCCESS : CL_INVALID_MEM_OBJECT;
}

cl_int buffer_release(cl_mem buffer)
{
    objects_lock();
    const bool ok = object_is(buffer, BUFFER);
    if (ok)
        object_release(buffer);
    objects_unlock();
    return ok ? CL_SUCCESS : CL_INVALID_MEM_OBJECT;
}

cl_int buffer_info(cl_mem buffer, cl_mem_info name, size_t room, void *to, size_t *wanted)
{
    if (!object_is(buffer, BUFFER))
        return CL_INVALID_MEM_OBJECT;
    const struct head *owner = buffer->parent ? buffer->parent->head.owner : buffer->head.owner;
    const cl_mem_object_type type = CL_MEM_OBJECT_BUFFER;
    switch (name) {
    case CL_MEM_TYPE:
        return answer(&type, sizeof type, room, to, wanted);
    case CL_MEM_FLAGS:
        return answer(&buffer->flags, sizeof buffer->flags, room, to, wanted);
    case CL_MEM_SIZE:
        return answer(&buffer->size, sizeof buffer->size, room, to, wanted);
    case CL_MEM_CONTEXT:
        return answer(&owner, sizeof owner, room, to, wanted);
    case CL_MEM_ASSOCIATED_MEMOBJECT:
        return answer(&buffer->parent, sizeof buffer->parent, room, to, wanted);
    case CL_MEM_OFFSET:
        return answer(&buffer->offset, sizeof buffer->offset, room, to, wanted);
    default:
        return CL_INVALID_VALUE;
    }
}
