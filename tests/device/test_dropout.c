/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Dropout to the bit: what the kernels drop is what clattn_dropout_mask says, for every skeleton, tile size, chunking
 * and in both directions.
 *
 * Q = 0 makes all weights equal. In the forward pass V is the unit matrix, so that O[i][j] is the weight of pair (i,
 * j), and 0 where it is dropped. In the backward pass K and dO are unit matrices and V is 1: then dV[j][i] is that
 * weight, and dQ[i][j] has a sign that tells whether the pair was kept. */
#include "support/backward.h"
#include "support/compare.h"
#include "support/state.h"
#include "support/unit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct test_device device;

enum { BATCH = 2, HEADS = 2, N_Q = 104, N_KV = 120 };

/* In the order of what they cost to compile, the last as planned. */
static const int tiles[][2] = {{16, 16}, {32, 64}, {64, 32}, {128, 16}, {0, 0}};
enum { TILES = sizeof tiles / sizeof tiles[0] };

static struct forward_case case_of(const char *skeleton, int dtype, int d, int d_v)
{
    struct forward_case forward = {.problem = {.dtype = (enum clattn_dtype)dtype,
                                               .d = d,
                                               .d_v = d_v,
                                               .features = CLATTN_DROPOUT,
                                               .skeleton = skeleton},
                                   .shape = {.batch = BATCH, .heads = HEADS, .n_q = N_Q, .n_kv = N_KV},
                                   .score = score_typical(),
                                   .seed = 5};
    forward.score.dropout_p = 0.3f;
    return forward;
}

/* What the host says about one head. */
static void ask_host(const struct forward_case *forward, int64_t b, int64_t h, uint8_t *mask)
{
    const struct score_case *score = &forward->score;
    assert_int_equal(clattn_dropout_mask(score->dropout_p, score->dropout_seed, score->dropout_offset, HEADS, b, h, 0,
                                         N_Q, 0, N_KV, mask),
                     CLATTN_SUCCESS);
}

static bool pair_agrees(bool kept, uint8_t mask, const char *what, int64_t i, int64_t j)
{
    if (kept != (mask != 0))
        print_error("%s: pair (%lld, %lld) is %s, the host says otherwise\n", what, (long long)i, (long long)j,
                    kept ? "kept" : "dropped");
    return kept == (mask != 0);
}

/* weights[i * row + j * column] of each head is positive where the pair is kept, else 0 or less. */
static bool agrees(const struct forward_case *forward, const char *what, const float *weights, int64_t row,
                   int64_t column)
{
    bool right = true;
    for (int64_t head = 0; head < BATCH * HEADS && right; head++) {
        uint8_t mask[N_Q * N_KV];
        ask_host(forward, head / HEADS, head % HEADS, mask);
        for (int64_t i = 0; i < N_Q && right; i++)
            for (int64_t j = 0; j < N_KV && right; j++) {
                const float weight = weights[head * N_Q * N_KV + i * row + j * column];
                right = pair_agrees(weight > 0.0f, mask[i * N_KV + j], what, i, j);
            }
    }
    return right;
}

static void set_unit(float *matrices, size_t rows, size_t columns)
{
    memset(matrices, 0, BATCH * HEADS * rows * columns * sizeof *matrices);
    for (size_t i = 0; i < BATCH * HEADS * rows; i++)
        if (i % rows < columns)
            matrices[i * columns + i % rows] = 1.0f;
}

static bool prepare_forward(const struct forward_case *forward, struct forward_arrays *arrays)
{
    if (!forward_arrays_make(forward, arrays))
        return false;
    memset(arrays->q, 0, (size_t)(BATCH * HEADS * N_Q * forward->problem.d) * sizeof(float));
    set_unit(arrays->v, N_KV, N_KV);
    return true;
}

static bool run_agrees(const struct forward_case *forward, struct forward_arrays *arrays, const char *what)
{
    return forward_run(&device, NULL, forward, arrays) && agrees(forward, what, arrays->o, N_KV, 1);
}

/* Without m and l kernels may form weights, and drop them, in another way. */
static bool forward_agrees(const struct forward_case *forward)
{
    struct forward_arrays arrays;
    bool right = prepare_forward(forward, &arrays) && run_agrees(forward, &arrays, "forward");
    arrays.without_m = true;
    right = right && run_agrees(forward, &arrays, "forward without m and l");
    forward_arrays_free(&arrays);
    return right;
}

typedef bool (*agrees_function)(const struct forward_case *forward);

