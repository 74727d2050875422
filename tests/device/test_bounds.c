/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a forward kernel takes its exponents from while it goes through the keys: scores that rise and fall from tile to
 * tile, slowly and all at once, beyond what a type holds, up to a cap and far beyond it; with m and l and without, as
 * kernels may try the bounds of the tile before only where nobody asks for a row's largest score. The argument names
 * the skeleton. */
#include "support/cases.h"
#include "support/compare.h"
#include "support/course.h"
#include "support/unit.h"
#include <math.h>
#include <stdio.h>

static struct test_device device;
static const struct cla_skeleton *skeleton;

enum { D = 32, N_Q = 70, N_KV = 700, HEADS = 2 };

static double even(double share)
{
    (void)share;
    return 1.0;
}

static double rising(double share)
{
    return 0.05 + 12.0 * share;
}

static double falling(double share)
{
    return 12.0 - 11.5 * share;
}

/* Not by so much that weights leave a type, but beyond 0.4 of a cap, where another formula has to begin. */
static double creeping(double share)
{
    return 1.0 + 2.2 * share;
}

/* Small for long; then all at once large enough for weights by the old bounds to leave fp16, and float. */
static double jumping(double share)
{
    return share < 0.5 ? 0.1 : share < 0.8 ? 8.0 : 60.0;
}

static double peaked(double share)
{
    return share > 0.70 && share < 0.71 ? 400.0 : 0.5;
}

static struct forward_case bounded_case(unsigned features, double spread)
{
    struct forward_case forward = {
        .problem = {.d = D, .d_v = D, .skeleton = skeleton->name},
        .shape = {.batch = 1, .heads = HEADS, .n_q = N_Q, .n_kv = N_KV},
        .spread = spread,
        .score = score_typical(),
        .seed = 8,
    };
    case_set_features(&forward, features);
    return forward;
}

/* The first and the end of the ways to bounds to run (test_knobs): the planned one of an emulation, whose kernels take
 * seconds to compile, runs in many other tests. */
static int first_way(void)
{
    return skeleton->emulated ? 1 : 0;
}

static int end_of_ways(void)
{
    return test_knobs(skeleton, 1) ? 2 : 1;
}

/* With each way to bounds that the skeleton has. term, times `times`: what is added to the scores; NULL: nothing. */
static int failures_of_moved(struct forward_case forward, course factor, course term, double times)
{
    int failures = 0;
    char text[512];
    for (int n = first_way(); n < end_of_ways(); n++) {
        struct forward_arrays arrays;
        forward.problem.knobs = test_knobs(skeleton, n);
        assert_true(forward_arrays_make(&forward, &arrays));
        course_of_keys(&forward, &arrays, factor);
        if (term)
            course_add_to_scores(&forward, &arrays, term, times);
        const bool right = forward_holds(&device, &forward, &arrays);
        forward_arrays_free(&arrays);
        if (!right) {
            forward_describe(&forward, text, sizeof text);
            print_error("fails: %s\n", text);
        }
        failures += !right;
    }
    return failures;
}

static int failures_of(struct forward_case forward, course factor)
{
    return failures_of_moved(forward, factor, NULL, 0.0);
}

static const course courses[] = {even, rising, falling, creeping, jumping, peaked};
enum { COURSES = sizeof courses / sizeof *courses };

static void scores_of_all_courses(void **state)
{
    (void)state;
    static const double spreads[] = {0.3, 3.0, 30.0};
    int failures = 0;
    for (int i = 0; i < COURSES; i++)
        for (size_t n = 0; n < sizeof spreads / sizeof *spreads; n++) {
            struct forward_case forward = bounded_case(0, spreads[n]);
            forward.problem.dtype = CLATTN_FP16;
            failures += failures_of(forward, courses[i]);
        }
    assert_int_equal(failures, 0);
}

static void hidden_pairs(void **state)
{
    (void)state;
    int failures = 0;
    for (int i = 0; i < COURSES; i++) {
        struct forward_case forward = bounded_case(CLATTN_WINDOW, 3.0);
        forward.problem.dtype = CLATTN_BF16;
        forward.problem.causal = CLATTN_CAUSAL_BOTTOM_RIGHT;
        forward.score.window_left = 400;
        failures += failures_of(forward, courses[i]);
    }
    assert_int_equal(failures, 0);
}

/* Far below the cap, and then up to it and beyond, on either side. */
static void caps(void **state)
{
    (void)state;
    static const float caps[] = {1000.0f, 50.0f, 30.0f, 25.0f, 5.0f};
    int failures = 0;
    for (size_t n = 0; n < sizeof caps / sizeof *caps; n++)
        for (int i = 0; i < COURSES; i++) {
            struct forward_case forward = bounded_case(CLATTN_SOFTCAP, 1.0);
            forward.problem.dtype = CLATTN_FP16;
            forward.score.softcap = caps[n];
            failures += failures_of(forward, courses[i]);
        }
    assert_int_equal(failures, 0);
}

