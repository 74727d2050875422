/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_DEVICE_H
#define TEST_DEVICE_H

#include "plan/skeleton.h"
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

/* The same for a program that tests the skeleton its first argument names: it ends with 2 where that names none, and
 * with 77 where the device is none for it, as none but a CPU is for an emulation or forward_cpu. */
const struct cla_skeleton *test_device_open_for(struct test_device *device, int argc, char **argv);

/* The skeletons of the forward pass to test on the device that was opened, and those of the backward pass, ended by
 * NULL: all of them (but for emulations and kernels for CPUs where it is none), or the one that CLATTN_TEST_SKELETON
 * names; the other direction's stay whole then. */
const struct cla_skeleton *const *test_skeletons(void);
const struct cla_skeleton *const *test_backward_skeletons(void);

/* Whether a test of both directions is to run this one: not where CLATTN_TEST_SKELETON names one of the other. */
bool test_asks_for(bool backward);

/* Whether a skeleton is for this kind of device. A GPU's compiler takes minutes for an emulation; and a kernel of
 * single work-items has a hundred gigabytes of private memory reserved for all that a GPU could run at a time. Nor is
 * an emulation for a driver whose compiler crashes on it, which test_device_open() says. */
bool test_is_for(const struct cla_skeleton *skeleton);

/* Whether the device that was opened last is a CPU. */
bool test_is_on_cpu(void);

/* CLATTN_TEST_SEED, of all that is drawn at random; or one that is always the same. */
uint64_t test_seed(void);

/* Whether all of each enumeration is asked for: CLATTN_TEST_FULL=1. */
bool test_is_full(void);

/* Whether to take variant number `variant` of a skeleton: all of them where that is asked for, or where the planner
 * would choose the skeleton for the device, whatever the type, else one in `of`. A kernel that is made for GPUs costs a
 * CPU's compiler ten seconds and more. */
bool test_takes(const struct test_device *device, const struct cla_skeleton *skeleton, int variant, int of);

/* The knobs of a test's n-th case: every other one runs what planned kernels of that skeleton may leave out. */
const char *test_knobs(const struct cla_skeleton *skeleton, int n);

/* Whether the skeleton that `problem` names serves it on the device. Those of matrix units may decline: a type, a large
 * d, a device without them. */
bool test_serves(const struct test_device *device, const struct clattn_problem *problem);

/* Whether the problem's knobs leave a kernel's items registers enough. With many features some do not, and a plan with
 * these is refused. */
bool test_has_registers(const struct test_device *device, const struct clattn_problem *problem);

/* True for a status of success; else says what failed and why. */
bool test_succeeded(clattn_status status, const char *call);
bool test_cl_succeeded(cl_int code, const char *call);

#endif
