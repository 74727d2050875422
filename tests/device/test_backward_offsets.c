/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Gradients where the scores of a row share a large offset, or one of its keys has all of the weight: what the backward
 * pass computes again from the scores is then to be as exact as what PyTorch's math path keeps of them. By
 * FlashAttention's rule for gradients alone: 3 times the error of the plain formula in the type, and the rounding of
 * the result. The forward pass is the library's, as a caller has it. */
#include "support/backward.h"
#include "support/cases.h"
#include "support/rule.h"
#include "support/turn.h"
#include "support/unit.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_Q = 24, N_KV = 70, D = 24, PADDING = 3 };

static struct test_device device;

/* A gradients' skeleton, and the forward one whose scores it computes again. */
static const struct family {
    const char *backward, *forward;
    bool fp32, floats; /* it takes fp32; and its arithmetic is float whatever the type */
} families[] = {
    {"backward_simt", "forward_simt", true, true},
    {"backward_cpu", "forward_cpu", true, true},
    {"backward_matrix", "forward_matrix", true, false},
    {"backward_hopper", "forward_hopper", false, false},
    {"backward_fused", "forward_matrix", false, false},
    {"backward_matrix_emulated", "forward_matrix_emulated", true, false},
    {"backward_fused_emulated", "forward_matrix_emulated", false, false},
};

static const char *forward_of(const char *backward)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (!strcmp(families[i].backward, backward))
            return families[i].forward;
    return NULL;
}

static struct forward_case case_of(const struct cla_skeleton *skeleton, enum clattn_dtype dtype, unsigned features)
{
    struct forward_case forward = {.problem = {.d = D, .dtype = dtype, .scale = 0.25f},
                                   .shape = {.batch = 1, .heads = 2, .kv_heads = 1, .n_q = N_Q, .n_kv = N_KV},
                                   .score = score_typical(),
                                   .seed = 5};
    case_set_features(&forward, features);
    forward.problem.skeleton = skeleton->name;
    forward.problem.unordered = cla_skeleton_describe(skeleton).any_order;
    return forward;
}

static bool serves(const struct forward_case *forward)
{
    struct clattn_problem problem = forward->problem;
    problem.pass = CLATTN_BACKWARD;
    return test_serves(&device, &problem);
}

/* Both passes, with m and l between them; o is what the forward pass gave, and is to be right, also without these. */
static bool run(const struct forward_case *forward, struct backward_arrays *arrays)
{
    struct forward_case first = *forward;
    first.problem.skeleton = forward_of(forward->problem.skeleton);
    first.problem.unordered = 0;
    first.kv_chunk = 0;
    first.path = PATH_DEVICE;
    arrays->forward.without_m = true;
    bool right = forward_run(&device, NULL, &first, &arrays->forward) && rule_of_output(&first, &arrays->forward);
    arrays->forward.without_m = false;
    right = right && forward_run(&device, NULL, &first, &arrays->forward) && rule_of_output(&first, &arrays->forward);
    return right && backward_run(&device, NULL, forward, BACKWARD_ALL, arrays);
}

static bool passes(const struct forward_case *forward, struct backward_arrays *arrays, const char *what, double value)
{
    const bool right = run(forward, arrays) && rule_of_gradients(forward, arrays);
    if (!right)
        fprintf(stderr, "failed: %s, type %d, %s %g\n", forward->problem.skeleton, (int)forward->problem.dtype, what,
                value);
    return right;
}

static void fill(struct random *random, enum clattn_dtype dtype, float *values, size_t count)
{
    random_normal(random, 1.0, values, count);
    for (size_t i = 0; i < count; i++)
        values[i] = reference_round(dtype, values[i]);
}

/* Q and K of N(0, 1), so that the scale alone says how large scores are. */
static bool make(const struct forward_case *forward, struct backward_arrays *arrays)
{
    struct random random = {.state = 17};
    if (!backward_arrays_make(forward, arrays))
        return false;
    const struct reference_problem problem = forward_reference_of(forward, &arrays->forward);
    fill(&random, problem.dtype, arrays->forward.q, reference_q_count(&problem));
    fill(&random, problem.dtype, arrays->forward.k, reference_k_count(&problem));
    return true;
}

