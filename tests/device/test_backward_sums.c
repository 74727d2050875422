/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What adds up dQ in any order, in each of its shapes, against the float64 reference: several blocks of keys
 * add to the dQ of each row, heads share keys, whole tiles are skipped, pairs are hidden, and what is hidden holds NaN.
 */
#include "support/backward.h"
#include "support/cases.h"
#include "support/turn.h"
#include "support/unit.h"
#include <math.h>
#include <string.h>

enum { LONG = 2700 }; /* rows, in more than 32 tiles */

static struct test_device device;

/* Tiles of up to 64 columns; of 128 as planned; and these by the knob, which some skeletons lack; dropout as smaller
 * devices and none have it. Then work-groups of 64 keys, asked for or for the sake of short blocks of a mask, as long
 * as these hide nothing in part, cut pieces of 16 off, or are shorter than the rows of a tile; and long blocks, and
 * short ones beside 128 keys. Each is a kernel that a CPU's compiler takes seconds for. */
static const struct {
    enum clattn_dtype dtype;
    enum clattn_causal causal;
    int d, d_v;
    unsigned features;
    const char *knobs;
    int b_c, block_q, block_kv;
    int planned_b_c; /* where b_c is 0; 0: whichever */
} kernels[] = {
    {CLATTN_BF16, CLATTN_CAUSAL_TOP_LEFT, 40, 64, CLATTN_WINDOW, .knobs = NULL},
    {CLATTN_FP16, CLATTN_CAUSAL_BOTTOM_RIGHT, 128, 128, 0, .knobs = NULL},
    {CLATTN_BF16, CLATTN_CAUSAL_TOP_LEFT, 111, 72, CLATTN_MASK | CLATTN_SINKS, .knobs = NULL},
    {CLATTN_FP16, CLATTN_FULL, 96, 128, CLATTN_VARLEN, .knobs = "own_keys=1"},
    {CLATTN_FP16, CLATTN_CAUSAL_TOP_LEFT, 64, 40, CLATTN_DROPOUT, .knobs = "dropout_once=0"},
    {CLATTN_BF16, CLATTN_FULL, 72, 128, CLATTN_DROPOUT, .knobs = "own_keys=1 dropout_once=1"},
    {CLATTN_FP16, CLATTN_CAUSAL_BOTTOM_RIGHT, 64, 24, 0, .b_c = 64},
    {CLATTN_BF16, CLATTN_CAUSAL_TOP_LEFT, 40, 128, CLATTN_WINDOW, .b_c = 64},
    {CLATTN_BF16, CLATTN_CAUSAL_TOP_LEFT, 64, 64, CLATTN_DROPOUT, .knobs = "dropout_once=1", .b_c = 64},
    {CLATTN_FP16, CLATTN_FULL, 128, 96, CLATTN_DROPOUT, .knobs = "dropout_once=1", .b_c = 64},
    {CLATTN_FP16, CLATTN_FULL, 64, 64, CLATTN_BLOCK_MASK, .block_q = 64, .block_kv = 64, .planned_b_c = 64},
    {CLATTN_BF16, CLATTN_FULL, 128, 111, CLATTN_BLOCK_MASK, .block_q = 64, .block_kv = 64, .planned_b_c = 64},
    {CLATTN_BF16, CLATTN_CAUSAL_BOTTOM_RIGHT, 16, 59, CLATTN_BLOCK_MASK | CLATTN_DROPOUT, .block_q = 32, .block_kv = 64,
     .planned_b_c = 64},
    {CLATTN_FP16, CLATTN_CAUSAL_TOP_LEFT, 96, 128, CLATTN_BLOCK_MASK | CLATTN_DROPOUT, .block_q = 16, .block_kv = 48,
     .planned_b_c = 64},
    {CLATTN_FP16, CLATTN_CAUSAL_TOP_LEFT, 59, 64, CLATTN_BLOCK_MASK | CLATTN_SOFTCAP, .block_q = 16, .block_kv = 48,
     .planned_b_c = 64},
    {CLATTN_BF16, CLATTN_CAUSAL_BOTTOM_RIGHT, 72, 72, CLATTN_BLOCK_MASK | CLATTN_SOFTCAP, .block_q = 32, .block_kv = 64,
     .planned_b_c = 64},
    {CLATTN_FP16, CLATTN_FULL, 32, 32, CLATTN_BLOCK_MASK, .b_c = 128, .block_q = 64, .block_kv = 64},
    {CLATTN_FP16, CLATTN_CAUSAL_TOP_LEFT, 80, 80, CLATTN_BLOCK_MASK | CLATTN_MASK, .block_q = 64, .block_kv = 128,
     .planned_b_c = 128},
    {CLATTN_FP32, CLATTN_CAUSAL_TOP_LEFT, 40, 64, CLATTN_WINDOW, .planned_b_c = 64},
    {CLATTN_FP32, CLATTN_CAUSAL_BOTTOM_RIGHT, 111, 72, CLATTN_MASK | CLATTN_SINKS, .planned_b_c = 64},
    {CLATTN_FP32, CLATTN_FULL, 72, 128, CLATTN_VARLEN | CLATTN_DROPOUT, .knobs = "dk_dv_moving=16"},
    {CLATTN_FP32, CLATTN_CAUSAL_TOP_LEFT, 64, 64, 0, .knobs = "dk_dv_moving=64 dk_dv_slice=32 dk_dv_stages=2",
     .b_c = 128},
};

/* In fp32 backward_matrix does, and in 16 bits those that can do nothing else. */
static bool is_for(size_t kernel, const struct cla_skeleton *skeleton)
{
    return kernels[kernel].dtype == CLATTN_FP32 ? strncmp(skeleton->name, "backward_matrix", 15) == 0
                                                : cla_skeleton_describe(skeleton).any_order;
}

