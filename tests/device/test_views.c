/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a plan leaves to the call: batches, heads and their grouping, layouts, lengths of zero, rows that see nothing.
 * And what a caller may force: d_v, scale, block sizes. On all three paths, since each must agree with the reference.
 */
#include "support/forward.h"
#include "support/unit.h"
#include <stdio.h>

static struct test_device device;

enum { D = 40, N_Q = 37, N_KV = 53 };

/* Runs the case with every skeleton, through the host level, and as standard attention. `variant` numbers the kernels
 * that a test needs, for test_takes. */
static int failures_everywhere(struct forward_case forward, int variant)
{
    int failures = 0;
    for (const struct cla_skeleton *const *skeleton = test_skeletons(); *skeleton; skeleton++) {
        if (!test_takes(&device, *skeleton, variant, 3))
            continue;
        forward.problem.skeleton = (*skeleton)->name;
        if (!test_serves(&device, &forward.problem))
            continue;
        for (int path = PATH_DEVICE; path <= PATH_HOST; path++) {
            forward.path = (enum forward_path)path;
            failures += !forward_check(&device, &forward);
        }
    }
    forward.problem.skeleton = NULL;
    forward.path = PATH_STANDARD;
    return failures + !forward_check(&device, &forward);
}

static struct forward_case basic(void)
{
    return (struct forward_case){.problem = {.d = D, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT},
                                 .shape = {.batch = 2, .heads = 4, .kv_heads = 4, .n_q = N_Q, .n_kv = N_KV},
                                 .seed = 1};
}

static int failures_of_types(struct forward_case forward)
{
    int failures = 0;
    for (int dtype = CLATTN_FP32; dtype <= CLATTN_BF16; dtype++) {
        forward.problem.dtype = (enum clattn_dtype)dtype;
        failures += failures_everywhere(forward, dtype);
    }
    return failures;
}

static void heads_share_keys(void **state)
{
    (void)state;
    struct forward_case forward = basic();
    int failures = 0;
    for (int64_t kv_heads = 0; kv_heads <= 6; kv_heads++) {
        forward.shape.heads = 6;
        forward.shape.kv_heads = kv_heads;
        if (kv_heads == 0 || 6 % kv_heads == 0)
            failures += failures_everywhere(forward, 0);
    }
    assert_int_equal(failures, 0);
}

static void sequence_major_layout(void **state)
{
    (void)state;
    struct forward_case forward = basic();
    forward.shape.kv_heads = 2;
    forward.q = forward.o = clattn_layout_bnhd(4, N_Q, D);
    forward.k = forward.v = clattn_layout_bnhd(2, N_KV, D);
    assert_int_equal(failures_of_types(forward), 0);
}

static void strided_columns_and_gaps(void **state)
{
    (void)state;
    struct forward_case forward = basic();
    forward.q = (struct clattn_layout){
        .offset = 5, .batch = 4 * N_Q * 3 * D + 7, .head = N_Q * 3 * D, .row = 3 * D, .column = 3};
    forward.k = (struct clattn_layout){
        .offset = 1, .batch = 4 * (N_KV * 2 * D + 3), .head = N_KV * 2 * D + 3, .row = 2 * D, .column = 2};
    forward.v = (struct clattn_layout){
        .offset = 3, .batch = 4 * N_KV * (D + 1), .head = N_KV * (D + 1), .row = D + 1, .column = 1};
    forward.o = (struct clattn_layout){
        .offset = 9, .batch = 4 * N_Q * (2 * D + 1), .head = N_Q * (2 * D + 1), .row = 2 * D + 1, .column = 2};
    forward.rows = (struct clattn_layout){.offset = 2, .batch = 4 * (3 * N_Q + 1), .head = 3 * N_Q + 1, .row = 3};
    assert_int_equal(failures_of_types(forward), 0);
}

/* Columns apart and rows adjacent: K as many callers keep it, [batch, heads, d, n]. */
static void transposed_matrices(void **state)
{
    (void)state;
    struct forward_case forward = basic();
    forward.q = forward.o = (struct clattn_layout){.batch = 4 * N_Q * D, .head = N_Q * D, .row = 1, .column = N_Q};
    forward.k = forward.v = (struct clattn_layout){.batch = 4 * N_KV * D, .head = N_KV * D, .row = 1, .column = N_KV};
    forward.rows = (struct clattn_layout){.batch = 1, .head = 2, .row = 8};
    assert_int_equal(failures_of_types(forward), 0);
}

/* One buffer [batch, n, 3, heads, d], as a single projection leaves it. */
static void packed_projections(void **state)
{
    (void)state;
    struct forward_case forward = basic();
    const int64_t row = 3 * 4 * D;
    forward.shape.n_kv = N_Q;
    forward.packed = true;
    forward.q = (struct clattn_layout){.batch = N_Q * row, .head = D, .row = row, .column = 1};
    forward.k = (struct clattn_layout){.offset = 4 * D, .batch = N_Q * row, .head = D, .row = row, .column = 1};
    forward.v = (struct clattn_layout){.offset = 8 * D, .batch = N_Q * row, .head = D, .row = row, .column = 1};
    assert_int_equal(failures_of_types(forward), 0);
}

