/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Gradients: against the float64 reference under FlashAttention's rule, against finite differences of the library's own
 * forward pass, to the bit from run to run, and within the memory that was told. */
#include "support/backward.h"
#include "support/cases.h"
#include "support/unit.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct test_device device;

static bool check(struct forward_case forward, const struct cla_skeleton *skeleton, unsigned wanted)
{
    struct clattn_problem problem = forward.problem;
    problem.skeleton = forward.problem.skeleton = skeleton->name;
    problem.unordered = forward.problem.unordered = cla_skeleton_describe(skeleton).any_order;
    problem.pass = CLATTN_BACKWARD;
    return !test_serves(&device, &problem) || backward_check(&device, &forward, wanted);
}

static bool at_home(const struct cla_skeleton *skeleton)
{
    return test_takes(&device, skeleton, 1, 2);
}

/* FlashAttention's lengths, through kernels of several head dimensions, types and masks: each costs seconds to compile.
 */
static void shapes(void **state)
{
    (void)state;
    static const int64_t lengths[][2] = {{113, 203}, {1024, 1024}, {128, 217}, {1023, 1024}, {113, 211}, {1024, 1023},
                                         {108, 256}, {3, 799},     {256, 512}, {799, 3},     {512, 256}, {1, 1}};
    static const int dimensions[] = {64, 111, 128, 59};
    int failures = 0;
    for (const struct cla_skeleton *const *skeleton = test_backward_skeletons(); *skeleton; skeleton++)
        for (int i = 0; i < 12; i++) {
            const int64_t *pair = lengths[i];
            const bool large = pair[0] * pair[1] > 1 << 18;
            const struct forward_case forward = {.problem = {.dtype = (enum clattn_dtype)(i % 4 % 3),
                                                             .causal = (enum clattn_causal)((i + 1) % 4 % 3),
                                                             .d = dimensions[i % 4]},
                                                 .shape = {.batch = 1,
                                                           .heads = large ? 1 : 4,
                                                           .kv_heads = large ? 1 : 2,
                                                           .n_q = pair[0],
                                                           .n_kv = pair[1]},
                                                 .seed = (uint64_t)i + 1};
            if (at_home(*skeleton) || i % 4 == 0)
                failures += !check(forward, *skeleton, BACKWARD_ALL);
        }
    assert_int_equal(failures, 0);
}

/* Blocks of keys that no row sees, before blocks of other heads that some do: more than a GPU has work-groups that
 * stay. */
static void keys_without_rows(void **state)
{
    (void)state;
    const bool is_cpu = clattn_context_capabilities(device.clattn)->type == CLATTN_DEVICE_CPU;
    static const int dimensions[] = {64, 136};
    int failures = 0;
    for (const struct cla_skeleton *const *skeleton = test_backward_skeletons(); *skeleton; skeleton++)
        for (int i = 0; i < 2; i++) {
            const struct forward_case forward = {
                .problem = {.dtype = CLATTN_FP16, .causal = CLATTN_CAUSAL_TOP_LEFT, .d = dimensions[i]},
                .shape = {.batch = 1, .heads = is_cpu ? 2 : 300, .kv_heads = is_cpu ? 2 : 300, .n_q = 64, .n_kv = 600},
                .seed = 17};
            if (at_home(*skeleton))
                failures += !check(forward, *skeleton, BACKWARD_ALL);
        }
    assert_int_equal(failures, 0);
}

static struct forward_case small(unsigned features)
{
    struct forward_case forward = {.problem = {.d = 24, .d_v = 16, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT},
                                   .shape = {.batch = 2, .heads = 4, .kv_heads = 2, .n_q = 45, .n_kv = 70},
                                   .score = score_typical(),
                                   .seed = 9};
    case_set_features(&forward, features);
    return forward;
}

