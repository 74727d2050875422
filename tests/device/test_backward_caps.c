/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Gradients of capped scores. Kernels may tell by a row's lse that all its scores are far below the cap, and take a
 * polynomial for tanh: here they are, or a few of them are not, or none, on either side. And what tells backward_hopper
 * that scores are low (cl/score/fast/softcap.clh), which only a GPU runs, by itself. */
#include "plan/features/feature.h"
#include "plan/features/softcap.h"
#include "plan/kernel_params.h"
#include "support/backward.h"
#include "support/cases.h"
#include "support/course.h"
#include "support/text.h"
#include "support/unit.h"
#include <math.h>

static struct test_device device;

enum { D = 32, N_Q = 70, N_KV = 300, HEADS = 2 };

static double even(double share)
{
    (void)share;
    return 1.0;
}

/* Three keys of 300 have scores of up to the cap, and more. */
static double peaked(double share)
{
    return share > 0.70 && share < 0.71 ? 12.0 : 1.0;
}

/* One key's scores are so low that the powers of a polynomial, and 1 - tanh^2 by it, are infinite. */
enum { SUNK = 7 };
static void sink_key(const struct forward_case *forward, struct forward_arrays *arrays)
{
    for (int64_t i = 0; i < HEADS * forward->shape.n_q; i++)
        arrays->q[i * D] = 60.0f;
    for (int64_t i = 0; i < HEADS * N_KV; i++)
        arrays->k[i * D] = i % N_KV == SUNK ? -60000.0f : 0.0f;
}

/* Of each skeleton that takes it. */
static int failures_of_scale(float softcap, float scale, course factor, double lower, bool sunk)
{
    int failures = 0;
    for (const struct cla_skeleton *const *skeleton = test_backward_skeletons(); *skeleton; skeleton++) {
        struct forward_case forward = {
            .problem = {.d = D,
                        .d_v = D,
                        .dtype = CLATTN_FP16,
                        .pass = CLATTN_BACKWARD,
                        .scale = scale,
                        .skeleton = (*skeleton)->name,
                        .unordered = cla_skeleton_describe(*skeleton).any_order},
            .shape = {.batch = 1, .heads = HEADS, .n_q = N_Q, .n_kv = N_KV},
            .spread = 1.0,
            .score = score_typical(),
            .seed = 11,
        };
        struct backward_arrays arrays;
        char text[512];
        case_set_features(&forward, CLATTN_SOFTCAP);
        forward.score.softcap = softcap;
        if (!test_serves(&device, &forward.problem))
            continue;
        assert_true(backward_arrays_make(&forward, &arrays));
        course_of_keys(&forward, &arrays.forward, factor);
        if (lower != 0.0)
            course_add_to_scores(&forward, &arrays.forward, even, -lower);
        if (sunk)
            sink_key(&forward, &arrays.forward);
        const bool right = backward_arrays_refresh(&forward, &arrays) &&
                           backward_run(&device, NULL, &forward, BACKWARD_ALL, &arrays) &&
                           backward_judge(&forward, BACKWARD_ALL, &arrays);
        backward_arrays_free(&arrays);
        if (!right) {
            forward_describe(&forward, text, sizeof text);
            print_error("fails: cap %g, lower by %g: %s\n", (double)softcap, lower, text);
        }
        failures += !right;
    }
    return failures;
}

static int failures_of(float softcap, course factor, double lower, bool sunk)
{
    return failures_of_scale(softcap, 0.0f, factor, lower, sunk);
}

static void far_below_the_cap(void **state)
{
    (void)state;
    assert_int_equal(failures_of(30.0f, even, 0.0, false), 0);
    assert_int_equal(failures_of(1000.0f, even, 0.0, false), 0);
}

static void a_few_up_to_the_cap(void **state)
{
    (void)state;
    assert_int_equal(failures_of(30.0f, peaked, 0.0, false), 0);
    assert_int_equal(failures_of(5.0f, peaked, 0.0, false), 0);
}

