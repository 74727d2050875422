/* SPDX-License-Identifier: BSD-2-Clause
 *
 * An OpenCL layer (OPENCL_LAYERS=/path/of/this.so) that makes a chosen call fail or a chosen read lie, and counts
 * references. It knows the entry points of OpenCL 1.2 that work on buffers, which are all that clattn and CLBlast use;
 * others pass unseen.
 *
 * Calls that make, build, set, enqueue, retain or ask fail before anything happens. Waiting calls fail late: the work
 * is done and the answer is an error, since otherwise no program could know when its memory is its own again. Releases
 * and the asking for platforms never fail. */
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl_layer.h>

#include "fault/codes.h"
#include "fault/failed_events.h"
#include "fault/layer.h"
#include "fault/live_bytes.h"
#include "support/layer.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct _cl_icd_dispatch target, table;

static atomic_long references[FAULT_OBJECTS];
static atomic_long call_count, injected_count, first_bad;
static atomic_bool armed, armed_events, sticky_fault;
static atomic_int fault_code;
static atomic_uint_fast64_t codes_given; /* a bit for each of the codes -1 to -64 */
static atomic_long reads_until_lie;      /* 1: the next blocking read lies; 0 or less: none does */
static atomic_bool word_waits;           /* the next read of one word is to find 1 there */
static _Atomic(const char *) victim_name;
static atomic_ulong trace_sum;

static void count(enum fault_object object, long by)
{
    atomic_fetch_add(&references[object], by);
}

static unsigned long hash(const char *name)
{
    unsigned long sum = 1;
    for (; *name; name++)
        sum = sum * 31 + (unsigned char)*name;
    return sum;
}

static uint_fast64_t bit_of(cl_int code)
{
    return UINT64_C(1) << -code % 64;
}

/* The code that `name` is to answer with. */
static cl_int code_for(const char *name)
{
    const cl_int code = atomic_load(&fault_code), *list = fault_codes_of(name);
    int count = 0;
    if (code <= 0)
        return code;
    while (list[count])
        count++;
    return list[(code - 1) % count];
}

static cl_int inject(const char *name, cl_int code)
{
    if (atomic_fetch_add(&injected_count, 1) == 0)
        atomic_store(&victim_name, name);
    atomic_fetch_or(&codes_given, bit_of(code));
    return code;
}

/* What to answer instead of making this call; CL_SUCCESS: make it. */
static cl_int fault(const char *name)
{
    if (!atomic_load(&armed) || atomic_load(&armed_events))
        return CL_SUCCESS;
    const long number = atomic_fetch_add(&call_count, 1) + 1, bad = atomic_load(&first_bad);
    atomic_fetch_add(&trace_sum, (unsigned long)number * hash(name));
    if (number != bad && !(atomic_load(&sticky_fault) && number > bad))
        return CL_SUCCESS;
    return inject(name, code_for(name));
}

