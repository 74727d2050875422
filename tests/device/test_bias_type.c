/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A bias of a type of its own (problem.bias_type): numbers that all types hold give the same bits in each of them, in
 * every skeleton and both directions. */
#include "plan/half.h"
#include "support/device.h"
#include "support/turn.h"
#include "support/unit.h"
#include <string.h>

enum { N = 35, D = 16, HEADS = 2, ELEMENTS = HEADS * N * D, PAIRS = HEADS * N * N };

static struct test_device device;

static struct {
    uint16_t q[ELEMENTS], k[ELEMENTS], v[ELEMENTS], o[ELEMENTS], d_o[ELEMENTS];
    float m[HEADS * N], l[HEADS * N];
    uint16_t half[PAIRS], upper[PAIRS];
    float whole[PAIRS];
} arrays;

struct results {
    uint16_t o[ELEMENTS], d_q[ELEMENTS], d_bias[PAIRS];
};

/* Quarters from -4 to 4, and numbers of fp16 for the rest. */
static void fill(void)
{
    for (int i = 0; i < PAIRS; i++) {
        arrays.whole[i] = (float)(i * 7 % 33 - 16) / 4;
        arrays.half[i] = cla_half_from_float(arrays.whole[i]);
        arrays.upper[i] = cla_bf16_from_float(arrays.whole[i]);
    }
    for (int i = 0; i < ELEMENTS; i++) {
        arrays.q[i] = cla_half_from_float((float)(i % 13 - 6) / 4);
        arrays.k[i] = cla_half_from_float((float)(i % 11 - 5) / 4);
        arrays.v[i] = cla_half_from_float((float)(i % 7 - 3) / 2);
        arrays.d_o[i] = cla_half_from_float((float)(i % 5 - 2) / 2);
    }
}

static const void *bias_of(int64_t type)
{
    return type == CLATTN_AS_FP32 ? (const void *)arrays.whole : type == CLATTN_AS_BF16 ? arrays.upper : arrays.half;
}

static struct clattn_problem problem_of(const struct cla_skeleton *skeleton, int64_t type)
{
    return (struct clattn_problem){.pass = skeleton->backward ? CLATTN_BACKWARD : CLATTN_FORWARD,
                                   .dtype = CLATTN_FP16,
                                   .d = D,
                                   .features = CLATTN_BIAS,
                                   .bias_type = type,
                                   .unordered = strstr(skeleton->name, "fused") != NULL,
                                   .skeleton = skeleton->name};
}

static clattn_status compute(const struct cla_skeleton *skeleton, int64_t type, struct results *results)
{
    const struct clattn_problem problem = problem_of(skeleton, type);
    const struct clattn_shape shape = {.batch = 1, .heads = HEADS, .n_q = N, .n_kv = N};
    const struct clattn_host_score_args score = {.bias = bias_of(type)};
    const struct clattn_host_params params = {.context = device.clattn, .queue = device.queue};
    clattn_host *host = NULL;
    clattn_status status = clattn_host_create(&host, &params);
    const struct clattn_host_forward_args forward = {.shape = shape,
                                                     .q = arrays.q,
                                                     .k = arrays.k,
                                                     .v = arrays.v,
                                                     .o = results->o,
                                                     .m = arrays.m,
                                                     .l = arrays.l,
                                                     .score = score};
    const struct clattn_host_backward_args backward = {.shape = shape,
                                                       .q = arrays.q,
                                                       .k = arrays.k,
                                                       .v = arrays.v,
                                                       .o = arrays.o,
                                                       .d_o = arrays.d_o,
                                                       .m = arrays.m,
                                                       .l = arrays.l,
                                                       .d_q = results->d_q,
                                                       .d_bias = results->d_bias,
                                                       .score = score};
    if (!status)
        status = skeleton->backward ? clattn_host_backward(host, &problem, &backward)
                                    : clattn_host_forward(host, &problem, &forward);
    clattn_host_destroy(&host);
    return status;
}

static int compare(const struct cla_skeleton *skeleton)
{
    static struct results expected, got;
    const struct clattn_problem problem = problem_of(skeleton, CLATTN_AS_DTYPE);
    int failures = 0;
    if (!test_serves(&device, &problem))
        return 0;
    memset(&expected, 0xff, sizeof expected);
    failures += !test_succeeded(compute(skeleton, CLATTN_AS_DTYPE, &expected), skeleton->name);
    if (!skeleton->backward)
        memcpy(arrays.o, expected.o, sizeof arrays.o);
    for (int64_t type = CLATTN_AS_FP32; type <= CLATTN_AS_BF16; type++) {
        memset(&got, 0xff, sizeof got);
        failures += !test_succeeded(compute(skeleton, type, &got), skeleton->name);
        if (problem.unordered) /* sums in any order */
            memcpy(got.d_q, expected.d_q, sizeof got.d_q);
        if (memcmp(&expected, &got, sizeof got) == 0)
            continue;
        print_message("%s: a bias of type %d gives other bits\n", skeleton->name, (int)type);
        failures++;
    }
    return failures;
}

static void every_skeleton(void **state)
{
    (void)state;
    int failures = 0;
    for (const struct cla_skeleton *const *skeleton = test_skeletons(); *skeleton; skeleton++)
        failures += test_is_turn_of(*skeleton, __func__) ? compare(*skeleton) : 0;
    for (const struct cla_skeleton *const *skeleton = test_backward_skeletons(); *skeleton; skeleton++)
        failures += test_is_turn_of(*skeleton, __func__) ? compare(*skeleton) : 0;
    assert_int_equal(failures, 0);
}

static void wrong_types(void **state)
{
    (void)state;
    struct clattn_problem problem = {.d = D, .features = CLATTN_BIAS, .bias_type = 99};
    clattn_plan *plan = NULL;
    assert_int_equal(clattn_plan_create(&plan, device.clattn, &problem), CLATTN_INVALID_TYPE);
    assert_non_null(strstr(clattn_error_message(), "problem.bias_type is 99: it is CLATTN_AS_DTYPE (0)"));
    problem.bias_type = CLATTN_AS_FP16;
    problem.features = 0;
    assert_int_equal(clattn_plan_create(&plan, device.clattn, &problem), CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(clattn_error_message(), "problem.features has no CLATTN_BIAS"));
}

int main(void)
{
    fill();
    test_device_open(&device);
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_skeleton), cmocka_unit_test(wrong_types)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failed;
}
