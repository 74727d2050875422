/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Gradients of capped scores. Kernels may tell by a row's lse that all its scores are far below the cap, and take a
 * polynomial for tanh: here they are, or a few of them are not, or none, on either side. */
#include "support/backward.h"
#include "support/cases.h"
#include "support/course.h"
#include "support/unit.h"

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
static int failures_of(float softcap, course factor, double lower, bool sunk)
{
    int failures = 0;
    for (const struct cla_skeleton *const *skeleton = test_backward_skeletons(); *skeleton; skeleton++) {
        struct forward_case forward = {
            .problem = {.d = D,
                        .d_v = D,
                        .dtype = CLATTN_FP16,
                        .pass = CLATTN_BACKWARD,
                        .skeleton = (*skeleton)->name,
                        .unordered = (*skeleton)->any_order},
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(far_below_the_cap),
        cmocka_unit_test(a_few_up_to_the_cap),
        cmocka_unit_test(all_near_the_lowest),
        cmocka_unit_test(one_lower_than_powers),
    };
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
