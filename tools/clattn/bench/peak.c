/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/ceilings.h"
#include "bench/kernel.h"
#include "plan/matrix_units.h"
#include <math.h>
#include <stdlib.h>

/* Which shape of the loop is fastest differs between devices, so a few are tried and the best counts. */
struct variant {
    int vector_width, accumulators, work_group_size;
};

enum { MAX_ITERATIONS = 1 << 26, MOST_VARIANTS = 8 };
enum { DOT_AVX512_BF16 = 1, DOT_AMX = 3 };                              /* CLATTN_DOT */
enum { DOT_WIDTH = 16, DOT_MICRO = 8, AMX_MICRO = 32, DOT_STEPS = 64 }; /* of cl/peak_dot.cl */

struct bench_peak {
    const struct session *session;
    enum bench_unit unit;
    enum clattn_dtype dtype;
    struct bench_kernel kernel;
    cl_mem out;
    size_t groups;
    struct variant variant;
    double best; /* TFLOP/s */
};

static cl_int build_fma(struct bench_peak *peak)
{
    static const char *const files[] = {"peak_fma.cl", NULL};
    char defines[256];
    snprintf(defines, sizeof defines,
             "#define CLATTN_VECTOR_WIDTH %d\n#define CLATTN_ACCUMULATORS %d\n#define CLATTN_WORK_GROUP_SIZE %d\n",
             peak->variant.vector_width, peak->variant.accumulators, peak->variant.work_group_size);
    return bench_kernel_build(peak->session, files, defines, "clattn_peak_fma", &peak->kernel);
}

/* Of pairs of bf16, by vectors or by tiles. */
static bool has_pairs(enum bench_unit unit)
{
    return unit == UNIT_DOT || unit == UNIT_AMX;
}

static int micro_of(enum bench_unit unit)
{
    return unit == UNIT_AMX ? AMX_MICRO : DOT_MICRO;
}

/* With one vector of rows, and with two, as planned. */
static cl_int build_dot(struct bench_peak *peak)
{
    const int micro = micro_of(peak->unit);
    static const char *const files[] = {"peak_dot.cl", NULL};
    char defines[320];
    snprintf(defines, sizeof defines,
             "#define CLATTN_DTYPE 2\n#define CLATTN_FEATURES 0\n#define CLATTN_CAUSAL 0\n#define CLATTN_STATE 0\n"
             "#define CLATTN_DOT %d\n#define CLATTN_VECTOR_WIDTH %d\n#define CLATTN_MICRO %d\n"
             "#define CLATTN_ROW_VECTORS %d\n#define CLATTN_D 64\n#define CLATTN_D_V 64\n",
             peak->unit == UNIT_AMX ? DOT_AMX : DOT_AVX512_BF16, DOT_WIDTH, micro, peak->variant.accumulators / micro);
    return bench_kernel_build(peak->session, files, defines, "clattn_peak_dot", &peak->kernel);
}

static cl_int build_matrix(struct bench_peak *peak)
{
    const struct cla_matrix_unit *const unit = peak->unit == UNIT_MATRIX
                                                   ? cla_matrix_unit_of(peak->session->capabilities, peak->dtype)
                                                   : &cla_matrix_units[CLA_EMULATED];
    char defines[256];
    snprintf(defines, sizeof defines,
             "#define CLATTN_DTYPE %d\n#define CLATTN_FEATURES 0\n#define %s %d\n"
             "#define CLATTN_ACCUMULATORS %d\n#define CLATTN_WORK_GROUP_SIZE %d\n",
             (int)peak->dtype, unit->level_name ? unit->level_name : "CLATTN_LEVEL",
             unit->level ? unit->level(peak->session->capabilities) : 0, peak->variant.accumulators,
             peak->variant.work_group_size);
    return bench_kernel_build(peak->session, unit->files[CLA_UNIT_PEAK], defines, "clattn_peak_matrix", &peak->kernel);
}

