/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Values at the edge of what there is: biases of -inf, logits of +-1e4, dropout of nothing and of nearly everything,
 * lengths of 0 and
 * 1. In every pass, on every skeleton. */
#include "device/edges_fixture.h"

static void bias_hides(const struct forward_case *forward, struct forward_arrays *arrays, float *d_o)
{
    (void)forward, (void)d_o;
    for (int64_t row = 0; row < HEADS * N; row++)
        for (int64_t j = 0; j < N; j++)
            if (j < row % N / 2 || (row + j) % 5 == 0 || row % N == 17 || j == 40)
                arrays->score.bias[row * N + j] = -INFINITY;
    set_rows(arrays->v, N, D, 40, 41, NAN); /* its weight is 0 for all */
}

/* The second has the kernel of lengths_of_zero_and_one. */
static void bias_of_minus_infinity(void **state)
{
    (void)state;
    struct forward_case sloped = basic(CLATTN_BIAS | CLATTN_ALIBI);
    sloped.problem.causal = CLATTN_CAUSAL_TOP_LEFT;
    assert_holds(basic(CLATTN_BIAS), bias_hides);
    assert_holds(sloped, bias_hides);
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
    forward.score.dropout_p = nextafterf(1.0f, 0.0f); /* one number of 32768 is kept */
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

static void lengths_of_zero_and_one(void **state)
{
    (void)state;
    static const int64_t pairs[][2] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {5, 0}, {0, 5}, {1, 100}, {100, 1}};
    int failures = 0;
    for (size_t n = 0; n < sizeof pairs / sizeof pairs[0]; n++) {
        struct forward_case forward = basic(n % 2 ? CLATTN_SINKS : CLATTN_ALIBI | CLATTN_BIAS);
        forward.shape.n_q = pairs[n][0];
        forward.shape.n_kv = pairs[n][1];
        forward.problem.causal = n % 2 ? CLATTN_CAUSAL_BOTTOM_RIGHT : CLATTN_CAUSAL_TOP_LEFT;
        failures += failures_of(forward, spoil_nothing);
    }
    assert_int_equal(failures, 0);
}

/* None at all; keys alone; rows alone; one and one; one row; one key; some. */
static void sequences_of_zero_and_one(void **state)
{
    (void)state;
    static const int32_t rows[] = {0, 0, 9, 1, 1, 70, 33, 0}, keys[] = {0, 8, 0, 1, 65, 1, 90, 0};
    struct forward_case forward = basic(CLATTN_VARLEN);
    forward.problem.causal = CLATTN_CAUSAL_BOTTOM_RIGHT;
    forward.shape.batch = 8;
    forward.shape.n_q = forward.shape.n_kv = 400; /* more than the longest has */
    forward.score.sequence_rows = rows;
    forward.score.sequence_keys = keys;
    assert_holds(forward, spoil_nothing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bias_of_minus_infinity),     cmocka_unit_test(logits_of_ten_thousand),
        cmocka_unit_test(dropout_of_nothing),         cmocka_unit_test(dropout_of_nearly_everything),
        cmocka_unit_test(dropped_values_do_not_leak), cmocka_unit_test(lengths_of_zero_and_one),
        cmocka_unit_test(sequences_of_zero_and_one),
    };
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