/* A command has been enqueued and gave this event: whether it is to end in an error. */
static void note_event(const char *name, cl_event event, cl_uint number, const cl_event *wait_list)
{
    count(FAULT_EVENT, 1);
    fault_failed_event(event, true, false); /* another that had the same place */
    if (!atomic_load(&armed_events))
        return;
    const bool follows = atomic_load(&sticky_fault) && fault_waits_for_failed(number, wait_list);
    long turn = 0;
    if (atomic_load(&armed)) {
        turn = atomic_fetch_add(&call_count, 1) + 1;
        atomic_fetch_add(&trace_sum, (unsigned long)turn * hash(name));
    }
    if (turn && turn == atomic_load(&first_bad))
        inject(name, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    else if (!follows)
        return;
    fault_failed_event(event, true, true);
}

/* Entry points by their shape. `params` is the parameter list, `args` the same as arguments. */
#define CALL(name, params, args)                                                                                       \
    static cl_int CL_API_CALL layer_##name params                                                                      \
    {                                                                                                                  \
        const cl_int code = fault(#name);                                                                              \
        return code ? code : target.name args;                                                                         \
    }

#define WAIT(name, params, args)                                                                                       \
    static cl_int CL_API_CALL layer_##name params                                                                      \
    {                                                                                                                  \
        const cl_int code = fault(#name), real = target.name args;                                                     \
        return code ? code : real;                                                                                     \
    }

#define CREATE(type, name, object, params, args)                                                                       \
    static type CL_API_CALL layer_##name params                                                                        \
    {                                                                                                                  \
        const cl_int code = fault(#name);                                                                              \
        if (code) {                                                                                                    \
            if (errcode_ret)                                                                                           \
                *errcode_ret = code;                                                                                   \
            return NULL;                                                                                               \
        }                                                                                                              \
        type made = target.name args;                                                                                  \
        if (made)                                                                                                      \
            count(object, 1);                                                                                          \
        return made;                                                                                                   \
    }

#define ENQUEUE(name, params, args)                                                                                    \
    static cl_int CL_API_CALL layer_##name params                                                                      \
    {                                                                                                                  \
        cl_int code = fault(#name);                                                                                    \
        if (!code)                                                                                                     \
            code = target.name args;                                                                                   \
        if (!code && event)                                                                                            \
            note_event(#name, *event, number, wait_list);                                                              \
        return code;                                                                                                   \
    }

#define REFERENCE(type, suffix, object)                                                                                \
    static cl_int CL_API_CALL layer_clRetain##suffix(type handle)                                                      \
    {                                                                                                                  \
        cl_int code = fault("clRetain" #suffix);                                                                       \
        if (!code)                                                                                                     \
            code = target.clRetain##suffix(handle);                                                                    \
        if (!code)                                                                                                     \
            count(object, 1);                                                                                          \
        return code;                                                                                                   \
    }                                                                                                                  \
    static cl_int CL_API_CALL layer_clRelease##suffix(type handle)                                                     \
    {                                                                                                                  \
        const cl_int code = target.clRelease##suffix(handle);                                                          \
        if (!code)                                                                                                     \
            count(object, -1);                                                                                         \
        return code;                                                                                                   \
    }

#define INFO(name, type, info)                                                                                         \
    CALL(name, (type handle, info what, size_t size, void *value, size_t *size_ret),                                   \
         (handle, what, size, value, size_ret))
#define DEVICE_INFO(name, type, info)                                                                                  \
    CALL(name, (type handle, cl_device_id device, info what, size_t size, void *value, size_t *size_ret),              \
         (handle, device, what, size, value, size_ret))

typedef void(CL_CALLBACK *context_callback)(const char *, const void *, size_t, void *);
typedef void(CL_CALLBACK *build_callback)(cl_program, void *);

INFO(clGetPlatformInfo, cl_platform_id, cl_platform_info)
INFO(clGetDeviceInfo, cl_device_id, cl_device_info)
INFO(clGetContextInfo, cl_context, cl_context_info)
INFO(clGetCommandQueueInfo, cl_command_queue, cl_command_queue_info)
INFO(clGetMemObjectInfo, cl_mem, cl_mem_info)
INFO(clGetProgramInfo, cl_program, cl_program_info)
INFO(clGetKernelInfo, cl_kernel, cl_kernel_info)

static cl_int CL_API_CALL layer_clGetEventInfo(cl_event event, cl_event_info what, size_t size, void *value,
                                               size_t *size_ret)
{
    cl_int code = fault("clGetEventInfo");
    if (!code)
        code = target.clGetEventInfo(event, what, size, value, size_ret);
    if (!code && what == CL_EVENT_COMMAND_EXECUTION_STATUS && value && fault_failed_event(event, false, false))
        *(cl_int *)value = atomic_load(&fault_code);
    return code;
}

static cl_int CL_API_CALL layer_clGetEventProfilingInfo(cl_event event, cl_profiling_info what, size_t size,
                                                        void *value, size_t *size_ret)
{
    const cl_int code = fault("clGetEventProfilingInfo");
    if (!code && fault_failed_event(event, false, false))
        return CL_PROFILING_INFO_NOT_AVAILABLE;
    return code ? code : target.clGetEventProfilingInfo(event, what, size, value, size_ret);
}

DEVICE_INFO(clGetProgramBuildInfo, cl_program, cl_program_build_info)
DEVICE_INFO(clGetKernelWorkGroupInfo, cl_kernel, cl_kernel_work_group_info)

CREATE(cl_context, clCreateContext, FAULT_CONTEXT,
       (const cl_context_properties *properties, cl_uint number, const cl_device_id *devices, context_callback notify,
        void *user, cl_int *errcode_ret),
       (properties, number, devices, notify, user, errcode_ret))
CREATE(cl_command_queue, clCreateCommandQueue, FAULT_QUEUE,
       (cl_context context, cl_device_id device, cl_command_queue_properties properties, cl_int *errcode_ret),
       (context, device, properties, errcode_ret))
CREATE(cl_mem, clCreateBuffer, FAULT_BUFFER,
       (cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *errcode_ret),
       (context, flags, size, host, errcode_ret))
CREATE(cl_mem, clCreateSubBuffer, FAULT_BUFFER,
       (cl_mem buffer, cl_mem_flags flags, cl_buffer_create_type type, const void *info, cl_int *errcode_ret),
       (buffer, flags, type, info, errcode_ret))
CREATE(cl_program, clCreateProgramWithSource, FAULT_PROGRAM,
       (cl_context context, cl_uint number, const char **strings, const size_t *lengths, cl_int *errcode_ret),
       (context, number, strings, lengths, errcode_ret))
CREATE(cl_program, clCreateProgramWithBinary, FAULT_PROGRAM,
       (cl_context context, cl_uint number, const cl_device_id *devices, const size_t *lengths,
        const unsigned char **binaries, cl_int *status, cl_int *errcode_ret),
       (context, number, devices, lengths, binaries, status, errcode_ret))
CREATE(cl_kernel, clCreateKernel, FAULT_KERNEL, (cl_program program, const char *name, cl_int *errcode_ret),
       (program, name, errcode_ret))
CREATE(cl_event, clCreateUserEvent, FAULT_EVENT, (cl_context context, cl_int *errcode_ret), (context, errcode_ret))

REFERENCE(cl_context, Context, FAULT_CONTEXT)
REFERENCE(cl_device_id, Device, FAULT_DEVICE)
REFERENCE(cl_command_queue, CommandQueue, FAULT_QUEUE)
REFERENCE(cl_mem, MemObject, FAULT_BUFFER)
REFERENCE(cl_program, Program, FAULT_PROGRAM)
REFERENCE(cl_kernel, Kernel, FAULT_KERNEL)
REFERENCE(cl_event, Event, FAULT_EVENT)

CALL(clBuildProgram,
     (cl_program program, cl_uint number, const cl_device_id *devices, const char *options, build_callback notify,
      void *user),
     (program, number, devices, options, notify, user))

static unsigned slow_build; /* seconds */

static cl_int CL_API_CALL slow_clBuildProgram(cl_program program, cl_uint number, const cl_device_id *devices,
                                              const char *options, build_callback notify, void *user)
{
    sleep(slow_build);
    return layer_clBuildProgram(program, number, devices, options, notify, user);
}

CALL(clSetKernelArg, (cl_kernel kernel, cl_uint index, size_t size, const void *value), (kernel, index, size, value))
CALL(clFlush, (cl_command_queue queue), (queue))

WAIT(clFinish, (cl_command_queue queue), (queue))

static cl_int CL_API_CALL layer_clWaitForEvents(cl_uint number, const cl_event *events)
{
    const cl_int code = fault("clWaitForEvents"), real = target.clWaitForEvents(number, events);
    if (!code && !real && fault_waits_for_failed(number, events))
        return CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
    return code ? code : real;
}

ENQUEUE(clEnqueueNDRangeKernel,
        (cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t *offset, const size_t *global,
         const size_t *local, cl_uint number, const cl_event *wait_list, cl_event *event),
        (queue, kernel, dimensions, offset, global, local, number, wait_list, event))

/* Inverts two bytes in the middle of what was read, which hold the sign and the exponent of one element of any type.
 * Only blocking reads can lie: the data of others is not there yet. */
static cl_int read_and_lie(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t size,
                           void *data, cl_uint number, const cl_event *wait_list, cl_event *event)
{
    const cl_int code =
        target.clEnqueueReadBuffer(queue, buffer, blocking, offset, size, data, number, wait_list, event);
    const size_t middle = size / 8 * 4 + 2;
    unsigned char *bytes = data;
    if (!code && blocking && atomic_fetch_sub(&reads_until_lie, 1) == 1)
        for (size_t i = middle; i < middle + 2 && i < size; i++)
            bytes[i] ^= 0xff;
    return code;
}

/* What a kernel writes that gives up waiting for another. */
static cl_int write_word(cl_command_queue queue, cl_mem buffer, size_t offset, size_t size, cl_uint number,
                         const cl_event *wait_list)
{
    static const cl_uint one = 1;
    if (size != sizeof one || !atomic_exchange(&word_waits, false))
        return CL_SUCCESS;
    return target.clEnqueueWriteBuffer(queue, buffer, CL_TRUE, offset, sizeof one, &one, number, wait_list, NULL);
}

static cl_int CL_API_CALL layer_clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                                    size_t offset, size_t size, void *data, cl_uint number,
                                                    const cl_event *wait_list, cl_event *event)
{
    cl_int code = fault("clEnqueueReadBuffer");
    if (!code)
        code = write_word(queue, buffer, offset, size, number, wait_list);
    if (!code)
        code = read_and_lie(queue, buffer, blocking, offset, size, data, number, wait_list, event);
    if (!code && event)
        note_event("clEnqueueReadBuffer", *event, number, wait_list);
    if (!code && blocking && fault_waits_for_failed(number, wait_list))
        code = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
    return code;
}

ENQUEUE(clEnqueueWriteBuffer,
        (cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t size, const void *data,
         cl_uint number, const cl_event *wait_list, cl_event *event),
        (queue, buffer, blocking, offset, size, data, number, wait_list, event))
ENQUEUE(clEnqueueCopyBuffer,
        (cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset, size_t to_offset, size_t size,
         cl_uint number, const cl_event *wait_list, cl_event *event),
        (queue, from, to, from_offset, to_offset, size, number, wait_list, event))
ENQUEUE(clEnqueueFillBuffer,
        (cl_command_queue queue, cl_mem buffer, const void *pattern, size_t pattern_size, size_t offset, size_t size,
         cl_uint number, const cl_event *wait_list, cl_event *event),
        (queue, buffer, pattern, pattern_size, offset, size, number, wait_list, event))
ENQUEUE(clEnqueueMarkerWithWaitList,
        (cl_command_queue queue, cl_uint number, const cl_event *wait_list, cl_event *event),
        (queue, number, wait_list, event))
ENQUEUE(clEnqueueBarrierWithWaitList,
        (cl_command_queue queue, cl_uint number, const cl_event *wait_list, cl_event *event),
        (queue, number, wait_list, event))

#define TAKE_OVER(name) table.name = layer_##name
#define TAKE_OVER_REFERENCE(suffix)                                                                                    \
    table.clRetain##suffix = layer_clRetain##suffix;                                                                   \
    table.clRelease##suffix = layer_clRelease##suffix

static void take_over(void)
{
    TAKE_OVER(clGetPlatformInfo);
    TAKE_OVER(clGetDeviceInfo);
    TAKE_OVER(clGetContextInfo);
    TAKE_OVER(clGetCommandQueueInfo);
    TAKE_OVER(clGetMemObjectInfo);
    TAKE_OVER(clGetProgramInfo);
    TAKE_OVER(clGetKernelInfo);
    TAKE_OVER(clGetEventInfo);
    TAKE_OVER(clGetEventProfilingInfo);
    TAKE_OVER(clGetProgramBuildInfo);
    TAKE_OVER(clGetKernelWorkGroupInfo);
    TAKE_OVER(clCreateContext);
    TAKE_OVER(clCreateCommandQueue);
    TAKE_OVER(clCreateBuffer);
    live_bytes_take_over(&table);
    TAKE_OVER(clCreateSubBuffer);
    TAKE_OVER(clCreateProgramWithSource);
    TAKE_OVER(clCreateProgramWithBinary);
    TAKE_OVER(clCreateKernel);
    TAKE_OVER(clCreateUserEvent);
    TAKE_OVER_REFERENCE(Context);
    TAKE_OVER_REFERENCE(Device);
    TAKE_OVER_REFERENCE(CommandQueue);
    TAKE_OVER_REFERENCE(MemObject);
    TAKE_OVER_REFERENCE(Program);
    TAKE_OVER_REFERENCE(Kernel);
    TAKE_OVER_REFERENCE(Event);
    TAKE_OVER(clBuildProgram);
    TAKE_OVER(clSetKernelArg);
    TAKE_OVER(clFlush);
    TAKE_OVER(clFinish);
    TAKE_OVER(clWaitForEvents);
    TAKE_OVER(clEnqueueNDRangeKernel);
    TAKE_OVER(clEnqueueReadBuffer);
    TAKE_OVER(clEnqueueWriteBuffer);
    TAKE_OVER(clEnqueueCopyBuffer);
    TAKE_OVER(clEnqueueFillBuffer);
    TAKE_OVER(clEnqueueMarkerWithWaitList);
    TAKE_OVER(clEnqueueBarrierWithWaitList);
}

static void arm_what(bool events, long nth, bool sticky, cl_int code)
{
    atomic_store(&armed, false);
    atomic_store(&armed_events, events);
    fault_forget_events();
    atomic_store(&call_count, 0);
    atomic_store(&trace_sum, 0);
    atomic_store(&injected_count, 0);
    atomic_store(&victim_name, "none");
    atomic_store(&codes_given, 0);
    atomic_store(&first_bad, nth);
    atomic_store(&sticky_fault, sticky);
    atomic_store(&fault_code, code);
    atomic_store(&armed, true);
}

static void arm(long nth, bool sticky, cl_int code)
{
    arm_what(false, nth, sticky, code);
}

static void arm_event(long nth, bool sticky, cl_int code)
{
    arm_what(true, nth, sticky, code);
}

static bool gave(cl_int code)
{
    return code < 0 && code >= -64 && atomic_load(&codes_given) & bit_of(code);
}

static void pause_faults(void)
{
    atomic_store(&armed, false);
}

static void resume_faults(void)
{
    atomic_store(&armed, true);
}

static long calls(void)
{
    return atomic_load(&call_count);
}

static unsigned long trace(void)
{
    return atomic_load(&trace_sum);
}

static long injected(void)
{
    return atomic_load(&injected_count);
}

static const char *victim(void)
{
    return atomic_load(&victim_name);
}

static void get_references(long counts[FAULT_OBJECTS])
{
    for (int i = 0; i < FAULT_OBJECTS; i++)
        counts[i] = atomic_load(&references[i]);
}

static void corrupt_read(long nth)
{
    atomic_store(&reads_until_lie, nth);
}

static void give_up(void)
{
    atomic_store(&word_waits, true);
}

extern const struct fault_control fault_control;
const struct fault_control fault_control = {
    arm,    arm_event, pause_faults,   resume_faults,    calls,           trace,        injected,
    victim, gave,      get_references, live_bytes_watch, live_bytes_peak, corrupt_read, give_up};

CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info name, size_t size, void *value, size_t *size_ret)
{
    return layer_info("clattn faults", name, size, value, size_ret);
}

CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint entries, const cl_icd_dispatch *below, cl_uint *entries_ret,
                                            const cl_icd_dispatch **table_ret)
{
    const cl_int code = layer_begin(entries, below, &target, &table, entries_ret, table_ret);
    if (code)
        return code;
    take_over();
    const char *nth = getenv(FAULT_CORRUPT_READ);
    corrupt_read(nth ? atol(nth) : 0);
    const char *seconds = getenv(FAULT_SLOW_BUILD);
    slow_build = seconds ? (unsigned)atoi(seconds) : 0;
    if (slow_build)
        table.clBuildProgram = slow_clBuildProgram;
    return CL_SUCCESS;
}
