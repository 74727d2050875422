/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Every modification of the scores, alone and with others, in the backward pass, against the float64 reference under
 * FlashAttention's gradient rule. A turn takes half of what is not all of them at once. */
#include "support/backward.h"
#include "support/cases.h"
#include "support/turn.h"
#include "support/unit.h"

static struct test_device device;
static struct random chance;

enum { MOST_WORK = 1 << 19, EVERYTHING = (1 << CASE_FEATURES) - 1 };

static bool check(struct forward_case forward, const struct cla_skeleton *skeleton, unsigned wanted)
{
    struct clattn_problem problem = forward.problem;
    problem.skeleton = forward.problem.skeleton = skeleton->name;
    problem.unordered = forward.problem.unordered = cla_skeleton_describe(skeleton).any_order;
    problem.pass = CLATTN_BACKWARD;
    return !test_serves(&device, &problem) || backward_check(&device, &forward, wanted);
}

static bool at_home(const struct cla_skeleton *skeleton)
{
    return test_takes(&device, skeleton, 1, 2);
}

static bool check_shapes(struct forward_case forward, const struct cla_skeleton *skeleton, bool taken)
{
    bool right = true;
    for (int n = 0; n < 3; n++) {
        right = (!taken || check(forward, skeleton, BACKWARD_ALL)) && right;
        case_vary(&chance, MOST_WORK, &forward);
    }
    return right;
}

/* Where a skeleton is not at home its compilation is the price: one set of three features, with small head dimensions.
 */
static int failures_of(int features, int count)
{
    int failures = 0, number = 0;
    for (const struct cla_skeleton *const *skeleton = test_backward_skeletons(); *skeleton; skeleton++, number++)
        for (int n = 0; n < count; n++) {
            const unsigned wanted =
                features == 1 ? 1u << n % CASE_FEATURES : case_random_features(&chance, features, EVERYTHING);
            struct forward_case forward = case_random(&chance, wanted, MOST_WORK);
            if (!at_home(*skeleton)) {
                forward.problem.d = forward.problem.d_v = 32;
                case_vary(&chance, MOST_WORK, &forward);
            }
            const bool home = at_home(*skeleton);
            const bool taken = features == CASE_FEATURES || test_is_turn(home ? n + features : number, 2);
            if (home || (features == 3 && n == 0))
                failures += !check_shapes(forward, *skeleton, taken);
        }
    return failures;
}

/* An emulation is at home nowhere: of each feature one emulation takes tiles of 64 columns or of 128, by turns, which
 * the seed begins; of all all take both, as far as time does not count. */
static int failures_of_emulations(void)
{
    static const int dimensions[] = {32, 72};
    const int first = (int)random_below(&chance, 2);
    int failures = 0, number = 0;
    for (const struct cla_skeleton *const *skeleton = test_backward_skeletons(); *skeleton;
         number += (*skeleton++)->emulated)
        for (int n = 0; (*skeleton)->emulated && n < 2 * CASE_FEATURES; n++) {
            if (!test_is_full() && ((first + n / 2) % 2 != number % 2 || (first + n / 4 + n) % 2))
                continue;
            struct forward_case forward = case_random(&chance, 1u << n / 2, MOST_WORK);
            forward.problem.d = forward.problem.d_v = dimensions[n % 2];
            forward.problem.dtype = n / 2 % 2 ? CLATTN_BF16 : CLATTN_FP16;
            case_vary(&chance, MOST_WORK, &forward);
            failures += !check_shapes(forward, *skeleton, true);
        }
    return failures;
}

static void every_feature_alone(void **state)
{
    (void)state;
    assert_int_equal(failures_of(1, CASE_FEATURES), 0);
    assert_int_equal(failures_of_emulations(), 0);
}

static void pairs(void **state)
{
    (void)state;
    assert_int_equal(failures_of(2, 3), 0);
}

static void triples(void **state)
{
    (void)state;
    assert_int_equal(failures_of(3, 3), 0);
}

static void all_at_once(void **state)
{
    (void)state;
    assert_int_equal(failures_of(CASE_FEATURES, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_feature_alone),
        cmocka_unit_test(pairs),
        cmocka_unit_test(triples),
        cmocka_unit_test(all_at_once),
    };
    test_device_open(&device);
    chance.state = case_seed();
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
