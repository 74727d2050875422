/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/clcall.h"
#include <stdlib.h>
#include <string.h>

static clattn_status check(cl_int code, const char *call, struct cla_error *error)
{
    if (code == CL_SUCCESS)
        return CLATTN_SUCCESS;
    return cla_fail(error, code, "%s failed: %s (%d)", call, clattn_status_name(code), (int)code);
}

static clattn_status check_query(cl_int code, const char *call, cl_uint name, struct cla_error *error)
{
    if (code == CL_SUCCESS)
        return CLATTN_SUCCESS;
    return cla_fail(error, code, "%s(0x%04x) failed: %s (%d)", call, (unsigned)name, clattn_status_name(code),
                    (int)code);
}

/* A call that makes an object must not be believed to have made one where it answers NULL. */
static clattn_status check_made(cl_int code, const void *object, const char *call, struct cla_error *error)
{
    return check(code == CL_SUCCESS && !object ? CL_OUT_OF_HOST_MEMORY : code, call, error);
}

static clattn_status short_of_memory(const char *call, size_t bytes, struct cla_error *error)
{
    return cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for the %zu bytes that %s answers", bytes, call);
}

/* Queries */

clattn_status cla_cl_device_info(cl_device_id device, cl_device_info name, size_t size, void *value,
                                 struct cla_error *error)
{
    return check_query(clGetDeviceInfo(device, name, size, value, NULL), "clGetDeviceInfo", name, error);
}

/* Copies what a query answered without the blanks that some drivers put around it. */
static void copy_trimmed(char *text, size_t size, const char *answer)
{
    answer += strspn(answer, " \t\n");
    size_t length = strlen(answer);
    if (length >= size)
        length = size - 1;
    while (length > 0 && strchr(" \t\n", answer[length - 1]))
        length--;
    memmove(text, answer, length);
    text[length] = '\0';
}

/* The bytes answered are followed by a 0 of our own: not every driver ends its strings. */
static char *string_block(size_t bytes)
{
    char *block = bytes < SIZE_MAX ? malloc(bytes + 1) : NULL;
    if (block)
        block[0] = block[bytes] = '\0';
    return block;
}

clattn_status cla_cl_device_string(cl_device_id device, cl_device_info name, char *text, size_t size,
                                   struct cla_error *error)
{
    size_t bytes = 0;
    clattn_status status = check_query(clGetDeviceInfo(device, name, 0, NULL, &bytes), "clGetDeviceInfo", name, error);
    if (status)
        return status;
    char *answer = string_block(bytes);
    if (!answer)
        return short_of_memory("clGetDeviceInfo", bytes, error);
    status = check_query(clGetDeviceInfo(device, name, bytes, answer, NULL), "clGetDeviceInfo", name, error);
    if (!status)
        copy_trimmed(text, size, answer);
    free(answer);
    return status;
}

clattn_status cla_cl_platform_string(cl_platform_id platform, cl_platform_info name, char *text, size_t size,
                                     struct cla_error *error)
{
    size_t bytes = 0;
    clattn_status status =
        check_query(clGetPlatformInfo(platform, name, 0, NULL, &bytes), "clGetPlatformInfo", name, error);
    if (status)
        return status;
    char *answer = string_block(bytes);
    if (!answer)
        return short_of_memory("clGetPlatformInfo", bytes, error);
    status = check_query(clGetPlatformInfo(platform, name, bytes, answer, NULL), "clGetPlatformInfo", name, error);
    if (!status)
        copy_trimmed(text, size, answer);
    free(answer);
    return status;
}