static struct forward_case case_of(size_t kernel, const struct cla_skeleton *skeleton, int64_t n_q, int64_t n_kv)
{
    struct forward_case forward = {.problem = {.pass = CLATTN_BACKWARD,
                                               .dtype = kernels[kernel].dtype,
                                               .causal = kernels[kernel].causal,
                                               .d = kernels[kernel].d,
                                               .d_v = kernels[kernel].d_v,
                                               .unordered = 1,
                                               .b_c = kernels[kernel].b_c,
                                               .block_q = kernels[kernel].block_q,
                                               .block_kv = kernels[kernel].block_kv,
                                               .skeleton = skeleton->name,
                                               .knobs = kernels[kernel].knobs},
                                   .shape = {.batch = 1, .heads = 2, .kv_heads = 1, .n_q = n_q, .n_kv = n_kv},
                                   .score = score_typical(),
                                   .seed = kernel + 1};
    case_set_features(&forward, kernels[kernel].features);
    return forward;
}

static bool right(const struct forward_case *forward)
{
    return backward_check(&device, forward, BACKWARD_ALL);
}

static void set(float *tensor, int64_t heads, int64_t n, int64_t width, int64_t first, int64_t end, float value)
{
    for (int64_t head = 0; head < heads; head++)
        for (int64_t i = (head * n + first) * width; i < (head * n + end) * width; i++)
            tensor[i] = value;
}

/* Keys that no row sees, or rows that see no key, hold NaN. */
static bool right_beside_nan(const struct forward_case *forward)
{
    const struct clattn_problem *problem = &forward->problem;
    const int64_t n_q = forward->shape.n_q, n_kv = forward->shape.n_kv, heads = forward->shape.heads;
    struct backward_arrays arrays;
    if (!backward_arrays_make(forward, &arrays))
        return false;
    if (problem->causal == CLATTN_CAUSAL_TOP_LEFT && n_kv > n_q) {
        set(arrays.forward.k, forward->shape.kv_heads, n_kv, problem->d, n_q, n_kv, NAN);
        set(arrays.forward.v, forward->shape.kv_heads, n_kv, problem->d_v, n_q, n_kv, NAN);
    } else if (problem->causal == CLATTN_CAUSAL_BOTTOM_RIGHT && n_q > n_kv) {
        set(arrays.forward.q, heads, n_q, problem->d, 0, n_q - n_kv, NAN);
        set(arrays.d_o, heads, n_q, problem->d_v, 0, n_q - n_kv, NAN);
    }
    const bool holds = backward_arrays_refresh(forward, &arrays) &&
                       backward_run(&device, NULL, forward, BACKWARD_ALL, &arrays) &&
                       backward_judge(forward, BACKWARD_ALL, &arrays);
    backward_arrays_free(&arrays);
    return holds;
}

static int served;

static int failures_of(size_t kernel, const struct cla_skeleton *skeleton)
{
    const bool top_left = kernels[kernel].causal == CLATTN_CAUSAL_TOP_LEFT;
    const struct forward_case plain = case_of(kernel, skeleton, 203, 301);
    const struct forward_case spoilt = case_of(kernel, skeleton, top_left ? 70 : 203, top_left ? 301 : 70);
    int failures = 0;
    if (!test_serves(&device, &plain.problem))
        return 0;
    served++;
    failures += !right(&plain);
    if (kernels[kernel].features & CLATTN_BLOCK_MASK) { /* tiles of rows are looked for among many */
        struct forward_case walk = case_of(kernel, skeleton, LONG, 70);
        walk.score.density = 0.1;
        failures += !right(&walk);
        walk.shape.heads = 1;
        walk.score.density = 0.0;
        failures += !right(&walk);
    }
    if (kernels[kernel].causal != CLATTN_FULL)
        failures += !right_beside_nan(&spoilt);
    if (failures)
        print_error("fails: %s, kernel %zu\n", skeleton->name, kernel);
    return failures;
}

static void every_shape(void **state)
{
    (void)state;
    int failures = 0;
    for (const struct cla_skeleton *const *skeleton = test_backward_skeletons(); *skeleton; skeleton++)
        for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
            if (is_for(i, *skeleton) && test_is_turn((int)i, 3))
                failures += failures_of(i, *skeleton);
    if (served == 0)
        skip(); /* the device has no such kernels */
    assert_int_equal(failures, 0);
}

static bool takes_the_keys(size_t kernel, const struct clattn_problem *problem)
{
    struct clattn_plan_info info;
    return clattn_plan_preview(clattn_context_capabilities(device.clattn), problem, &info) == CLATTN_SUCCESS &&
           info.sums && (!kernels[kernel].planned_b_c || info.b_c == kernels[kernel].planned_b_c);
}

/* Where it is emulated nothing but local memory can be in the way, of which most CPUs have as much as those GPUs. */
static void emulations_serve_every_shape(void **state)
{
    (void)state;
    if (clattn_context_capabilities(device.clattn)->local_memory_bytes < 99 << 10)
        skip();
    for (const struct cla_skeleton *const *skeleton = test_backward_skeletons(); *skeleton; skeleton++)
        for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
            if (is_for(i, *skeleton) && (*skeleton)->emulated) {
                const struct forward_case forward = case_of(i, *skeleton, 1, 1);
                assert_true(test_serves(&device, &forward.problem));
                assert_true(takes_the_keys(i, &forward.problem));
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(emulations_serve_every_shape), cmocka_unit_test(every_shape)};
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