/* Forces the tile on the case; false where the skeleton does not take it. */
static bool takes_tile(struct forward_case *forward, const int tile[2])
{
    struct clattn_plan_info info;
    forward->problem.b_r = tile[0];
    forward->problem.b_c = tile[1];
    return !clattn_plan_preview(clattn_context_capabilities(device.clattn), &forward->problem, &info);
}

/* With all tiles that the skeleton takes; where it is not at home, with the first of them. */
static int failures_of_tiles(const struct cla_skeleton *skeleton, struct forward_case forward,
                             agrees_function drops_right)
{
    int failures = 0;
    const bool all = test_takes(&device, skeleton, 1, 2);
    bool tried = false;
    forward.problem.skeleton = skeleton->name;
    for (int i = 0; i < TILES && (all || !tried); i++) {
        if (!takes_tile(&forward, tiles[i]))
            continue;
        tried = true;
        if (!drops_right(&forward)) {
            print_error("%s, b_r %d, b_c %d\n", skeleton->name, tiles[i][0], tiles[i][1]);
            failures++;
        }
    }
    return failures + (!tried && test_serves(&device, &forward.problem));
}

static void the_forward_pass_drops_what_the_host_says(void **state)
{
    (void)state;
    int failures = 0;
    for (const struct cla_skeleton *const *skeleton = test_skeletons(); *skeleton; skeleton++)
        failures += failures_of_tiles(*skeleton, case_of(NULL, CLATTN_FP16, 32, N_KV), forward_agrees);
    assert_int_equal(failures, 0);
}

/* Of one digit, the first or the last; of all. */
static void thresholds_of_few_digits_and_many(void **state)
{
    (void)state;
    static const int thresholds[] = {1, 2, 64, 1365, 2048, 2730, 4094, 4095};
    static const int small[] = {64, 32}; /* several tiles: the first has no bounds to go by */
    int failures = 0;
    for (const struct cla_skeleton *const *skeleton = test_skeletons(); *skeleton; skeleton++)
        for (size_t i = 0; i < sizeof thresholds / sizeof *thresholds; i++) {
            struct forward_case forward = case_of((*skeleton)->name, i % 2 ? CLATTN_BF16 : CLATTN_FP16, 32, N_KV);
            forward.score.dropout_p = (float)thresholds[i] / 4096;
            forward.problem.dropout_p = i / 2 % 2 ? forward.score.dropout_p : 0.0f; /* compiled in, and of the call */
            if (!takes_tile(&forward, small) || !test_takes(&device, *skeleton, (int)i, 4) || forward_agrees(&forward))
                continue;
            print_error("%s, threshold %d\n", (*skeleton)->name, thresholds[i]);
            failures++;
        }
    assert_int_equal(failures, 0);
}

static bool chunks_agree(const struct forward_case *forward)
{
    static const int64_t ends[] = {7, 40, 41, 96, N_KV};
    struct forward_arrays arrays;
    const bool right = prepare_forward(forward, &arrays) && state_run(&device, forward, ends, 5, &arrays) &&
                       agrees(forward, "chunks", arrays.o, N_KV, 1);
    forward_arrays_free(&arrays);
    return right;
}

static void chunks_drop_what_the_whole_drops(void **state)
{
    (void)state;
    int failures = 0;
    struct forward_case forward = case_of(NULL, CLATTN_FP16, 32, N_KV);
    forward.problem.pass = CLATTN_ACCUMULATE;
    for (const struct cla_skeleton *const *skeleton = test_skeletons(); *skeleton; skeleton++)
        failures += failures_of_tiles(*skeleton, forward, chunks_agree);
    assert_int_equal(failures, 0);
}

static bool backward_agrees(const struct forward_case *forward)
{
    struct backward_arrays arrays;
    if (!backward_arrays_make(forward, &arrays))
        return false;
    memset(arrays.forward.q, 0, BATCH * HEADS * N_Q * N_KV * sizeof(float));
    set_unit(arrays.forward.k, N_KV, N_KV);
    set_unit(arrays.d_o, N_Q, N_Q);
    for (size_t i = 0; i < BATCH * HEADS * N_KV * N_Q; i++)
        arrays.forward.v[i] = 1.0f;
    const bool right = backward_arrays_refresh(forward, &arrays) &&
                       backward_run(&device, NULL, forward, BACKWARD_ALL, &arrays) &&
                       agrees(forward, "dV", arrays.d_v, 1, N_Q) && agrees(forward, "dQ", arrays.d_q, N_KV, 1);
    backward_arrays_free(&arrays);
    return right;
}