clattn_status cla_cl_context_has_device(cl_context context, cl_device_id device, bool *has, struct cla_error *error)
{
    size_t bytes = 0;
    clattn_status status =
        check(clGetContextInfo(context, CL_CONTEXT_DEVICES, 0, NULL, &bytes), "clGetContextInfo", error);
    if (status)
        return status;
    cl_device_id *devices = malloc(bytes + 1);
    if (!devices)
        return short_of_memory("clGetContextInfo", bytes, error);
    status = check(clGetContextInfo(context, CL_CONTEXT_DEVICES, bytes, devices, NULL), "clGetContextInfo", error);
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
        check(clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof found_context, &found_context, NULL),
              "clGetCommandQueueInfo", error);
    if (!status)
        status = check(clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof found_device, &found_device, NULL),
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
    return check(clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof *properties, properties, NULL),
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
            check_query(clGetMemObjectInfo(buffer, queries[i].name, queries[i].size, queries[i].value, NULL),
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
        return check(call(object), #call, error);                                                                      \
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

/* Programs and kernels */

clattn_status cla_cl_context_for_device(cl_device_id device, cl_context *context, struct cla_error *error)
{
    cl_platform_id platform = NULL;
    clattn_status status = cla_cl_device_info(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, error);
    if (status)
        return status;
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)platform, 0};
    cl_int code = CL_SUCCESS;
    cl_context made = clCreateContext(properties, 1, &device, NULL, NULL, &code);
    status = check_made(code, made, "clCreateContext", error);
    if (!status)
        *context = made;
    return status;
}

clattn_status cla_cl_program_from_source(cl_context context, const char *text, size_t length, cl_program *program,
                                         struct cla_error *error)
{
    cl_int code = CL_SUCCESS;
    cl_program made = clCreateProgramWithSource(context, 1, &text, &length, &code);
    const clattn_status status = check_made(code, made, "clCreateProgramWithSource", error);
    if (!status)
        *program = made;
    return status;
}

clattn_status cla_cl_program_from_binary(cl_context context, cl_device_id device, const void *binary, size_t size,
                                         cl_program *program, struct cla_error *error)
{
    const unsigned char *bytes = binary;
    cl_int code = CL_SUCCESS, binary_code = CL_SUCCESS;
    cl_program made = clCreateProgramWithBinary(context, 1, &device, &size, &bytes, &binary_code, &code);
    if (code == CL_SUCCESS && binary_code != CL_SUCCESS) {
        cla_cl_release_program(made);
        made = NULL;
        code = binary_code;
    }
    const clattn_status status = check_made(code, made, "clCreateProgramWithBinary", error);
    if (!status)
        *program = made;
    return status;
}

clattn_status cla_cl_build(cl_program program, cl_device_id device, const char *options, struct cla_error *error)
{
    const cl_int code = clBuildProgram(program, 1, &device, options, NULL, NULL);
    if (code == CL_SUCCESS)
        return CLATTN_SUCCESS;
    struct cla_error ignored;
    struct cla_text log = {0};
    cla_cl_build_log(program, device, &log, &ignored);
    const clattn_status status = code == CL_BUILD_PROGRAM_FAILURE ? CLATTN_BUILD_FAILED : code;
    cla_fail(error, status, "clBuildProgram failed: %s (%d)%s%s", clattn_status_name(code), (int)code,
             log.length ? "; the compiler says:\n" : "", log.length ? log.data : "");
    cla_text_free(&log);
    return status;
}

clattn_status cla_cl_build_log(cl_program program, cl_device_id device, struct cla_text *log, struct cla_error *error)
{
    size_t bytes = 0;
    clattn_status status = check(clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes),
                                 "clGetProgramBuildInfo", error);
    if (status)
        return status;
    char *answer = string_block(bytes);
    if (!answer)
        return short_of_memory("clGetProgramBuildInfo", bytes, error);
    status = check(clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, bytes, answer, NULL),
                   "clGetProgramBuildInfo", error);
    if (!status) {
        copy_trimmed(answer, bytes + 1, answer);
        cla_text_add(log, answer, strlen(answer));
    }
    free(answer);
    return status;
}

