/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Keys in pieces: whatever the pieces, the result is that of the whole, within the rule; the same pieces give the same
 * bits. */
#include "support/cases.h"
#include "support/compare.h"
#include "support/state.h"
#include "support/unit.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct test_device device;
static struct random chance;

enum { MOST_CHUNKS = 6, MOST_WORK = 1 << 20, EVERYTHING = (1 << CASE_FEATURES) - 1 };

/* Ends of up to `most` chunks; empty ones are chunks too. */
static int cut(int64_t n_kv, int most, int64_t ends[MOST_CHUNKS])
{
    const int count = 1 + (int)random_below(&chance, most);
    for (int i = 0; i < count - 1; i++)
        ends[i] = random_below(&chance, n_kv + 1);
    ends[count - 1] = n_kv;
    for (int i = 0; i < count; i++) /* few enough to sort by hand */
        for (int j = i + 1; j < count; j++)
            if (ends[j] < ends[i]) {
                const int64_t held = ends[i];
                ends[i] = ends[j];
                ends[j] = held;
            }
    return count;
}

static bool say(const struct forward_case *forward, const int64_t *ends, int count, bool right)
{
    char text[512];
    if (right)
        return true;
    forward_describe(forward, text, sizeof text);
    fprintf(stderr, "failed: state, %s; chunks end at", text);
    for (int i = 0; i < count; i++)
        fprintf(stderr, " %lld", (long long)ends[i]);
    fprintf(stderr, "\n");
    return false;
}

static bool check(struct forward_case forward, const char *skeleton)
{
    struct forward_arrays arrays;
    int64_t ends[MOST_CHUNKS];
    forward.problem.skeleton = skeleton;
    if (!state_serves(&device, forward.problem))
        return true;
    if (!forward_arrays_make(&forward, &arrays))
        return false;
    const bool packed = forward.problem.features & CLATTN_VARLEN;
    const int count = cut(packed ? arrays.score.total_kv : forward.shape.n_kv, MOST_CHUNKS, ends);
    const bool right = state_run(&device, &forward, ends, count, &arrays) && compare_outputs(&forward, &arrays);
    forward_arrays_free(&arrays);
    return say(&forward, ends, count, right);
}

/* One kernel for a set of features, and several ways to cut the keys of several shapes. */
enum { CUTS = 4 };

static int failures_of(struct forward_case forward, const char *skeleton)
{
    int failures = 0;
    for (int n = 0; n < CUTS; n++) {
        failures += !check(forward, skeleton);
        case_vary(&chance, MOST_WORK, &forward);
    }
    return failures;
}

static int failures_everywhere(int features, int count)
{
    int failures = 0;
    for (const struct cla_skeleton *const *skeleton = test_skeletons(); *skeleton; skeleton++)
        for (int n = 0; n < count; n++) {
            const unsigned wanted = case_random_features(&chance, features, EVERYTHING);
            const struct forward_case forward = case_random(&chance, wanted, MOST_WORK);
            if (test_takes(&device, *skeleton, n, 4))
                failures += failures_of(forward, (*skeleton)->name);
        }
    return failures;
}

static void chunks_are_the_whole(void **state)
{
    (void)state;
    assert_int_equal(failures_everywhere(0, 3), 0);
}

static void chunks_are_the_whole_with_features(void **state)
{
    (void)state;
    assert_int_equal(failures_everywhere(1, 4) + failures_everywhere(3, 5), 0);
}

/* Chunks of packed keys begin and end within sequences, or hold several of them, empty ones too. */
static void chunks_of_packed_keys(void **state)
{
    (void)state;
    int failures = 0;
    for (const struct cla_skeleton *const *skeleton = test_skeletons(); *skeleton; skeleton++) {
        unsigned features = CLATTN_VARLEN;
        for (int n = 0; n < 2; n++, features |= case_random_features(&chance, 2, EVERYTHING)) {
            struct forward_case forward = case_random(&chance, features, MOST_WORK);
            forward.shape.batch += 2;
            if (test_takes(&device, *skeleton, n, 2))
                failures += failures_of(forward, (*skeleton)->name);
        }
    }
    assert_int_equal(failures, 0);
}

/* Small, planned, with everything that the state's own kernels look at. */
static struct forward_case ordinary(unsigned features)
{
    struct forward_case forward = {.problem = {.d = 40, .d_v = 24, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT},
                                   .shape = {.batch = 2, .heads = 4, .kv_heads = 2, .n_q = 37, .n_kv = 150},
                                   .score = score_typical(),
                                   .seed = 8};
    case_set_features(&forward, features);
    return forward;
}

/* What is not finite behind the mask stays there, in whichever chunk it lies, and rows that do not see it have the
 * state that they would have without it. */
