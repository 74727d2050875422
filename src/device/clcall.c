/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/clcall.h"
#include "device/clcall_common.h"
#include <stdlib.h>
#include <string.h>

/* Queries */

clattn_status cla_cl_device_info(cl_device_id device, cl_device_info name, size_t size, void *value,
                                 struct cla_error *error)
{
    return cla_cl_check_query(clGetDeviceInfo(device, name, size, value, NULL), "clGetDeviceInfo", name, error);
}

clattn_status cla_cl_device_string(cl_device_id device, cl_device_info name, char *text, size_t size,
                                   struct cla_error *error)
{
    size_t bytes = 0;
    clattn_status status =
        cla_cl_check_query(clGetDeviceInfo(device, name, 0, NULL, &bytes), "clGetDeviceInfo", name, error);
    if (status)
        return status;
    char *answer = cla_cl_string_block(bytes);
    if (!answer)
        return cla_cl_short_of_memory("clGetDeviceInfo", bytes, error);
    status = cla_cl_check_query(clGetDeviceInfo(device, name, bytes, answer, NULL), "clGetDeviceInfo", name, error);
    if (!status)
        cla_cl_copy_trimmed(text, size, answer);
    free(answer);
    return status;
}

clattn_status cla_cl_platform_string(cl_platform_id platform, cl_platform_info name, char *text, size_t size,
                                     struct cla_error *error)
{
    size_t bytes = 0;
    clattn_status status =
        cla_cl_check_query(clGetPlatformInfo(platform, name, 0, NULL, &bytes), "clGetPlatformInfo", name, error);
    if (status)
        return status;
    char *answer = cla_cl_string_block(bytes);
    if (!answer)
        return cla_cl_short_of_memory("clGetPlatformInfo", bytes, error);
    status =
        cla_cl_check_query(clGetPlatformInfo(platform, name, bytes, answer, NULL), "clGetPlatformInfo", name, error);
    if (!status)
        cla_cl_copy_trimmed(text, size, answer);
    free(answer);
    return status;
}

clattn_status cla_cl_context_has_device(cl_context context, cl_device_id device, bool *has, struct cla_error *error)
{
    size_t bytes = 0;
    clattn_status status =
        cla_cl_check(clGetContextInfo(context, CL_CONTEXT_DEVICES, 0, NULL, &bytes), "clGetContextInfo", error);
    if (status)
        return status;
    cl_device_id *devices = malloc(bytes + 1);
    if (!devices)
        return cla_cl_short_of_memory("clGetContextInfo", bytes, error);
    status =
        cla_cl_check(clGetContextInfo(context, CL_CONTEXT_DEVICES, bytes, devices, NULL), "clGetContextInfo", error);
    if (!status) {
        *has = false;
        for (size_t i = 0; i < bytes / sizeof *devices; i++)
            *has = *has || devices[i] == device;
    }
    free(devices);
    return status;
}

clattn_status cla_cl_queue_context(cl_command_queue queue, cl_context *context, cl_device_id *device,
                                   struct cla_error *error)
{
    cl_context found_context = NULL;
    cl_device_id found_device = NULL;
    clattn_status status =
        cla_cl_check(clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof found_context, &found_context, NULL),
                     "clGetCommandQueueInfo", error);
    if (!status)
        status = cla_cl_check(clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof found_device, &found_device, NULL),
                              "clGetCommandQueueInfo", error);
    if (status)
        return status;
    *context = found_context;
    *device = found_device;
    return CLATTN_SUCCESS;
}

clattn_status cla_cl_queue_properties(cl_command_queue queue, cl_command_queue_properties *properties,
                                      struct cla_error *error)
{
    return cla_cl_check(clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof *properties, properties, NULL),
                        "clGetCommandQueueInfo", error);
}

clattn_status cla_cl_buffer_facts(cl_mem buffer, struct cla_buffer_facts *facts, struct cla_error *error)
{
    struct cla_buffer_facts found = {0};
    const struct {
        cl_mem_info name;
        size_t size;
        void *value;
    } queries[] = {{CL_MEM_TYPE, sizeof found.type, &found.type},
                   {CL_MEM_CONTEXT, sizeof found.context, &found.context},
                   {CL_MEM_FLAGS, sizeof found.flags, &found.flags},
                   {CL_MEM_SIZE, sizeof found.bytes, &found.bytes},
                   {CL_MEM_ASSOCIATED_MEMOBJECT, sizeof found.parent, &found.parent},
                   {CL_MEM_OFFSET, sizeof found.from, &found.from}};
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        if (queries[i].name == CL_MEM_OFFSET && !found.parent)
            break;
        const clattn_status status =
            cla_cl_check_query(clGetMemObjectInfo(buffer, queries[i].name, queries[i].size, queries[i].value, NULL),
                               "clGetMemObjectInfo", queries[i].name, error);
        if (status)
            return status;
    }
    *facts = found;
    return CLATTN_SUCCESS;
}

