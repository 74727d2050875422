/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_DEVICE_H
#define TEST_DEVICE_H

#include <clattn/clattn.h>

/* The device under test, with all that a forward pass needs. It is the first one, or the one that CLATTN_TEST_DEVICE
 * names as P:D (platform and device, counted from 0). */
struct test_device {
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
    clattn_context *clattn;
};

/* Ends the program where it cannot: with 77, Meson's "skipped", where there is no OpenCL platform at all, else with 1,
 * so that a device that went missing is never taken for a machine that has none. */
void test_device_open(struct test_device *device);
void test_device_close(struct test_device *device);

/* True for a status of success; else says what failed and why. */
bool test_succeeded(clattn_status status, const char *call);
bool test_cl_succeeded(cl_int code, const char *call);

#endif
