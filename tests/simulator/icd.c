/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the OpenCL loader finds: cl_khr_icd. Functions that clattn and its tests do not use are not there: calling one
 * ends the process. */
#include "platform.h"
#include <string.h>

struct _cl_platform_id simulated_platform = {&simulated_dispatch};

static cl_int platform_ids(cl_uint room, cl_platform_id *platforms, cl_uint *count)
{
    if (platforms && room)
        platforms[0] = &simulated_platform;
    if (count)
        *count = 1;
    return CL_SUCCESS;
}

static cl_int platform_info(cl_platform_id platform, cl_platform_info name, size_t room, void *to, size_t *wanted)
{
    if (platform != &simulated_platform)
        return CL_INVALID_PLATFORM;
    switch (name) {
    case CL_PLATFORM_PROFILE:
        return answer_text("FULL_PROFILE", room, to, wanted);
    case CL_PLATFORM_VERSION:
        return answer_text("OpenCL 2.1 AMD-APP (simulated)", room, to, wanted);
    case CL_PLATFORM_NAME:
        return answer_text("AMD Accelerated Parallel Processing", room, to, wanted);
    case CL_PLATFORM_VENDOR:
        return answer_text("clattn's tests", room, to, wanted);
    case CL_PLATFORM_EXTENSIONS:
        return answer_text("cl_khr_icd", room, to, wanted);
    case CL_PLATFORM_ICD_SUFFIX_KHR:
        return answer_text("SIMULATED", room, to, wanted);
    default:
        return CL_INVALID_VALUE;
    }
}

const struct _cl_icd_dispatch simulated_dispatch = {
    .clGetPlatformIDs = platform_ids,
    .clGetPlatformInfo = platform_info,
    .clGetDeviceIDs = device_ids,
    .clGetDeviceInfo = device_info,
    .clRetainDevice = device_keep,
    .clReleaseDevice = device_keep,
    .clCreateSubDevices = device_split,
    .clCreateContext = context_create,
    .clRetainContext = context_retain,
    .clReleaseContext = context_release,
    .clGetContextInfo = context_info,
    .clCreateCommandQueue = queue_create,
    .clRetainCommandQueue = queue_retain,
    .clReleaseCommandQueue = queue_release,
    .clGetCommandQueueInfo = queue_info,
    .clCreateBuffer = buffer_create,
    .clCreateSubBuffer = buffer_part,
    .clCreateImage = image_create,
    .clRetainMemObject = buffer_retain,
    .clReleaseMemObject = buffer_release,
    .clGetMemObjectInfo = buffer_info,
    .clCreateProgramWithSource = program_from_source,
    .clCreateProgramWithBinary = program_from_binary,
    .clBuildProgram = program_build,
    .clRetainProgram = program_retain,
    .clReleaseProgram = program_release,
    .clGetProgramInfo = program_info,
    .clGetProgramBuildInfo = program_build_info,
    .clCreateKernel = kernel_create,
    .clRetainKernel = kernel_retain,
    .clReleaseKernel = kernel_release,
    .clSetKernelArg = kernel_argument,
    .clGetKernelWorkGroupInfo = kernel_group_info,
    .clEnqueueNDRangeKernel = enqueue_kernel,
    .clEnqueueReadBuffer = enqueue_read,
    .clEnqueueWriteBuffer = enqueue_write,
    .clEnqueueFillBuffer = enqueue_fill,
    .clEnqueueMarkerWithWaitList = enqueue_marker,
    .clEnqueueBarrierWithWaitList = enqueue_marker,
    .clFlush = queue_flush,
    .clFinish = queue_finish,
    .clCreateUserEvent = event_user,
    .clSetUserEventStatus = event_set,
    .clWaitForEvents = event_wait,
    .clRetainEvent = event_retain,
    .clReleaseEvent = event_release,
    .clGetEventInfo = event_info,
    .clGetEventProfilingInfo = event_times,
};

#define EXPORTED __attribute__((visibility("default")))

EXPORTED void *clGetExtensionFunctionAddress(const char *name);
EXPORTED cl_int clIcdGetPlatformIDsKHR(cl_uint room, cl_platform_id *platforms, cl_uint *count);
EXPORTED cl_int clGetPlatformInfo(cl_platform_id platform, cl_platform_info name, size_t room, void *to,
                                  size_t *wanted);

cl_int clIcdGetPlatformIDsKHR(cl_uint room, cl_platform_id *platforms, cl_uint *count)
{
    return platform_ids(room, platforms, count);
}

cl_int clGetPlatformInfo(cl_platform_id platform, cl_platform_info name, size_t room, void *to, size_t *wanted)
{
    return platform_info(platform, name, room, to, wanted);
}

void *clGetExtensionFunctionAddress(const char *name)
{
    return strcmp(name, "clIcdGetPlatformIDsKHR") == 0 ? (void *)clIcdGetPlatformIDsKHR
           : strcmp(name, "clGetPlatformInfo") == 0    ? (void *)clGetPlatformInfo
                                                       : NULL;
}
