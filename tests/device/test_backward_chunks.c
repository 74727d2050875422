/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The backward pass with keys in chunks: whatever the chunks, the gradients are those of the whole under
 * FlashAttention's gradient rule; the same chunks give the same bits. */
#include "support/backward.h"
#include "support/cases.h"
#include "support/unit.h"

static struct test_device device;
static struct random chance;

enum { MOST_WORK = 1 << 18, EVERYTHING = (1 << CASE_FEATURES) - 1 };

static bool check(struct forward_case forward, const struct cla_skeleton *skeleton)
{
    static const int64_t chunks[] = {50, 64, 17, 1000, 100};
    struct clattn_problem problem = forward.problem;
    problem.skeleton = forward.problem.skeleton = skeleton->name;
    problem.pass = CLATTN_BACKWARD_ACCUMULATE;
    forward.kv_chunk = chunks[random_below(&chance, 5)];
    return !test_serves(&device, &problem) || backward_check(&device, &forward, BACKWARD_ALL);
}

/* One kernel, several shapes. Where a skeleton is not at home its compilation is the price: small head dimensions. */
static int failures_of(const struct cla_skeleton *skeleton, unsigned features)
{
    struct forward_case forward = case_random(&chance, features, MOST_WORK);
    int failures = 0;
    if (!test_takes(&device, skeleton, 1, 2))
        forward.problem.d = forward.problem.d_v = 32;
    if (features & CLATTN_VARLEN)
        forward.shape.batch += 2;
    for (int n = 0; n < 3; n++) {
        failures += !check(forward, skeleton);
        case_vary(&chance, MOST_WORK, &forward);
    }
    return failures;
}

/* `count` sets of features where a skeleton is at home, and so many elsewhere. */
static int failures_everywhere(unsigned always, int further, int count, int elsewhere)
{
    int failures = 0;
    for (const struct cla_skeleton *const *skeleton = test_backward_skeletons(); *skeleton; skeleton++)
        for (int n = 0; n < (test_takes(&device, *skeleton, 1, 2) ? count : elsewhere); n++)
            failures += failures_of(*skeleton, always | case_random_features(&chance, further, EVERYTHING));
    return failures;
}

static void chunks_are_the_whole(void **state)
{
    (void)state;
    assert_int_equal(failures_everywhere(0, 0, 1, 0), 0);
}

static void with_features(void **state)
{
    (void)state;
    assert_int_equal(failures_everywhere(CLATTN_BIAS | CLATTN_SINKS, 2, 2, 0), 0);
}

/* A bias that packed sequences share gets its gradient from several chunks, each with parts of several sequences. */
static void packed_sequences(void **state)
{
    (void)state;
    assert_int_equal(failures_everywhere(CLATTN_VARLEN | CLATTN_BIAS, 1, 2, 1), 0);
}

static struct forward_case ordinary(unsigned features)
{
    struct forward_case forward = {.problem = {.d = 40, .d_v = 24, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT},
                                   .shape = {.batch = 2, .heads = 4, .kv_heads = 2, .n_q = 37, .n_kv = 70},
                                   .score = score_typical(),
                                   .seed = 8,
                                   .kv_chunk = 33};
    case_set_features(&forward, features);
    return forward;
}

static void equal_chunks_give_equal_bits(void **state)
{
    (void)state;
    const struct forward_case forward = ordinary(CLATTN_BIAS | CLATTN_SINKS | CLATTN_DROPOUT);
    struct backward_arrays first, again;
    assert_true(backward_arrays_make(&forward, &first) && backward_arrays_make(&forward, &again));
    assert_true(backward_run(&device, NULL, &forward, BACKWARD_ALL, &first));
    for (int n = 0; n < 10; n++) {
        assert_true(backward_run(&device, NULL, &forward, BACKWARD_ALL, &again));
        assert_true(backward_same(&forward, BACKWARD_ALL, &first, &again));
    }
    backward_arrays_free(&first);
    backward_arrays_free(&again);
}

/* A chunk may begin with an odd key, between two that draw from one word of random numbers. */
static void dropout_does_not_see_chunks(void **state)
{
    (void)state;
    int failures = 0;
    for (const struct cla_skeleton *const *skeleton = test_backward_skeletons(); *skeleton; skeleton++) {
        struct forward_case forward = ordinary(CLATTN_DROPOUT);
        forward.problem.d = forward.problem.d_v = 32;
        forward.problem.dtype = CLATTN_FP16;
        struct clattn_problem problem = forward.problem;
        problem.skeleton = forward.problem.skeleton = (*skeleton)->name;
        problem.pass = CLATTN_BACKWARD_ACCUMULATE;
        failures += test_serves(&device, &problem) && !backward_check(&device, &forward, BACKWARD_ALL);
    }
    assert_int_equal(failures, 0);
}

/* On both levels: one key a chunk, a chunk larger than what there is, no keys, no rows. */
static void edges(void **state)
{
    (void)state;
    static const struct {
        int64_t n_q, n_kv, chunk;
    } sizes[] = {{5, 9, 1}, {1, 1, 1}, {37, 70, 71}, {37, 70, 1 << 20}, {5, 0, 8}, {0, 9, 4}, {0, 0, 1}};
    static const unsigned features[] = {CLATTN_BIAS | CLATTN_SINKS, CLATTN_VARLEN | CLATTN_SINKS};
    static const enum forward_path paths[] = {PATH_DEVICE, PATH_HOST};
    int failures = 0;
    for (int f = 0; f < 2; f++)
        for (int path = 0; path < 2; path++)
            for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
                struct forward_case forward = ordinary(features[f]);
                forward.shape.n_q = sizes[i].n_q;
                forward.shape.n_kv = sizes[i].n_kv;
                forward.kv_chunk = sizes[i].chunk;
                forward.path = paths[path];
                failures += !backward_check(&device, &forward, BACKWARD_ALL);
            }
    assert_int_equal(failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(chunks_are_the_whole),
                                       cmocka_unit_test(with_features),
                                       cmocka_unit_test(packed_sequences),
                                       cmocka_unit_test(equal_chunks_give_equal_bits),
                                       cmocka_unit_test(dropout_does_not_see_chunks),
                                       cmocka_unit_test(edges)};
    test_device_open(&device);
    chance.state = case_seed();
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
