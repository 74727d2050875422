/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The reference's score modifications, each worked out by hand on a few pairs, and dropout's random numbers. */
#include "reference/reference.h"
#include "support/unit.h"
#include <clattn/attention.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { N_Q = 4, N_KV = 6 };

/* K = 1, Q = 1, scale 1, V = one bit for each key: O tells which keys a row sees, LSE what they weigh. */
static struct reference_problem plain(void)
{
    return (struct reference_problem){
        .d = 1, .d_v = N_KV, .scale = 1.0, .shape = {.batch = 1, .heads = 1, .n_q = N_Q, .n_kv = N_KV}};
}

struct answer {
    double weights[N_Q][N_KV];
    double lse[N_Q], m[N_Q], l[N_Q];
};

static struct answer ask(const struct reference_problem *problem)
{
    struct answer answer;
    const float q[N_Q] = {1.0f, 1.0f, 1.0f, 1.0f}, k[N_KV] = {1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f};
    float v[N_KV * N_KV] = {0.0f};
    for (int j = 0; j < N_KV; j++)
        v[j * N_KV + j] = 1.0f;
    assert_true(reference_attention(problem, q, k, v, answer.weights[0], answer.lse, answer.m, answer.l));
    return answer;
}

static void assert_near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-12 * (1.0 + fabs(b))))
        fail_msg("%.17g, not %.17g", a, b);
}

/* Row i sees the keys that `seen` has an x for, all equally. */
static void assert_sees(const struct reference_problem *problem, const char *const seen[N_Q])
{
    const struct answer answer = ask(problem);
    for (int i = 0; i < N_Q; i++) {
        int count = 0;
        for (int j = 0; j < N_KV; j++)
            count += seen[i][j] == 'x';
        for (int j = 0; j < N_KV; j++)
            assert_near(answer.weights[i][j], seen[i][j] == 'x' ? 1.0 / count : 0.0);
        if (count)
            assert_near(answer.lse[i], 1.0 + log(count));
        else
            assert_true(answer.lse[i] == -INFINITY && answer.m[i] == -INFINITY && answer.l[i] == 0.0);
    }
}

static void windows_are_aligned_with_the_last_key(void **state)
{
    (void)state;
    struct reference_problem problem = plain();
    problem.score = (struct reference_score){.features = CLATTN_WINDOW, .window_left = 1, .window_right = 0};
    assert_sees(&problem, (const char *const[]){".xx...", "..xx..", "...xx.", "....xx"});
    problem.score.window_left = problem.score.window_right = 0;
    assert_sees(&problem, (const char *const[]){"..x...", "...x..", "....x.", ".....x"});
    problem.score.window_right = CLATTN_UNLIMITED;
    assert_sees(&problem, (const char *const[]){"..xxxx", "...xxx", "....xx", ".....x"});
    problem.causal = CLATTN_CAUSAL_TOP_LEFT;
    problem.score.window_left = 1;
    assert_sees(&problem, (const char *const[]){"x.....", "xx....", ".xx...", "..xx.."});
}

static void lengths_move_the_last_key(void **state)
{
    (void)state;
    const int32_t lengths[] = {4}, none[] = {-3}, many[] = {99};
    struct reference_problem problem = plain();
    problem.score = (struct reference_score){.features = CLATTN_KEY_LENGTHS, .key_lengths = lengths};
    assert_sees(&problem, (const char *const[]){"xxxx..", "xxxx..", "xxxx..", "xxxx.."});
    problem.causal = CLATTN_CAUSAL_BOTTOM_RIGHT;
    assert_sees(&problem, (const char *const[]){"x.....", "xx....", "xxx...", "xxxx.."});
    problem.score.key_lengths = none;
    assert_sees(&problem, (const char *const[]){"......", "......", "......", "......"});
    problem.score.key_lengths = many;
    assert_sees(&problem, (const char *const[]){"xxx...", "xxxx..", "xxxxx.", "xxxxxx"});
}

static bool odd_ones(int b, int h, int i, int j, const float *data)
{
    (void)b, (void)h;
    return (i + j) % 2 == (int)data[0];
}

