/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/pause.h"
#include <math.h>

enum { TRIED_STEPS = 1 << 16 };

static cl_int time_steps(struct bench_pause *pause, cl_uint steps, double *seconds)
{
    const cl_int code = clSetKernelArg(pause->kernel.kernel, 1, sizeof steps, &steps);
    return code ? code : bench_kernel_time(pause->session, &pause->kernel, 1, 1, seconds);
}

cl_int bench_pause_create(const struct session *session, struct bench_pause *pause)
{
    static const char *const files[] = {"pause.cl", NULL};
    double seconds = 1.0;
    *pause = (struct bench_pause){.session = session};
    cl_int code = bench_kernel_build(session, files, "", "clattn_pause", &pause->kernel);
    if (!code)
        pause->out = clCreateBuffer(session->context, CL_MEM_WRITE_ONLY, sizeof(cl_uint), NULL, &code);
    if (!code)
        code = clSetKernelArg(pause->kernel.kernel, 0, sizeof pause->out, &pause->out);
    for (int i = 0; i < 2 && !code; i++) /* the second time is warm */
        code = time_steps(pause, TRIED_STEPS, &seconds);
    pause->steps_per_second = TRIED_STEPS / seconds;
    if (code)
        bench_pause_destroy(pause);
    return code;
}

cl_int bench_pause_enqueue(const struct bench_pause *pause, double seconds)
{
    const cl_uint steps = (cl_uint)fmin(fmin(seconds, 1.0) * pause->steps_per_second, 4e9);
    const size_t one = 1;
    cl_int code = clSetKernelArg(pause->kernel.kernel, 1, sizeof steps, &steps);
    if (!code)
        code = clEnqueueNDRangeKernel(pause->session->queue, pause->kernel.kernel, 1, NULL, &one, &one, 0, NULL, NULL);
    return code ? code : clFlush(pause->session->queue);
}

void bench_pause_destroy(struct bench_pause *pause)
{
    if (pause->out)
        clReleaseMemObject(pause->out);
    bench_kernel_release(&pause->kernel);
    *pause = (struct bench_pause){NULL};
}
