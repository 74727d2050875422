/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Small kernels with one fault each, which the simulated device must see, beside the same kernels without it, on the
 * device that CLATTN_TEST_DEVICE names. */
#define CL_TARGET_OPENCL_VERSION 120
#include "support/unit.h"
#include <CL/cl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 256 };

/* FAULT 1 puts the fault in. */
static const char text[] =
    "#define G __kernel __attribute__((reqd_work_group_size(128, 1, 1))) void\n"
    "G write_beyond(__global int *x) { x[get_local_id(0) + (FAULT ? 129 : 128)] = 1; }\n"
    "G read_before(__global int *x) { int y = x[(int)get_local_id(0) - FAULT]; x[128 + get_local_id(0)] = y; }\n"
    "G no_barrier(__global int *x) {\n"
    "    __local int l[128]; const int i = get_local_id(0); l[i] = x[i];\n"
    "    if (!FAULT) barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    x[128 + i] = l[127 - i]; }\n"
    "G no_second_barrier(__global int *x) {\n"
    "    __local int l[128]; const int i = get_local_id(0); l[i] = x[i]; barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    const int y = l[127 - i]; if (!FAULT) barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    l[i] = y + 1; barrier(CLK_LOCAL_MEM_FENCE); x[128 + i] = l[i ^ 64]; }\n"
    "G not_written(__global int *x) {\n"
    "    __local int l[256]; const int i = get_local_id(0); l[i] = x[i]; if (!FAULT) l[128 + i] = i;\n"
    "    barrier(CLK_LOCAL_MEM_FENCE); x[128 + i] = l[2 * i]; }\n"
    "G same_place(__global int *x) {\n"
    "    __local int l[128]; const int i = get_local_id(0); l[FAULT ? i % 32 : i] = x[i];\n"
    "    barrier(CLK_LOCAL_MEM_FENCE); x[128 + i] = l[i % 32]; }\n"
    "G lanes_differ(__global int *x) {\n"
    "    const int i = get_local_id(0), y = x[FAULT ? i : 0]; x[128 + i] = __builtin_amdgcn_readfirstlane(y); }\n"
    "G not_all_meet(__global int *x) {\n"
    "    __local int l[128]; const int i = get_local_id(0); l[i] = x[i];\n"
    "    if (!FAULT || __builtin_amdgcn_readlane(i, 0) < 64) barrier(CLK_LOCAL_MEM_FENCE); x[128 + i] = l[i]; }\n"
    "G own_memory(__global int *x) {\n"
    "    volatile int own[32]; const int i = get_local_id(0);\n"
    "    for (int k = 0; k < 32; ++k) own[(7 * k + i) % 32] = k * i;\n"
    "    x[128 + i] = own[i * 5 % 32 + (FAULT ? 1000 : 0)]; }\n"
    "__kernel __attribute__((reqd_work_group_size(FAULT ? 128 : 32, 1, 1))) void atomic_alone(__global int *x) {\n"
    "    volatile __local int l[1]; const int i = get_local_id(0); if (!i) l[0] = 0;\n"
    "    barrier(CLK_LOCAL_MEM_FENCE); atomic_or(l, 1 << i % 32); if (!i) l[0] = 2; x[128 + i] = l[0]; }\n";

static const char *const kernels[] = {"write_beyond", "read_before", "no_barrier",   "no_second_barrier",
                                      "not_written",  "same_place",  "lanes_differ", "not_all_meet",
                                      "atomic_alone", "own_memory"};

static cl_device_id device;
static cl_context context;

static cl_program build(const char *options)
{
    const char *source = text;
    cl_int code;
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    assert_int_equal(clBuildProgram(program, 1, &device, options, NULL, NULL), CL_SUCCESS);
    return program;
}

/* Whether one group of the kernel runs to its end. */
static bool runs(cl_program program, const char *name)
{
    int words[WORDS];
    size_t items[3];
    cl_int code;
    for (int n = 0; n < WORDS; n++)
        words[n] = n;
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &code);
    cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof words, words, &code);
    cl_kernel kernel = clCreateKernel(program, name, &code);
    assert_int_equal(code, CL_SUCCESS);
    assert_int_equal(clSetKernelArg(kernel, 0, sizeof buffer, &buffer), CL_SUCCESS);
    assert_int_equal(
        clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof items, items, NULL),
        CL_SUCCESS);
    assert_int_equal(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, items, items, 0, NULL, NULL), CL_SUCCESS);
    code = clFinish(queue);
    clReleaseKernel(kernel);
    clReleaseMemObject(buffer);
    clReleaseCommandQueue(queue);
    return code == CL_SUCCESS;
}

static void each_fault_is_seen(void **state)
{
    (void)state;
    cl_program faulty = build("-DFAULT=1"), right = build("-DFAULT=0");
    EACH (n, kernels) {
        if (!runs(right, kernels[n]))
            fail_msg("%s is refused without its fault", kernels[n]);
        if (runs(faulty, kernels[n]))
            fail_msg("the fault of %s is not seen", kernels[n]);
    }
    clReleaseProgram(faulty);
    clReleaseProgram(right);
}

/* Instructions are executed as they are in one mode of floats. */
static void another_mode_is_refused(void **state)
{
    (void)state;
    cl_program other = build("-DFAULT=0 -cl-denorms-are-zero");
    assert_false(runs(other, "write_beyond"));
    clReleaseProgram(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_fault_is_seen), cmocka_unit_test(another_mode_is_refused)};
    const char *chosen = getenv("CLATTN_TEST_DEVICE");
    cl_platform_id platform;
    cl_device_id devices[8];
    cl_uint count;
    const cl_uint number = chosen && strchr(chosen, ':') ? (cl_uint)atoi(strchr(chosen, ':') + 1) : 0;
    cl_int code;
    if (clGetPlatformIDs(1, &platform, NULL) || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 8, devices, &count) ||
        number >= count)
        return 1;
    device = devices[number];
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    const int failed = code ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
    clReleaseContext(context);
    return failed;
}
