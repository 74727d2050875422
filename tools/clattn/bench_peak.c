/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench.h"
#include "device/source.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Which shape of the loop is fastest differs between devices, so a few are tried and the best counts. */
struct variant {
    int vector_width, accumulators, work_group_size;
};

enum { MAX_ITERATIONS = 1 << 26 };

struct bench_peak {
    const struct session *session;
    cl_program program;
    cl_kernel kernel;
    cl_mem out;
    size_t groups;
    struct variant variant;
    double best; /* TFLOP/s */
};

static const struct cla_embedded_file *find_text(void)
{
    for (size_t i = 0; i < cla_embedded_file_count; i++)
        if (!strcmp(cla_embedded_files[i].name, "peak_fma.cl"))
            return &cla_embedded_files[i];
    return NULL;
}

static cl_int build(struct bench_peak *peak)
{
    const struct cla_embedded_file *file = find_text();
    char defines[256];
    snprintf(defines, sizeof defines,
             "#define CLATTN_VECTOR_WIDTH %d\n#define CLATTN_ACCUMULATORS %d\n#define CLATTN_WORK_GROUP_SIZE %d\n",
             peak->variant.vector_width, peak->variant.accumulators, peak->variant.work_group_size);
    if (!file)
        return CL_INVALID_VALUE;
    const char *texts[] = {defines, (const char *)file->data};
    const size_t sizes[] = {strlen(defines), file->size};
    cl_int code;
    peak->program = clCreateProgramWithSource(peak->session->context, 2, texts, sizes, &code);
    if (!code)
        code = clBuildProgram(peak->program, 1, &peak->session->id, "-cl-mad-enable", NULL, NULL);
    if (!code)
        peak->kernel = clCreateKernel(peak->program, "clattn_peak_fma", &code);
    return code;
}

static cl_int prepare(struct bench_peak *peak)
{
    cl_int code = build(peak);
    const size_t items = peak->groups * (size_t)peak->variant.work_group_size;
    if (!code)
        peak->out = clCreateBuffer(peak->session->context, CL_MEM_WRITE_ONLY, items * sizeof(cl_float), NULL, &code);
    const cl_float factor = 0.999f, term = 0.001f;
    if (!code)
        code = clSetKernelArg(peak->kernel, 0, sizeof peak->out, &peak->out);
    if (!code)
        code = clSetKernelArg(peak->kernel, 2, sizeof factor, &factor);
    if (!code)
        code = clSetKernelArg(peak->kernel, 3, sizeof term, &term);
    return code;
}

static void release(struct bench_peak *peak)
{
    if (peak->out)
        clReleaseMemObject(peak->out);
    if (peak->kernel)
        clReleaseKernel(peak->kernel);
    if (peak->program)
        clReleaseProgram(peak->program);
}

static double flops_of(const struct bench_peak *peak, cl_int iterations)
{
    const double items = (double)peak->groups * peak->variant.work_group_size;
    return 2.0 * items * iterations * peak->variant.accumulators * peak->variant.vector_width;
}

static cl_int time_once(const struct bench_peak *peak, cl_int iterations, double *seconds)
{
    const size_t local = (size_t)peak->variant.work_group_size, global = peak->groups * local;
    cl_event event = NULL;
    cl_ulong start = 0, end = 0;
    cl_int code = clSetKernelArg(peak->kernel, 1, sizeof iterations, &iterations);
    if (!code)
        code = clEnqueueNDRangeKernel(peak->session->queue, peak->kernel, 1, NULL, &global, &local, 0, NULL, &event);
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

double bench_peak_sample(const struct bench_peak *peak, double ms)
{
    const double seconds = fmin(fmax(ms, 1.0), 100.0) * 1e-3,
                 iterations = peak->best * seconds * 1e12 / flops_of(peak, 1);
    const cl_int rounded = (cl_int)fmin(fmax(iterations, 1.0), MAX_ITERATIONS);
    double best = 0.0, taken, total = 0.0;
    for (int i = 0; i < 4 && total < 0.02 && !time_once(peak, rounded, &taken); i++) {
        best = fmax(best, flops_of(peak, rounded) / taken * 1e-12);
        total += taken;
    }
    return best;
}

double bench_peak_best(const struct bench_peak *peak)
{
    return peak->best;
}

/* The best of ten launches of 20 ms or more. */
static cl_int measure(struct bench_peak *peak)
{
    double first = 0.0, second = 0.0;
    cl_int iterations = 128, code = CL_SUCCESS;
    do {
        iterations *= 2;
        code = time_once(peak, iterations, &first);
        if (!code)
            code = time_once(peak, iterations, &second);
    } while (!code && fmin(first, second) < 0.02 && iterations < MAX_ITERATIONS);
    for (int i = 0; !code && i < 10; i++) {
        code = time_once(peak, iterations, &first);
        if (!code)
            peak->best = fmax(peak->best, flops_of(peak, iterations) / first * 1e-12);
    }
    return code;
}

static int list_variants(const struct clattn_capabilities *capabilities, struct variant *variants)
{
    static const int accumulators[] = {8, 12, 16}, widths[] = {1, 2, 4};
    int count = 0;
    if (capabilities->type == CLATTN_DEVICE_CPU) {
        const int width = capabilities->native_vector_width_float >= 16  ? 16
                          : capabilities->native_vector_width_float >= 8 ? 8
                                                                         : 4;
        for (int i = 0; i < 3; i++)
            variants[count++] = (struct variant){width, accumulators[i], 1};
        return count;
    }
    const int group = capabilities->max_work_group_size < 256 ? (int)capabilities->max_work_group_size : 256;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 2; j++)
            variants[count++] = (struct variant){widths[i], accumulators[j], group};
    return count;
}

int bench_peak_create(const struct session *session, struct bench_peak **peak, struct failure *failure)
{
    struct variant variants[8];
    const int count = list_variants(session->capabilities, variants);
    const size_t groups = session->capabilities->type == CLATTN_DEVICE_CPU ? 4 : 32; /* for each compute unit */
    struct bench_peak *best = calloc(1, sizeof *best);
    cl_int code = best ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    for (int i = 0; best && i < count; i++) {
        struct bench_peak tried = {
            .session = session, .groups = session->capabilities->compute_units * groups, .variant = variants[i]};
        const cl_int result = prepare(&tried);
        code = result ? result : measure(&tried);
        struct bench_peak worse = tried;
        if (!code && tried.best > best->best) {
            worse = *best;
            *best = tried;
        }
        release(&worse);
    }
    if (best && best->best > 0.0) {
        *peak = best;
        return STATUS_OK;
    }
    bench_peak_destroy(&best);
    return fail_code(failure, "measuring the peak (cl/peak_fma.cl)", code);
}

void bench_peak_destroy(struct bench_peak **peak)
{
    if (*peak)
        release(*peak);
    free(*peak);
    *peak = NULL;
}
