/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Whether sub-buffers that overlap, and that a kernel has used, may be released in the order in which they were made:
 *
 *     cc sub_buffers.c -lOpenCL -o sub_buffers && ./sub_buffers
 *
 * NVIDIA's 580.159 crashes in the first clReleaseMemObject(). Released in the other order, or where no byte is in both,
 * nothing happens. Exit status: 0 where all goes well, 77 without a device. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>

static const char *text = "__kernel void add(__global float *a, __global const float *b)"
                          "{ a[get_global_id(0)] = b[get_global_id(0)] + 1; }";
enum { BYTES = 4096, PART = 2048, SECOND = 1024, ITEMS = 256 };

static cl_mem part_of(cl_mem buffer, size_t origin)
{
    const cl_buffer_region region = {origin, PART};
    return clCreateSubBuffer(buffer, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, NULL);
}

int main(void)
{
    cl_platform_id platform;
    cl_device_id device;
    if (clGetPlatformIDs(1, &platform, NULL) || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL))
        return 77;
    const size_t items = ITEMS;
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, NULL);
    cl_program program = clCreateProgramWithSource(context, 1, &text, NULL, NULL);
    cl_int code = clBuildProgram(program, 1, &device, "", NULL, NULL);
    cl_kernel kernel = clCreateKernel(program, "add", NULL);
    cl_mem whole = clCreateBuffer(context, CL_MEM_READ_WRITE, BYTES, NULL, NULL);
    cl_mem first = part_of(whole, 0), second = part_of(whole, SECOND);
    code |= clSetKernelArg(kernel, 0, sizeof(cl_mem), &first) | clSetKernelArg(kernel, 1, sizeof(cl_mem), &second);
    code |= clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL) | clFinish(queue);
    printf("used: %d\n", code);
    fflush(stdout);
    code |= clReleaseMemObject(first) | clReleaseMemObject(second) | clReleaseMemObject(whole);
    printf("released: %d\n", code);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    return code != CL_SUCCESS;
}
