/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Rows of many tiles, of which some are seen whole and some are cut (by the diagonal, by a window on either side, by
 * the last key), in whichever order a skeleton takes them: each is met, once. The argument names the skeleton. */
#include "support/cases.h"
#include "support/compare.h"
#include "support/turn.h"
#include "support/unit.h"

static struct test_device device;
static const struct cla_skeleton *skeleton;

/* Up to 64 columns and beyond, where kernels on matrix units keep scores: these alone take both, for each is a program;
 * where a mask is causal one of them, by turns. */
static const struct {
    int64_t n_q, n_kv;
    int d;
} sizes[] = {{150, 331, 48}, {300, 190, 48}, {37, 640, 80}, {129, 257, 80}};

static int columns_of(size_t size, enum clattn_causal causal)
{
    if (test_is_full() || (skeleton->declines && causal == CLATTN_FULL))
        return sizes[size].d;
    return skeleton->declines && causal == CLATTN_CAUSAL_TOP_LEFT ? sizes[2].d : sizes[0].d;
}

static int failures_of(enum clattn_causal causal, unsigned features, int splits)
{
    int failures = 0;
    EACH (i, sizes) {
        struct forward_case forward = {
            .problem = {.d = columns_of(i, causal),
                        .d_v = 40,
                        .dtype = CLATTN_FP16,
                        .causal = causal,
                        .skeleton = skeleton->name,
                        .splits = splits},
            .shape = {.batch = 1, .heads = 2, .kv_heads = 1, .n_q = sizes[i].n_q, .n_kv = sizes[i].n_kv},
            .score = score_typical(),
            .seed = 3 + i};
        forward.score.window_left = 170;
        forward.score.window_right = causal ? 0 : 100;
        case_set_features(&forward, features);
        if (test_serves(&device, &forward.problem))
            failures += !forward_check(&device, &forward);
    }
    return failures;
}

static int failures_with(unsigned features)
{
    int failures = 0;
    for (int causal = CLATTN_FULL; causal <= CLATTN_CAUSAL_TOP_LEFT; causal++)
        if (test_is_turn(causal + (int)(features % 5), 2))
            failures += failures_of((enum clattn_causal)causal, features, 1);
    return failures;
}

static void plain_rows(void **state)
{
    (void)state;
    assert_int_equal(failures_with(0), 0);
}

static void rows_with_alibi(void **state)
{
    (void)state;
    assert_int_equal(failures_with(CLATTN_ALIBI), 0);
}

static void rows_with_a_window(void **state)
{
    (void)state;
    assert_int_equal(failures_with(CLATTN_WINDOW) + failures_with(CLATTN_WINDOW | CLATTN_ALIBI), 0);
}

static void rows_that_end_early(void **state)
{
    (void)state;
    assert_int_equal(failures_with(CLATTN_KEY_LENGTHS) + failures_with(CLATTN_KEY_LENGTHS | CLATTN_ALIBI), 0);
}

static void splits_of_rows(void **state)
{
    (void)state;
    assert_int_equal(failures_of(CLATTN_CAUSAL_BOTTOM_RIGHT, 0, 3) + failures_of(CLATTN_FULL, CLATTN_ALIBI, 3) +
                         failures_of(CLATTN_FULL, CLATTN_WINDOW, 2),
                     0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_rows),          cmocka_unit_test(rows_with_alibi), cmocka_unit_test(rows_with_a_window),
        cmocka_unit_test(rows_that_end_early), cmocka_unit_test(splits_of_rows),
    };
    skeleton = test_device_open_for(&device, argc, argv);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
