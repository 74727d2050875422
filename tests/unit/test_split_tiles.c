/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The model of splits against what forward_matrix took for whole and split keys on an H200
 * (tests/data/measured/h200-forward-matrix-notes.md, "What splits of tiles cost"). */
#include "plan/planner.h"
#include "plan/problem.h"
#include "plan/splits.h"
#include "support/nvidia.h"
#include "support/unit.h"
#include <stdio.h>

enum { SERIES = 4 };
static const int heads[SERIES] = {4, 8, 16, 32};

/* Splits and us a call, of so many heads. */
static const struct measured {
    int d;
    bool causal;
    int n;
    struct {
        int splits;
        double us;
    } of[SERIES];
} measured[] = {
    {64, false, 700, {{4, 27.0}, {4, 34.4}, {1, 19.1}, {1, 23.0}}},
    {64, false, 1047, {{6, 33.0}, {3, 40.5}, {1, 31.3}, {1, 59.4}}},
    {64, false, 1500, {{5, 40.2}, {2, 52.9}, {1, 42.7}, {2, 137.9}}},
    {64, false, 2048, {{4, 47.0}, {2, 65.0}, {1, 55.2}, {1, 105.4}}},
    {128, false, 700, {{4, 30.8}, {4, 43.6}, {1, 27.4}, {1, 41.3}}},
    {128, false, 1047, {{6, 42.4}, {3, 54.5}, {1, 55.6}, {1, 108.4}}},
    {128, false, 1500, {{5, 53.8}, {2, 75.0}, {1, 75.8}, {2, 208.3}}},
    {128, false, 2048, {{4, 64.2}, {2, 93.5}, {1, 98.3}, {1, 193.5}}},
    {64, true, 700, {{4, 26.9}, {4, 34.2}, {3, 40.8}, {1, 21.8}}},
    {64, true, 1047, {{6, 31.7}, {5, 43.3}, {3, 56.3}, {1, 31.8}}},
    {64, true, 1500, {{6, 36.4}, {4, 50.5}, {2, 63.8}, {1, 43.1}}},
    {64, true, 2048, {{6, 49.2}, {3, 61.8}, {2, 87.7}, {1, 65.7}}},
    {80, true, 700, {{4, 28.8}, {4, 37.4}, {3, 45.5}, {1, 25.6}}},
    {80, true, 1047, {{6, 36.3}, {5, 51.4}, {3, 66.4}, {1, 39.6}}},
    {80, true, 1500, {{6, 41.4}, {4, 56.8}, {2, 75.4}, {1, 53.5}}},
    {80, true, 2048, {{6, 57.6}, {3, 73.2}, {2, 105.7}, {1, 82.5}}},
    {128, true, 700, {{4, 33.3}, {4, 44.1}, {3, 51.6}, {1, 40.7}}},
    {128, true, 1047, {{6, 39.6}, {5, 61.0}, {3, 80.2}, {1, 55.6}}},
    {128, true, 1500, {{6, 49.0}, {4, 69.2}, {2, 89.2}, {1, 77.2}}},
    {128, true, 2048, {{6, 70.9}, {3, 90.5}, {2, 123.3}, {1, 119.3}}},
};

/* us of a call, and of a key of a block. */
static const struct {
    int d;
    double call, key;
} times[] = {{64, 4.3, 0.0253}, {80, 4.0, 0.0305}, {128, 2.7, 0.0450}};

static struct clattn_problem problem_of(const struct measured *row)
{
    return (struct clattn_problem){.skeleton = "forward_matrix",
                                   .dtype = CLATTN_FP16,
                                   .d = row->d,
                                   .causal = row->causal ? CLATTN_CAUSAL_BOTTOM_RIGHT : CLATTN_FULL,
                                   .expected_n_q = row->n,
                                   .expected_n_kv = row->n,
                                   .splits = CLATTN_SPLITS_BY_SHAPE};
}

/* That of the planned kernel, by shape. */
static struct cla_split_rule rule_of(const struct clattn_capabilities *capabilities, struct clattn_problem problem)
{
    struct clattn_problem resolved;
    struct cla_choice choice;
    struct clattn_plan_info info;
    struct cla_error error;
    if (cla_problem_resolve(&problem, &resolved, &error) || cla_plan(capabilities, &resolved, &choice, &info, &error))
        fail_msg("%s", error.text);
    return cla_split_rule(capabilities, &resolved, choice.skeleton, &choice.config);
}

static void calls_take_what_the_model_says(void **state)
{
    (void)state;
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    double least = 1, most = 1;
    EACH (i, measured) {
        const struct measured *row = &measured[i];
        const struct cla_split_rule rule = rule_of(&capabilities, problem_of(row));
        const int at = row->d == 64 ? 0 : row->d == 80 ? 1 : 2;
        for (int s = 0; s < SERIES; s++) {
            const double cost = cla_split_cost(&rule, heads[s], row->n, row->n, row->of[s].splits);
            const double ratio = (times[at].call + times[at].key * cost) / row->of[s].us;
            least = ratio < least ? ratio : least;
            most = ratio > most ? ratio : most;
            if (ratio < 0.85 || ratio > 1.25)
                fail_msg("d %d, n %d, %d heads, %d splits: %.2f of what was measured", row->d, row->n, heads[s],
                         row->of[s].splits, ratio);
        }
    }
    printf("predicted over measured: %.2f to %.2f\n", least, most);
}

/* Fewer heads take no longer: so keys stay whole where those of more heads took less time than splits did. */
static void splits_that_lost_are_not_planned(void **state)
{
    (void)state;
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    int lost = 0;
    EACH (i, measured) {
        const struct measured *row = &measured[i];
        const struct cla_split_rule rule = rule_of(&capabilities, problem_of(row));
        for (int s = 0; s < SERIES; s++)
            for (int other = s + 1; other < SERIES; other++) {
                if (row->of[s].splits == 1 || row->of[other].splits > 1 || row->of[other].us >= row->of[s].us)
                    continue;
                lost++;
                if (cla_splits_of(&rule, heads[s], row->n, row->n) != 1)
                    fail_msg("d %d, n %d, %d heads: split, but %d heads took %.1f us whole, these %.1f", row->d, row->n,
                             heads[s], heads[other], row->of[other].us, row->of[s].us);
            }
    }
    assert_true(lost >= 30);
}

static void few_heads_of_many_keys_are_split(void **state)
{
    (void)state;
    const struct clattn_capabilities capabilities = test_nvidia(900, 132);
    const struct measured row = {.d = 128, .n = 8192};
    const struct cla_split_rule rule = rule_of(&capabilities, problem_of(&row));
    assert_int_equal(cla_splits_of(&rule, 1, 8192, 8192), 4);
    assert_int_equal(cla_splits_of(&rule, 2, 8192, 8192), 2);
    assert_int_equal(cla_splits_of(&rule, 4, 8192, 8192), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_take_what_the_model_says),
        cmocka_unit_test(splits_that_lost_are_not_planned),
        cmocka_unit_test(few_heads_of_many_keys_are_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
