/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/device.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAILED = 1, SKIPPED = 77, MOST = 16 };

static void leave(int status, const char *why)
{
    fprintf(stderr, "%s\n", why);
    exit(status);
}

static cl_device_id pick(unsigned platform, unsigned device)
{
    cl_platform_id platforms[MOST];
    cl_device_id devices[MOST];
    cl_uint count = 0;
    if (clGetPlatformIDs(MOST, platforms, &count) != CL_SUCCESS || count == 0)
        leave(SKIPPED, "skipped: there is no OpenCL platform");
    if (platform >= count)
        leave(FAILED, "CLATTN_TEST_DEVICE names a platform that is not there");
    if (clGetDeviceIDs(platforms[platform], CL_DEVICE_TYPE_ALL, MOST, devices, &count) != CL_SUCCESS)
        leave(FAILED, "the OpenCL platform has no device (PoCL: is its cache directory usable?)");
    if (device >= count)
        leave(FAILED, "CLATTN_TEST_DEVICE names a device that is not there");
    return devices[device];
}

static void open_context(struct test_device *device)
{
    cl_int code = CL_SUCCESS;
    device->context = clCreateContext(NULL, 1, &device->device, NULL, NULL, &code);
    if (!test_cl_succeeded(code, "clCreateContext"))
        exit(FAILED);
    device->queue = clCreateCommandQueue(device->context, device->device, 0, &code);
    if (!test_cl_succeeded(code, "clCreateCommandQueue"))
        exit(FAILED);
    const struct clattn_context_params params = {.context = device->context, .device = device->device};
    if (!test_succeeded(clattn_context_create(&device->clattn, &params), "clattn_context_create"))
        exit(FAILED);
}

void test_device_open(struct test_device *device)
{
    unsigned platform = 0, number = 0;
    const char *wanted = getenv("CLATTN_TEST_DEVICE");
    if (wanted && sscanf(wanted, "%u:%u", &platform, &number) != 2)
        leave(FAILED, "CLATTN_TEST_DEVICE is not of the form P:D");
    device->device = pick(platform, number);
    open_context(device);
    fprintf(stderr, "device under test: %s\n", clattn_context_capabilities(device->clattn)->device_name);
}

void test_device_close(struct test_device *device)
{
    clattn_context_destroy(&device->clattn);
    clReleaseCommandQueue(device->queue);
    clReleaseContext(device->context);
}

const struct cla_skeleton *const *test_skeletons(void)
{
    static const struct cla_skeleton *one[2];
    const char *wanted = getenv("CLATTN_TEST_SKELETON");
    if (!wanted)
        return cla_skeletons;
    one[0] = cla_skeleton_find(wanted);
    if (!one[0])
        leave(FAILED, "CLATTN_TEST_SKELETON names no skeleton");
    return one;
}

bool test_takes(const struct test_device *device, const struct cla_skeleton *skeleton, int variant, int of)
{
    const struct clattn_capabilities *capabilities = clattn_context_capabilities(device->clattn);
    const struct clattn_problem problem = {.d = 64, .d_v = 64, .scale = 0.125f};
    const struct cla_skeleton *const *chosen = cla_skeletons;
    while (*chosen && !(*chosen)->prefers(capabilities, &problem))
        chosen++;
    return capabilities->type != CLATTN_DEVICE_CPU || skeleton == *chosen || variant % of == 0;
}

bool test_serves(const struct test_device *device, const struct clattn_problem *problem)
{
    struct clattn_plan_info info;
    const bool may_decline = problem->skeleton && strncmp(problem->skeleton, "forward_matrix", 14) == 0;
    return !may_decline ||
           clattn_plan_preview(clattn_context_capabilities(device->clattn), problem, &info) != CLATTN_NOTHING_FITS;
}

bool test_succeeded(clattn_status status, const char *call)
{
    if (status)
        fprintf(stderr, "%s: %s: %s\n", call, clattn_status_name(status), clattn_error_message());
    return !status;
}

bool test_cl_succeeded(cl_int code, const char *call)
{
    if (code != CL_SUCCESS)
        fprintf(stderr, "%s: %s\n", call, clattn_status_name(code));
    return code == CL_SUCCESS;
}
