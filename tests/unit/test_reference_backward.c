/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The reference's gradients against finite differences of its forward pass, for every feature and for combinations of
 * them. */
#include "support/score.h"
#include "support/unit.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, HEADS = 4, KV_HEADS = 2, N_Q = 5, N_KV = 7, D = 3, D_V = 2, MOST = 512, COMBINATIONS = 60 };
enum { SCORE_MOD = 1024, MASK_MOD = 2048 };

/* One problem with its data; tensors are as long as needed, the rest is not looked at. */
struct trial {
    struct clattn_problem problem;
    struct score_case score;
    struct score_arrays arrays;
    struct reference_problem reference;
    float q[MOST], k[MOST], v[MOST], d_o[MOST];
};

/* In steps of 1/256, so that the small steps of a difference are exact. */
static void fill(struct random *random, float *values)
{
    for (int i = 0; i < MOST; i++)
        values[i] = (float)(random_below(random, 769) - 384) / 256.0f;
}

static bool trial_make(struct trial *trial, unsigned features, enum clattn_causal causal, uint64_t seed)
{
    const struct clattn_shape shape = {.batch = BATCH, .heads = HEADS, .kv_heads = KV_HEADS, .n_q = N_Q, .n_kv = N_KV};
    struct random random = {.state = seed};
    *trial = (struct trial){.score = score_typical(),
                            .problem = {.d = D, .d_v = D_V, .causal = causal, .features = features & 1023}};
    trial->problem.score_mod = features & SCORE_MOD ? score_mod_text : NULL;
    trial->problem.mask_mod = features & MASK_MOD ? mask_mod_text : NULL;
    trial->problem.block_q = 2;
    trial->problem.block_kv = 3;
    trial->score.window_left = random_below(&random, 4);
    trial->score.window_right = random_below(&random, 3);
    trial->score.one_batch = random_below(&random, 2) == 0;
    trial->score.one_head = random_below(&random, 2) == 0;
    fill(&random, trial->q);
    fill(&random, trial->k);
    fill(&random, trial->v);
    fill(&random, trial->d_o);
    if (!score_arrays_make(&trial->problem, &shape, &trial->score, seed, &trial->arrays))
        return false;
    trial->reference = (struct reference_problem){.d = D, .d_v = D_V, .causal = causal, .shape = shape};
    trial->reference.score = score_reference(&trial->problem, &trial->score, &trial->arrays);
    return true;
}

/* sum(O * dO) */
static double loss(const struct trial *trial)
{
    double o[MOST] = {0.0}, sum = 0.0;
    assert_true(reference_attention(&trial->reference, trial->q, trial->k, trial->v, o, NULL, NULL, NULL));
    for (size_t i = 0; i < reference_o_count(&trial->reference); i++)
        sum += o[i] * (double)trial->d_o[i];
    return sum;
}

static double shifted_loss(const struct trial *trial, float *value, double by)
{
    const float kept = *value;
    *value = (float)((double)kept + by);
    const double answer = loss(trial);
    *value = kept;
    return answer;
}

/* The derivative by central differences of fourth order. */
static double difference(const struct trial *trial, float *value)
{
    const double h = 0x1p-9;
    const double near = shifted_loss(trial, value, h) - shifted_loss(trial, value, -h);
    const double far = shifted_loss(trial, value, 2.0 * h) - shifted_loss(trial, value, -2.0 * h);
    return (8.0 * near - far) / (12.0 * h);
}

static int compare(const struct trial *trial, const char *name, float *values, const double *gradient, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const double expected = difference(trial, &values[i]);
        if (!(fabs(gradient[i] - expected) <= 1e-6 * (1.0 + fabs(expected)))) {
            print_error("%s[%zu] is %.12g, not %.12g\n", name, i, gradient[i], expected);
            return 1;
        }
    }
    return 0;
}

static void round_to_steps(float *values, size_t count)
{
    for (size_t i = 0; i < count && values; i++)
        values[i] = roundf(values[i] * 256.0f) / 256.0f;
}

static int failures_of(unsigned features, enum clattn_causal causal, uint64_t seed)
{
    struct trial trial;
    double d_q[MOST], d_k[MOST], d_v[MOST], d_bias[MOST], d_sinks[HEADS];
    const struct reference_gradients gradients = {d_q, d_k, d_v, d_bias, d_sinks};
    struct reference_gradient_floor floor;
    assert_true(trial_make(&trial, features, causal, seed));
    round_to_steps(trial.arrays.sinks, HEADS);
    round_to_steps(trial.arrays.bias, reference_d_bias_count(&trial.reference));
    assert_true(reference_backward(&trial.reference, trial.q, trial.k, trial.v, trial.d_o, &gradients, &floor));
    int failures = compare(&trial, "d_q", trial.q, d_q, reference_q_count(&trial.reference)) +
                   compare(&trial, "d_k", trial.k, d_k, reference_k_count(&trial.reference)) +
                   compare(&trial, "d_v", trial.v, d_v, reference_v_count(&trial.reference));
    if (features & CLATTN_BIAS)
        failures += compare(&trial, "d_bias", trial.arrays.bias, d_bias, reference_d_bias_count(&trial.reference));
    if (features & CLATTN_SINKS)
        failures += compare(&trial, "d_sinks", trial.arrays.sinks, d_sinks, HEADS);
    failures += !(floor.d_q < 2e-4 && floor.d_k < 2e-4 && floor.d_v < 2e-4 && floor.d_bias < 1e-3);
    if (failures)
        print_error("features %u, causal %d, seed %llu; floors %g %g %g %g\n", features, (int)causal,
                    (unsigned long long)seed, floor.d_q, floor.d_k, floor.d_v, floor.d_bias);
    score_arrays_free(&trial.arrays);
    return failures;
}