static void spoil(const struct forward_case *forward, struct forward_arrays *arrays, int64_t key, float value)
{
    const int64_t d_v = forward->problem.d_v;
    for (int64_t h = 0; h < forward->shape.batch * forward->shape.kv_heads; h++)
        for (int64_t x = 0; x < d_v; x++)
            arrays->v[(h * forward->shape.n_kv + key) * d_v + x] = value;
}

static void check_row(const struct forward_case *forward, const struct forward_arrays *clean,
                      const struct forward_arrays *dirty, int64_t at, bool sees)
{
    const int64_t d_v = forward->problem.d_v;
    if (fabsf(clean->lse[at] - dirty->lse[at]) > 1e-4f)
        fail_msg("%s: lse of row %d is %g instead of %g", forward->problem.skeleton, (int)at, (double)dirty->lse[at],
                 (double)clean->lse[at]);
    for (int64_t x = 0; x < d_v; x++) {
        const float found = dirty->o[at * d_v + x], expected = clean->o[at * d_v + x];
        if (sees ? isfinite(found) : !(fabsf(found - expected) <= 4e-3f))
            fail_msg("%s: row %d, column %d is %g, which was %g without what %s", forward->problem.skeleton, (int)at,
                     (int)x, (double)found, (double)expected, sees ? "the row sees" : "is hidden");
    }
}

static void values_that_are_not_finite(void **state)
{
    (void)state;
    static const int64_t ends[] = {50, 132, 150};
    static const float values[] = {NAN, INFINITY, -INFINITY};
    for (const struct cla_skeleton *const *skeleton = test_skeletons(); *skeleton; skeleton++)
        for (int n = 0; n < 3; n++) {
            struct forward_case forward = {.problem = {.d = 40,
                                                       .d_v = 24,
                                                       .dtype = CLATTN_FP16,
                                                       .causal = CLATTN_CAUSAL_BOTTOM_RIGHT,
                                                       .skeleton = (*skeleton)->name},
                                           .shape = {.batch = 1, .heads = 2, .kv_heads = 1, .n_q = 37, .n_kv = 150},
                                           .seed = 8};
            const int64_t key = n == 0 ? 128 : n == 1 ? 133 : 142, first_row = key - (150 - 37);
            struct forward_arrays clean, dirty;
            if (!state_serves(&device, forward.problem))
                continue;
            assert_true(forward_arrays_make(&forward, &clean) && forward_arrays_make(&forward, &dirty));
            spoil(&forward, &dirty, key, values[n]);
            assert_true(state_run(&device, &forward, ends, 3, &clean) && state_run(&device, &forward, ends, 3, &dirty));
            for (int64_t at = 0; at < 2 * 37; at++)
                check_row(&forward, &clean, &dirty, at, at % 37 >= first_row);
            forward_arrays_free(&clean);
            forward_arrays_free(&dirty);
        }
}

static void equal_chunks_give_equal_bits(void **state)
{
    (void)state;
    static const int64_t ends[] = {20, 21, 99, 150};
    const struct forward_case forward = ordinary(CLATTN_SINKS | CLATTN_DROPOUT);
    struct forward_arrays first, again;
    assert_true(forward_arrays_make(&forward, &first) && forward_arrays_make(&forward, &again));
    assert_true(state_run(&device, &forward, ends, 4, &first));
    for (int n = 0; n < 20; n++) {
        assert_true(state_run(&device, &forward, ends, 4, &again));
        assert_true(compare_bits(&forward, &first, &again));
    }
    forward_arrays_free(&first);
    forward_arrays_free(&again);
}

/* A session with as many states as a test needs. */
struct scene {
    struct forward_case forward;
    struct forward_arrays arrays, kept;
    struct state_session session;
    struct state states[3];
};

static void scene_open(struct scene *scene, unsigned features)
{
    memset(scene, 0, sizeof *scene);
    scene->forward = ordinary(features);
    assert_true(forward_arrays_make(&scene->forward, &scene->arrays));
    assert_true(forward_arrays_make(&scene->forward, &scene->kept));
    assert_true(state_open(&scene->session, &device, &scene->forward, &scene->arrays));
    for (int i = 0; i < 3; i++)
        assert_true(state_begin(&scene->session, &scene->states[i]));
}

static void scene_close(struct scene *scene)
{
    for (int i = 0; i < 3; i++)
        state_free(&scene->states[i]);
    state_close(&scene->session);
    forward_arrays_free(&scene->arrays);
    forward_arrays_free(&scene->kept);
}

static void add_keys(struct scene *scene, int state, int64_t first, int64_t end)
{
    assert_true(state_accumulate(&scene->session, &scene->states[state], first, end - first));
}

static void keep_outputs(struct scene *scene)
{
    const struct reference_problem problem = forward_reference_of(&scene->forward, &scene->arrays);
    const size_t rows = reference_row_count(&problem) * sizeof(float);
    memcpy(scene->kept.o, scene->arrays.o, reference_o_count(&problem) * sizeof(float));
    memcpy(scene->kept.lse, scene->arrays.lse, rows);
    memcpy(scene->kept.m, scene->arrays.m, rows);
    memcpy(scene->kept.l, scene->arrays.l, rows);
}