static void all_near_the_lowest(void **state)
{
    (void)state;
    assert_int_equal(failures_of(30.0f, even, 12.0, false), 0);
    assert_int_equal(failures_of(30.0f, even, 30.0, false), 0);
}

static void one_lower_than_powers(void **state)
{
    (void)state;
    assert_int_equal(failures_of(30.0f, even, 0.0, true), 0);
}

/* Products of 0 among them, of caps and scales for which there is no polynomial: their slope is still 1. */
static double absent(double share)
{
    return share < 0.5 ? 0.0 : 1.0;
}

static void without_a_polynomial(void **state)
{
    (void)state;
    assert_int_equal(failures_of_scale(30.0f, -0.2f, absent, 0.0, false), 0);
    assert_int_equal(failures_of_scale(1e6f, 0.2f, absent, 0.0, false), 0);
}

static const char defines[] =
    "#define CLATTN_DTYPE 1\n#define CLATTN_D 16\n#define CLATTN_D_V 16\n#define CLATTN_CAUSAL 0\n"
    "#define CLATTN_FEATURES 2\n#define CLATTN_STATE 0\n#define CLATTN_SPLIT 0\n#define CLATTN_STALE_MAX 0\n"
    "#define CLATTN_B_R 16\n#define CLATTN_ROW_TILES 1\n#define CLATTN_WORK_GROUP_SIZE 1\n"
    "#define CLATTN_B_C 32\n#define CLATTN_KEYS 32\n";
static const char *const files[] = {"unit/emulated.clh", "common/splits.clh", "score/fast/dropout.clh",
                                    "score/fast/softcap.clh", NULL};
static const char kernel_text[] =
    "__kernel void cap(__global const float *s, float scale, __global int *low, __global float *out "
    "CLATTN_SCORE_PARAMETERS)\n"
    "{\n"
    "    const clattn_view view = clattn_open(0, 0, 1, 16, 32 CLATTN_SCORE_ARGUMENTS);\n"
    "    clattn_unit_accumulator a[2];\n"
    "    for (int n = 0; n < 2 * UNIT_ELEMENTS; ++n)\n"
    "        a[n / UNIT_ELEMENTS].x[n % UNIT_ELEMENTS] = s[n];\n"
    "    *low = clattn_matrix_caps_are_low(0, a, 2, &view);\n"
    "    for (int n = 0; n < 2 * UNIT_ELEMENTS; ++n) {\n"
    "        float slope;\n"
    "        out[2 * n] = *low ? clattn_matrix_capped(s[n], scale, 1.0f, MATRIX_CAP_LOW, &slope, &view)\n"
    "                          : clattn_matrix_capped(s[n], scale, 1.0f, MATRIX_CAP_NEAR, &slope, &view);\n"
    "        out[2 * n + 1] = slope;\n"
    "    }\n"
    "}\n";

enum { PRODUCTS = 2 * 256 };

static cl_mem buffer_of(size_t bytes, void *from)
{
    cl_int code = CL_SUCCESS;
    const cl_mem buffer = clCreateBuffer(device.context, from ? CL_MEM_COPY_HOST_PTR : 0, bytes, from, &code);
    assert_int_equal(code, CL_SUCCESS);
    return buffer;
}

/* Whether products, the largest of which is `furthest` of the cap, or of which each is, count as low; and what becomes
 * of them. */
