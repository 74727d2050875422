/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench.h"
#include "support/unit.h"
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
    const struct bench_row row = row_of(CLATTN_FP32, 0.5, 0.512), matrix = row_of(CLATTN_FP16, 0.5, 0.512);
    assert_float_equal(bench_share(&row), 2.0, 1e-9);
    assert_non_null(strstr(bench_share_problem(&row), "clock"));
    assert_null(strstr(bench_share_problem(&row), "matrix"));
    assert_non_null(strstr(bench_share_problem(&matrix), "matrix units"));
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
