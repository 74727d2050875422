/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Few rows. One plan, made without a word on how many there will be, serves many rows and few: for few it keeps another
 * beside where the planner prefers another kernel for them. */
#include "support/compare.h"
#include "support/device.h"
#include "support/forward.h"
#include "support/unit.h"
#include <math.h>

static struct test_device device;

static bool on_cpu(void)
{
    return test_is_for(&cla_decode_cpu);
}

static struct forward_case with_rows(int64_t n_q)
{
    return (struct forward_case){.problem = {.d = 32, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT},
                                 .shape = {.batch = 2, .heads = 4, .kv_heads = 2, .n_q = n_q, .n_kv = 75},
                                 .seed = 40};
}

static clattn_plan *plan_of(const struct clattn_problem *problem)
{
    clattn_plan *plan = NULL;
    assert_true(test_succeeded(clattn_plan_create(&plan, device.clattn, problem), "clattn_plan_create"));
    return plan;
}

/* Whether a case has the same bits by this plan as by another; its values have to be right. */
static bool runs_as(const clattn_plan *plan, const clattn_plan *same, const struct forward_case *forward,
                    bool statistics)
{
    struct forward_arrays a = {0}, b = {0};
    assert_true(forward_arrays_make(forward, &a) && forward_arrays_make(forward, &b));
    a.without_m = b.without_m = !statistics;
    assert_true(forward_run(&device, plan, forward, &a) && forward_run(&device, same, forward, &b));
    assert_true(compare_outputs(forward, &a));
    const bool are_same = compare_bits(forward, &a, &b);
    forward_arrays_free(&a);
    forward_arrays_free(&b);
    return are_same;
}

static void one_plan_serves_many_rows_and_few(void **state)
{
    (void)state;
    struct clattn_problem hinted = with_rows(1).problem;
    clattn_plan *plan = plan_of(&hinted);
    hinted.expected_n_q = 1;
    clattn_plan *few = plan_of(&hinted);
    hinted.expected_n_q = 40;
    clattn_plan *many = plan_of(&hinted);
    struct clattn_plan_info of_few, of_many;
    assert_int_equal(clattn_plan_get_info(few, &of_few), CLATTN_SUCCESS);
    assert_int_equal(clattn_plan_get_info(many, &of_many), CLATTN_SUCCESS);
    if (on_cpu())
        assert_string_not_equal(of_few.skeleton, of_many.skeleton);
    for (int64_t n_q = 1; n_q <= 40; n_q = n_q < 2 ? 2 : 20 * n_q) {
        const struct forward_case forward = with_rows(n_q);
        /* Elsewhere one kernel serves both, of other block sizes where the number of rows is known. */
        assert_true(runs_as(plan, n_q == 40 ? many : few, &forward, false) || !on_cpu());
        /* With m and l, as gradients take them. */
        assert_true(runs_as(plan, many, &forward, true) || !on_cpu());
    }
    clattn_plan_destroy(&many);
    clattn_plan_destroy(&few);
    clattn_plan_destroy(&plan);
}

/* What the caller has chosen stays. */
static void a_forced_plan_is_one(void **state)
{
    (void)state;
    struct forward_case forward = with_rows(1);
    if (!on_cpu())
        return;
    forward.problem.skeleton = "forward_cpu";
    clattn_plan *forced = plan_of(&forward.problem);
    forward.problem.skeleton = "decode_cpu";
    clattn_plan *few = plan_of(&forward.problem);
    assert_false(runs_as(forced, few, &forward, true));
    clattn_plan_destroy(&few);
    clattn_plan_destroy(&forced);
}

/* 24 packed rows, the last block and tile not whole. */
static struct forward_case with_words(int b_r, const char *knobs)
{
    return (struct forward_case){.problem = {.d = 96,
                                             .d_v = 64,
                                             .dtype = b_r == 16 ? CLATTN_BF16 : CLATTN_FP16,
                                             .causal = CLATTN_CAUSAL_BOTTOM_RIGHT,
                                             .packing = CLATTN_PACKING_ALWAYS,
                                             .skeleton = "decode_cpu",
                                             .b_r = b_r,
                                             .b_c = 32,
                                             .knobs = knobs},
                                 .shape = {.batch = 1, .heads = 8, .kv_heads = 2, .n_q = 6, .n_kv = 109},
                                 .seed = 41};
}

static size_t words_o(const struct forward_case *forward)
{
    return (size_t)(forward->shape.heads * forward->shape.n_q * forward->problem.d_v);
}

/* What is not finite is so in the same places, and the rest is close. */
static bool agree(const float *a, const float *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (isnan(a[i]) != isnan(b[i]) || isinf(a[i]) != isinf(b[i]) || (isfinite(a[i]) && fabsf(a[i] - b[i]) > 0.02f))
            return false;
    return true;
}

/* O by sums of integers (cl/common/decode_words.clh): right; the device's instruction and OpenCL C give the same bits;
 * and an infinity of V that all rows see, and a NaN that the last one alone does, spoil what they do with floats. */
static void sums_of_words_are_right(void **state)
{
    (void)state;
    if (!on_cpu())
        return;
    const bool has = clattn_context_capabilities(device.clattn)->cpu_bf16_dot;
    static const char *const knobs[] = {"words=0 vector_width=16", "words=1 vector_width=16",
                                        "words=2 vector_width=16"};
    for (int b_r = 16; b_r <= 32; b_r += 16)
        for (int spoilt = 0; spoilt < 2; spoilt++) {
            struct forward_arrays all[3] = {{0}};
            struct forward_case forward = with_words(b_r, NULL);
            for (int words = 0; words < 3; words++) {
                forward.problem.knobs = knobs[words];
                assert_true(forward_arrays_make(&forward, &all[words]));
                if (spoilt) {
                    all[words].v[40 * 64 + 3] = INFINITY;
                    all[words].v[108 * 64 + 7] = NAN;
                }
                if (words == 1 && !has)
                    continue;
                assert_true(forward_run(&device, NULL, &forward, &all[words]));
                assert_true(spoilt || compare_outputs(&forward, &all[words]));
            }
            assert_true(!has || compare_bits(&forward, &all[1], &all[2]));
            assert_true(agree(all[0].o, all[2].o, words_o(&forward)));
            assert_memory_not_equal(all[0].o, all[2].o, words_o(&forward) * sizeof(float));
            for (int words = 0; words < 3; words++)
                forward_arrays_free(&all[words]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_plan_serves_many_rows_and_few),
                                       cmocka_unit_test(a_forced_plan_is_one),
                                       cmocka_unit_test(sums_of_words_are_right)};
    test_device_open(&device);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failed;
}