static void every_feature_alone(void **state)
{
    (void)state;
    int failures = 0;
    for (int causal = 0; causal < 3; causal++) {
        failures += failures_of(0, (enum clattn_causal)causal, 1);
        for (unsigned bit = 1; bit <= MASK_MOD; bit *= 2)
            failures += failures_of(bit, (enum clattn_causal)causal, bit);
    }
    assert_int_equal(failures, 0);
}

static void combinations(void **state)
{
    (void)state;
    struct random random = {.state = 31};
    int failures = 0;
    for (int n = 0; n < COMBINATIONS; n++) {
        const unsigned features = (unsigned)(random_next(&random) & random_next(&random)) & 4095u;
        failures += failures_of(features, (enum clattn_causal)random_below(&random, 3), (uint64_t)n + 100);
    }
    assert_int_equal(failures, 0);
}

/* Naive gradients are close, and the rule lets them pass but nothing much worse. */
static void the_naive_run_is_as_good_as_its_type(void **state)
{
    (void)state;
    static const double unit[] = {0x1p-24, 0x1p-11, 0x1p-8};
    for (int dtype = 0; dtype < 3; dtype++) {
        struct trial trial;
        assert_true(trial_make(&trial, CLATTN_SOFTCAP | CLATTN_BIAS | CLATTN_SINKS, CLATTN_FULL, 77));
        trial.reference.dtype = (enum clattn_dtype)dtype;
        float *const inputs[] = {trial.q, trial.k, trial.v, trial.d_o};
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < MOST; j++)
                inputs[i][j] = reference_round(trial.reference.dtype, inputs[i][j]);
        double exact[3][MOST], d_sinks[HEADS];
        float naive[3][MOST], naive_sinks[HEADS];
        struct reference_gradient_floor floor;
        assert_true(reference_backward(&trial.reference, trial.q, trial.k, trial.v, trial.d_o,
                                       &(struct reference_gradients){exact[0], exact[1], exact[2], NULL, d_sinks},
                                       &floor));
        assert_true(reference_naive_backward(
            &trial.reference, trial.q, trial.k, trial.v, trial.d_o,
            &(struct reference_naive_gradients){naive[0], naive[1], naive[2], NULL, naive_sinks}));
        const size_t counts[] = {reference_q_count(&trial.reference), reference_k_count(&trial.reference),
                                 reference_v_count(&trial.reference)};
        const double floors[] = {floor.d_q, floor.d_k, floor.d_v};
        for (int i = 0; i < 3; i++) {
            const struct reference_verdict off = reference_judge_gradient(naive[i], exact[i], NULL, counts[i], 0.0);
            assert_true(off.error > unit[dtype] / 8 && off.error < unit[dtype] * 64);
            assert_true(floors[i] > 0.0 && floors[i] < unit[dtype] * 512);
            assert_true(reference_judge_gradient(naive[i], exact[i], naive[i], counts[i], 0.0).pass);
            naive[i][3] += (float)(6.0 * off.error + floors[i]);
            assert_false(reference_judge_gradient(naive[i], exact[i], NULL, counts[i], 3.0 * off.error).pass);
        }
        assert_true(fabs((double)naive_sinks[1] - d_sinks[1]) < unit[dtype] * 64);
        score_arrays_free(&trial.arrays);
    }
}

/* Hidden keys, and rows that see none, may hold anything. */
static void what_is_hidden_is_not_read(void **state)
{
    (void)state;
    const int32_t keys[] = {3, 0};
    struct trial clean, dirty;
    double a[3][MOST], b[3][MOST];
    struct reference_gradient_floor floor;
    assert_true(trial_make(&clean, 0, CLATTN_FULL, 5));
    clean.reference.score = (struct reference_score){.features = CLATTN_KEY_LENGTHS, .key_lengths = keys};
    dirty = clean;
    for (size_t head = 0; head < BATCH * KV_HEADS; head++)
        for (size_t c = 3 * D; c < N_KV * D; c++)
            dirty.k[head * N_KV * D + c] = NAN;
    for (size_t c = reference_q_count(&clean.reference) / 2; c < MOST; c++)
        dirty.q[c] = INFINITY;
    for (size_t c = reference_o_count(&clean.reference) / 2; c < MOST; c++)
        dirty.d_o[c] = NAN;
    assert_true(reference_backward(&clean.reference, clean.q, clean.k, clean.v, clean.d_o,
                                   &(struct reference_gradients){.d_q = a[0], .d_k = a[1], .d_v = a[2]}, NULL));
    assert_true(reference_backward(&dirty.reference, dirty.q, dirty.k, dirty.v, dirty.d_o,
                                   &(struct reference_gradients){.d_q = b[0], .d_k = b[1], .d_v = b[2]}, &floor));
    assert_memory_equal(a[0], b[0], reference_q_count(&clean.reference) * sizeof a[0][0]);
    assert_memory_equal(a[1], b[1], reference_k_count(&clean.reference) * sizeof a[0][0]);
    assert_memory_equal(a[2], b[2], reference_v_count(&clean.reference) * sizeof a[0][0]);
    assert_true(floor.d_q < 2e-4 && floor.d_k < 2e-4 && floor.d_v < 2e-4);
    score_arrays_free(&clean.arrays);
}