/* Where in the lists that the program answers the device stands. A program has all devices of its context. */
static clattn_status program_device_index(cl_program program, cl_device_id device, cl_uint *count, cl_uint *index,
                                          struct cla_error *error)
{
    cl_uint devices = 0;
    clattn_status status = check(clGetProgramInfo(program, CL_PROGRAM_NUM_DEVICES, sizeof devices, &devices, NULL),
                                 "clGetProgramInfo", error);
    if (status)
        return status;
    cl_device_id *list = calloc((size_t)devices + 1, sizeof *list);
    if (!list)
        return short_of_memory("clGetProgramInfo", devices * sizeof *list, error);
    status = check(clGetProgramInfo(program, CL_PROGRAM_DEVICES, devices * sizeof *list, list, NULL),
                   "clGetProgramInfo", error);
    if (!status) {
        *count = devices;
        for (*index = 0; *index < devices && list[*index] != device;)
            ++*index;
        if (*index == devices)
            status = cla_fail(error, CL_INVALID_DEVICE, "the program was not made for this device");
    }
    free(list);
    return status;
}

/* Gets the binaries of all devices into one block, of which `index` stays: an entry of NULL should mean that a binary
 * is not wanted, but PoCL 3.1 writes there all the same. */
static clattn_status program_binaries(cl_program program, const size_t *sizes, unsigned char **binaries, cl_uint count,
                                      cl_uint index, void **binary, struct cla_error *error)
{
    size_t total = 1;
    for (cl_uint i = 0; i < count; i++)
        total += sizes[i];
    unsigned char *block = malloc(total), *at = block;
    if (!block)
        return short_of_memory("clGetProgramInfo", total, error);
    for (cl_uint i = 0; i < count; at += sizes[i++])
        binaries[i] = at;
    const clattn_status status =
        check(clGetProgramInfo(program, CL_PROGRAM_BINARIES, count * sizeof *binaries, binaries, NULL),
              "clGetProgramInfo", error);
    if (status) {
        free(block);
        return status;
    }
    memmove(block, binaries[index], sizes[index]);
    *binary = block;
    return CLATTN_SUCCESS;
}

clattn_status cla_cl_program_binary(cl_program program, cl_device_id device, void **binary, size_t *size,
                                    struct cla_error *error)
{
    cl_uint count = 0, index = 0;
    clattn_status status = program_device_index(program, device, &count, &index, error);
    if (status)
        return status;
    size_t *sizes = calloc(count, sizeof *sizes);
    unsigned char **binaries = calloc(count, sizeof *binaries);
    if (!sizes || !binaries)
        status = short_of_memory("clGetProgramInfo", count * (sizeof *sizes + sizeof *binaries), error);
    if (!status)
        status = check(clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, count * sizeof *sizes, sizes, NULL),
                       "clGetProgramInfo", error);
    /* A program built for one device of several: PoCL 3.1 puts that device's binary first, wherever the device stands.
     */
    if (!status && !sizes[index])
        index = 0;
    if (!status)
        status = program_binaries(program, sizes, binaries, count, index, binary, error);
    if (!status)
        *size = sizes[index];
    free(binaries);
    free(sizes);
    return status;
}

clattn_status cla_cl_kernel(cl_program program, const char *name, cl_kernel *kernel, struct cla_error *error)
{
    cl_int code = CL_SUCCESS;
    cl_kernel made = clCreateKernel(program, name, &code);
    const clattn_status status = check_made(code, made, "clCreateKernel", error);
    if (!status)
        *kernel = made;
    return status;
}

clattn_status cla_cl_kernel_work_group_info(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info name,
                                            size_t size, void *value, struct cla_error *error)
{
    return check_query(clGetKernelWorkGroupInfo(kernel, device, name, size, value, NULL), "clGetKernelWorkGroupInfo",
                       name, error);
}