void *cla_cl_extension_function(cl_platform_id platform, const char *name)
{
    return clGetExtensionFunctionAddressForPlatform(platform, name);
}

/* Reference counts */

#define RETAIN(name, type, call)                                                                                       \
    clattn_status cla_cl_retain_##name(type object, struct cla_error *error)                                           \
    {                                                                                                                  \
        return cla_cl_check(call(object), #call, error);                                                               \
    }
RETAIN(context, cl_context, clRetainContext)
RETAIN(device, cl_device_id, clRetainDevice)
RETAIN(queue, cl_command_queue, clRetainCommandQueue)
RETAIN(program, cl_program, clRetainProgram)
RETAIN(event, cl_event, clRetainEvent)

#define RELEASE(name, type, call)                                                                                      \
    void cla_cl_release_##name(type object)                                                                            \
    {                                                                                                                  \
        if (object)                                                                                                    \
            call(object);                                                                                              \
    }
RELEASE(context, cl_context, clReleaseContext)
RELEASE(device, cl_device_id, clReleaseDevice)
RELEASE(queue, cl_command_queue, clReleaseCommandQueue)
RELEASE(program, cl_program, clReleaseProgram)
RELEASE(kernel, cl_kernel, clReleaseKernel)
RELEASE(buffer, cl_mem, clReleaseMemObject)
RELEASE(event, cl_event, clReleaseEvent)

clattn_status cla_cl_context_for_device(cl_device_id device, cl_context *context, struct cla_error *error)
{
    cl_platform_id platform = NULL;
    clattn_status status = cla_cl_device_info(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, error);
    if (status)
        return status;
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)platform, 0};
    cl_int code = CL_SUCCESS;
    cl_context made = clCreateContext(properties, 1, &device, NULL, NULL, &code);
    status = cla_cl_check_made(code, made, "clCreateContext", error);
    if (!status)
        *context = made;
    return status;
}

/* Memory and queues */

clattn_status cla_cl_buffer(cl_context context, cl_mem_flags flags, size_t bytes, cl_mem *buffer,
                            struct cla_error *error)
{
    cl_int code = CL_SUCCESS;
    cl_mem made = clCreateBuffer(context, flags, bytes, NULL, &code);
    if (code != CL_SUCCESS || !made)
        return cla_fail(error, code ? code : CL_OUT_OF_HOST_MEMORY, "clCreateBuffer of %zu bytes failed: %s (%d)",
                        bytes, clattn_status_name(code), (int)code);
    *buffer = made;
    return CLATTN_SUCCESS;
}

clattn_status cla_cl_queue(cl_context context, cl_device_id device, cl_command_queue_properties properties,
                           cl_command_queue *queue, struct cla_error *error)
{
    cl_int code = CL_SUCCESS;
    cl_command_queue made = clCreateCommandQueue(context, device, properties, &code);
    const clattn_status status = cla_cl_check_made(code, made, "clCreateCommandQueue", error);
    if (!status)
        *queue = made;
    return status;
}

clattn_status cla_cl_enqueue_kernel(cl_command_queue queue, cl_kernel kernel, size_t global, size_t local,
                                    cl_uint wait_count, const cl_event *wait_list, cl_event *event,
                                    struct cla_error *error)
{
    const cl_int code = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, local ? &local : NULL, wait_count,
                                               wait_count ? wait_list : NULL, event);
    if (code == CL_SUCCESS)
        return CLATTN_SUCCESS;
    return cla_fail(error, code, "clEnqueueNDRangeKernel of %zu work-items in groups of %zu failed: %s (%d)", global,
                    local, clattn_status_name(code), (int)code);
}

clattn_status cla_cl_enqueue_write(cl_command_queue queue, cl_mem buffer, size_t offset, size_t bytes, const void *data,
                                   cl_uint wait_count, const cl_event *wait_list, cl_event *event,
                                   struct cla_error *error)
{
    return cla_cl_check(clEnqueueWriteBuffer(queue, buffer, CL_FALSE, offset, bytes, data, wait_count,
                                             wait_count ? wait_list : NULL, event),
                        "clEnqueueWriteBuffer", error);
}

