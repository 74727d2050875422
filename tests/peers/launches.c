/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a kernel costs that computes nothing, on an NVIDIA device: the interval between two of them in a queue, by the
 * device's clock, and how long the host is kept by each. launches.py says the same of CUDA.
 *
 *     cc -O2 -o launches tests/peers/launches.c -lOpenCL && ./launches [PLATFORM [DEVICE]] */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CALLS = 100, TURNS = 7 };

static const char *text =
    "ulong now(void) { ulong t; __asm__ volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(t)); return t; }\n"
    "__kernel void stamp(__global ulong *o, int i) { o[i] = now(); }\n"
    "__kernel void wait(__global ulong *o) { const ulong from = now(); while (now() - from < 4000000) o[2] = from; }\n"
    "__kernel void empty(__global ulong *o) { if (o[3] == 77) o[4] = 1; }\n";

static void check(cl_int code, const char *what)
{
    if (code) {
        fprintf(stderr, "%s: %d\n", what, code);
        exit(1);
    }
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static cl_kernel kernel_of(cl_program program, const char *name, cl_mem memory)
{
    cl_int code = 0;
    const cl_kernel kernel = clCreateKernel(program, name, &code);
    check(code, name);
    check(clSetKernelArg(kernel, 0, sizeof memory, &memory), name);
    return kernel;
}

static void enqueue(cl_command_queue queue, cl_kernel kernel, size_t groups, size_t items, cl_event *event)
{
    const size_t all = groups * items;
    check(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &all, &items, 0, NULL, event), "clEnqueueNDRangeKernel");
}

/* Calls that the device meets when all are enqueued, since another kernel keeps it so long. */
static void measure(cl_command_queue queue, cl_program program, cl_mem memory, size_t groups, int events)
{
    const cl_kernel empty = kernel_of(program, "empty", memory), stamp = kernel_of(program, "stamp", memory),
                    wait = kernel_of(program, "wait", memory);
    double device = 1e30, host = 1e30;
    for (int turn = 0; turn < TURNS; turn++) {
        cl_ulong stamps[2];
        cl_event event;
        enqueue(queue, wait, 1, 1, NULL);
        for (cl_int i = 0; i < 2; i++) {
            check(clSetKernelArg(stamp, 1, sizeof i, &i), "clSetKernelArg");
            enqueue(queue, stamp, 1, 1, NULL);
            const double start = now_us();
            for (int call = 0; call < CALLS && i == 0; call++) {
                enqueue(queue, empty, groups, 128, events ? &event : NULL);
                if (events)
                    check(clReleaseEvent(event), "clReleaseEvent");
            }
            const double took = (now_us() - start) / CALLS;
            host = i == 0 && took < host ? took : host;
        }
        check(clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, sizeof stamps, stamps, 0, NULL, NULL), "a read");
        const double each = (double)(stamps[1] - stamps[0]) * 1e-3 / CALLS;
        device = each < device ? each : device;
    }
    printf("%4zu work-groups, %-14s %5.2f us on the device, %5.2f on the host\n", groups,
           events ? "with events:" : "no events:", device, host);
    clReleaseKernel(empty);
    clReleaseKernel(stamp);
    clReleaseKernel(wait);
}

int main(int argc, char **argv)
{
    cl_platform_id platforms[16];
    cl_device_id devices[16];
    const int platform = argc > 1 ? atoi(argv[1]) : 0, device = argc > 2 ? atoi(argv[2]) : 0;
    cl_int code = clGetPlatformIDs(16, platforms, NULL);
    check(code, "clGetPlatformIDs");
    check(clGetDeviceIDs(platforms[platform], CL_DEVICE_TYPE_ALL, 16, devices, NULL), "clGetDeviceIDs");
    char vendor[256] = "";
    check(clGetDeviceInfo(devices[device], CL_DEVICE_VENDOR, sizeof vendor, vendor, NULL), "clGetDeviceInfo");
    if (!strstr(vendor, "NVIDIA")) {
        fprintf(stderr, "the device is of %s: take one of NVIDIA's, whose clock the kernels read\n", vendor);
        return 2;
    }
    const cl_context context = clCreateContext(NULL, 1, &devices[device], NULL, NULL, &code);
    check(code, "clCreateContext");
    const cl_program program = clCreateProgramWithSource(context, 1, &text, NULL, &code);
    check(clBuildProgram(program, 1, &devices[device], "", NULL, NULL), "clBuildProgram");
    const cl_mem memory = clCreateBuffer(context, CL_MEM_READ_WRITE, 4096, NULL, &code);
    check(code, "clCreateBuffer");
    for (int profiling = 0; profiling < 2; profiling++) {
        const cl_command_queue queue =
            clCreateCommandQueue(context, devices[device], profiling ? CL_QUEUE_PROFILING_ENABLE : 0, &code);
        check(code, "clCreateCommandQueue");
        printf("a queue %s times:\n", profiling ? "with" : "without");
        for (size_t groups = 1; groups <= 1056; groups *= groups == 1 ? 132 : 8)
            for (int events = 0; events < 2; events++)
                measure(queue, program, memory, groups, events);
        clReleaseCommandQueue(queue);
    }
    clReleaseMemObject(memory);
    clReleaseProgram(program);
    clReleaseContext(context);
    return 0;
}