static void masks_hide(void **state)
{
    (void)state;
    const uint8_t mask[N_Q * N_KV] = {1,      0, 2, 0, 255, 0, /**/ 0, 0, 0, 0, 0, 0,
                                      /**/ 1, 1, 1, 1, 1,   1, /**/ 0, 0, 0, 0, 0, 9};
    const uint8_t row[N_KV] = {0, 1, 1, 0, 0, 1}, blocks[] = {1, 0, 1, 0, 0, 1};
    const float data[] = {1.0f};
    struct reference_problem problem = plain();
    problem.score = (struct reference_score){.features = CLATTN_MASK, .mask = mask};
    assert_sees(&problem, (const char *const[]){"x.x.x.", "......", "xxxxxx", ".....x"});
    problem.score.mask = row;
    problem.score.mask_at = (struct clattn_layout){.column = 1};
    assert_sees(&problem, (const char *const[]){".xx..x", ".xx..x", ".xx..x", ".xx..x"});
    problem.score =
        (struct reference_score){.features = CLATTN_BLOCK_MASK, .block_mask = blocks, .block_q = 2, .block_kv = 2};
    assert_sees(&problem, (const char *const[]){"xx..xx", "xx..xx", "....xx", "....xx"});
    problem.score = (struct reference_score){.mask_mod = odd_ones, .data = data};
    assert_sees(&problem, (const char *const[]){".x.x.x", "x.x.x.", ".x.x.x", "x.x.x."});
}

static double half_plus(double score, int b, int h, int i, int j, const float *data)
{
    (void)b, (void)h, (void)i;
    return j == 5 ? -INFINITY : score / 2.0 + (double)data[j];
}

/* Softcap, then alibi, then bias, then the user's. */
static void modifications_come_in_order(void **state)
{
    (void)state;
    const float slopes[] = {0.25f}, bias[] = {0.0f, 1.0f, -INFINITY, 2.0f, 0.5f, 0.0f}, data[6] = {3.0f};
    struct reference_problem problem = plain();
    problem.score = (struct reference_score){.features = CLATTN_SOFTCAP | CLATTN_ALIBI | CLATTN_BIAS,
                                             .softcap = 0.5,
                                             .alibi = slopes,
                                             .bias = bias,
                                             .bias_at = {.column = 1},
                                             .score_mod = half_plus,
                                             .data = data};
    const struct answer answer = ask(&problem);
    for (int i = 0; i < N_Q; i++) {
        double scores[N_KV], sum = 0.0;
        for (int j = 0; j < N_KV; j++) {
            const double score = 0.5 * tanh(2.0) - 0.25 * fabs((double)(i + 2 - j)) + (double)bias[j];
            scores[j] = j == 5 ? -INFINITY : score / 2.0 + (double)data[j];
            sum += exp(scores[j]);
        }
        assert_near(answer.lse[i], log(sum));
        for (int j = 0; j < N_KV; j++)
            assert_near(answer.weights[i][j], exp(scores[j]) / sum);
    }
}

static void sinks_take_weight(void **state)
{
    (void)state;
    const float sinks[] = {3.0f}, none[] = {-INFINITY};
    const int32_t no_key[] = {0};
    struct reference_problem problem = plain();
    problem.score = (struct reference_score){.features = CLATTN_SINKS, .sinks = sinks};
    struct answer answer = ask(&problem);
    assert_near(answer.weights[0][0], exp(1.0) / (6.0 * exp(1.0) + exp(3.0)));
    assert_near(answer.lse[0], log(6.0 * exp(1.0) + exp(3.0)));
    assert_true(answer.m[0] == 3.0);
    problem.score.features |= CLATTN_KEY_LENGTHS;
    problem.score.key_lengths = no_key;
    answer = ask(&problem);
    assert_true(answer.weights[0][0] == 0.0 && answer.lse[0] == 3.0 && answer.m[0] == 3.0 && answer.l[0] == 1.0);
    problem.score.features = CLATTN_SINKS;
    problem.score.sinks = none;
    assert_sees(&problem, (const char *const[]){"xxxxxx", "xxxxxx", "xxxxxx", "xxxxxx"});
}

/* Sequences of 1 and 0 rows with 2 and 4 keys, and one of 3 rows without keys. */
static void sequences_lie_end_to_end(void **state)
{
    (void)state;
    const int32_t rows[] = {0, 1, 1, 4}, keys[] = {0, 2, 6, 6};
    struct reference_problem problem = plain();
    problem.causal = CLATTN_CAUSAL_BOTTOM_RIGHT;
    problem.shape.batch = 3;
    problem.score = (struct reference_score){
        .features = CLATTN_VARLEN, .cu_seqlens_q = rows, .cu_seqlens_kv = keys, .total_q = N_Q, .total_kv = N_KV};
    assert_int_equal(reference_row_count(&problem), N_Q);
    assert_sees(&problem, (const char *const[]){"xx....", "......", "......", "......"});
}

