/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Query heads that share a head of K and V go through a kernel together: whatever their number, each row sees what its
 * own head sees. The argument names the skeleton. */
#include "support/cases.h"
#include "support/unit.h"
#include <string.h>

static struct test_device device;
static const struct cla_skeleton *skeleton;
static struct random chance;

/* Rows are not packed with dropout. */
enum { PACKED = ((1 << CASE_FEATURES) - 1) & ~CLATTN_DROPOUT, MOST_WORK = 1 << 20, MOST_ROWS = 20, MOST_KEYS = 300 };

/* One kernel, with every size of group, and few rows. */
static int check(struct forward_case forward, int splits)
{
    static const int groups[] = {1, 2, 3, 4, 7, 8};
    int failures = 0;
    forward.problem.skeleton = skeleton->name;
    forward.problem.packing = CLATTN_PACKING_ALWAYS;
    forward.problem.splits = splits;
    if (!test_serves(&device, &forward.problem))
        return 0;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        const struct clattn_layout dense = {0};
        case_vary(&chance, MOST_WORK, &forward);
        forward.q = forward.k = forward.v = forward.o = dense;
        forward.shape.kv_heads = 1 + random_below(&chance, 2);
        forward.shape.heads = groups[i] * forward.shape.kv_heads;
        forward.shape.n_q = 1 + random_below(&chance, MOST_ROWS);
        forward.shape.n_kv = 1 + random_below(&chance, MOST_KEYS);
        if (i % 2)
            forward.q = forward.o = clattn_layout_bnhd(forward.shape.heads, forward.shape.n_q, forward.problem.d);
        failures += !forward_check(&device, &forward);
    }
    return failures;
}

static struct forward_case case_of(unsigned features, enum clattn_dtype dtype)
{
    struct forward_case forward = case_random(&chance, features, MOST_WORK);
    forward.problem.d = forward.problem.d_v = 64;
    forward.problem.dtype = dtype;
    return forward;
}

static void some_features(void **state)
{
    (void)state;
    const unsigned features = case_random_features(&chance, 4, PACKED);
    assert_int_equal(check(case_of(features, CLATTN_FP16), 0), 0);
}

static void every_feature(void **state)
{
    (void)state;
    assert_int_equal(check(case_of(PACKED, CLATTN_BF16), 3), 0);
}

static void causal(void **state)
{
    (void)state;
    struct forward_case forward = case_of(CLATTN_SINKS, CLATTN_FP16);
    forward.problem.causal = CLATTN_CAUSAL_BOTTOM_RIGHT;
    assert_int_equal(check(forward, CLATTN_SPLITS_BY_SHAPE), 0);
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        struct clattn_problem problem;
        clattn_status status;
        const char *text;
    } rows[] = {{{.d = 64, .packing = 3}, CLATTN_INVALID_ARGUMENT, "problem.packing is 3"},
                {{.d = 64, .packing = -1}, CLATTN_INVALID_ARGUMENT, "problem.packing is -1"},
                {{.d = 64, .expected_kv_heads = -1}, CLATTN_INVALID_SHAPE, "problem.expected_kv_heads is -1"},
                {{.d = 64, .pass = CLATTN_BACKWARD, .packing = CLATTN_PACKING_ALWAYS},
                 CLATTN_INVALID_ARGUMENT,
                 "heads are packed in CLATTN_FORWARD and CLATTN_ACCUMULATE alone"},
                {{.d = 64, .features = CLATTN_DROPOUT, .packing = CLATTN_PACKING_ALWAYS},
                 CLATTN_NOTHING_FITS,
                 "with CLATTN_DROPOUT it is"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        clattn_plan *plan = NULL;
        assert_int_equal(clattn_plan_create(&plan, device.clattn, &rows[i].problem), rows[i].status);
        if (!strstr(clattn_error_message(), rows[i].text))
            fail_msg("'%s' is not in: %s", rows[i].text, clattn_error_message());
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(causal),
        cmocka_unit_test(some_features),
        cmocka_unit_test(every_feature),
        cmocka_unit_test(refused),
    };
    skeleton = test_device_open_for(&device, argc, argv);
    chance.state = case_seed();
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