/* The gradient of a sink over the first rows, where the forward pass rounds weights to bf16 before they multiply V and
 * keeps O in fp32, as matrix units do. */
static float sink_by_rounded_weights(const struct reference_problem *problem, const float *q, const float *k,
                                     const float *v, const float *d_o, int64_t rows)
{
    const int64_t n_q = problem->shape.n_q, n_kv = problem->shape.n_kv;
    double sum = 0.0;
    for (int64_t row = 0; row < rows; row++) {
        double p[64], total = exp((double)problem->score.sinks[0]), delta = 0.0;
        const int64_t first = row / n_q * n_kv;
        for (int64_t j = 0; j < n_kv; j++) {
            double score = 0.0;
            for (int c = 0; c < D; c++)
                score += (double)q[row * D + c] * (double)k[(first + j) * D + c];
            p[j] = exp(score / sqrt(D));
            total += p[j];
        }
        for (int64_t j = 0; j < n_kv; j++) {
            double d_p = 0.0;
            for (int c = 0; c < D_V; c++)
                d_p += (double)d_o[row * D_V + c] * (double)v[(first + j) * D_V + c];
            delta += (double)reference_round(CLATTN_BF16, (float)(p[j] / total)) * d_p;
        }
        sum -= exp((double)problem->score.sinks[0]) / total * delta;
    }
    return (float)sum;
}

/* Of one number the naive run may be right by luck; what rounded weights do to it passes all the same, and a few rows
 * that are left out do not. */
static void a_single_sink_is_not_judged_by_luck(void **state)
{
    (void)state;
    enum { ROWS = 200, KEYS = 16, BATCHES = 4, ALL = BATCHES * ROWS * D, SEEDS = 60, LEFT_OUT = 8 };
    static float q[ALL], k[ALL], v[ALL], d_o[ALL];
    const float sink = 1.0f;
    int by_luck = 0, refused = 0;
    double largest = 0.0;
    for (int seed = 0; seed < SEEDS; seed++) {
        struct random random = {.state = (uint64_t)seed};
        float *const inputs[] = {q, k, v, d_o};
        for (int i = 0; i < 4; i++) {
            random_normal(&random, 1.0, inputs[i], ALL);
            for (int j = 0; j < ALL; j++)
                inputs[i][j] = reference_round(CLATTN_BF16, inputs[i][j]);
        }
        const struct reference_problem problem = {
            .d = D,
            .d_v = D_V,
            .dtype = CLATTN_BF16,
            .types = {[REFERENCE_O] = CLATTN_AS_FP32},
            .shape = {.batch = BATCHES, .heads = 1, .kv_heads = 1, .n_q = ROWS, .n_kv = KEYS},
            .score = {.features = CLATTN_SINKS, .sinks = &sink}};
        double exact;
        float naive;
        struct reference_gradient_floor floor;
        assert_true(
            reference_backward(&problem, q, k, v, d_o, &(struct reference_gradients){.d_sinks = &exact}, &floor));
        assert_true(
            reference_naive_backward(&problem, q, k, v, d_o, &(struct reference_naive_gradients){.d_sinks = &naive}));
        const float got = sink_by_rounded_weights(&problem, q, k, v, d_o, BATCHES * ROWS);
        const double off = fabs((double)got - exact), allowed = 3.0 * fabs((double)naive - exact);
        by_luck += off > allowed;
        largest = fmax(largest, off / (floor.d_sinks + allowed));
        assert_true(reference_judge_gradient(&got, &exact, &naive, 1, floor.d_sinks).pass);
        const float less = sink_by_rounded_weights(&problem, q, k, v, d_o, BATCHES * ROWS - LEFT_OUT);
        refused += !reference_judge_gradient(&less, &exact, &naive, 1, floor.d_sinks).pass;
    }
    printf("%d of %d beyond 3 times the naive error, the largest %.2f of what is allowed; without %d of %d rows %d are "
           "refused\n",
           by_luck, SEEDS, largest, LEFT_OUT, BATCHES * ROWS, refused);
    assert_true(by_luck > 0); /* else nothing is shown */
    assert_true(refused > SEEDS / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_feature_alone),
        cmocka_unit_test(combinations),
        cmocka_unit_test(the_naive_run_is_as_good_as_its_type),
        cmocka_unit_test(what_is_hidden_is_not_read),
        cmocka_unit_test(a_single_sink_is_not_judged_by_luck),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
