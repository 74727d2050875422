/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/device.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAILED = 1, USAGE = 2, SKIPPED = 77, MOST = 16 };

static bool is_cpu; /* the device that was opened last */

/* Drivers on which no test runs an emulation of a matrix unit: they are for tests alone. Versions that begin so are
 * meant; others are tried. tests/README.md has what was found. */
static const struct {
    const char *platform, *version, *why;
} without_emulations[] = {
    {"rusticl", "25.0.", "Mesa 25.0 crashes on functions that are not inlined"},
};
static const char *why_no_emulations; /* on the device that was opened last; NULL: they run there */

static const char *find_why_no_emulations(const struct clattn_capabilities *here)
{
    for (size_t i = 0; i < sizeof without_emulations / sizeof *without_emulations; i++)
        if (strcmp(here->platform_name, without_emulations[i].platform) == 0 &&
            strncmp(here->driver_version, without_emulations[i].version, strlen(without_emulations[i].version)) == 0)
            return without_emulations[i].why;
    return NULL;
}

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

/* The one that CLATTN_TEST_SKELETON names, or NULL. */
static const struct cla_skeleton *named_skeleton(void)
{
    const char *wanted = getenv("CLATTN_TEST_SKELETON");
    const struct cla_skeleton *named = wanted ? cla_skeleton_find(wanted) : NULL;
    if (wanted && !named)
        leave(FAILED, "CLATTN_TEST_SKELETON names no skeleton");
    return named;
}

static bool serves_common(const struct test_device *device, const struct cla_skeleton *skeleton)
{
    const struct clattn_problem common = {.dtype = CLATTN_FP16,
                                          .d = 64,
                                          .pass = skeleton->backward ? CLATTN_BACKWARD : CLATTN_FORWARD,
                                          .skeleton = skeleton->name,
                                          .unordered = cla_skeleton_describe(skeleton).any_order};
    return test_serves(device, &common);
}

void test_device_open(struct test_device *device)
{
    unsigned platform = 0, number = 0;
    const char *wanted = getenv("CLATTN_TEST_DEVICE");
    if (wanted && sscanf(wanted, "%u:%u", &platform, &number) != 2)
        leave(FAILED, "CLATTN_TEST_DEVICE is not of the form P:D");
    device->device = pick(platform, number);
    open_context(device);
    is_cpu = clattn_context_capabilities(device->clattn)->type == CLATTN_DEVICE_CPU;
    fprintf(stderr, "device under test: %s\n", clattn_context_capabilities(device->clattn)->device_name);
    why_no_emulations = find_why_no_emulations(clattn_context_capabilities(device->clattn));
    if (why_no_emulations)
        fprintf(stderr, "left out here: emulations of matrix units, as %s\n", why_no_emulations);
    if (named_skeleton() && !serves_common(device, named_skeleton()))
        leave(FAILED, "CLATTN_TEST_SKELETON names a skeleton that is not for the device under test");
}

bool test_is_for(const struct cla_skeleton *skeleton)
{
    return is_cpu ? !skeleton->emulated || !why_no_emulations : !skeleton->emulated && !skeleton->for_cpus;
}

const struct cla_skeleton *test_device_open_for(struct test_device *device, int argc, char **argv)
{
    const struct cla_skeleton *skeleton = argc > 1 ? cla_skeleton_find(argv[1]) : NULL;
    if (!skeleton)
        leave(USAGE, "the first argument must name a skeleton");
    test_device_open(device);
    if (!test_is_for(skeleton) || !serves_common(device, skeleton)) {
        test_device_close(device);
        leave(SKIPPED, "skipped: the skeleton is not for this device");
    }
    return skeleton;
}

void test_device_close(struct test_device *device)
{
    clattn_context_destroy(&device->clattn);
    clReleaseCommandQueue(device->queue);
    clReleaseContext(device->context);
}

