/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What masks, windows, lengths and block masks hide has no effect, whatever it holds, and rows may be left with
 * nothing: in every pass, on every skeleton. */
#include "device/edges_fixture.h"

static void hide_all_from_some_rows(const struct forward_case *forward, struct forward_arrays *arrays, float *d_o)
{
    (void)forward;
    const int64_t rows[] = {0, 1, 31, 64, N - 1};
    for (size_t n = 0; n < sizeof rows / sizeof rows[0]; n++) {
        for (int64_t head = 0; head < HEADS; head++)
            memset(arrays->score.mask + (head * N + rows[n]) * N, 0, N);
        /* Such a row gives nothing to any gradient, whatever it holds. */
        set_rows(arrays->q, N, D, rows[n], rows[n] + 1, n % 2 ? NAN : INFINITY);
        if (d_o)
            set_rows(d_o, N, D, rows[n], rows[n] + 1, n % 2 ? -INFINITY : NAN);
    }
}

static void rows_with_no_key(void **state)
{
    (void)state;
    assert_holds(basic(CLATTN_MASK), hide_all_from_some_rows);
}

static void hide_all(const struct forward_case *forward, struct forward_arrays *arrays, float *d_o)
{
    (void)forward, (void)d_o;
    memset(arrays->score.mask, 0, (size_t)HEADS * N * N);
}

static void no_row_has_a_key(void **state)
{
    (void)state;
    assert_holds(basic(CLATTN_MASK), hide_all);
    assert_holds(basic(CLATTN_MASK | CLATTN_SINKS), hide_all);
}

static void no_sink(const struct forward_case *forward, struct forward_arrays *arrays, float *d_o)
{
    hide_all_from_some_rows(forward, arrays, d_o);
    arrays->score.sinks[0] = -INFINITY;
    arrays->score.sinks[1] = -INFINITY;
}

static void sinks_of_minus_infinity(void **state)
{
    (void)state;
    assert_holds(basic(CLATTN_MASK | CLATTN_SINKS), no_sink);
}

/* The sink takes all the weight of a row that sees no key, and gives it nothing: what dO holds there moves no gradient,
 * the sink's least of all. */
static void finite_sinks_of_rows_with_no_key(void **state)
{
    (void)state;
    assert_holds(basic(CLATTN_MASK | CLATTN_SINKS), hide_all_from_some_rows);
}

static void hide_first_keys(const struct forward_case *forward, struct forward_arrays *arrays, float *d_o)
{
    (void)forward, (void)d_o;
    for (int64_t row = 0; row < HEADS * N; row++) {
        memset(arrays->score.mask + row * N, 1, N);
        memset(arrays->score.mask + row * N, 0, row % 2 ? 80 : 33);
    }
}

static void all_of_a_block_masked_first(void **state)
{
    (void)state;
    assert_holds(basic(CLATTN_MASK), hide_first_keys);
}

static void hide_keys_that_hold_anything(const struct forward_case *forward, struct forward_arrays *arrays, float *d_o)
{
    static const int64_t keys[] = {0, 5, 32, 63, 64, N - 1};
    static const float poisons[] = {NAN, INFINITY, -INFINITY};
    (void)forward, (void)d_o;
    for (size_t n = 0; n < sizeof keys / sizeof keys[0]; n++) {
        for (int64_t row = 0; row < HEADS * N; row++)
            arrays->score.mask[row * N + keys[n]] = 0;
        set_rows(arrays->k, N, D, keys[n], keys[n] + 1, poisons[n % 3]);
        set_rows(arrays->v, N, D, keys[n], keys[n] + 1, poisons[(n + 1) % 3]);
    }
}

static void masked_keys_do_not_leak(void **state)
{
    (void)state;
    assert_holds(basic(CLATTN_MASK), hide_keys_that_hold_anything);
    assert_holds(basic(CLATTN_MASK | CLATTN_ALIBI | CLATTN_SOFTCAP | CASE_SCORE_MOD), hide_keys_that_hold_anything);
}

static void spoil_padding(const struct forward_case *forward, struct forward_arrays *arrays, float *d_o)
{
    (void)forward, (void)d_o;
    arrays->score.key_lengths[0] = 37;
    set_rows(arrays->k, N, D, 37, N, NAN);
    set_rows(arrays->v, N, D, 37, N, INFINITY);
}

static void padding_does_not_leak(void **state)
{
    (void)state;
    assert_holds(basic(CLATTN_KEY_LENGTHS), spoil_padding);
}

static void length_of_zero(const struct forward_case *forward, struct forward_arrays *arrays, float *d_o)
{
    spoil_padding(forward, arrays, d_o);
    arrays->score.key_lengths[0] = 0;
    set_rows(arrays->k, N, D, 0, N, NAN);
    set_rows(arrays->v, N, D, 0, N, NAN);
}

static void length_of_one(const struct forward_case *forward, struct forward_arrays *arrays, float *d_o)
{
    (void)forward, (void)d_o;
    arrays->score.key_lengths[0] = 1;
}

