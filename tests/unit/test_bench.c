/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/bench.h"
#include "support/unit.h"
#include <stdio.h>
#include <string.h>

/* 4 * 2 heads * 1000 x 1000 pairs * 64: 0.512 TFLOP/s if it takes a millisecond. */
static struct bench_row row_of(enum clattn_dtype dtype, double ms, double peak)
{
    return (struct bench_row){
        .shape = {.dtype = dtype, .sizes = {.batch = 1, .heads = 2, .n_q = 1000, .n_kv = 1000}, .d = 64, .d_v = 64},
        .ms = {.median = ms},
        .peak_tflops = {.median = peak}};
}

static void shares_are_of_the_peak_beside_the_row(void **state)
{
    (void)state;
    struct bench_row row = row_of(CLATTN_FP32, 1.0, 1.024);
    assert_float_equal(bench_tflops(&row), 0.512, 1e-9);
    assert_float_equal(bench_share(&row), 0.5, 1e-9);
    assert_null(bench_share_problem(&row));
    row.shape.causal = true;
    assert_float_equal(bench_share(&row), 0.25, 1e-9);
}

static void a_share_above_the_peak_is_kept_and_explained(void **state)
{
    (void)state;
    const struct bench_row row = row_of(CLATTN_FP32, 0.5, 0.512);
    assert_float_equal(bench_share(&row), 2.0, 1e-9);
    assert_non_null(strstr(bench_share_problem(&row), "clock"));
    struct bench_row matrix = row;
    matrix.unit = UNIT_MATRIX;
    assert_non_null(strstr(bench_share_problem(&matrix), "larger"));
}

/* 0.512 TFLOP of work. */
static void the_limit_is_the_lower_roof(void **state)
{
    (void)state;
    struct bench_row row = row_of(CLATTN_FP32, 1.0, 1.024);
    row.copy_gbps = 100.0;
    row.traffic.least = 1e6; /* 512 FLOP for each byte: 51.2 TFLOP/s while they are copied */
    assert_float_equal(bench_intensity(&row), 512.0, 1e-6);
    assert_float_equal(bench_limit(&row), 1.024, 1e-9);
    assert_false(bench_is_bound_by_memory(&row));
    row.traffic.least = 1e8; /* 5.12: 0.512 TFLOP/s */
    assert_float_equal(bench_limit(&row), 0.512, 1e-9);
    assert_float_equal(bench_share_of_limit(&row), 1.0, 1e-9);
    assert_true(bench_is_bound_by_memory(&row));
    row.copy_gbps = 0.0;
    assert_float_equal(bench_share_of_limit(&row), 0.0, 0.0);
}

static void pairs_of_a_decoding_row_are_all_seen(void **state)
{
    (void)state;
    struct bench_row row = row_of(CLATTN_FP32, 1.0, 1.0);
    row.shape.sizes.n_q = 1;
    const double full = bench_flops(&row.shape);
    row.shape.causal = true;
    assert_float_equal(bench_flops(&row.shape), full, 1e-3);
    row.shape.sizes.n_q = 2; /* 999 and 1000 of 2000 */
    assert_float_equal(bench_flops(&row.shape), full * 1.999, full * 1e-9);
}

static void units_follow_the_plan(void **state)
{
    (void)state;
    static const struct {
        const char *skeleton, *knobs;
        enum bench_unit unit;
    } rows[] = {{"forward_simt", "", UNIT_FMA},
                {"backward_matrix", "", UNIT_MATRIX},
                {"backward_hopper", "", UNIT_MATRIX},
                {"backward_fused", "", UNIT_MATRIX},
                {"forward_matrix_emulated", "", UNIT_MATRIX_EMULATED},
                {"backward_fused_emulated", "", UNIT_MATRIX_EMULATED},
                {"forward_cpu", "dot=0 micro=8", UNIT_FMA},
                {"forward_cpu", "dot=1 micro=8", UNIT_DOT},
                {"backward_cpu", "dot=3 micro=32", UNIT_AMX},
                {"backward_cpu", "dot=2 micro=8", UNIT_FMA}};
    EACH (i, rows) {
        struct clattn_plan_info plan = {.knobs = ""};
        snprintf(plan.knobs, sizeof plan.knobs, "%s", rows[i].knobs);
        snprintf(plan.skeleton, sizeof plan.skeleton, "%s", rows[i].skeleton);
        assert_int_equal(bench_unit_of(&plan), rows[i].unit);
    }
}

static void a_peak_that_failed_gives_no_share(void **state)
{
    (void)state;
    const struct bench_row row = row_of(CLATTN_FP32, 1.0, 0.0);
    assert_float_equal(bench_share(&row), 0.0, 0.0);
    assert_non_null(strstr(bench_share_problem(&row), "could not be measured"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_of_the_peak_beside_the_row),
        cmocka_unit_test(a_share_above_the_peak_is_kept_and_explained),
        cmocka_unit_test(a_peak_that_failed_gives_no_share),
        cmocka_unit_test(the_limit_is_the_lower_roof),
        cmocka_unit_test(pairs_of_a_decoding_row_are_all_seen),
        cmocka_unit_test(units_follow_the_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