/* Three kinds of rows, by turns: all keys have the offset; all but a few, as where a batch is padded; all but one,
 * which then has all the weight, or none. */
static void put_offset(const struct forward_case *forward, struct backward_arrays *arrays, double offset)
{
    struct random random = {.state = 23};
    const struct score_arrays *score = &arrays->forward.score;
    const size_t rows = (size_t)(score->pair_sizes[0] * score->pair_sizes[1] * score->pair_sizes[2]);
    for (size_t row = 0; row < rows; row++)
        for (size_t j = 0; j < N_KV; j++) {
            float value;
            random_normal(&random, 1.0, &value, 1);
            if (row % 3 == 0 || (row % 3 == 1 && j >= PADDING) || (row % 3 == 2 && j != row % N_KV))
                value = (float)offset;
            score->bias[row * N_KV + j] = reference_round(forward->problem.dtype, value);
        }
}

/* Nothing but the offset, so that no sum is rounded: what is left is how exactly it falls out. */
static void leave_offset_alone(const struct forward_case *forward, struct backward_arrays *arrays, double offset)
{
    const struct reference_problem problem = forward_reference_of(forward, &arrays->forward);
    const struct score_arrays *score = &arrays->forward.score;
    const int64_t *sizes = score->pair_sizes;
    const size_t pairs = (size_t)(sizes[0] * sizes[1] * sizes[2] * sizes[3]);
    memset(arrays->forward.q, 0, reference_q_count(&problem) * sizeof(float));
    for (size_t i = 0; i < pairs; i++)
        score->bias[i] = reference_round(problem.dtype, (float)offset);
}

static int failures_of_kind(struct forward_case forward, bool alone)
{
    static const double offsets[] = {0,   1,    -1,    1e4,  -1e4, -65504, 65504,    -1e6,   1e6,
                                     1e9, -1e9, -1e30, 1e30, 3e38, -3e38,  -FLT_MAX, FLT_MAX};
    const double most = forward.problem.dtype == CLATTN_FP16   ? 65504.0
                        : forward.problem.dtype == CLATTN_BF16 ? 0x1.fep+127
                                                               : (double)FLT_MAX;
    struct backward_arrays arrays;
    int failures = 0;
    assert_true(make(&forward, &arrays));
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        const double offset = fabs(offsets[i]) == (double)FLT_MAX ? copysign(most, offsets[i]) : offsets[i];
        if (fabs(offset) > most)
            continue;
        if (alone)
            leave_offset_alone(&forward, &arrays, offset);
        else
            put_offset(&forward, &arrays, offset);
        failures += !passes(&forward, &arrays, alone ? "nothing but the offset" : "offset", offset);
    }
    backward_arrays_free(&arrays);
    return failures;
}

/* The types in which a skeleton's kernels differ. Where one is not at home each costs seconds to compile: it takes one
 * of those of 16 bits, its neighbour the other, and fp32 if its arithmetic is float. */
static bool takes_type(const struct cla_skeleton *skeleton, enum clattn_dtype dtype)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (strcmp(families[i].backward, skeleton->name) != 0)
            continue;
        if (test_takes(&device, skeleton, 1, 2))
            return families[i].fp32 || dtype != CLATTN_FP32;
        return dtype == CLATTN_FP32 ? families[i].floats : dtype == (i % 2 ? CLATTN_FP16 : CLATTN_BF16);
    }
    return false;
}

/* Whether it mends delta (cl/common/delta.clh). */
static bool mends(const struct cla_skeleton *skeleton, enum clattn_dtype dtype)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (!strcmp(families[i].backward, skeleton->name))
            return families[i].floats ? takes_type(skeleton, dtype) : families[i].fp32 && dtype == CLATTN_FP32;
    return false;
}

/* Whether a scene's case of one type is for a skeleton: of those for GPUs a CPU has half in each scene. */
static bool has_part(const struct cla_skeleton *skeleton, const char *scene, const struct forward_case *forward)
{
    return test_is_turn_of(skeleton, scene) && takes_type(skeleton, forward->problem.dtype) && serves(forward);
}

typedef int (*failures_function)(struct forward_case forward);

