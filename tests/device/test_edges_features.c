/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Where modifications of the scores leave nothing, next to nothing, or what is not a number: every pass, every
 * skeleton. */
#include "support/backward.h"
#include "support/cases.h"
#include "support/compare.h"
#include "support/state.h"
#include "support/unit.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct test_device device;

enum { D = 40, N = 90, HEADS = 2 };

static struct forward_case basic(unsigned features)
{
    struct forward_case forward = {.problem = {.d = D},
                                   .shape = {.batch = 1, .heads = HEADS, .n_q = N, .n_kv = N},
                                   .score = score_typical(),
                                   .seed = 21};
    case_set_features(&forward, features);
    return forward;
}

/* Changes the inputs of a case that was generated; `d_o` is NULL in the passes that have none. */
typedef void (*spoil_function)(const struct forward_case *forward, struct forward_arrays *arrays, float *d_o);

static void spoil_nothing(const struct forward_case *forward, struct forward_arrays *arrays, float *d_o)
{
    (void)forward, (void)arrays, (void)d_o;
}

static bool forward_holds(const struct forward_case *forward, spoil_function spoil, bool in_chunks)
{
    struct forward_arrays arrays;
    const int64_t n_kv = forward->shape.n_kv, ends[] = {n_kv / 3, n_kv / 2, n_kv};
    if (!forward_arrays_make(forward, &arrays))
        return false;
    spoil(forward, &arrays, NULL);
    const bool right =
        (in_chunks ? state_run(&device, forward, ends, 3, &arrays) : forward_run(&device, NULL, forward, &arrays)) &&
        compare_outputs(forward, &arrays);
    forward_arrays_free(&arrays);
    return right;
}

static bool backward_holds(const struct forward_case *forward, spoil_function spoil)
{
    struct backward_arrays arrays;
    if (!backward_arrays_make(forward, &arrays))
        return false;
    spoil(forward, &arrays.forward, arrays.d_o);
    const bool right = backward_arrays_refresh(forward, &arrays) &&
                       backward_run(&device, NULL, forward, BACKWARD_ALL, &arrays) &&
                       backward_judge(forward, BACKWARD_ALL, &arrays);
    backward_arrays_free(&arrays);
    return right;
}

static int count_failure(const struct forward_case *forward, const char *pass, bool right)
{
    char text[512];
    if (!right) {
        forward_describe(forward, text, sizeof text);
        print_error("fails: %s, %s\n", pass, text);
    }
    return !right;
}

/* Type by chance of the variant, so that each type meets some of the edges; the planner's choice meets all passes. */
static int failures_of_direction(struct forward_case forward, spoil_function spoil, bool backward, int variant)
{
    int failures = 0;
    const struct cla_skeleton *const *skeleton = backward ? test_backward_skeletons() : test_skeletons();
    for (int n = 0; skeleton[n]; n++) {
        forward.problem.skeleton = skeleton[n]->name;
        forward.problem.pass = backward ? CLATTN_BACKWARD : CLATTN_FORWARD;
        forward.problem.dtype = (enum clattn_dtype)((variant + n) % 3);
        if (!test_takes(&device, skeleton[n], variant + n, 6) || !test_serves(&device, &forward.problem))
            continue;
        if (backward) {
            failures += count_failure(&forward, "backward", backward_holds(&forward, spoil));
        } else {
            failures += count_failure(&forward, "forward", forward_holds(&forward, spoil, false));
            failures += count_failure(&forward, "state", forward_holds(&forward, spoil, true));
        }
    }
    return failures;
}

static int failures_of(struct forward_case forward, spoil_function spoil)
{
    static int variant = 0;
    variant++;
    return failures_of_direction(forward, spoil, false, variant) + failures_of_direction(forward, spoil, true, variant);
}

static void assert_holds(struct forward_case forward, spoil_function spoil)
{
    assert_int_equal(failures_of(forward, spoil), 0);
}

/* Fills rows of a dense [heads, n, width] tensor. */
static void set_rows(float *tensor, int64_t n, int64_t width, int64_t first, int64_t end, float value)
{
    for (int64_t head = 0; head < HEADS; head++)
        for (int64_t i = (head * n + first) * width; i < (head * n + end) * width; i++)
            tensor[i] = value;
}

/* Masks */

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
    forward.problem.causal = CLATTN_CAUSAL_TOP_LEFT;
    forward.shape.n_q = 33;
    assert_holds(forward, spoil_nothing);
}

/* Blocks */

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
    assert_holds(forward, spoil_hidden_blocks);
    forward.problem.block_q = 64;
    forward.problem.block_kv = 32;
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
    forward.score.csr = true;
    assert_holds(forward, add_columns_out_of_range);
}

/* Values */

static void bias_hides(const struct forward_case *forward, struct forward_arrays *arrays, float *d_o)
{
    (void)forward, (void)d_o;
    for (int64_t row = 0; row < HEADS * N; row++)
        for (int64_t j = 0; j < N; j++)
            if (j < row % N / 2 || (row + j) % 5 == 0 || row % N == 17 || j == 40)
                arrays->score.bias[row * N + j] = -INFINITY;
    set_rows(arrays->v, N, D, 40, 41, NAN); /* its weight is 0 for all */
}

static void bias_of_minus_infinity(void **state)
{
    (void)state;
    assert_holds(basic(CLATTN_BIAS), bias_hides);
    assert_holds(basic(CLATTN_BIAS | CASE_SCORE_MOD), bias_hides);
}

