/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The cases that `clattn verify` goes through. */
#include "verify_list.h"

#include "support/nvidia.h"
#include "support/unit.h"

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void check_sizes(bool full)
{
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    struct verify_list list;
    int few = 0;
    verify_list_create(&list, full, &capabilities, NULL, 1);
    assert_false(list.failed);
    assert_true(list.count > (full ? 1000 : 50));
    for (int i = 0; i < list.count; i++) {
        const struct reference_problem *problem = &list.items[i].problem;
        const struct clattn_shape *shape = &problem->shape;
        const int64_t rows = smaller(shape->n_q, shape->n_kv);
        few += rows && shape->batch * shape->kv_heads * rows * smaller(problem->d, problem->d_v) < VERIFY_FEWEST;
    }
    assert_int_equal(few, 0);
    verify_list_destroy(&list);
}

/* Largest errors of a few elements say little. */
static void cases_have_elements_enough(void **state)
{
    (void)state;
    check_sizes(false);
    check_sizes(true);
}

/* A hint that moves plans has cases of its own beside those of the same masks without it, in a full run; and none where
 * it moves nothing. */
static void masks_that_are_mostly_seen_have_cases(void **state)
{
    (void)state;
    static const struct {
        const char *skeleton;
        bool hinted;
    } rows[] = {{"forward_simt", false},  {"forward_matrix", true},   {"forward_hopper", true},
                {"backward_simt", false}, {"backward_matrix", false}, {"backward_hopper", true},
                {"backward_fused", true}};
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int full = 0; full < 2; full++) {
            struct verify_list list;
            int hinted = 0, others = 0;
            verify_list_create(&list, full, &capabilities, rows[i].skeleton, 1);
            assert_false(list.failed);
            for (int n = 0; n < list.count; n++)
                if (list.items[n].problem.score.features & CLATTN_BLOCK_MASK) {
                    hinted += list.items[n].expected_density > 0;
                    others += list.items[n].expected_density <= 0;
                } else {
                    assert_true(list.items[n].expected_density <= 0);
                }
            assert_int_equal(hinted > 0, full && rows[i].hinted);
            assert_true(others > 0);
            verify_list_destroy(&list);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases_have_elements_enough),
                                       cmocka_unit_test(masks_that_are_mostly_seen_have_cases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