static int failures_of_each(const char *scene, unsigned features, failures_function failures_of)
{
    int failures = 0;
    for (const struct cla_skeleton *const *skeleton = test_backward_skeletons(); *skeleton; skeleton++)
        for (int dtype = CLATTN_FP32; dtype <= CLATTN_BF16; dtype++) {
            const struct forward_case forward = case_of(*skeleton, (enum clattn_dtype)dtype, features);
            failures += has_part(*skeleton, scene, &forward) ? failures_of(forward) : 0;
        }
    return failures;
}

static int failures_of_offsets(struct forward_case forward)
{
    return failures_of_kind(forward, false) + failures_of_kind(forward, true);
}

static void offsets_fall_out(void **state)
{
    (void)state;
    assert_int_equal(failures_of_each(__func__, CLATTN_BIAS, failures_of_offsets), 0);
}

static int failures_of_scales(struct forward_case forward)
{
    static const float scales[] = {1e-3f, 0.2f, 1.0f, 1e3f, 1e4f, 1e6f, -1e3f};
    struct backward_arrays arrays;
    int failures = 0;
    assert_true(make(&forward, &arrays));
    EACH (i, scales) {
        forward.problem.scale = scales[i];
        failures += !passes(&forward, &arrays, "scale", (double)scales[i]);
    }
    backward_arrays_free(&arrays);
    return failures;
}

/* From rows of nearly equal weights to rows where one key has all. */
static void scales_do_not_matter(void **state)
{
    (void)state;
    assert_int_equal(failures_of_each(__func__, 0, failures_of_scales), 0);
}

/* One key of each row has all the weight but `rest` or so. */
static void favour_one_key(const struct forward_case *forward, struct backward_arrays *arrays, double rest)
{
    const struct score_arrays *score = &arrays->forward.score;
    const size_t rows = (size_t)(score->pair_sizes[0] * score->pair_sizes[1] * score->pair_sizes[2]);
    for (size_t row = 0; row < rows; row++)
        for (size_t j = 0; j < N_KV; j++)
            score->bias[row * N_KV + j] =
                j == 7 * row % N_KV ? 0.0f : reference_round(forward->problem.dtype, (float)log(rest / (N_KV - 1)));
}

static int failures_of_roundings(struct forward_case forward)
{
    static const double rests[] = {0.5, 1e-2, 1e-3, 1e-4, 1e-6, 1e-9}; /* the last: P rounds to 1 */
    struct backward_arrays arrays;
    int failures = 0;
    forward.problem.d_v = 256; /* long sums */
    forward.problem.scale = 0.01f;
    if (!mends(cla_skeleton_find(forward.problem.skeleton), forward.problem.dtype) || !serves(&forward))
        return 0;
    assert_true(make(&forward, &arrays));
    EACH (i, rests) {
        favour_one_key(&forward, &arrays, rests[i]);
        failures += !passes(&forward, &arrays, "weight of all keys but one", rests[i]);
    }
    backward_arrays_free(&arrays);
    return failures;
}

/* What is left of dP - delta there is small beside the rounding of either: they have to be rounded alike. */
static void roundings_of_delta_cancel(void **state)
{
    (void)state;
    assert_int_equal(failures_of_each(__func__, CLATTN_BIAS, failures_of_roundings), 0);
}

/* Terms of dP, half of them 4096 or so and half of them as much below 0, whose sum is some 1500. */
static void make_long_sums(const struct forward_case *forward, struct backward_arrays *arrays)
{
    const struct reference_problem problem = forward_reference_of(forward, &arrays->forward);
    struct random random = {.state = 29};
    float *const v = arrays->forward.v, *const d_o = arrays->d_o;
    const size_t d_v = (size_t)forward->problem.d_v, values = reference_v_count(&problem),
                 outputs = reference_o_count(&problem);
    random_normal(&random, 1.0, v, values);
    random_normal(&random, 1.0, d_o, outputs);
    for (size_t i = 0; i < values; i++)
        v[i] += i % d_v < d_v / 2 ? 64.0f : -64.0f;
    for (size_t i = 0; i < outputs; i++)
        d_o[i] += 64.0f;
}

static void judge_long_sums(const struct cla_skeleton *skeleton, const char *name, const float *values,
                            const double *exact, size_t count)
{
    const struct reference_verdict verdict = reference_judge_gradient(values, exact, NULL, count, 1e-3);
    if (!verdict.pass)
        fail_msg("%s: %s[%zu] = %.9g, not %.9g: off by %.3g, allowed %.3g", skeleton->name, name, verdict.at,
                 (double)values[verdict.at], exact[verdict.at], verdict.error, verdict.allowed);
}