static void what_is_hidden_is_not_read(void **state)
{
    (void)state;
    const uint8_t mask[] = {1, 0, 1};
    const float q[] = {1.0f}, k[] = {0.0f, NAN, 0.0f}, v[] = {2.0f, INFINITY, 4.0f};
    const struct reference_problem problem = {.d = 1,
                                              .d_v = 1,
                                              .shape = {.batch = 1, .heads = 1, .n_q = 1, .n_kv = 3},
                                              .score = {.features = CLATTN_MASK, .mask = mask}};
    double o;
    float naive;
    assert_true(reference_attention(&problem, q, k, v, &o, NULL, NULL, NULL));
    assert_true(reference_naive(&problem, q, k, v, &naive));
    assert_true(o == 3.0 && naive == 3.0f);
    const struct reference_floor floor = reference_floor(&problem, q, k, v, &o);
    assert_true(floor.o < 1e-5 && floor.rows < 1e-5);
}

/* The known answers of Random123 for Philox 4x32-7. */
static void philox_is_philox(void **state)
{
    (void)state;
    static const uint32_t known[][10] = {{0, 0, 0, 0, 0, 0, 0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48},
                                         {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff,
                                          0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662},
                                         {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0,
                                          0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint32_t words[4];
        reference_philox(known[i], known[i] + 4, words);
        assert_memory_equal(words, known[i] + 6, sizeof words);
    }
}

static void dropout_keeps_its_share(void **state)
{
    (void)state;
    static const double shares[] = {0.0, 0.1, 0.5, 0.9, 0.99999};
    for (size_t n = 0; n < sizeof shares / sizeof shares[0]; n++) {
        struct reference_problem problem = plain();
        problem.shape.heads = 3;
        problem.score = (struct reference_score){
            .features = CLATTN_DROPOUT, .dropout_p = shares[n], .dropout_seed = 99, .dropout_offset = 5};
        int kept = 0, neighbours = 0;
        for (int i = 0; i < 300; i++)
            for (int j = 0; j < 300; j++) {
                kept += reference_kept(&problem, 1, 2, i, j);
                neighbours += reference_kept(&problem, 1, 2, i, j) && reference_kept(&problem, 1, 2, i, j + 1);
            }
        assert_true(fabs(kept / 90000.0 - (1.0 - shares[n])) < 0.01);
        assert_true(fabs(neighbours / 90000.0 - (1.0 - shares[n]) * (1.0 - shares[n])) < 0.01);
        if (shares[n] == 0.0)
            assert_int_equal(kept, 90000);
    }
}

/* Each of seed (both halves), offset, b, h, i and j counts. */
static void dropout_differs_where_it_should(void **state)
{
    (void)state;
    struct reference_problem problem = plain();
    problem.shape.heads = 3;
    problem.score = (struct reference_score){.features = CLATTN_DROPOUT, .dropout_p = 0.5};
    struct reference_problem others[3] = {problem, problem, problem};
    others[0].score.dropout_seed = 1;
    others[1].score.dropout_seed = UINT64_C(1) << 32;
    others[2].score.dropout_offset = 1;
    int differ[6] = {0};
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < 64; j++) {
            const bool kept = reference_kept(&problem, 0, 0, i, j);
            for (int n = 0; n < 3; n++)
                differ[n] += reference_kept(&others[n], 0, 0, i, j) != kept;
            differ[3] += reference_kept(&problem, 1, 0, i, j) != kept;
            differ[4] += reference_kept(&problem, 0, 1, i, j) != kept;
            differ[5] += reference_kept(&problem, 0, 0, j, i) != kept;
        }
    for (int n = 0; n < 6; n++)
        assert_in_range(differ[n], 1848, 2248);
}

/* What is kept is scaled up so that the mean stays; l and LSE do not know of it. */
static void dropout_scales_up(void **state)
{
    (void)state;
    struct reference_problem problem = plain();
    problem.score = (struct reference_score){.features = CLATTN_DROPOUT, .dropout_p = 0.25, .dropout_seed = 3};
    const struct answer answer = ask(&problem);
    for (int i = 0; i < N_Q; i++)
        for (int j = 0; j < N_KV; j++) {
            const bool kept = reference_kept(&problem, 0, 0, i, j);
            assert_near(answer.weights[i][j], kept ? 1.0 / 6.0 / 0.75 : 0.0);
        }
    assert_near(answer.lse[0], 1.0 + log(6.0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_are_aligned_with_the_last_key),
        cmocka_unit_test(lengths_move_the_last_key),
        cmocka_unit_test(masks_hide),
        cmocka_unit_test(modifications_come_in_order),
        cmocka_unit_test(sinks_take_weight),
        cmocka_unit_test(sequences_lie_end_to_end),
        cmocka_unit_test(what_is_hidden_is_not_read),
        cmocka_unit_test(philox_is_philox),
        cmocka_unit_test(dropout_keeps_its_share),
        cmocka_unit_test(dropout_differs_where_it_should),
        cmocka_unit_test(dropout_scales_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