/* Each gradient may be left out; the others do not change. */
static void gradients_alone(void **state)
{
    (void)state;
    const struct forward_case forward = small(CLATTN_BIAS | CLATTN_SINKS);
    const struct clattn_problem *problem = &forward.problem;
    struct clattn_problem backward = *problem;
    struct backward_arrays all, alone;
    clattn_plan *plan = NULL;
    backward.pass = CLATTN_BACKWARD;
    assert_int_equal(clattn_plan_create(&plan, device.clattn, &backward), CLATTN_SUCCESS);
    assert_true(backward_arrays_make(&forward, &all) && backward_arrays_make(&forward, &alone));
    assert_true(backward_run(&device, plan, &forward, BACKWARD_ALL, &all));
    assert_true(backward_judge(&forward, BACKWARD_ALL, &all));
    for (unsigned wanted = 1; wanted < BACKWARD_ALL; wanted *= 2) {
        assert_true(backward_run(&device, plan, &forward, wanted, &alone));
        assert_true(backward_same(&forward, wanted, &all, &alone));
        assert_true(backward_run(&device, plan, &forward, BACKWARD_ALL & ~wanted, &alone));
        assert_true(backward_same(&forward, BACKWARD_ALL & ~wanted, &all, &alone));
    }
    assert_true(backward_run(&device, plan, &forward, 0, &alone));
    clattn_plan_destroy(&plan);
    backward_arrays_free(&all);
    backward_arrays_free(&alone);
}

static bool same_bits_every_time(struct forward_case forward, const struct cla_skeleton *skeleton)
{
    struct backward_arrays first, again;
    struct clattn_problem problem = forward.problem;
    clattn_plan *plan = NULL;
    problem.skeleton = skeleton->name;
    problem.pass = CLATTN_BACKWARD;
    if (!test_serves(&device, &problem))
        return true;
    bool same = test_succeeded(clattn_plan_create(&plan, device.clattn, &problem), "clattn_plan_create") &&
                backward_arrays_make(&forward, &first) && backward_arrays_make(&forward, &again) &&
                backward_run(&device, plan, &forward, BACKWARD_ALL, &first);
    for (int n = 0; n < (at_home(skeleton) ? 100 : 10) && same; n++)
        same = backward_run(&device, plan, &forward, BACKWARD_ALL, &again) &&
               backward_same(&forward, BACKWARD_ALL, &first, &again);
    clattn_plan_destroy(&plan);
    backward_arrays_free(&first);
    backward_arrays_free(&again);
    return same;
}

static void the_same_bits_every_time(void **state)
{
    (void)state;
    int failures = 0;
    struct forward_case forward = small(CLATTN_BIAS | CLATTN_SINKS | CLATTN_DROPOUT);
    forward.score.one_batch = forward.score.one_head = true;
    forward.problem.dtype = CLATTN_FP16;
    for (const struct cla_skeleton *const *skeleton = test_backward_skeletons(); *skeleton; skeleton++)
        failures += !same_bits_every_time(forward, *skeleton);
    assert_int_equal(failures, 0);
}

/* The gradients of shared heads of K and V are the sums over the query heads of a group. */
static void grouped_heads_are_summed(void **state)
{
    (void)state;
    struct forward_case grouped = small(0), apart = grouped;
    struct backward_arrays one, many;
    apart.shape.kv_heads = 4;
    assert_true(backward_arrays_make(&grouped, &one) && backward_arrays_make(&apart, &many));
    const size_t head = (size_t)70 * 24, value = (size_t)70 * 16;
    for (size_t h = 0; h < 8; h++) { /* of batch and heads */
        memcpy(many.forward.k + h * head, one.forward.k + h / 2 * head, head * sizeof(float));
        memcpy(many.forward.v + h * value, one.forward.v + h / 2 * value, value * sizeof(float));
    }
    memcpy(many.forward.q, one.forward.q, (size_t)8 * 45 * 24 * sizeof(float));
    assert_true(backward_arrays_refresh(&apart, &many));
    assert_true(backward_run(&device, NULL, &grouped, BACKWARD_ALL, &one));
    assert_true(backward_run(&device, NULL, &apart, BACKWARD_ALL, &many));
    for (size_t h = 0; h < 4; h++)
        for (size_t i = 0; i < head; i++) {
            const double sum = (double)many.d_k[2 * h * head + i] + (double)many.d_k[(2 * h + 1) * head + i];
            assert_true(fabs((double)one.d_k[h * head + i] - sum) <= 1e-5 * (1.0 + fabs(sum)));
        }
    backward_arrays_free(&one);
    backward_arrays_free(&many);
}

/* Nothing here comes from the reference but the inputs: sum(O dO) by the library's forward pass, moved a little. */
static double loss(const clattn_plan *plan, const struct forward_case *forward, struct backward_arrays *arrays)
{
    double sum = 0.0;
    assert_true(forward_run(&device, plan, forward, &arrays->forward));
    const struct reference_problem problem = forward_reference_of(forward, &arrays->forward);
    for (size_t i = 0; i < reference_o_count(&problem); i++)
        sum += (double)arrays->forward.o[i] * (double)arrays->d_o[i];
    return sum;
}