/* In fp32, where dP and delta are 0 beside the terms that they are sums of, and one key has nearly all the weight: what
 * either is rounded by has to fall out of their difference. It does not where delta is made of O. */
static void long_sums_cancel(void **state)
{
    (void)state;
    for (const struct cla_skeleton *const *skeleton = test_backward_skeletons(); *skeleton; skeleton++) {
        struct forward_case forward = case_of(*skeleton, CLATTN_FP32, CLATTN_BIAS);
        struct backward_arrays arrays;
        forward.problem.d_v = 256;
        forward.problem.scale = 0.01f;
        if (*skeleton == &cla_backward_cpu)
            forward.problem.b_c = 32; /* keys are shared out, and all shares computed again */
        if (!mends(*skeleton, CLATTN_FP32) || !has_part(*skeleton, __func__, &forward))
            continue;
        assert_true(make(&forward, &arrays));
        make_long_sums(&forward, &arrays);
        favour_one_key(&forward, &arrays, 1e-4);
        assert_true(run(&forward, &arrays));
        const struct reference_problem problem = forward_reference_of(&forward, &arrays.forward);
        const size_t q = reference_q_count(&problem), k = reference_k_count(&problem), v = reference_v_count(&problem),
                     count = reference_d_bias_count(&problem);
        double *const all = calloc(q + k + v + count, sizeof *all), *const exact = all + q + k + v;
        const struct reference_gradients gradients = {all, all + q, all + q + k, exact, NULL};
        assert_true(all && reference_backward(&problem, arrays.forward.q, arrays.forward.k, arrays.forward.v,
                                              arrays.d_o, &gradients, NULL));
        judge_long_sums(*skeleton, "d_bias", arrays.d_bias, exact, count);
        judge_long_sums(*skeleton, "d_k", arrays.d_k, gradients.d_k, k);
        free(all);
        backward_arrays_free(&arrays);
    }
}

/* The gradients by the keys from `first` on, of as many as `part` has: they join those of all. */
static bool run_part(struct forward_case part, size_t first, struct backward_arrays *all)
{
    struct backward_arrays arrays;
    if (!backward_arrays_make(&part, &arrays))
        return false;
    const struct reference_problem problem = forward_reference_of(&part, &arrays.forward);
    const size_t q = reference_q_count(&problem), k = reference_k_count(&problem), at = first * D,
                 rows = q / D * sizeof(float);
    memcpy(arrays.forward.q, all->forward.q, q * sizeof(float));
    memcpy(arrays.forward.k, all->forward.k + at, k * sizeof(float));
    memcpy(arrays.forward.v, all->forward.v + at, k * sizeof(float));
    memcpy(arrays.forward.o, all->forward.o, q * sizeof(float));
    memcpy(arrays.d_o, all->d_o, q * sizeof(float));
    memcpy(arrays.forward.lse, all->forward.lse, rows);
    memcpy(arrays.forward.m, all->forward.m, rows);
    memcpy(arrays.forward.l, all->forward.l, rows);
    const bool ran = backward_run(&device, NULL, &part, BACKWARD_ALL, &arrays);
    memcpy(all->d_k + at, arrays.d_k, k * sizeof(float));
    memcpy(all->d_v + at, arrays.d_v, k * sizeof(float));
    for (size_t i = 0; i < q; i++)
        all->d_q[i] = (first ? all->d_q[i] : 0.0f) + arrays.d_q[i];
    backward_arrays_free(&arrays);
    return ran;
}

/* A call may have some of the keys alone, with o, m and l of all. Its pairs of a row then do not sum up to 0. */
static void parts_sum_up(void **state)
{
    (void)state;
    enum { FIRST = 30 };
    for (const struct cla_skeleton *const *skeleton = test_backward_skeletons(); *skeleton; skeleton++) {
        struct forward_case forward = case_of(*skeleton, CLATTN_FP32, 0), part = forward;
        struct backward_arrays arrays;
        if (!has_part(*skeleton, __func__, &forward))
            continue;
        assert_true(make(&forward, &arrays) && run(&forward, &arrays));
        part.shape.n_kv = FIRST;
        assert_true(run_part(part, 0, &arrays));
        part.shape.n_kv = N_KV - FIRST;
        assert_true(run_part(part, FIRST, &arrays));
        assert_true(rule_of_gradients(&forward, &arrays));
        backward_arrays_free(&arrays);
    }
}