static void the_backward_pass_drops_the_same(void **state)
{
    (void)state;
    int failures = 0;
    struct forward_case forward = case_of(NULL, CLATTN_FP16, N_KV, N_Q);
    forward.problem.pass = CLATTN_BACKWARD;
    for (const struct cla_skeleton *const *skeleton = test_backward_skeletons(); *skeleton; skeleton++)
        failures += failures_of_tiles(*skeleton, forward, backward_agrees);
    assert_int_equal(failures, 0);
}

/* A case as it is and with the seed in device memory, where O has the same bits. */
static bool seed_agrees(const struct forward_case *by_value)
{
    const size_t bytes = (size_t)(BATCH * HEADS * N_Q * N_KV) * sizeof(float);
    struct forward_case forward = *by_value;
    struct forward_arrays arrays;
    forward.problem.rng_state = 1;
    float *const o = malloc(bytes);
    bool right = o && prepare_forward(&forward, &arrays) && run_agrees(by_value, &arrays, "seed by value");
    if (right)
        memcpy(o, arrays.o, bytes);
    right = right && run_agrees(&forward, &arrays, "seed in device memory") && memcmp(o, arrays.o, bytes) == 0;
    forward_arrays_free(&arrays);
    free(o);
    return right;
}

static bool seed_of_chunks_agrees(const struct forward_case *by_value)
{
    struct forward_case forward = *by_value;
    forward.problem.rng_state = 1;
    return chunks_agree(&forward);
}

static bool seed_of_gradients_agrees(const struct forward_case *by_value)
{
    struct forward_case forward = *by_value;
    forward.problem.rng_state = 1;
    return backward_agrees(&forward);
}

/* The first tile that the skeleton takes, where it is at home: all others read the seed by the same text. */
static int failures_of_one_tile(const struct cla_skeleton *skeleton, struct forward_case forward,
                                agrees_function drops_right)
{
    forward.problem.skeleton = skeleton->name;
    for (int i = 0; i < TILES && test_takes(&device, skeleton, 1, 2); i++) {
        if (!takes_tile(&forward, tiles[i]))
            continue;
        if (!drops_right(&forward))
            print_error("%s, b_r %d, b_c %d: the seed is in device memory\n", skeleton->name, tiles[i][0], tiles[i][1]);
        else
            return 0;
        return 1;
    }
    return test_takes(&device, skeleton, 1, 2) && test_serves(&device, &forward.problem);
}

static void a_seed_in_device_memory_drops_the_same(void **state)
{
    (void)state;
    int failures = 0;
    struct forward_case forward = case_of(NULL, CLATTN_FP16, 32, N_KV);
    for (const struct cla_skeleton *const *skeleton = test_skeletons(); *skeleton; skeleton++)
        failures += failures_of_one_tile(*skeleton, forward, seed_agrees);
    forward.problem.pass = CLATTN_ACCUMULATE;
    for (const struct cla_skeleton *const *skeleton = test_skeletons(); *skeleton; skeleton++)
        failures += failures_of_one_tile(*skeleton, forward, seed_of_chunks_agrees);
    forward = case_of(NULL, CLATTN_FP16, N_KV, N_Q);
    forward.problem.pass = CLATTN_BACKWARD;
    for (const struct cla_skeleton *const *skeleton = test_backward_skeletons(); *skeleton; skeleton++)
        failures += failures_of_one_tile(*skeleton, forward, seed_of_gradients_agrees);
    assert_int_equal(failures, 0);
}

/* The host's answer is the judge's, wherever in the matrix it is asked. */
static void any_part_of_the_mask(void **state)
{
    (void)state;
    static const int64_t places[][2] = {{0, 0}, {3, 17}, {1000, 31}, {70000, 4095}, {1, INT64_C(1) << 20}};
    struct forward_case forward = case_of(NULL, CLATTN_FP32, 32, 32);
    struct score_arrays none = {0};
    struct reference_problem problem = forward_reference(&forward);
    problem.score = score_reference(&forward.problem, &forward.score, &none);
    for (size_t n = 0; n < sizeof places / sizeof places[0]; n++) {
        uint8_t mask[13 * 21];
        assert_int_equal(clattn_dropout_mask(forward.score.dropout_p, forward.score.dropout_seed,
                                             forward.score.dropout_offset, HEADS, 1, 1, places[n][0], 13, places[n][1],
                                             21, mask),
                         CLATTN_SUCCESS);
        for (int64_t i = 0; i < 13; i++)
            for (int64_t j = 0; j < 21; j++)
                assert_int_equal(mask[i * 21 + j], reference_kept(&problem, 1, 1, places[n][0] + i, places[n][1] + j));
    }
}

