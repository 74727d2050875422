/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/recorder.h"
#include "device/clcall.h"
#include <stdlib.h>
#include <string.h>

/* Numbers of the extension, and of what says its version. */
enum { NUM_QUEUES = 0x1295, STATE = 0x1297, STATE_RECORDING = 0 };
enum { DEVICE_EXTENSIONS_WITH_VERSION = 0x1060, MOST_EXTENSIONS = 512 };

typedef cl_int(CL_API_CALL *get_info)(struct _cl_command_buffer_khr *buffer, cl_uint name, size_t size, void *value,
                                      size_t *size_ret);

static const char extension[] = "cl_khr_command_buffer";

clattn_status cla_recorder_check_version(const struct cla_extension *extensions, size_t count, struct cla_error *error)
{
    cl_uint version = 0;
    for (size_t i = 0; i < count; i++)
        if (strncmp(extensions[i].name, extension, sizeof extensions[i].name) == 0)
            version = extensions[i].version;
    const unsigned major = version >> 22, minor = version >> 12 & 1023, patch = version & 4095;
    if (!version)
        return cla_fail(error, CLATTN_UNSUPPORTED_DEVICE,
                        "the device does not have %s, which recording needs: enqueue the call", extension);
    if (major || minor != 9)
        return cla_fail(error, CLATTN_UNSUPPORTED_DEVICE,
                        "the device has %s %u.%u.%u, and known are its versions 0.9: enqueue the call", extension,
                        major, minor, patch);
    return CLATTN_SUCCESS;
}

/* Devices that cannot say a version do not have the extension, which asks for that. */
static clattn_status check_device(cl_device_id device, struct cla_error *error)
{
    struct cla_error ignored;
    struct cla_extension *extensions = calloc(MOST_EXTENSIONS, sizeof *extensions);
    if (!extensions)
        return cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for the list of a device's extensions");
    cla_cl_device_info(device, DEVICE_EXTENSIONS_WITH_VERSION, MOST_EXTENSIONS * sizeof *extensions, extensions,
                       &ignored);
    const clattn_status status = cla_recorder_check_version(extensions, MOST_EXTENSIONS, error);
    free(extensions);
    return status;
}

/* Function pointers are no objects, in C. */
static clattn_status find(cl_platform_id platform, const char *name, void *function, size_t size,
                          struct cla_error *error)
{
    void *const found = cla_cl_extension_function(platform, name);
    if (!found)
        return cla_fail(error, CLATTN_UNSUPPORTED_DEVICE, "the platform has no %s, though its device has %s", name,
                        extension);
    memcpy(function, &found, size);
    return CLATTN_SUCCESS;
}

static clattn_status refused(cl_int code, const char *call, struct cla_error *error)
{
    return cla_fail(error, code, "%s failed: %s (%d)", call, clattn_status_name(code), (int)code);
}

/* That its queue is of the plan's context and device, the driver checks with each kernel. (PoCL 3.1 says where its list
 * of queues lies, when it is asked for the queue.) */
static clattn_status check_buffer(struct _cl_command_buffer_khr *buffer, get_info ask, struct cla_error *error)
{
    cl_uint queues = 0, state = 0;
    cl_int code = ask(buffer, NUM_QUEUES, sizeof queues, &queues, NULL);
    if (!code)
        code = ask(buffer, STATE, sizeof state, &state, NULL);
    if (code)
        return refused(code, "clGetCommandBufferInfoKHR", error);
    if (state != STATE_RECORDING)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "command_buffer is not being recorded: it must not have been finalized yet");
    if (queues != 1)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "command_buffer is for %u queues: it must be for one",
                        (unsigned)queues);
    return CLATTN_SUCCESS;
}

clattn_status cla_recorder_open(struct cla_recorder *recorder, cl_device_id device, struct cla_error *error)
{
    cl_platform_id platform = NULL;
    get_info ask = NULL;
    clattn_status status = check_device(device, error);
    if (!status)
        status = cla_cl_device_info(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, error);
    if (!status)
        status = find(platform, "clCommandNDRangeKernelKHR", &recorder->command_kernel, sizeof recorder->command_kernel,
                      error);
    if (!status)
        status = find(platform, "clGetCommandBufferInfoKHR", &ask, sizeof ask, error);
    return status ? status : check_buffer(recorder->buffer, ask, error);
}

clattn_status cla_record_kernel(const struct cla_recorder *recorder, cl_kernel kernel, size_t global, size_t local,
                                cl_uint wait_count, const cl_uint *wait_points, cl_uint *point, struct cla_error *error)
{
    const cl_int code = recorder->command_kernel(recorder->buffer, NULL, NULL, kernel, 1, NULL, &global, &local,
                                                 wait_count, wait_count ? wait_points : NULL, point, NULL);
    return code ? refused(code, "clCommandNDRangeKernelKHR", error) : CLATTN_SUCCESS;
}
