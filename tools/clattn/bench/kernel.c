/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/kernel.h"
#include "plan/source.h"

cl_int bench_kernel_build(const struct session *session, const char *const *files, const char *defines,
                          const char *entry, struct bench_kernel *built)
{
    struct cla_text text = {0};
    struct cla_error error;
    *built = (struct bench_kernel){NULL, NULL};
    cl_int code = cla_source_assemble(defines, files, &text, &error) ? CL_INVALID_VALUE : CL_SUCCESS;
    if (!code)
        built->program =
            clCreateProgramWithSource(session->context, 1, (const char *[]){text.data}, (size_t[]){text.length}, &code);
    if (!code)
        code = clBuildProgram(built->program, 1, &session->id, "-cl-mad-enable", NULL, NULL);
    if (!code)
        built->kernel = clCreateKernel(built->program, entry, &code);
    cla_text_free(&text);
    return code;
}

void bench_kernel_release(struct bench_kernel *kernel)
{
    if (kernel->kernel)
        clReleaseKernel(kernel->kernel);
    if (kernel->program)
        clReleaseProgram(kernel->program);
    *kernel = (struct bench_kernel){NULL, NULL};
}

cl_int bench_kernel_time(const struct session *session, const struct bench_kernel *kernel, size_t groups, size_t local,
                         double *seconds)
{
    const size_t global = groups * local;
    cl_event event = NULL;
    cl_ulong start = 0, end = 0;
    cl_int code = clEnqueueNDRangeKernel(session->queue, kernel->kernel, 1, NULL, &global, &local, 0, NULL, &event);
    if (!code)
        code = clWaitForEvents(1, &event);
    if (!code)
        code = clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof start, &start, NULL);
    if (!code)
        code = clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL);
    if (event)
        clReleaseEvent(event);
    *seconds = end > start ? (double)(end - start) * 1e-9 : 1e-9;
    return code;
}