static const unsigned feature_sets[] = {0, CLATTN_SINKS, CLATTN_DROPOUT | CLATTN_ALIBI, CLATTN_VARLEN | CLATTN_SINKS};
enum { SETS = sizeof feature_sets / sizeof feature_sets[0] };

static void merged_states_are_the_whole(void **state)
{
    (void)state;
    for (int i = 0; i < SETS; i++) {
        struct scene scene;
        scene_open(&scene, feature_sets[i]);
        add_keys(&scene, 0, 100, 150);
        add_keys(&scene, 1, 0, 33);
        add_keys(&scene, 2, 33, 100);
        assert_true(state_merge(&scene.session, &scene.states[0], &scene.states[1]));
        assert_true(state_merge(&scene.session, &scene.states[2], &scene.states[0]));
        assert_true(state_finish(&scene.session, &scene.states[2]));
        assert_true(compare_outputs(&scene.forward, &scene.arrays));
        scene_close(&scene);
    }
}

/* To the bit: nothing is added, and what is there is multiplied by 1. */
static void an_empty_state_changes_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < SETS; i++) {
        struct scene scene;
        scene_open(&scene, feature_sets[i]);
        add_keys(&scene, 0, 0, 150);
        assert_true(state_finish(&scene.session, &scene.states[0]));
        keep_outputs(&scene);
        assert_true(state_merge(&scene.session, &scene.states[0], &scene.states[1]));
        assert_true(state_merge(&scene.session, &scene.states[2], &scene.states[0]));
        assert_true(state_finish(&scene.session, &scene.states[0]));
        assert_true(compare_bits(&scene.forward, &scene.kept, &scene.arrays));
        assert_true(state_finish(&scene.session, &scene.states[2]));
        assert_true(compare_bits(&scene.forward, &scene.kept, &scene.arrays));
        scene_close(&scene);
    }
}

/* Finishing leaves the state as it is: once more gives the same, and more keys may come. */
static void finish_may_come_twice(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, CLATTN_SINKS | CLATTN_DROPOUT);
    add_keys(&scene, 0, 0, 70);
    assert_true(state_finish(&scene.session, &scene.states[0]));
    keep_outputs(&scene);
    assert_true(state_finish(&scene.session, &scene.states[0]));
    assert_true(compare_bits(&scene.forward, &scene.kept, &scene.arrays));
    add_keys(&scene, 0, 70, 150);
    assert_true(state_finish(&scene.session, &scene.states[0]));
    assert_true(compare_outputs(&scene.forward, &scene.arrays));
    scene_close(&scene);
}

/* No key at all yet: rows that see none. */
static void a_state_that_was_only_begun(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, 0);
    add_keys(&scene, 0, 0, 0);
    assert_true(state_finish(&scene.session, &scene.states[0]));
    for (size_t i = 0; i < (size_t)2 * 4 * 37 * 24; i++)
        assert_true(scene.arrays.o[i] == 0.0f);
    for (size_t i = 0; i < (size_t)2 * 4 * 37; i++)
        assert_true(scene.arrays.lse[i] < -3e38f && scene.arrays.m[i] < -3e38f && scene.arrays.l[i] == 0.0f);
    scene_close(&scene);
}

static void the_bytes_are_those_of_the_layout(void **state)
{
    (void)state;
    const struct clattn_problem problem = {.pass = CLATTN_ACCUMULATE, .d = 64, .d_v = 40};
    const struct clattn_shape shape = {.batch = 2, .heads = 3, .n_q = 7, .n_kv = 100};
    clattn_plan *plan = NULL;
    size_t bytes = 0;
    assert_int_equal(clattn_plan_create(&plan, device.clattn, &problem), CLATTN_SUCCESS);
    assert_int_equal(clattn_state_bytes(plan, &shape, &bytes), CLATTN_SUCCESS);
    /* m and l of 42 floats, each up to a multiple of 64 bytes, then O. */
    assert_int_equal(bytes, 2 * 192 + 42 * 40 * 4);
    clattn_plan_destroy(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bytes_are_those_of_the_layout),
        cmocka_unit_test(chunks_are_the_whole),
        cmocka_unit_test(chunks_of_packed_keys),
        cmocka_unit_test(chunks_are_the_whole_with_features),
        cmocka_unit_test(values_that_are_not_finite),
        cmocka_unit_test(equal_chunks_give_equal_bits),
        cmocka_unit_test(merged_states_are_the_whole),
        cmocka_unit_test(an_empty_state_changes_nothing),
        cmocka_unit_test(finish_may_come_twice),
        cmocka_unit_test(a_state_that_was_only_begun),
    };
    test_device_open(&device);
    chance.state = case_seed();
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