/* Those of one direction in *list, ended by NULL: all that are for the device, or the one that CLATTN_TEST_SKELETON
 * names, where it is one of them. */
static const struct cla_skeleton *const *list_skeletons(bool backward, const struct cla_skeleton *list[MOST])
{
    const struct cla_skeleton *named = named_skeleton();
    int count = 0;
    for (const struct cla_skeleton *const *next = cla_skeletons; *next && count < MOST - 1; next++)
        if ((*next)->backward == backward && (named == *next || test_is_for(*next)) &&
            (!named || named == *next || named->backward != backward))
            list[count++] = *next;
    list[count] = NULL;
    return list;
}

const struct cla_skeleton *const *test_skeletons(void)
{
    static const struct cla_skeleton *list[MOST];
    return list_skeletons(false, list);
}

const struct cla_skeleton *const *test_backward_skeletons(void)
{
    static const struct cla_skeleton *list[MOST];
    return list_skeletons(true, list);
}

uint64_t test_seed(void)
{
    const char *wanted = getenv("CLATTN_TEST_SEED");
    return wanted ? strtoull(wanted, NULL, 0) : 20220527; /* the day of FlashAttention */
}

bool test_is_on_cpu(void)
{
    return is_cpu;
}

bool test_asks_for(bool backward)
{
    return !named_skeleton() || named_skeleton()->backward == backward;
}

/* Whether the planner would choose the skeleton on the device, for some type of elements. */
static bool is_chosen(const struct clattn_capabilities *capabilities, const struct cla_skeleton *skeleton)
{
    struct clattn_problem problem = {
        .d = 64, .d_v = 64, .scale = 0.125f, .unordered = cla_skeleton_describe(skeleton).any_order};
    bool chosen = false;
    problem.pass = skeleton->backward ? CLATTN_BACKWARD : CLATTN_FORWARD;
    for (int dtype = CLATTN_FP32; dtype <= CLATTN_BF16; dtype++) {
        const struct cla_skeleton *const *first = cla_skeletons;
        problem.dtype = (enum clattn_dtype)dtype;
        while (*first && ((*first)->backward != skeleton->backward || !(*first)->prefers(capabilities, &problem)))
            first++;
        chosen = chosen || skeleton == *first;
    }
    return chosen;
}

bool test_is_full(void)
{
    const char *wanted = getenv("CLATTN_TEST_FULL");
    return wanted && strcmp(wanted, "1") == 0;
}

bool test_takes(const struct test_device *device, const struct cla_skeleton *skeleton, int variant, int of)
{
    return test_is_full() || variant % of == 0 || is_chosen(clattn_context_capabilities(device->clattn), skeleton);
}

bool test_serves(const struct test_device *device, const struct clattn_problem *problem)
{
    struct clattn_plan_info info;
    const struct cla_skeleton *skeleton = problem->skeleton ? cla_skeleton_find(problem->skeleton) : NULL;
    if (skeleton && skeleton->emulated && why_no_emulations)
        return false;
    return !skeleton || !skeleton->declines ||
           clattn_plan_preview(clattn_context_capabilities(device->clattn), problem, &info) != CLATTN_NOTHING_FITS;
}

bool test_has_registers(const struct test_device *device, const struct clattn_problem *problem)
{
    clattn_plan *plan = NULL;
    const clattn_status status = problem->knobs ? clattn_plan_create(&plan, device->clattn, problem) : CLATTN_SUCCESS;
    clattn_plan_destroy(&plan);
    return status != CLATTN_NOTHING_FITS || !strstr(clattn_error_message(), "of a work-item in memory");
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

const char *test_knobs(const struct cla_skeleton *skeleton, int n)
{
    if (n % 2 == 0)
        return NULL;
    return strcmp(skeleton->name, "forward_hopper") == 0                              ? "tma=0 stale_max=0"
           : strncmp(skeleton->name, "forward_matrix", strlen("forward_matrix")) == 0 ? "stale_max=1"
                                                                                      : NULL;
}