clattn_status cla_cl_enqueue_read(cl_command_queue queue, cl_mem buffer, size_t offset, size_t bytes, void *data,
                                  cl_uint wait_count, const cl_event *wait_list, cl_event *event,
                                  struct cla_error *error)
{
    return cla_cl_check(clEnqueueReadBuffer(queue, buffer, CL_FALSE, offset, bytes, data, wait_count,
                                            wait_count ? wait_list : NULL, event),
                        "clEnqueueReadBuffer", error);
}

clattn_status cla_cl_map(cl_command_queue queue, cl_mem buffer, size_t bytes, void **data, struct cla_error *error)
{
    cl_int code = CL_SUCCESS;
    void *const mapped =
        clEnqueueMapBuffer(queue, buffer, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, bytes, 0, NULL, NULL, &code);
    const clattn_status status = cla_cl_check(code, "clEnqueueMapBuffer", error);
    if (!status)
        *data = mapped;
    return status;
}

void cla_cl_unmap(cl_command_queue queue, cl_mem buffer, void *data)
{
    clEnqueueUnmapMemObject(queue, buffer, data, 0, NULL, NULL);
    clFinish(queue);
}

clattn_status cla_cl_enqueue_copy(cl_command_queue queue, cl_mem from, size_t from_offset, cl_mem to, size_t to_offset,
                                  size_t bytes, cl_event *event, struct cla_error *error)
{
    return cla_cl_check(clEnqueueCopyBuffer(queue, from, to, from_offset, to_offset, bytes, 0, NULL, event),
                        "clEnqueueCopyBuffer", error);
}

clattn_status cla_cl_enqueue_fill(cl_command_queue queue, cl_mem buffer, uint32_t pattern, size_t offset, size_t bytes,
                                  cl_event *event, struct cla_error *error)
{
    return cla_cl_check(clEnqueueFillBuffer(queue, buffer, &pattern, sizeof pattern, offset, bytes, 0, NULL, event),
                        "clEnqueueFillBuffer", error);
}

clattn_status cla_cl_enqueue_marker(cl_command_queue queue, cl_uint wait_count, const cl_event *wait_list,
                                    cl_event *event, struct cla_error *error)
{
    return cla_cl_check(clEnqueueMarkerWithWaitList(queue, wait_count, wait_count ? wait_list : NULL, event),
                        "clEnqueueMarkerWithWaitList", error);
}

clattn_status cla_cl_enqueue_barrier(cl_command_queue queue, cl_uint wait_count, const cl_event *wait_list,
                                     struct cla_error *error)
{
    return cla_cl_check(clEnqueueBarrierWithWaitList(queue, wait_count, wait_count ? wait_list : NULL, NULL),
                        "clEnqueueBarrierWithWaitList", error);
}

clattn_status cla_cl_flush(cl_command_queue queue, struct cla_error *error)
{
    return cla_cl_check(clFlush(queue), "clFlush", error);
}

clattn_status cla_cl_finish(cl_command_queue queue, struct cla_error *error)
{
    return cla_cl_check(clFinish(queue), "clFinish", error);
}

clattn_status cla_cl_wait(cl_uint count, const cl_event *events, struct cla_error *error)
{
    return cla_cl_check(clWaitForEvents(count, events), "clWaitForEvents", error);
}

clattn_status cla_cl_event_context(cl_event event, cl_context *context, struct cla_error *error)
{
    return cla_cl_check(clGetEventInfo(event, CL_EVENT_CONTEXT, sizeof *context, context, NULL), "clGetEventInfo",
                        error);
}

clattn_status cla_cl_event_is_done(cl_event event, bool *done, struct cla_error *error)
{
    cl_int state = CL_COMPLETE;
    const clattn_status status = cla_cl_check(
        clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL), "clGetEventInfo", error);
    if (!status)
        *done = state <= CL_COMPLETE;
    return status;
}

clattn_status cla_cl_event_times(cl_event event, uint64_t *start_ns, uint64_t *end_ns, struct cla_error *error)
{
    cl_ulong start = 0, end = 0;
    clattn_status status =
        cla_cl_check(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof start, &start, NULL),
                     "clGetEventProfilingInfo", error);
    if (!status)
        status = cla_cl_check(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL),
                              "clGetEventProfilingInfo", error);
    if (status)
        return status;
    *start_ns = start;
    *end_ns = end;
    return CLATTN_SUCCESS;
}
