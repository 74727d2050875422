/* SPDX-License-Identifier: BSD-2-Clause
 *
 * O in fp32 beside arrays of 16 bits (problem.o_type): every forward skeleton writes it, however its work is divided,
 * and gradients that are taken from it do not have O's rounding. */
#include "support/backward.h"
#include "support/cases.h"
#include "support/state.h"
#include "support/turn.h"
#include "support/unit.h"
#include <clattn/standard.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct test_device device;

static struct forward_case case_of(enum clattn_dtype dtype, unsigned features)
{
    struct forward_case forward = {.problem = {.dtype = dtype, .o_type = CLATTN_AS_FP32, .d = 24, .d_v = 40},
                                   .shape = {.batch = 2, .heads = 4, .kv_heads = 2, .n_q = 37, .n_kv = 90},
                                   .score = score_typical(),
                                   .seed = 5};
    case_set_features(&forward, features);
    return forward;
}

static bool check_forward(struct forward_case forward, const struct cla_skeleton *skeleton, int splits)
{
    forward.problem.skeleton = skeleton->name;
    forward.problem.splits = splits;
    const bool serves = forward.kv_chunk ? state_serves(&device, forward.problem) /* a pass for each chunk */
                                         : test_serves(&device, &forward.problem);
    return !serves || forward_check(&device, &forward);
}

/* With the rows of O apart from each other, and its columns. */
static struct forward_case scattered(enum clattn_dtype dtype)
{
    struct forward_case forward = case_of(dtype, CLATTN_MASK);
    forward.o = (struct clattn_layout){.offset = 7, .batch = 1, .head = 2, .row = 2 * 4 * 40, .column = 8};
    return forward;
}

static void every_forward_skeleton(void **state)
{
    (void)state;
    int failures = 0;
    for (const struct cla_skeleton *const *skeleton = test_skeletons(); *skeleton; skeleton++) {
        struct forward_case in_pieces = case_of(CLATTN_BF16, CLATTN_VARLEN | CLATTN_SINKS);
        in_pieces.path = PATH_HOST;
        in_pieces.kv_chunk = 40;
        failures += !check_forward(case_of(CLATTN_BF16, 0), *skeleton, 1);
        if (!test_is_turn_of(*skeleton, __func__))
            continue;
        failures += !check_forward(scattered(CLATTN_FP16), *skeleton, 1);
        failures += !check_forward(case_of(CLATTN_FP16, CLATTN_VARLEN | CLATTN_SINKS), *skeleton, 3);
        failures += !check_forward(in_pieces, *skeleton, 1);
    }
    assert_int_equal(failures, 0);
}

static void standard_attention(void **state)
{
    (void)state;
    for (int dtype = CLATTN_FP16; dtype <= CLATTN_BF16; dtype++) {
        struct forward_case dense = case_of((enum clattn_dtype)dtype, 0), apart = dense, empty = dense;
        apart.o = scattered((enum clattn_dtype)dtype).o;
        empty.shape.n_kv = 0;
        dense.path = apart.path = empty.path = PATH_STANDARD;
        assert_true(forward_check(&device, &dense));
        assert_true(forward_check(&device, &apart));
        assert_true(forward_check(&device, &empty));
    }
}

static void every_backward_skeleton(void **state)
{
    (void)state;
    int failures = 0;
    for (const struct cla_skeleton *const *skeleton = test_backward_skeletons(); *skeleton; skeleton++) {
        struct forward_case forward = case_of(CLATTN_BF16, CLATTN_VARLEN | CLATTN_SINKS);
        struct clattn_problem problem = forward.problem;
        problem.skeleton = forward.problem.skeleton = (*skeleton)->name;
        problem.unordered = forward.problem.unordered = cla_skeleton_describe(*skeleton).any_order;
        problem.pass = CLATTN_BACKWARD;
        failures += test_serves(&device, &problem) && !backward_check(&device, &forward, BACKWARD_ALL);
        if (!test_is_turn_of(*skeleton, __func__))
            continue;
        problem.pass = CLATTN_BACKWARD_ACCUMULATE;
        forward.kv_chunk = 40;
        failures += test_serves(&device, &problem) && !backward_check(&device, &forward, BACKWARD_ALL);
    }
    assert_int_equal(failures, 0);
}

enum { N = 200, D = 40 };

static uint16_t q[N * D], k[N * D], v[N * D], d_o[N * D], d_q[N * D], d_k[N * D], d_v[N * D];
static float o[N * D], m[N], l[N], sinks[1] = {0.5f};

