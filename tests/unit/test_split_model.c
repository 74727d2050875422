/* SPDX-License-Identifier: BSD-2-Clause
 *
 * When keys are split, and into how many parts. */
#include "plan/packing.h"
#include "plan/planner.h"
#include "plan/problem.h"
#include "plan/splits.h"
#include "support/unit.h"
#include <string.h>

static struct cla_split_rule rule_of(int64_t slots, int64_t b_r, enum clattn_causal causal, bool stays)
{
    return (struct cla_split_rule){.slots = slots,
                                   .b_r = b_r,
                                   .b_c = 128,
                                   .causal = causal,
                                   .persistent = stays,
                                   .key_bytes = 2 * (64 + 64),
                                   .splits = CLATTN_SPLITS_BY_SHAPE};
}

/* What the work would take if it could be cut at will, of what the model says for the splits that are chosen. */
static double efficiency(const struct cla_split_rule *rule, int64_t heads, int64_t n_q, int64_t n_kv)
{
    const double blocks = (double)((n_q + rule->b_r - 1) / rule->b_r * heads);
    const double average = rule->causal == CLATTN_FULL ? (double)n_kv : (double)n_kv - (double)n_q / 2;
    const int splits = cla_splits_of(rule, heads, n_q, n_kv);
    return blocks * average / (double)rule->slots / cla_split_cost(rule, heads, n_q, n_kv, splits);
}

/* From one head on a large GPU is busy, whatever their number. */
static void few_heads_keep_a_device_busy(void **state)
{
    (void)state;
    for (int causal = CLATTN_FULL; causal <= CLATTN_CAUSAL_BOTTOM_RIGHT; causal++)
        for (int64_t b_r = 64; b_r <= 256; b_r += 64)
            for (int stays = 0; stays < 2; stays++)
                for (int64_t heads = 1; heads <= 64; heads++) {
                    const struct cla_split_rule rule =
                        rule_of(stays ? 132 : 264, b_r, (enum clattn_causal)causal, stays);
                    /* From 17 heads on there are pairs, of which a work-group may have one less: its planner takes
                     * other blocks then. */
                    const bool uneven = stays && causal && b_r > 64 && heads > 16;
                    const double least = heads < 4 || uneven ? (b_r > 192 ? 0.57 : 0.63) : 0.8;
                    if (efficiency(&rule, heads, 16384, 16384) < least)
                        fail_msg("prefill: %lld heads, b_r %lld, causal %d, stays %d: %g", (long long)heads,
                                 (long long)b_r, causal, stays, efficiency(&rule, heads, 16384, 16384));
                    if (efficiency(&rule, heads, 1, 1 << 20) < 0.8)
                        fail_msg("decoding: %lld heads, b_r %lld, causal %d, stays %d: %g", (long long)heads,
                                 (long long)b_r, causal, stays, efficiency(&rule, heads, 1, 1 << 20));
                }
}

static void what_is_busy_is_left_alone(void **state)
{
    (void)state;
    const struct cla_split_rule gpu = rule_of(132, 128, CLATTN_FULL, true), cpu = rule_of(2, 16, CLATTN_FULL, false);
    assert_int_equal(cla_splits_of(&gpu, 16, 16384, 16384), 1);
    assert_int_equal(cla_splits_of(&gpu, 132 * 8, 1, 65536), 1);
    assert_int_equal(cla_splits_of(&gpu, 1, 1, 128), 1); /* too few keys */
    assert_int_equal(cla_splits_of(&cpu, 1, 1, 256), 1);
    assert_int_equal(cla_splits_of(&cpu, 1, 1, 65536), 2);
    assert_int_equal(cla_splits_of(&cpu, 2, 1, 65536), 1);
    assert_int_equal(cla_splits_of(&gpu, 0, 1, 65536), 1);
    assert_int_equal(cla_splits_of(&gpu, 1, 0, 65536), 1);
    assert_int_equal(cla_splits_of(&gpu, 1, 1, 0), 1);
    assert_int_equal(cla_splits_of(&gpu, INT64_MAX, INT32_MAX, INT32_MAX), 1);
}

