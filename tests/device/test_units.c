/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The skeletons over fragments that are not NVIDIA's: emulated units whose lanes have one column of an accumulator, in
 * sub-groups of 32 and of 64; and Intel's, of 8 and of 16, whose products are executed by the hardware's lane maps.
 * Modifications of the scores alone, in both directions, against the float64 reference (none, and all at once, which
 * PoCL compiles for a minute, wait for CLATTN_TEST_FULL, as do two that take it nearly as long by themselves). The
 * argument names the lanes. */
#include "support/backward.h"
#include "support/cases.h"
#include "support/compare.h"
#include "support/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct test_device device;
static struct random chance;
static int lanes;
static char forward_knobs[64], backward_knobs[128];

enum { MOST_WORK = 1 << 16, EVERYTHING = (1 << CASE_FEATURES) - 1, PIECE = 16, WIDTHS = 4 };

/* Programs take seconds, so that each runs two shapes; head dimensions of one piece and two. */
static struct forward_case small_case(unsigned features, int number)
{
    struct forward_case forward = case_random(&chance, features, MOST_WORK);
    forward.problem.d = forward.problem.d_v = number % 3 ? PIECE : 2 * PIECE - 5;
    forward.problem.dtype = number % 2 ? CLATTN_BF16 : CLATTN_FP16;
    forward.problem.b_r = number % 2 ? PIECE : 2 * PIECE;
    forward.problem.b_c = number % 2 ? 2 * PIECE : PIECE;
    case_vary(&chance, MOST_WORK, &forward);
    return forward;
}

static bool check_forward(struct forward_case forward)
{
    bool right = true;
    forward.problem.skeleton = "forward_matrix_emulated";
    forward.problem.knobs = forward_knobs;
    for (int n = 0; n < 2; n++) {
        right = forward_check(&device, &forward) && right;
        case_vary(&chance, MOST_WORK, &forward);
    }
    return right;
}

static bool check_backward(struct forward_case forward)
{
    bool right = true;
    forward.problem.skeleton = "backward_matrix_emulated";
    forward.problem.knobs = backward_knobs;
    for (int n = 0; n < 2; n++) {
        right = backward_check(&device, &forward, BACKWARD_ALL) && right;
        case_vary(&chance, MOST_WORK, &forward);
    }
    return right;
}

/* Of the features alone every fourth one, from `first` on: each width takes a quarter of them in either direction, and
 * all with CLATTN_TEST_FULL. One of them is dear: it takes PoCL 41 s to compile where others take 2 to 6. */
static int failures_of(bool (*check)(struct forward_case forward), int first, unsigned dear)
{
    int failures = test_is_full() ? !check(small_case(0, 1)) + !check(small_case(EVERYTHING, 2)) : 0;
    for (int n = 0; n < CASE_FEATURES; n++)
        if (test_is_full() || (n % WIDTHS == first && 1u << n != dear))
            failures += !check(small_case(1u << n, n / 2));
    return failures;
}

/* Which of the widths is this test's, counted from `first`: a feature meets one forward, and another backward. */
static int width_number(int first)
{
    static const int widths[WIDTHS] = {64, 32, 16, 8};
    int number = 0;
    while (number < WIDTHS && widths[number] != lanes)
        number++;
    return (number + first) % WIDTHS;
}

static void every_feature_forward(void **state)
{
    (void)state;
    assert_int_equal(failures_of(check_forward, width_number(0), CLATTN_SOFTCAP), 0);
}

static void every_feature_backward(void **state)
{
    (void)state;
    assert_int_equal(failures_of(check_backward, width_number(1), CLATTN_BLOCK_MASK), 0);
}

/* A number of lanes that no emulation has, and rows that one sub-group does not hold. */
static void other_lanes_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *knobs;
        int b_r;
    } rows[] = {{"lanes=63", 16}, {"lanes=64", 128}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct clattn_problem problem = {.d = 16,
                                         .dtype = CLATTN_FP16,
                                         .skeleton = "forward_matrix_emulated",
                                         .knobs = rows[i].knobs,
                                         .b_r = rows[i].b_r,
                                         .b_c = 16};
        clattn_plan *plan = NULL;
        assert_int_equal(clattn_plan_create(&plan, device.clattn, &problem), CLATTN_NOTHING_FITS);
        assert_non_null(strstr(clattn_error_message(), rows[i].knobs));
    }
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_feature_forward),
        cmocka_unit_test(every_feature_backward),
        cmocka_unit_test(other_lanes_are_refused),
    };
    lanes = count > 1 ? atoi(arguments[1]) : 64;
    snprintf(forward_knobs, sizeof forward_knobs, "lanes=%d stale_max=0 keys=16", lanes);
    snprintf(backward_knobs, sizeof backward_knobs,
             "lanes=%d dq_moving=16 dq_slice=16 dk_dv_moving=16 dk_dv_slice=16 dk_dv_split=1", lanes);
    test_device_open(&device);
    chance.state = case_seed();
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
