/* SPDX-License-Identifier: BSD-2-Clause
 *
 * How many turns of loops a work-item gets. llvmpipe of Mesa 22.3.6 (Debian 12) gives it 65,535 in all, and then ends
 * each loop behind its first turn, without a word:
 *
 *     cc loops.c -lOpenCL -o loops
 *     RUSTICL_ENABLE=llvmpipe OCL_ICD_VENDORS=/etc/OpenCL/vendors/rusticl.icd ./loops
 *
 * Exit status: 0 where all turns come, 1 where some do not, 77 without a device. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>

/* Loops of a length that no compiler knows, with a sum that none knows better. */
static const char *const text = "kernel void turns(global uint *sums, int outer, int inner)\n"
                                "{\n"
                                "    uint sum = 0;\n"
                                "    for (int i = 0; i < outer; ++i)\n"
                                "        for (int j = 0; j < inner; ++j)\n"
                                "            sum = sum * 5 + sums[1 + (i + j) % 4];\n"
                                "    sums[0] = sum;\n"
                                "}\n";

static cl_uint expected(int outer, int inner)
{
    cl_uint sum = 0;
    for (int i = 0; i < outer; i++)
        for (int j = 0; j < inner; j++)
            sum = sum * 5 + (cl_uint)((i + j) % 4);
    return sum;
}

static cl_uint run(cl_context context, cl_command_queue queue, cl_kernel kernel, int outer, int inner)
{
    cl_uint sums[5] = {0, 0, 1, 2, 3};
    const size_t one = 1;
    const cl_mem buffer = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof sums, sums, NULL);
    clSetKernelArg(kernel, 0, sizeof buffer, &buffer);
    clSetKernelArg(kernel, 1, sizeof outer, &outer);
    clSetKernelArg(kernel, 2, sizeof inner, &inner);
    clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL);
    clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof sums, sums, 0, NULL, NULL);
    clReleaseMemObject(buffer);
    return sums[0];
}

int main(void)
{
    cl_platform_id platform;
    cl_device_id device;
    int wrong = 0;
    if (clGetPlatformIDs(1, &platform, NULL) || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL))
        return 77;
    const cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    const cl_command_queue queue = clCreateCommandQueue(context, device, 0, NULL);
    const cl_program program = clCreateProgramWithSource(context, 1, (const char **)&text, NULL, NULL);
    if (clBuildProgram(program, 1, &device, NULL, NULL, NULL))
        return 77;
    const cl_kernel kernel = clCreateKernel(program, "turns", NULL);
    for (int inner = 100; inner <= 700; inner += 200) {
        const int right = run(context, queue, kernel, 200, inner) == expected(200, inner);
        printf("200 times %d turns: %s\n", inner, right ? "right" : "WRONG");
        wrong += !right;
    }
    return wrong != 0;
}