/* Splits of at least two tiles, and at most so many as are accepted. */
static void bounds(void **state)
{
    (void)state;
    const struct cla_split_rule many = rule_of(100000, 64, CLATTN_FULL, false);
    assert_int_equal(cla_splits_of(&many, 1, 1, INT64_C(1) << 30), CLATTN_MAX_SPLITS);
    for (int64_t n = 1; n < 20000; n = n * 5 / 4 + 1) {
        const int splits = cla_splits_of(&many, 1, 1, n);
        assert_true(splits == 1 || splits <= (n + 127) / 128 / 2);
        assert_true(cla_split_cost(&many, 1, 1, n, splits) <= cla_split_cost(&many, 1, 1, n, 1));
    }
}

static struct cla_split_rule rule_for(struct clattn_problem problem)
{
    static const struct clattn_capabilities capabilities = {.type = CLATTN_DEVICE_GPU, .compute_units = 132};
    const struct cla_config config = {.b_r = 64, .b_c = 64};
    return cla_split_rule(&capabilities, &problem, &cla_forward_simt, &config);
}

/* The expected sizes let a plan split, or the problem says. */
static void who_may_split(void **state)
{
    (void)state;
    struct clattn_problem problem = {
        .d = 64, .expected_n_q = 1, .expected_n_kv = 65536, .expected_heads = 8, .splits = 0};
    struct cla_split_rule rule = rule_for(problem);
    assert_int_equal(rule.splits, CLATTN_SPLITS_BY_SHAPE);
    assert_int_equal(rule.slots, 264);
    problem.features = CLATTN_WINDOW;
    rule = rule_for(problem);
    assert_false(cla_may_split(&rule));
    problem.features = 0;
    problem.expected_heads = 0;
    rule = rule_for(problem);
    assert_false(cla_may_split(&rule));
    problem.expected_heads = 100000;
    rule = rule_for(problem);
    assert_false(cla_may_split(&rule));
    problem.splits = CLATTN_SPLITS_BY_SHAPE;
    rule = rule_for(problem);
    assert_true(cla_may_split(&rule) && !cla_must_split(&rule));
    problem.splits = 5;
    rule = rule_for(problem);
    assert_true(cla_must_split(&rule));
    assert_int_equal(cla_splits_of(&rule, 100000, 1, 1), 5);
    problem.pass = CLATTN_ACCUMULATE;
    problem.splits = 1;
    rule = rule_for(problem);
    assert_false(cla_may_split(&rule));
}

/* All heads of a group, or as many as leave rows that can be counted. */
static void packed_heads(void **state)
{
    (void)state;
    static const struct {
        int64_t heads, kv_heads, n_q;
        int pack;
    } rows[] = {
        {32, 8, 1, 4},        {7, 1, 20, 7}, {4, 4, 1, 1}, {8, 1, INT64_C(1) << 29, 2}, {12, 1, INT64_C(1) << 28, 6},
        {INT32_MAX, 1, 2, 1}, /* a prime number of them */
        {12, 1, 0, 12},       {0, 0, 1, 1}};
    const struct cla_config packs = {.packs = 1}, plain = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct clattn_shape shape = {
            .batch = 1, .heads = rows[i].heads, .kv_heads = rows[i].kv_heads, .n_q = rows[i].n_q, .n_kv = 1};
        assert_int_equal(cla_pack_of(&packs, &shape), rows[i].pack);
        assert_int_equal(cla_pack_of(&plain, &shape), 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_heads_keep_a_device_busy),
        cmocka_unit_test(what_is_busy_is_left_alone),
        cmocka_unit_test(bounds),
        cmocka_unit_test(who_may_split),
        cmocka_unit_test(packed_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