/* What else computes weights again: chunks of keys on the device and from the host, sinks, dropout. */
static void other_ways_hold(void **state)
{
    (void)state;
    int failures = 0;
    for (const struct cla_skeleton *const *skeleton = test_backward_skeletons(); *skeleton; skeleton++)
        for (int way = 0; way < 3; way++) {
            const bool fp32 = takes_type(*skeleton, CLATTN_FP32);
            struct forward_case forward = case_of(*skeleton, fp32 ? CLATTN_FP32 : CLATTN_FP16,
                                                  CLATTN_BIAS | (way ? 0 : CLATTN_SINKS | CLATTN_DROPOUT));
            struct backward_arrays arrays;
            forward.kv_chunk = way ? 32 : 0;
            forward.path = way == 2 ? PATH_HOST : PATH_DEVICE;
            if (way) /* a kernel of its own, which any order of dQ has no part in */
                forward.problem.unordered = 0;
            struct clattn_problem problem = forward.problem;
            problem.pass = way == 1 ? CLATTN_BACKWARD_ACCUMULATE : CLATTN_BACKWARD;
            if (!test_is_turn_of(*skeleton, __func__) || !test_serves(&device, &problem) ||
                (way && strstr((*skeleton)->name, "simt") == NULL && way == 2))
                continue;
            assert_true(make(&forward, &arrays));
            put_offset(&forward, &arrays, -65504);
            for (int h = 0; h < 2 && !way; h++)
                arrays.forward.score.sinks[h] = -65504;
            failures += !passes(&forward, &arrays, "way", way);
            backward_arrays_free(&arrays);
        }
    assert_int_equal(failures, 0);
}

/* Four keys, one row, nothing but an offset: 0.25 for each, to the last bit; and with LSE alone what it can say. */
static void lse_alone_has_a_limit(void **state)
{
    (void)state;
    static const float offsets[] = {0, -1e4f, -1e9f, -FLT_MAX, 3e38f};
    for (const struct cla_skeleton *const *skeleton = test_backward_skeletons(); *skeleton; skeleton++) {
        struct forward_case forward = case_of(*skeleton, CLATTN_FP32, CLATTN_BIAS);
        struct backward_arrays arrays;
        forward.shape = (struct clattn_shape){.batch = 1, .heads = 1, .n_q = 1, .n_kv = 4};
        if (!has_part(*skeleton, __func__, &forward))
            continue;
        assert_true(backward_arrays_make(&forward, &arrays));
        memset(arrays.forward.q, 0, D * sizeof(float));
        memset(arrays.forward.k, 0, 4 * D * sizeof(float));
        for (int i = 0; i < 4 * D; i++)
            arrays.forward.v[i] = arrays.d_o[i % D] = 1.0f;
        for (size_t n = 0; n < sizeof offsets / sizeof *offsets; n++) {
            for (int j = 0; j < 4; j++)
                arrays.forward.score.bias[j] = offsets[n];
            arrays.lse_alone = false;
            assert_true(run(&forward, &arrays));
            for (int i = 0; i < 4 * D; i++)
                assert_true(arrays.d_v[i] == 0.25f);
            arrays.lse_alone = true;
            assert_true(run(&forward, &arrays));
            const double off = 0.25 * fabs((double)offsets[n]) * 0x1p-24 + 0.25 * 0x1p-20;
            for (int i = 0; i < 4 * D; i++)
                assert_true(arrays.d_v[i] <= 1.0f && fabs((double)arrays.d_v[i] - 0.25) <= off);
        }
        backward_arrays_free(&arrays);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lse_alone_has_a_limit), cmocka_unit_test(offsets_fall_out),
        cmocka_unit_test(scales_do_not_matter),  cmocka_unit_test(roundings_of_delta_cancel),
        cmocka_unit_test(long_sums_cancel),      cmocka_unit_test(parts_sum_up),
        cmocka_unit_test(other_ways_hold),
    };
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
