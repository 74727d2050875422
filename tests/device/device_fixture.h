/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_DEVICE_FIXTURE_H
#define TEST_DEVICE_FIXTURE_H

#include "support/unit.h"
#include <clattn/device.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* For the tests of the device layer: the first device, a scratch directory for the caches, and what the logger was
 * told. */
enum { SKIPPED = 77, SAID_BYTES = 1 << 20 };

static cl_device_id fixture_device;
static cl_context fixture_context;
static char fixture_directory[] = "/tmp/clattn-test-device-XXXXXX";

static pthread_mutex_t said_lock = PTHREAD_MUTEX_INITIALIZER;
static char said[SAID_BYTES];
static size_t said_length;

static void listen(void *user, enum clattn_log_level level, const char *text)
{
    (void)user;
    (void)level;
    pthread_mutex_lock(&said_lock);
    const int length = snprintf(said + said_length, SAID_BYTES - said_length, "%s\n", text);
    if (length > 0 && said_length + (size_t)length < SAID_BYTES)
        said_length += (size_t)length;
    pthread_mutex_unlock(&said_lock);
}

static void forget_what_was_said(void)
{
    said_length = 0;
    said[0] = '\0';
}

static int times_said(const char *what)
{
    int count = 0;
    for (const char *at = said; (at = strstr(at, what)); at += strlen(what))
        count++;
    return count;
}

static struct clattn_context_params fixture_params(void)
{
    return (struct clattn_context_params){.context = fixture_context,
                                          .device = fixture_device,
                                          .log = {.function = listen, .level = CLATTN_LOG_INFO},
                                          .cache_directory = fixture_directory};
}

/* False where there is no OpenCL device. */
static bool open_device(void)
{
    cl_platform_id platforms[16];
    cl_uint count = 0;
    if (clGetPlatformIDs(16, platforms, &count) != CL_SUCCESS)
        return false;
    for (cl_uint i = 0; i < count && i < 16 && !fixture_device; i++)
        clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &fixture_device, NULL);
    if (!fixture_device)
        return false;
    fixture_context = clCreateContext(NULL, 1, &fixture_device, NULL, NULL, NULL);
    return fixture_context != NULL;
}

static void close_device(void)
{
    clReleaseContext(fixture_context);
}

static int make_fixture(void **state)
{
    (void)state;
    forget_what_was_said();
    strcpy(fixture_directory + strlen(fixture_directory) - 6, "XXXXXX");
    return mkdtemp(fixture_directory) ? 0 : -1;
}

static int remove_fixture(void **state)
{
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", fixture_directory);
    return system(command);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make_fixture, remove_fixture)

#endif
