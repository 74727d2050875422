/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Every modification of the scores, alone and with others, in the forward pass, against the float64 reference. The
 * argument names the skeleton. A turn takes half of what is not all of them at once. */
#include "support/cases.h"
#include "support/compare.h"
#include "support/turn.h"
#include "support/unit.h"
#include <stdio.h>
#include <string.h>

static struct test_device device;
static const struct cla_skeleton *skeleton;
static struct random chance;

enum { EVERYTHING = (1 << CASE_FEATURES) - 1, MOST_WORK = 1 << 21 };

/* A kernel costs seconds to compile, so each is run on several shapes; and where a skeleton is not at home, only some
 * are made. */
enum { SHAPES = 3 };

static bool at_home(void)
{
    return test_takes(&device, skeleton, 1, 2);
}

static bool check(struct forward_case forward, bool taken)
{
    bool right = true;
    forward.problem.skeleton = skeleton->name;
    if (!test_serves(&device, &forward.problem))
        return true;
    for (int n = 0; n < SHAPES; n++) {
        forward.problem.knobs = test_knobs(skeleton, n);
        if (taken && !test_has_registers(&device, &forward.problem))
            forward.problem.knobs = NULL;
        right = (!taken || forward_check(&device, &forward)) && right;
        case_vary(&chance, MOST_WORK, &forward);
    }
    return right;
}

/* Types and masks go round: the features together meet all nine. */
static void every_feature_alone(void **state)
{
    (void)state;
    int failures = 0;
    const int first = (int)random_below(&chance, 9);
    for (int n = 0; n < CASE_FEATURES; n++) {
        struct forward_case forward = case_random(&chance, 1u << n, MOST_WORK);
        forward.problem.dtype = (enum clattn_dtype)((first + n) % 3);
        forward.problem.causal = (enum clattn_causal)((first + n) / 3 % 3);
        if (at_home() || n % 3 == first % 3)
            failures += !check(forward, test_is_turn(at_home() ? n : n / 3, 2));
    }
    assert_int_equal(failures, 0);
}

static int failures_of(int features, int count)
{
    int failures = 0;
    for (int n = 0; n < count; n++)
        failures += !check(case_random(&chance, case_random_features(&chance, features, EVERYTHING), MOST_WORK),
                           features == CASE_FEATURES || test_is_turn(n + features, 2));
    return failures;
}

static void pairs(void **state)
{
    (void)state;
    assert_int_equal(failures_of(2, at_home() ? 6 : 2), 0);
}

static void triples(void **state)
{
    (void)state;
    assert_int_equal(failures_of(3, at_home() ? 6 : 2), 0);
}

static void all_at_once(void **state)
{
    (void)state;
    assert_int_equal(failures_of(CASE_FEATURES, 1), 0);
}

static struct forward_case plain_case(unsigned features)
{
    struct forward_case forward = {
        .problem = {.d = 32, .d_v = 32, .dtype = CLATTN_FP16, .skeleton = skeleton->name},
        .shape = {.batch = 1, .heads = 8, .n_q = 200, .n_kv = 260},
        .score = score_typical(),
        .seed = 5,
    };
    case_set_features(&forward, features);
    return forward;
}

/* Scores far below the cap, near it, and most of them beyond: kernels may take different formulas for them. */
static void caps_of_all_sizes(void **state)
{
    (void)state;
    static const float caps[] = {1000, 120, 40, 30, 8, 0.1f, 1e7f};
    struct forward_case forward = plain_case(CLATTN_SOFTCAP);
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
        forward.score.softcap = caps[i];
        assert_true(forward_check(&device, &forward));
    }
    forward.problem.scale = -0.3f;
    assert_true(forward_check(&device, &forward));
    forward = plain_case(CLATTN_SOFTCAP | CLATTN_ALIBI);
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
        forward.score.softcap = caps[i];
        assert_true(forward_check(&device, &forward));
    }
}

/* Slopes of all kinds (score_arrays_make), before, across and beyond the diagonal. */
static void slopes_of_all_kinds(void **state)
{
    (void)state;
    struct forward_case forward = plain_case(CLATTN_ALIBI);
    assert_true(forward_check(&device, &forward));
    forward.problem.scale = -0.3f;
    assert_true(forward_check(&device, &forward));
    forward.problem.scale = 0;
    forward.spread = 1e3;
    assert_true(forward_check(&device, &forward));
    forward = plain_case(CLATTN_ALIBI);
    forward.problem.causal = CLATTN_CAUSAL_BOTTOM_RIGHT;
    forward.shape.n_q = 300; /* some rows see nothing */
    assert_true(forward_check(&device, &forward));
}

/* A block mask as CSR says what the dense one says: the same bits. */
static void csr_is_dense(void **state)
{
    (void)state;
    struct forward_case forward = case_random(&chance, CLATTN_BLOCK_MASK, MOST_WORK);
    struct forward_arrays dense, csr;
    forward.problem.skeleton = skeleton->name;
    forward.problem.dtype = CLATTN_FP16; /* which every skeleton takes */
    if (forward.problem.d > 128)
        forward.problem.d = forward.problem.d_v = 128,
        forward.q = forward.k = forward.v = forward.o = (struct clattn_layout){0};
    forward.score.csr = false;
    assert_true(forward_arrays_make(&forward, &dense) && forward_run(&device, NULL, &forward, &dense));
    forward.score.csr = true;
    assert_true(forward_arrays_make(&forward, &csr) && forward_run(&device, NULL, &forward, &csr));
    assert_true(compare_bits(&forward, &dense, &csr));
    forward_arrays_free(&dense);
    forward_arrays_free(&csr);
}

static void assert_build_fails(const char *field, const char *text, const char *line)
{
    struct clattn_problem problem = {.d = 64, .dtype = CLATTN_FP16, .skeleton = skeleton->name};
    clattn_plan *plan = NULL;
    if (!strcmp(field, "score_mod"))
        problem.score_mod = text;
    else
        problem.mask_mod = text;
    assert_int_equal(clattn_plan_create(&plan, device.clattn, &problem), CLATTN_BUILD_FAILED);
    assert_null(plan);
    if (!strstr(clattn_error_message(), line))
        fail_msg("'%s' is not in: %s", line, clattn_error_message());
}

/* The log counts the lines of the user's own text. */
static void errors_have_the_users_line(void **state)
{
    (void)state;
    assert_build_fails("score_mod",
                       "float score_mod(float score, int b, int h, int i, int j, __global const float *data)\n{\n"
                       "    const float half_of_it = 0.5f;\n    return score * haf_of_it;\n}\n",
                       "score_mod:4");
    assert_build_fails("mask_mod",
                       "\n\nbool mask_mod(int b, int h, int i, int j, __global const float *data)\n{\n"
                       "    return i >= jj;\n}\n",
                       "mask_mod:5");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_feature_alone),
        cmocka_unit_test(pairs),
        cmocka_unit_test(triples),
        cmocka_unit_test(all_at_once),
        cmocka_unit_test(caps_of_all_sizes),
        cmocka_unit_test(slopes_of_all_kinds),
        cmocka_unit_test(csr_is_dense),
        cmocka_unit_test(errors_have_the_users_line),
    };
    skeleton = test_device_open_for(&device, argc, argv);
    chance.state = case_seed();
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
