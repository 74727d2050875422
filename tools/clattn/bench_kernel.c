/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench_kernel.h"
#include "device/source.h"
#include <string.h>

enum { MOST_FILES = 8 };

static const struct cla_embedded_file *find_text(const char *name)
{
    for (size_t i = 0; i < cla_embedded_file_count; i++)
        if (!strcmp(cla_embedded_files[i].name, name))
            return &cla_embedded_files[i];
    return NULL;
}

cl_int bench_kernel_build(const struct session *session, const char *const *files, const char *defines,
                          const char *entry, struct bench_kernel *built)
{
    const char *texts[MOST_FILES + 1] = {defines};
    size_t sizes[MOST_FILES + 1] = {strlen(defines)};
    cl_uint count = 1;
    cl_int code;
    *built = (struct bench_kernel){NULL, NULL};
    for (; *files; files++) {
        const struct cla_embedded_file *file = find_text(*files);
        if (!file || count > MOST_FILES)
            return CL_INVALID_VALUE;
        texts[count] = (const char *)file->data;
        sizes[count++] = file->size;
    }
    built->program = clCreateProgramWithSource(session->context, count, texts, sizes, &code);
    if (!code)
        code = clBuildProgram(built->program, 1, &session->id, "-cl-mad-enable", NULL, NULL);
    if (!code)
        built->kernel = clCreateKernel(built->program, entry, &code);
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