static bool are_low(cl_kernel kernel, float scale, float softcap, double furthest, bool all)
{
    static float s[PRODUCTS], out[2 * PRODUCTS];
    const struct cla_score_params params = {.softcap = softcap,
                                            .window_left = -1,
                                            .window_right = -1,
                                            .curve = cla_softcap_curve(scale, softcap),
                                            .polynomial = cla_softcap_polynomial(scale, softcap),
                                            .low = cla_softcap_low(scale, softcap)};
    const size_t one = 1;
    cl_int low = -1;
    for (int n = 0; n < PRODUCTS; n++) {
        const double share = n == 300 ? -furthest : all ? furthest : 0.02 * sin(n);
        s[n] = (float)(share * (double)softcap / (double)scale);
    }
    const cl_mem products = buffer_of(sizeof s, s), said = buffer_of(sizeof low, NULL),
                 results = buffer_of(sizeof out, NULL);
    assert_int_equal(clSetKernelArg(kernel, 0, sizeof products, &products), CL_SUCCESS);
    assert_int_equal(clSetKernelArg(kernel, 1, sizeof scale, &scale), CL_SUCCESS);
    assert_int_equal(clSetKernelArg(kernel, 2, sizeof said, &said), CL_SUCCESS);
    assert_int_equal(clSetKernelArg(kernel, 3, sizeof results, &results), CL_SUCCESS);
    assert_int_equal(clSetKernelArg(kernel, 4, cla_score_params_bytes(), &params), CL_SUCCESS);
    assert_int_equal(clEnqueueNDRangeKernel(device.queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL), CL_SUCCESS);
    assert_int_equal(clEnqueueReadBuffer(device.queue, said, CL_TRUE, 0, sizeof low, &low, 0, NULL, NULL), CL_SUCCESS);
    assert_int_equal(clEnqueueReadBuffer(device.queue, results, CL_TRUE, 0, sizeof out, out, 0, NULL, NULL),
                     CL_SUCCESS);
    for (int n = 0; n < PRODUCTS; n++) {
        const double t = tanh((double)s[n] * (double)scale / (double)softcap);
        if (!(fabs((double)out[2 * n] - (double)softcap * t) <= 1.1e-4 + 1e-6 * (double)softcap) ||
            !(fabs((double)out[2 * n + 1] - (1.0 - t * t)) <= 2e-4))
            fail_msg("scale %g, cap %g, x %g: %g, slope %g", (double)scale, (double)softcap,
                     (double)s[n] * (double)scale / (double)softcap, (double)out[2 * n], (double)out[2 * n + 1]);
    }
    clReleaseMemObject(products);
    clReleaseMemObject(said);
    clReleaseMemObject(results);
    return low != 0;
}

static void low_scores_are_told(void **state)
{
    (void)state;
    static const float caps[] = {5.0f, 30.0f, 50.0f};
    cl_program program = NULL;
    const cl_kernel kernel = test_build_text(&device, defines, files, kernel_text, "cap", &program);
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
        const struct cla_softcap_low low = cla_softcap_low(0.125f, caps[i]);
        const double reach = (double)low.reach * 0.125 / (double)caps[i];
        assert_true(are_low(kernel, 0.125f, caps[i], 0.02, false));
        assert_true(are_low(kernel, 0.125f, caps[i], 0.99 * reach, false));
        assert_true(are_low(kernel, 0.125f, caps[i], 0.99 * reach, true)); /* though their squares sum up to more */
        assert_false(are_low(kernel, 0.125f, caps[i], 1.01 * reach, false));
        assert_false(are_low(kernel, 0.125f, caps[i], 5.0, false));
        assert_false(are_low(kernel, 0.125f, caps[i], 5.0, true));
    }
    assert_false(are_low(kernel, -0.125f, 30.0f, 0.0, true)); /* no polynomial, and a slope of 1 all the same */
    assert_false(are_low(kernel, 0.125f, 1e6f, 0.0, true));
    clReleaseKernel(kernel);
    clReleaseProgram(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(far_below_the_cap),    cmocka_unit_test(a_few_up_to_the_cap),
        cmocka_unit_test(all_near_the_lowest),  cmocka_unit_test(one_lower_than_powers),
        cmocka_unit_test(without_a_polynomial), cmocka_unit_test(low_scores_are_told),
    };
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
