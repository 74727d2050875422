/* SPDX-License-Identifier: BSD-2-Clause */
#include "platform.h"

static void say(cl_int *code, cl_int value)
{
    if (code)
        *code = value;
}

cl_context context_create(const cl_context_properties *properties, cl_uint count, const cl_device_id *devices,
                          void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *data,
                          cl_int *code)
{
    (void)properties;
    (void)notify;
    (void)data;
    if (!devices || !count || count > MOST_DEVICES) {
        say(code, CL_INVALID_VALUE);
        return NULL;
    }
    cl_context context = object_new(sizeof *context, CONTEXT, NULL);
    say(code, context ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY);
    for (cl_uint n = 0; context && n < count; n++)
        context->devices[context->devices_count++] = devices[n];
    return context;
}

cl_int context_retain(cl_context context)
{
    objects_lock();
    const bool ok = object_is(context, CONTEXT);
    if (ok)
        object_retain(context);
    objects_unlock();
    return ok ? CL_SUCCESS : CL_INVALID_CONTEXT;
}

cl_int context_release(cl_context context)
{
    objects_lock();
    const bool ok = object_is(context, CONTEXT);
    if (ok)
        object_release(context);
    objects_unlock();
    return ok ? CL_SUCCESS : CL_INVALID_CONTEXT;
}

cl_int context_info(cl_context context, cl_context_info name, size_t room, void *to, size_t *wanted)
{
    const cl_uint references = (cl_uint)context->head.references;
    switch (name) {
    case CL_CONTEXT_DEVICES:
        return answer(context->devices, context->devices_count * sizeof *context->devices, room, to, wanted);
    case CL_CONTEXT_NUM_DEVICES:
        return answer(&context->devices_count, sizeof context->devices_count, room, to, wanted);
    case CL_CONTEXT_REFERENCE_COUNT:
        return answer(&references, sizeof references, room, to, wanted);
    default:
        return CL_INVALID_VALUE;
    }
}
