/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Score modifications on plain arrays: forward as a whole and in pieces, and backward, against the float64 reference.
 */
#include "support/backward.h"
#include "support/cases.h"
#include "support/unit.h"

static struct test_device device;
static struct random chance;

enum { EVERYTHING = (1 << CASE_FEATURES) - 1, MOST_WORK = 1 << 19 };

/* Whatever kernel the planner chooses: the kernels have tests of their own. */
static struct forward_case case_of(unsigned features)
{
    struct forward_case forward = case_random(&chance, features, MOST_WORK);
    forward.path = PATH_HOST;
    return forward;
}

static unsigned features_of(int n)
{
    return n < CASE_FEATURES ? 1u << n : case_random_features(&chance, 3, EVERYTHING);
}

static void forward_as_a_whole(void **state)
{
    (void)state;
    int failures = 0;
    for (int n = 0; n < CASE_FEATURES + 4; n++) {
        const struct forward_case forward = case_of(features_of(n));
        failures += !forward_check(&device, &forward);
    }
    assert_int_equal(failures, 0);
}

static void forward_in_pieces(void **state)
{
    (void)state;
    static const int64_t chunks[] = {1000, 64, 50, 17};
    int failures = 0;
    for (int n = 0; n < 8; n++) {
        struct forward_case forward = case_of(features_of(n < 2 ? n : CASE_FEATURES) | (n == 3 ? CLATTN_VARLEN : 0));
        forward.kv_chunk = chunks[n % 4];
        failures += !forward_check(&device, &forward);
    }
    assert_int_equal(failures, 0);
}

static void backward(void **state)
{
    (void)state;
    int failures = 0;
    for (int n = 0; n < 6; n++) {
        const unsigned sums = n == 0 ? CLATTN_BIAS | CLATTN_SINKS : 0;
        const struct forward_case forward = case_of(features_of(CASE_FEATURES) | sums);
        failures += !backward_check(&device, &forward, BACKWARD_ALL);
    }
    assert_int_equal(failures, 0);
}

static void backward_in_pieces(void **state)
{
    (void)state;
    static const int64_t chunks[] = {64, 1000, 50, 17};
    static const unsigned sums[] = {CLATTN_BIAS | CLATTN_SINKS, CLATTN_VARLEN | CLATTN_BIAS, 0, 0};
    int failures = 0;
    for (int n = 0; n < 4; n++) {
        struct forward_case forward = case_of(features_of(CASE_FEATURES) | sums[n]);
        forward.problem.dtype = (enum clattn_dtype)(n % 3);
        forward.kv_chunk = chunks[n];
        failures += !backward_check(&device, &forward, BACKWARD_ALL);
    }
    assert_int_equal(failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(forward_as_a_whole), cmocka_unit_test(forward_in_pieces),
                                       cmocka_unit_test(backward), cmocka_unit_test(backward_in_pieces)};
    test_device_open(&device);
    chance.state = case_seed();
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