static void key_lengths_of_zero_and_one(void **state)
{
    (void)state;
    assert_holds(basic(CLATTN_KEY_LENGTHS), length_of_zero);
    assert_holds(basic(CLATTN_KEY_LENGTHS), length_of_one);
}

static void keys_far_from_the_window(const struct forward_case *forward, struct forward_arrays *arrays, float *d_o)
{
    (void)d_o; /* 20 rows against 90 keys: row 0 is aligned with key 70 */
    const int64_t end = forward->shape.n_kv - forward->shape.n_q - forward->score.window_left;
    set_rows(arrays->k, N, D, 0, end, NAN);
    set_rows(arrays->v, N, D, 0, end, INFINITY);
}

static void keys_outside_the_window_do_not_leak(void **state)
{
    (void)state;
    struct forward_case forward = basic(CLATTN_WINDOW);
    forward.shape.n_q = 20;
    assert_holds(forward, keys_far_from_the_window);
}

static void window_of_zero(void **state)
{
    (void)state;
    struct forward_case forward = basic(CLATTN_WINDOW);
    forward.score.window_left = forward.score.window_right = 0;
    assert_holds(forward, spoil_nothing);
    forward.shape.n_q = 33;
    assert_holds(forward, spoil_nothing);
}

static void spoil_hidden_blocks(const struct forward_case *forward, struct forward_arrays *arrays, float *d_o)
{
    const int64_t *sizes = arrays->score.block_sizes;
    const int64_t block = forward->problem.block_kv;
    (void)d_o;
    for (int64_t row = 0; row < sizes[0] * sizes[1] * sizes[2]; row++)
        for (int64_t j = 0; j < sizes[3]; j += 2) /* the first one, and every other */
            arrays->score.block_mask[row * sizes[3] + j] = 0;
    if (arrays->score.block_offsets)
        score_compress(&arrays->score);
    for (int64_t j = 0; j < sizes[3]; j += 2) {
        const int64_t end = (j + 1) * block < N ? (j + 1) * block : N;
        set_rows(arrays->k, N, D, j * block, end, NAN);
        set_rows(arrays->v, N, D, j * block, end, INFINITY);
    }
}

static void skipped_blocks_do_not_leak(void **state)
{
    (void)state;
    struct forward_case forward = basic(CLATTN_BLOCK_MASK);
    forward.problem.block_q = 32;
    assert_holds(forward, spoil_hidden_blocks);
    forward.score.csr = true;
    assert_holds(forward, spoil_hidden_blocks);
}

/* Numbers out of range keep nothing, and reach nothing. */
static void add_columns_out_of_range(const struct forward_case *forward, struct forward_arrays *arrays, float *d_o)
{
    (void)forward, (void)d_o;
    const int64_t *sizes = arrays->score.block_sizes;
    for (int64_t i = 0; i < sizes[0] * sizes[1] * sizes[2]; i++)
        memset(arrays->score.block_mask + i * sizes[3], i % 2, (size_t)sizes[3]);
    score_compress(&arrays->score);
    for (int64_t n = 0; n < arrays->score.block_count; n++)
        if (n % 3 == 1)
            arrays->score.block_columns[n] = n % 2 ? -1 : INT32_MAX;
    /* The dense mask, which the reference reads, says the same. */
    memset(arrays->score.block_mask, 0, (size_t)(sizes[0] * sizes[1] * sizes[2] * sizes[3]));
    for (int64_t i = 0, head = 0; head < sizes[0] * sizes[1]; head++)
        for (int64_t row = 0; row < sizes[2]; row++, i++) {
            const int32_t *offsets = arrays->score.block_offsets + head * (sizes[2] + 1) + row;
            for (int32_t n = offsets[0]; n < offsets[1]; n++)
                if (arrays->score.block_columns[n] >= 0 && arrays->score.block_columns[n] < sizes[3])
                    arrays->score.block_mask[i * sizes[3] + arrays->score.block_columns[n]] = 1;
        }
}

static void block_columns_out_of_range(void **state)
{
    (void)state;
    struct forward_case forward = basic(CLATTN_BLOCK_MASK);
    forward.problem.block_q = 32;
    forward.score.csr = true;
    assert_holds(forward, add_columns_out_of_range);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_with_no_key),
        cmocka_unit_test(no_row_has_a_key),
        cmocka_unit_test(sinks_of_minus_infinity),
        cmocka_unit_test(finite_sinks_of_rows_with_no_key),
        cmocka_unit_test(all_of_a_block_masked_first),
        cmocka_unit_test(masked_keys_do_not_leak),
        cmocka_unit_test(padding_does_not_leak),
        cmocka_unit_test(key_lengths_of_zero_and_one),
        cmocka_unit_test(keys_outside_the_window_do_not_leak),
        cmocka_unit_test(window_of_zero),
        cmocka_unit_test(skipped_blocks_do_not_leak),
        cmocka_unit_test(block_columns_out_of_range),
    };
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