static void bias_is_huge(const struct forward_case *forward, struct forward_arrays *arrays, float *d_o)
{
    (void)forward, (void)d_o;
    for (int64_t i = 0; i < HEADS * N * N; i++)
        arrays->score.bias[i] = i / N % 2 ? 1e4f : -1e4f;
    for (int64_t i = 0; i < HEADS * N; i++)
        arrays->score.bias[i * N + i % N] *= -1.0f;
    for (int64_t i = 0; i < HEADS * N * N; i++)
        arrays->score.bias[i] = reference_round(forward->problem.dtype, arrays->score.bias[i]);
}

static void logits_of_ten_thousand(void **state)
{
    (void)state;
    struct forward_case forward = basic(0);
    assert_holds(basic(CLATTN_BIAS), bias_is_huge);
    forward.spread = 4e3; /* some of them reach 1e4 */
    assert_holds(forward, spoil_nothing);
    case_set_features(&forward, CLATTN_SOFTCAP);
    assert_holds(forward, spoil_nothing);
}

/* Dropout */

static void dropout_of_nothing(void **state)
{
    (void)state;
    struct forward_case forward = basic(CLATTN_DROPOUT);
    forward.score.dropout_p = 0.0f;
    assert_holds(forward, spoil_nothing);
}

static void dropout_of_nearly_everything(void **state)
{
    (void)state;
    struct forward_case forward = basic(CLATTN_DROPOUT);
    forward.score.dropout_p = 0.999f;
    assert_holds(forward, spoil_nothing);
    forward.score.dropout_p = 0.99999f; /* one number of 65536 is kept */
    assert_holds(forward, spoil_nothing);
    forward.score.dropout_p = nextafterf(1.0f, 0.0f); /* none is */
    assert_holds(forward, spoil_nothing);
}

static void spoil_dropped_values(const struct forward_case *forward, struct forward_arrays *arrays, float *d_o)
{
    const struct reference_problem problem = forward_reference_of(forward, arrays);
    (void)d_o;
    for (int64_t h = 0; h < HEADS; h++)
        for (int64_t j = 0; j < N; j++) {
            bool kept = false;
            for (int64_t i = 0; i < forward->shape.n_q; i++)
                kept = kept || reference_kept(&problem, 0, h, i, j);
            for (int c = 0; c < D && !kept; c++)
                arrays->v[(h * N + j) * D + c] = NAN;
        }
}

/* With 3 rows and p = 0.5 one value of 8 is dropped by all. */
static void dropped_values_do_not_leak(void **state)
{
    (void)state;
    struct forward_case forward = basic(CLATTN_DROPOUT);
    forward.shape.n_q = 3;
    forward.score.dropout_p = 0.5f;
    assert_holds(forward, spoil_dropped_values);
}

/* Lengths */

static void lengths_of_zero_and_one(void **state)
{
    (void)state;
    static const int64_t pairs[][2] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {5, 0}, {0, 5}, {1, 100}, {100, 1}};
    int failures = 0;
    for (size_t n = 0; n < sizeof pairs / sizeof pairs[0]; n++) {
        struct forward_case forward = basic(n % 2 ? CLATTN_SINKS : CLATTN_ALIBI | CLATTN_BIAS);
        forward.shape.n_q = pairs[n][0];
        forward.shape.n_kv = pairs[n][1];
        forward.problem.causal = (enum clattn_causal)(n % 3);
        failures += failures_of(forward, spoil_nothing);
    }
    assert_int_equal(failures, 0);
}

static void empty_sequences(const struct forward_case *forward, struct forward_arrays *arrays, float *d_o)
{
    (void)forward, (void)d_o;
    /* Of rows and keys: none at all; keys alone; rows alone; one and one; the rest. */
    const int32_t rows[] = {0, 0, 0, 9, 10, (int32_t)arrays->score.total_q};
    const int32_t keys[] = {0, 0, 8, 8, 9, (int32_t)arrays->score.total_kv};
    memcpy(arrays->score.cu_q, rows, sizeof rows);
    memcpy(arrays->score.cu_kv, keys, sizeof keys);
}

static void sequences_of_zero_and_one(void **state)
{
    (void)state;
    for (int causal = 0; causal < 3; causal++) {
        struct forward_case forward = basic(CLATTN_VARLEN);
        forward.problem.causal = (enum clattn_causal)causal;
        forward.shape.batch = 5;
        forward.shape.n_q = forward.shape.n_kv = 400; /* more than the longest has */
        assert_holds(forward, empty_sequences);
    }
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rows_with_no_key),
        TEST(no_row_has_a_key),
        TEST(sinks_of_minus_infinity),
        TEST(all_of_a_block_masked_first),
        TEST(masked_keys_do_not_leak),
        TEST(padding_does_not_leak),
        TEST(key_lengths_of_zero_and_one),
        TEST(keys_outside_the_window_do_not_leak),
        TEST(window_of_zero),
        TEST(skipped_blocks_do_not_leak),
        TEST(block_columns_out_of_range),
        TEST(bias_of_minus_infinity),
        TEST(logits_of_ten_thousand),
        TEST(dropout_of_nothing),
        TEST(dropout_of_nearly_everything),
        TEST(dropped_values_do_not_leak),
        TEST(lengths_of_zero_and_one),
        TEST(sequences_of_zero_and_one),
    };
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
