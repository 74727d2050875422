/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Ends by SIGSEGV in Mesa 25.0.7's libRusticlOpenCL.so (Debian 13, llvmpipe), as the kernel is launched first:
 * functions that are not inlined, a write to local memory, a barrier in a loop and one behind it. With always_inline
 * it runs.
 *
 *     cc functions.c -lOpenCL -o functions
 *     RUSTICL_ENABLE=llvmpipe OCL_ICD_VENDORS=/etc/OpenCL/vendors/rusticl.icd ./functions [INLINE]
 *
 * INLINE: what functions are declared as, `static` unless given.
 * Exit status: 0 where the kernel runs and is right, 1 where it is not, 77 without a device. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>

static const char *const text = "typedef struct { int tile, stage; } progress;\n"
                                "INLINE void tiles(int sort, int end, __local uint *m, progress *at)\n"
                                "{\n"
                                "    while (at->tile < end) {\n"
                                "        barrier(CLK_LOCAL_MEM_FENCE);\n"
                                "        at->tile += 1;\n"
                                "    }\n"
                                "}\n"
                                "INLINE void attend(int end, int first, __local uint *m)\n"
                                "{\n"
                                "    progress at;\n"
                                "    at.tile = first;\n"
                                "    at.stage = 0;\n"
                                "    m[get_local_id(0)] = end;\n"
                                "    tiles(0, end, m, &at);\n"
                                "}\n"
                                "INLINE int is_set(__local uint *flag, int lid)\n"
                                "{\n"
                                "    barrier(CLK_LOCAL_MEM_FENCE);\n"
                                "    return *flag != 0;\n"
                                "}\n"
                                "__kernel void meet(__global int *o, const int n)\n"
                                "{\n"
                                "    __local uint memory[128];\n"
                                "    attend(n, (int)get_group_id(0), memory);\n"
                                "    if (is_set(memory + 1, (int)get_local_id(0)))\n"
                                "        o[0] = 1;\n"
                                "}\n";

int main(int argc, char **argv)
{
    cl_platform_id platform;
    cl_device_id device;
    cl_int code = CL_SUCCESS, o = 0;
    const cl_int n = 5;
    const size_t items = 2;
    char define[200];
    const char *const texts[] = {define, text};
    if (clGetPlatformIDs(1, &platform, NULL) || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL))
        return 77;
    snprintf(define, sizeof define, "#define INLINE %s\n", argc > 1 ? argv[1] : "static");
    const cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    const cl_command_queue queue = clCreateCommandQueue(context, device, 0, &code);
    const cl_program program = clCreateProgramWithSource(context, 2, (const char **)texts, NULL, &code);
    code = clBuildProgram(program, 1, &device, "-cl-std=CL1.2", NULL, NULL);
    const cl_kernel kernel = code ? NULL : clCreateKernel(program, "meet", &code);
    const cl_mem buffer = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof o, &o, NULL);
    if (!code)
        code = clSetKernelArg(kernel, 0, sizeof buffer, &buffer);
    if (!code)
        code = clSetKernelArg(kernel, 1, sizeof n, &n);
    if (!code)
        code = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &items, 0, NULL, NULL);
    if (!code)
        code = clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof o, &o, 0, NULL, NULL);
    printf("status %d, %d where 1 is right\n", code, o);
    return code || o != 1;
}