/* In fp32 a difference of losses has some 4 digits. */
static bool difference_agrees(const clattn_plan *plan, const struct forward_case *forward,
                              struct backward_arrays *arrays, float *value, float gradient)
{
    const float h = 0x1p-6f, kept = *value;
    *value = kept + h;
    const double more = loss(plan, forward, arrays);
    *value = kept - h;
    const double less = loss(plan, forward, arrays);
    *value = kept;
    const double expected = (more - less) / (2.0 * (double)h);
    const bool right = fabs((double)gradient - expected) <= 5e-3 * (1.0 + fabs(expected));
    if (!right)
        print_error("%.9g, not %.9g\n", (double)gradient, expected);
    return right;
}

static void finite_differences(void **state)
{
    (void)state;
    struct forward_case forward = {.problem = {.d = 4, .d_v = 3},
                                   .shape = {.batch = 1, .heads = 2, .kv_heads = 1, .n_q = 5, .n_kv = 6},
                                   .score = score_typical(),
                                   .spread = 1.0,
                                   .seed = 10};
    struct backward_arrays arrays;
    clattn_plan *plan = NULL;
    int failures = 0;
    case_set_features(&forward, CLATTN_SOFTCAP | CLATTN_BIAS | CLATTN_SINKS | CLATTN_DROPOUT | CASE_SCORE_MOD);
    assert_int_equal(clattn_plan_create(&plan, device.clattn, &forward.problem), CLATTN_SUCCESS);
    assert_true(backward_arrays_make(&forward, &arrays));
    assert_true(backward_run(&device, NULL, &forward, BACKWARD_ALL, &arrays));
    const struct {
        float *values, *gradients;
        size_t count;
    } all[] = {{arrays.forward.q, arrays.d_q, 40},
               {arrays.forward.k, arrays.d_k, 24},
               {arrays.forward.v, arrays.d_v, 18},
               {arrays.forward.score.bias, arrays.d_bias, 60},
               {arrays.forward.score.sinks, arrays.d_sinks, 2}};
    for (size_t n = 0; n < sizeof all / sizeof all[0]; n++)
        for (size_t i = 0; i < all[n].count; i++)
            failures += !difference_agrees(plan, &forward, &arrays, &all[n].values[i], all[n].gradients[i]);
    assert_int_equal(failures, 0);
    clattn_plan_destroy(&plan);
    backward_arrays_free(&arrays);
}

static size_t workspace_of(const clattn_plan *plan, int64_t n_q, int64_t n_kv)
{
    const struct clattn_shape shape = {.batch = 2, .heads = 8, .kv_heads = 2, .n_q = n_q, .n_kv = n_kv};
    size_t bytes = 0;
    assert_int_equal(clattn_plan_workspace_bytes(plan, &shape, &bytes), CLATTN_SUCCESS);
    return bytes;
}

/* Four floats for each row, and sums of dQ where the plan has these, whatever n_kv: neither scores nor weights are ever
 * in device memory. */
static void memory_is_linear(void **state)
{
    (void)state;
    const struct clattn_problem problem = {.pass = CLATTN_BACKWARD, .d = 64};
    struct clattn_plan_info info;
    clattn_plan *plan = NULL;
    assert_int_equal(clattn_plan_create(&plan, device.clattn, &problem), CLATTN_SUCCESS);
    assert_int_equal(clattn_plan_get_info(plan, &info), CLATTN_SUCCESS);
    const size_t bytes = workspace_of(plan, 1000, 30000), least = (size_t)2 * 8 * 1000 * 16;
    if (!info.sums)
        assert_int_equal(bytes, least);
    assert_true(bytes >= least);
    assert_int_equal(workspace_of(plan, 1000, 60000), bytes);
    assert_true(workspace_of(plan, 2000, 30000) <= 2 * bytes);
    clattn_plan_destroy(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_linear),         cmocka_unit_test(finite_differences),
        cmocka_unit_test(gradients_alone),          cmocka_unit_test(grouped_heads_are_summed),
        cmocka_unit_test(keys_without_rows),        cmocka_unit_test(shapes),
        cmocka_unit_test(the_same_bits_every_time),
    };
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
