/* SPDX-License-Identifier: BSD-2-Clause
 *
 * How many turns of loops a work-item gets. llvmpipe of Mesa 22.3.6 (Debian 12) gives it 65,535 in all, and then ends
 * each loop behind its first turn, without a word:
 *
 *     cc loops.c -lOpenCL -o loops
 *     RUSTICL_ENABLE=llvmpipe OCL_ICD_VENDORS=/etc/OpenCL/vendors/rusticl.icd ./loops
 *
 * And whether a loop within a loop in which items meet ends, and what follows is done. With POCL_WORK_GROUP_METHOD=cbs
 * PoCL 6.0 (Debian 13) runs it for ever; after 30 s the program ends by SIGALRM.
 *
 * Exit status: 0 where all turns come, 1 where some do not, 77 without a device. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ITEMS = 64 };

/* Loops of a length that no compiler knows, with a sum that none knows better. */
static const char *const text =
    "kernel void turns(global uint *sums, int outer, int inner)\n"
    "{\n"
    "    uint sum = 0;\n"
    "    for (int i = 0; i < outer; ++i)\n"
    "        for (int j = 0; j < inner; ++j)\n"
    "            sum = sum * 5 + sums[1 + (i + j) % 4];\n"
    "    sums[0] = sum;\n"
    "}\n"
    "kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void meetings(global uint *sums, int turns)\n"
    "{\n"
    "    local float shared[ITEMS];\n"
    "    const uint item = get_local_id(0);\n"
    "    float sum = 0.0f;\n"
    "    shared[item] = item;\n"
    "    for (int i = 0; i < turns; ++i) {\n"
    "        barrier(CLK_LOCAL_MEM_FENCE);\n"
    "        for (int j = 0; j < turns; ++j)\n"
    "            sum += shared[(item + j) % ITEMS];\n"
    "        barrier(CLK_LOCAL_MEM_FENCE);\n"
    "        shared[item] = sum;\n"
    "    }\n"
    "    sums[item] = sum;\n"
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

/* How many items of the group have another sum than they should; all numbers are exact. */
static int wrong_meetings(cl_context context, cl_command_queue queue, cl_kernel kernel, int turns)
{
    cl_uint sums[ITEMS] = {0};
    const size_t items = ITEMS;
    const cl_mem buffer = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof sums, sums, NULL);
    clSetKernelArg(kernel, 0, sizeof buffer, &buffer);
    clSetKernelArg(kernel, 1, sizeof turns, &turns);
    clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &items, 0, NULL, NULL);
    clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof sums, sums, 0, NULL, NULL);
    clReleaseMemObject(buffer);

    cl_uint shared[ITEMS], right[ITEMS] = {0};
    int wrong = 0;
    for (int item = 0; item < ITEMS; item++)
        shared[item] = (cl_uint)item;
    for (int i = 0; i < turns; i++) {
        for (int item = 0; item < ITEMS; item++)
            for (int j = 0; j < turns; j++)
                right[item] += shared[(item + j) % ITEMS];
        memcpy(shared, right, sizeof shared);
    }
    for (int item = 0; item < ITEMS; item++)
        wrong += sums[item] != right[item];
    return wrong;
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
    alarm(30);
    const cl_program program = clCreateProgramWithSource(context, 1, (const char **)&text, NULL, NULL);
    if (clBuildProgram(program, 1, &device, "-DITEMS=64", NULL, NULL))
        return 77;
    const cl_kernel kernel = clCreateKernel(program, "turns", NULL);
    for (int inner = 100; inner <= 700; inner += 200) {
        const int right = run(context, queue, kernel, 200, inner) == expected(200, inner);
        printf("200 times %d turns: %s\n", inner, right ? "right" : "WRONG");
        wrong += !right;
    }
    const int lost = wrong_meetings(context, queue, clCreateKernel(program, "meetings", NULL), 5);
    printf("5 times 5 turns of items that meet: %s\n", lost ? "WRONG" : "right");
    return wrong != 0 || lost != 0;
}