clattn_status cla_cl_set_argument(cl_kernel kernel, cl_uint index, size_t size, const void *value,
                                  struct cla_error *error)
{
    const cl_int code = clSetKernelArg(kernel, index, size, value);
    if (code == CL_SUCCESS)
        return CLATTN_SUCCESS;
    return cla_fail(error, code, "clSetKernelArg of argument %u (%zu bytes) failed: %s (%d)", (unsigned)index, size,
                    clattn_status_name(code), (int)code);
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
    const clattn_status status = check_made(code, made, "clCreateCommandQueue", error);
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
    return check(clEnqueueWriteBuffer(queue, buffer, CL_FALSE, offset, bytes, data, wait_count,
                                      wait_count ? wait_list : NULL, event),
                 "clEnqueueWriteBuffer", error);
}

clattn_status cla_cl_enqueue_read(cl_command_queue queue, cl_mem buffer, size_t offset, size_t bytes, void *data,
                                  cl_uint wait_count, const cl_event *wait_list, cl_event *event,
                                  struct cla_error *error)
{
    return check(clEnqueueReadBuffer(queue, buffer, CL_FALSE, offset, bytes, data, wait_count,
                                     wait_count ? wait_list : NULL, event),
                 "clEnqueueReadBuffer", error);
}

clattn_status cla_cl_enqueue_copy(cl_command_queue queue, cl_mem from, size_t from_offset, cl_mem to, size_t to_offset,
                                  size_t bytes, cl_event *event, struct cla_error *error)
{
    return check(clEnqueueCopyBuffer(queue, from, to, from_offset, to_offset, bytes, 0, NULL, event),
                 "clEnqueueCopyBuffer", error);
}

clattn_status cla_cl_enqueue_fill(cl_command_queue queue, cl_mem buffer, uint32_t pattern, size_t offset, size_t bytes,
                                  cl_event *event, struct cla_error *error)
{
    return check(clEnqueueFillBuffer(queue, buffer, &pattern, sizeof pattern, offset, bytes, 0, NULL, event),
                 "clEnqueueFillBuffer", error);
}

clattn_status cla_cl_enqueue_marker(cl_command_queue queue, cl_uint wait_count, const cl_event *wait_list,
                                    cl_event *event, struct cla_error *error)
{
    return check(clEnqueueMarkerWithWaitList(queue, wait_count, wait_count ? wait_list : NULL, event),
                 "clEnqueueMarkerWithWaitList", error);
}

clattn_status cla_cl_enqueue_barrier(cl_command_queue queue, cl_uint wait_count, const cl_event *wait_list,
                                     struct cla_error *error)
{
    return check(clEnqueueBarrierWithWaitList(queue, wait_count, wait_count ? wait_list : NULL, NULL),
                 "clEnqueueBarrierWithWaitList", error);
}

clattn_status cla_cl_flush(cl_command_queue queue, struct cla_error *error)
{
    return check(clFlush(queue), "clFlush", error);
}

clattn_status cla_cl_finish(cl_command_queue queue, struct cla_error *error)
{
    return check(clFinish(queue), "clFinish", error);
}

clattn_status cla_cl_wait(cl_uint count, const cl_event *events, struct cla_error *error)
{
    return check(clWaitForEvents(count, events), "clWaitForEvents", error);
}

clattn_status cla_cl_event_is_done(cl_event event, bool *done, struct cla_error *error)
{
    cl_int state = CL_COMPLETE;
    const clattn_status status = check(
        clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL), "clGetEventInfo", error);
    if (!status)
        *done = state <= CL_COMPLETE;
    return status;
}

clattn_status cla_cl_event_times(cl_event event, uint64_t *start_ns, uint64_t *end_ns, struct cla_error *error)
{
    cl_ulong start = 0, end = 0;
    clattn_status status = check(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof start, &start, NULL),
                                 "clGetEventProfilingInfo", error);
    if (!status)
        status = check(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL),
                       "clGetEventProfilingInfo", error);
    if (status)
        return status;
    *start_ns = start;
    *end_ns = end;
    return CLATTN_SUCCESS;
}