/* From where a row's bound is a quarter of a cap of 30 to where scores are 0.46 of it, whose weights by that bound fp16
 * still holds: they are not for the formula of scores far below the cap, by which lse is wrong by 0.001. */
static double climbing(double share)
{
    return share < 0.4 ? 7.8 : fmin(13.8, 7.8 + 21.0 * (share - 0.4));
}

/* All scores of a row well below 0, or above. */
static void caps_of_moved_scores(void **state)
{
    (void)state;
    struct forward_case forward = bounded_case(CLATTN_SOFTCAP, 1.0);
    forward.problem.dtype = CLATTN_FP16;
    forward.score.softcap = 30.0f;
    int failures = failures_of_moved(forward, even, even, -13.0) + failures_of_moved(forward, even, even, -24.0);
    forward.spread = 0.3;
    failures += failures_of_moved(forward, even, climbing, 1.0);
    assert_int_equal(failures, 0);
}

static double much_larger(double share)
{
    (void)share;
    return 0x1p13;
}

/* Rows of Q so small that fp16 has few bits left for them, and none if they were made smaller, and K as much larger. */
static void caps_of_small_queries(void **state)
{
    (void)state;
    int failures = 0;
    for (int dtype = CLATTN_FP16; dtype <= CLATTN_BF16; dtype++) {
        struct forward_case forward = bounded_case(CLATTN_SOFTCAP, 2.0);
        struct forward_arrays arrays;
        forward.problem.dtype = (enum clattn_dtype)dtype;
        forward.score.softcap = 30.0f;
        forward.problem.knobs = test_knobs(skeleton, first_way());
        assert_true(forward_arrays_make(&forward, &arrays));
        course_of_keys(&forward, &arrays, much_larger);
        for (int i = 0; i < HEADS * N_Q * D; i++)
            arrays.q[i] = reference_round(forward.problem.dtype, arrays.q[i] * 0x1p-14f);
        failures += !forward_holds(&device, &forward, &arrays);
        forward_arrays_free(&arrays);
    }
    assert_int_equal(failures, 0);
}

static void penalties_and_dropout(void **state)
{
    (void)state;
    int failures = 0;
    for (int i = 0; i < COURSES; i++) {
        struct forward_case forward = bounded_case(CLATTN_ALIBI | CLATTN_DROPOUT, 3.0);
        forward.problem.dtype = CLATTN_FP16;
        failures += failures_of(forward, courses[i]);
    }
    assert_int_equal(failures, 0);
}

enum { SPOILT = 500 }; /* a key, and the first row that sees it */

/* Rows that see a key of NaN have nothing else for results, and those before are what they would be without it. */
static void check_spoilt(const struct forward_case *forward, bool without_m)
{
    struct forward_arrays clean, spoilt;
    assert_true(forward_arrays_make(forward, &clean) && forward_arrays_make(forward, &spoilt));
    for (int c = 0; c < D; c++)
        spoilt.k[SPOILT * D + c] = NAN;
    clean.without_m = spoilt.without_m = without_m;
    assert_true(forward_run(&device, NULL, forward, &clean) && forward_run(&device, NULL, forward, &spoilt));
    assert_true(compare_close("o", spoilt.o, clean.o, (size_t)SPOILT * D, 0.02));
    assert_true(compare_close("lse", spoilt.lse, clean.lse, SPOILT, 1e-4));
    for (int64_t i = SPOILT; i < N_KV; i++)
        assert_true(isnan(spoilt.lse[i]) && isnan(spoilt.o[i * D]));
    forward_arrays_free(&clean);
    forward_arrays_free(&spoilt);
}

static void late_nan(void **state)
{
    (void)state;
    for (int n = first_way(); n < end_of_ways(); n++) {
        struct forward_case forward = bounded_case(0, 1.0);
        forward.problem.dtype = CLATTN_BF16;
        forward.problem.causal = CLATTN_CAUSAL_TOP_LEFT;
        forward.shape.n_q = N_KV;
        forward.shape.heads = 1;
        forward.problem.knobs = test_knobs(skeleton, n);
        check_spoilt(&forward, false);
        check_spoilt(&forward, true);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_of_all_courses),
        cmocka_unit_test(hidden_pairs),
        cmocka_unit_test(caps),
        cmocka_unit_test(caps_of_moved_scores),
        cmocka_unit_test(caps_of_small_queries),
        cmocka_unit_test(penalties_and_dropout),
        cmocka_unit_test(late_nan),
    };
    skeleton = test_device_open_for(&device, argc, argv);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