static cl_int prepare(struct bench_peak *peak)
{
    cl_int code = peak->unit == UNIT_FMA  ? build_fma(peak)
                  : has_pairs(peak->unit) ? build_dot(peak)
                                          : build_matrix(peak);
    const size_t items = peak->groups * (size_t)peak->variant.work_group_size;
    if (!code)
        peak->out = clCreateBuffer(peak->session->context, CL_MEM_WRITE_ONLY, items * sizeof(cl_float), NULL, &code);
    const cl_float factor = 0.999f, term = 0.001f;
    if (!code)
        code = clSetKernelArg(peak->kernel.kernel, 0, sizeof peak->out, &peak->out);
    if (!code)
        code = clSetKernelArg(peak->kernel.kernel, 2, sizeof factor, &factor);
    if (!code)
        code = clSetKernelArg(peak->kernel.kernel, 3, sizeof term, &term);
    return code;
}

static void release(struct bench_peak *peak)
{
    if (peak->out)
        clReleaseMemObject(peak->out);
    bench_kernel_release(&peak->kernel);
}

/* Of one chain of multiply-adds of an item: vectors of floats or of pairs, or its part of a 16 x 16 x 16 product. */
static double flops_of(const struct bench_peak *peak, cl_int iterations)
{
    const double items = (double)peak->groups * peak->variant.work_group_size;
    const double lanes = peak->unit == UNIT_MATRIX ? CLA_NVIDIA_LANES : CLA_EMULATED_LANES;
    const double each = peak->unit == UNIT_FMA  ? peak->variant.vector_width
                        : has_pairs(peak->unit) ? 2 * DOT_STEPS * DOT_WIDTH
                                                : (double)(CLA_PIECE * CLA_PIECE * CLA_PIECE) / lanes;
    return 2.0 * items * iterations * peak->variant.accumulators * each;
}

static cl_int time_once(const struct bench_peak *peak, cl_int iterations, double *seconds)
{
    const cl_int code = clSetKernelArg(peak->kernel.kernel, 1, sizeof iterations, &iterations);
    return code ? code
                : bench_kernel_time(peak->session, &peak->kernel, peak->groups, (size_t)peak->variant.work_group_size,
                                    seconds);
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
    cl_int iterations = 8, code = CL_SUCCESS;
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

static int list_fma(const struct clattn_capabilities *capabilities, struct variant variants[MOST_VARIANTS])
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

static int list_variants(const struct clattn_capabilities *capabilities, enum bench_unit unit,
                         struct variant variants[MOST_VARIANTS])
{
    if (unit == UNIT_FMA)
        return list_fma(capabilities, variants);
    if (has_pairs(unit)) {
        variants[0] = (struct variant){.accumulators = micro_of(unit), .work_group_size = 1};
        variants[1] = (struct variant){.accumulators = 2 * micro_of(unit), .work_group_size = 1};
        return 2;
    }
    const int group = unit == UNIT_MATRIX ? 128 : 1;
    variants[0] = (struct variant){.accumulators = unit == UNIT_MATRIX ? 4 : 1, .work_group_size = group};
    variants[1] = (struct variant){.accumulators = unit == UNIT_MATRIX ? 8 : 2, .work_group_size = group};
    return 2;
}

int bench_peak_create(const struct session *session, enum bench_unit unit, enum clattn_dtype dtype,
                      struct bench_peak **peak, struct failure *failure)
{
    struct variant variants[MOST_VARIANTS];
    const int count = list_variants(session->capabilities, unit, variants);
    const size_t groups = session->capabilities->type == CLATTN_DEVICE_CPU ? 4 : 32; /* for each compute unit */
    struct bench_peak *best = calloc(1, sizeof *best);
    cl_int code = best ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    for (int i = 0; best && i < count; i++) {
        struct bench_peak tried = {.session = session,
                                   .unit = unit,
                                   .dtype = dtype,
                                   .groups = session->capabilities->compute_units * groups,
                                   .variant = variants[i]};
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
    return fail_code(failure,
                     unit == UNIT_FMA  ? "measuring the peak (cl/peak_fma.cl)"
                     : has_pairs(unit) ? "measuring the peak (cl/peak_dot.cl)"
                                       : "measuring the peak (cl/peak_matrix.cl)",
                     code);
}

void bench_peak_destroy(struct bench_peak **peak)
{
    if (*peak)
        release(*peak);
    free(*peak);
    *peak = NULL;
}