static void other_value_dimensions(void **state)
{
    (void)state;
    static const int pairs[][2] = {{64, 1}, {1, 64}, {96, 160}, {192, 128}, {40, 59}, {512, 16}, {16, 512}, {3, 5}};
    struct forward_case forward = basic();
    int failures = 0;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        forward.problem.d = pairs[i][0];
        forward.problem.d_v = pairs[i][1];
        forward.problem.dtype = (enum clattn_dtype)(i % 3);
        failures += failures_everywhere(forward, (int)i);
    }
    assert_int_equal(failures, 0);
}

static void other_scales(void **state)
{
    (void)state;
    static const float scales[] = {1.0f, 0.01f, -0.5f, 4.0f};
    struct forward_case forward = basic();
    int failures = 0;
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        forward.problem.scale = scales[i];
        failures += failures_everywhere(forward, 0);
    }
    assert_int_equal(failures, 0);
}

/* Lengths around every block border that a small block size has, and blocks that the caller chose. */
static void forced_blocks(void **state)
{
    (void)state;
    static const int blocks[][2] = {{1, 1}, {1, 16}, {16, 16}, {16, 32}, {32, 16}, {8, 64}, {64, 64}};
    struct forward_case forward = basic();
    int failures = 0, fitting = 0;
    for (const struct cla_skeleton *const *skeleton = test_skeletons(); *skeleton; skeleton++)
        for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
            clattn_plan *plan = NULL;
            if (!test_takes(&device, *skeleton, (int)i + 1, 2))
                continue;
            const struct clattn_problem plain = {.d = D, .skeleton = (*skeleton)->name};
            forward.problem.dtype = test_serves(&device, &plain) ? CLATTN_FP32 : CLATTN_FP16;
            forward.problem.skeleton = (*skeleton)->name;
            forward.problem.b_r = blocks[i][0];
            forward.problem.b_c = blocks[i][1];
            const clattn_status status = clattn_plan_create(&plan, device.clattn, &forward.problem);
            clattn_plan_destroy(&plan);
            if (status == CLATTN_NOTHING_FITS)
                continue; /* not every device has room for every block */
            fitting++;
            for (int64_t n = 15; n <= 65; n += 1 + 14 * (n == 17) + 29 * (n == 33)) {
                forward.shape.n_q = n;
                forward.shape.n_kv = n + (n % 2);
                failures += !forward_check(&device, &forward);
            }
        }
    assert_int_equal(failures, 0);
    assert_true(fitting > 0);
}

static void lengths_of_zero(void **state)
{
    (void)state;
    static const struct clattn_shape shapes[] = {{.batch = 2, .heads = 4, .kv_heads = 2, .n_q = 5, .n_kv = 0},
                                                 {.batch = 2, .heads = 4, .n_q = 0, .n_kv = 7},
                                                 {.batch = 0, .heads = 4, .n_q = 5, .n_kv = 7},
                                                 {.batch = 2, .heads = 0, .n_q = 5, .n_kv = 7},
                                                 {.batch = 0, .heads = 0, .n_q = 0, .n_kv = 0},
                                                 {.batch = 1, .heads = 1, .n_q = 1, .n_kv = 0}};
    struct forward_case forward = basic();
    int failures = 0;
    for (int causal = CLATTN_FULL; causal <= CLATTN_CAUSAL_TOP_LEFT; causal++)
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            forward.problem.causal = (enum clattn_causal)causal;
            forward.shape = shapes[i];
            failures += failures_everywhere(forward, causal - 1);
        }
    assert_int_equal(failures, 0);
}

/* Bottom-right with more rows than keys: the first rows see nothing, and answer 0 and -inf. */
static void rows_that_see_nothing(void **state)
{
    (void)state;
    static const int64_t pairs[][2] = {{53, 37}, {200, 3}, {130, 1}, {65, 64}, {799, 3}};
    struct forward_case forward = basic();
    int failures = 0;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        forward.shape.n_q = pairs[i][0];
        forward.shape.n_kv = pairs[i][1];
        forward.problem.dtype = (enum clattn_dtype)(i % 3);
        failures += failures_everywhere(forward, (int)i % 3);
    }
    assert_int_equal(failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_share_keys),
        cmocka_unit_test(sequence_major_layout),
        cmocka_unit_test(strided_columns_and_gaps),
        cmocka_unit_test(transposed_matrices),
        cmocka_unit_test(packed_projections),
        cmocka_unit_test(other_value_dimensions),
        cmocka_unit_test(other_scales),
        cmocka_unit_test(forced_blocks),
        cmocka_unit_test(lengths_of_zero),
        cmocka_unit_test(rows_that_see_nothing),
    };
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