static void bad_requests_are_refused(void **state)
{
    (void)state;
    uint8_t mask[4];
    assert_int_equal(clattn_dropout_mask(1.0f, 0, 0, 1, 0, 0, 0, 2, 0, 2, mask), CLATTN_INVALID_ARGUMENT);
    assert_int_equal(clattn_dropout_mask(-0.1f, 0, 0, 1, 0, 0, 0, 2, 0, 2, mask), CLATTN_INVALID_ARGUMENT);
    assert_int_equal(clattn_dropout_mask(NAN, 0, 0, 1, 0, 0, 0, 2, 0, 2, mask), CLATTN_INVALID_ARGUMENT);
    assert_int_equal(clattn_dropout_mask(0.5f, 0, 0, 1, 0, 1, 0, 2, 0, 2, mask), CLATTN_INVALID_ARGUMENT);
    assert_int_equal(clattn_dropout_mask(0.5f, 0, 0, 1, 0, 0, -1, 2, 0, 2, mask), CLATTN_INVALID_ARGUMENT);
    assert_int_equal(clattn_dropout_mask(0.5f, 0, 0, 1, 0, 0, 0, 2, 0, -2, mask), CLATTN_INVALID_ARGUMENT);
    assert_int_equal(clattn_dropout_mask(0.5f, 0, 0, 1, 0, 0, 0, 2, 0, 2, NULL), CLATTN_INVALID_ARGUMENT);
    assert_int_equal(clattn_dropout_mask(0.5f, 0, 0, 1, 0, 0, 0, 0, 0, 2, mask), CLATTN_SUCCESS);
    assert_int_equal(clattn_dropout_mask(0x1.fffffep-14f, 0, 0, 1, 0, 0, 0, 1, 0, 2, mask), CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(clattn_error_message(), "1/4096"));
    assert_int_equal(clattn_dropout_mask(0x1p-13f, 0, 0, 1, 0, 0, 0, 1, 0, 2, mask), CLATTN_SUCCESS);
}

/* A problem that says p, and calls with another. */
static void p_is_the_problems(void **state)
{
    (void)state;
    static const struct {
        struct clattn_problem problem;
        const char *error;
    } wrong[] = {
        {{.d = 16, .dropout_p = 0.5f}, "problem.dropout_p is 0.5, and problem.features has no CLATTN_DROPOUT"},
        {{.d = 16, .features = CLATTN_DROPOUT, .dropout_p = 1.0f}, "problem.dropout_p is 1"},
        {{.d = 16, .features = CLATTN_DROPOUT, .dropout_p = -1.0f}, "problem.dropout_p is -1"},
        {{.d = 16, .features = CLATTN_DROPOUT, .dropout_p = NAN}, "problem.dropout_p is"},
        {{.d = 16, .features = CLATTN_DROPOUT, .dropout_p = 1e-4f},
         "problem.dropout_p is 0.0001, and shares are rounded"},
    };
    clattn_plan *plan = NULL;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(clattn_plan_create(&plan, device.clattn, &wrong[i].problem), CLATTN_INVALID_ARGUMENT);
        assert_non_null(strstr(clattn_error_message(), wrong[i].error));
        assert_null(plan);
    }
    const struct clattn_problem problem = {.d = 16, .features = CLATTN_DROPOUT, .dropout_p = 0.25f};
    const struct clattn_forward_args args = {.shape = {.batch = 1, .heads = 1, .n_q = 1, .n_kv = 1},
                                             .score = {.dropout_p = 0.2f}};
    assert_int_equal(clattn_plan_create(&plan, device.clattn, &problem), CLATTN_SUCCESS);
    assert_int_equal(clattn_forward_enqueue(plan, device.queue, &args, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(clattn_error_message(), "score.dropout_p is 0.2: the problem says that it is 0.25"));
    clattn_plan_destroy(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_part_of_the_mask),
        cmocka_unit_test(bad_requests_are_refused),
        cmocka_unit_test(the_forward_pass_drops_what_the_host_says),
        cmocka_unit_test(thresholds_of_few_digits_and_many),
        cmocka_unit_test(p_is_the_problems),
        cmocka_unit_test(chunks_drop_what_the_whole_drops),
        cmocka_unit_test(the_backward_pass_drops_the_same),
        cmocka_unit_test(a_seed_in_device_memory_drops_the_same),
    };
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