static float widened(uint16_t bits)
{
    const uint32_t word = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static void fill(uint16_t *values, unsigned seed)
{
    for (int i = 0; i < N * D; i++) {
        seed = seed * 1664525u + 1013904223u;
        const float value = ((float)(seed >> 8) / 8388608.0f - 1.0f) * 1.7f;
        uint32_t word;
        memcpy(&word, &value, sizeof word);
        values[i] = (uint16_t)(word >> 16);
    }
}

static void fill_all(void)
{
    fill(q, 1);
    fill(k, 2);
    fill(v, 3);
    fill(d_o, 4);
}

/* dK's largest error, where each row sees its own key and a sink alone. With P the key's weight, dP = dO . v:
 *     dS = P (dP - P dP),  dK = scale dS q */
static double error_of_d_k(double *largest)
{
    double most = 0;
    *largest = 0;
    for (int i = 0; i < N; i++) {
        double score = 0, d_p = 0;
        for (int x = 0; x < D; x++) {
            score += (double)widened(q[i * D + x]) * (double)widened(k[i * D + x]);
            d_p += (double)widened(d_o[i * D + x]) * (double)widened(v[i * D + x]);
        }
        const double scale = 1 / sqrt(D), weight = 1 / (1 + exp((double)sinks[0] - scale * score));
        for (int x = 0; x < D; x++) {
            const double truth = scale * weight * (1 - weight) * d_p * (double)widened(q[i * D + x]);
            most = fmax(most, fabs((double)widened(d_k[i * D + x]) - truth));
            *largest = fmax(*largest, fabs(truth));
        }
    }
    return most;
}

static void assert_success(clattn_status status)
{
    if (status)
        fail_msg("%s: %s", clattn_status_name(status), clattn_error_message());
}

static double error_with(const char *knobs, enum clattn_operand_type o_type, const char *forward, const char *backward,
                         double *largest)
{
    struct clattn_problem problem = {.dtype = CLATTN_BF16,
                                     .o_type = o_type,
                                     .d = D,
                                     .features = CLATTN_WINDOW | CLATTN_SINKS,
                                     .skeleton = forward,
                                     .knobs = knobs};
    const struct clattn_shape shape = {1, 1, 1, N, N};
    const struct clattn_host_score_args score = {.sinks = sinks};
    const struct clattn_host_forward_args first = {
        .shape = shape, .q = q, .k = k, .v = v, .o = o, .m = m, .l = l, .score = score};
    const struct clattn_host_backward_args second = {.shape = shape,
                                                     .q = q,
                                                     .k = k,
                                                     .v = v,
                                                     .o = o,
                                                     .d_o = d_o,
                                                     .m = m,
                                                     .l = l,
                                                     .d_q = d_q,
                                                     .d_k = d_k,
                                                     .d_v = d_v,
                                                     .score = score};
    clattn_host *host = NULL;
    assert_success(clattn_host_create(&host, &(struct clattn_host_params){.context = device.clattn}));
    assert_success(clattn_host_forward(host, &problem, &first));
    problem.pass = CLATTN_BACKWARD;
    problem.skeleton = backward;
    assert_success(clattn_host_backward(host, &problem, &second));
    clattn_host_destroy(&host);
    return error_of_d_k(largest);
}

static double gradient_error(enum clattn_operand_type o_type, const char *forward, const char *backward,
                             double *largest)
{
    return error_with(NULL, o_type, forward, backward, largest);
}

/* The kernels that do not round weights leave of dK nothing but its own rounding. So they do with O in bf16, whose
 * rounding cl/common/delta.clh takes out of delta. */
static void gradients_have_no_rounding_of_o(void **state)
{
    (void)state;
    double largest, rounded;
    fill_all();
    const double exact = gradient_error(CLATTN_AS_FP32, "forward_simt", "backward_simt", &largest);
    if (!(exact <= 0x1p-8 * largest))
        fail_msg("O in fp32: dK is off by %g, and its largest value is %g", exact, largest);
    rounded = gradient_error(CLATTN_AS_DTYPE, "forward_simt", "backward_simt", &largest);
    if (!(rounded <= 0x1p-8 * largest))
        fail_msg("O in bf16: dK is off by %g, and its largest value is %g", rounded, largest);
    if (!test_is_for(&cla_forward_cpu) || !test_is_for(&cla_backward_cpu))
        return;
    assert_true(error_with("dot=0", CLATTN_AS_FP32, "forward_cpu", "backward_cpu", &largest) <= 0x1p-8 * largest);
    /* Pairs of bf16 round P and dS. */
    assert_true(error_with("dot=2", CLATTN_AS_FP32, "forward_cpu", "backward_cpu", &largest) <= 0x1p-7 * largest);
}

/* The kernels on matrix units take delta from O as it is. */
static void gradients_want_an_exact_o(void **state)
{
    (void)state;
    static const char *const families[][2] = {{"forward_matrix_emulated", "backward_matrix_emulated"},
                                              {"forward_matrix", "backward_matrix"},
                                              {"forward_hopper", "backward_hopper"}};
    fill_all();
    sinks[0] = -6; /* a row's own key has nearly all its weight, so that dP - delta is little beside them */
    EACH (f, families) {
        const struct clattn_problem problem = {
            .dtype = CLATTN_BF16, .d = D, .pass = CLATTN_BACKWARD, .skeleton = families[f][1]};
        double largest;
        if (!test_serves(&device, &problem))
            continue;
        const double exact = gradient_error(CLATTN_AS_FP32, families[f][0], families[f][1], &largest),
                     rounded = gradient_error(CLATTN_AS_DTYPE, families[f][0], families[f][1], &largest);
        if (!(exact <= 0x1p-7 * largest) || !(rounded > 4 * exact))
            fail_msg("%s: dK, whose largest value is %g, is off by %g with O in fp32, by %g with O in bf16",
                     families[f][1], largest, exact, rounded);
    }
}

static void what_is_no_type(void **state)
{
    (void)state;
    const struct clattn_problem problem = {.dtype = CLATTN_BF16, .d = 64, .o_type = (enum clattn_operand_type)7};
    clattn_plan *plan = NULL;
    assert_int_equal(clattn_plan_create(&plan, device.clattn, &problem), CLATTN_INVALID_TYPE);
    assert_non_null(strstr(clattn_error_message(), "problem.o_type is 7"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_forward_skeleton),    cmocka_unit_test(standard_attention),
        cmocka_unit_test(every_backward_skeleton),   cmocka_unit_test(gradients_have_no_rounding_of_o),
        cmocka_unit_test(gradients_want_an_exact_o), cmocka_unit_test(what_is_no_type),
    };
    test_device_open(&device);
    const int failures = cmocka_run_group_tests_name("o_type", tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
