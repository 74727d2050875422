/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Keys split between work-groups: whatever the number of splits, the result is that of all keys at once, and a plan
 * that may choose does so by the shape. The argument names the skeleton. */
#include "support/cases.h"
#include "support/compare.h"
#include "support/unit.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct test_device device;
static const struct cla_skeleton *skeleton;
static struct random chance;

enum { EVERYTHING = (1 << CASE_FEATURES) - 1, MOST_WORK = 1 << 21, SHAPES = 4 };
static const int numbers[] = {2, 3, 7};

static bool check(struct forward_case forward, int splits)
{
    bool right = true;
    forward.problem.skeleton = skeleton->name;
    forward.problem.splits = splits;
    if (!test_serves(&device, &forward.problem))
        return true;
    for (int n = 0; n < SHAPES; n++) {
        right = forward_check(&device, &forward) && right;
        case_vary(&chance, MOST_WORK, &forward);
    }
    return right;
}

/* A kernel costs seconds to compile: where a skeleton is not at home, fewer are made. */
static bool at_home(void)
{
    return test_takes(&device, skeleton, 1, 2);
}

/* Two features at a time, or six, so that each is met; types and masks go round. */
static void every_feature(void **state)
{
    (void)state;
    int failures = 0;
    const int first = (int)random_below(&chance, 9), step = at_home() ? 2 : 6;
    for (int n = 0; n < CASE_FEATURES; n += step) {
        struct forward_case forward = case_random(&chance, ((1u << step) - 1) << n, MOST_WORK);
        forward.problem.dtype = (enum clattn_dtype)((first + n / 2) % 3);
        forward.problem.causal = (enum clattn_causal)((first + n / 2) / 3 % 3);
        failures += !check(forward, numbers[n / 2 % 3]);
    }
    assert_int_equal(failures, 0);
}

static void plain(void **state)
{
    (void)state;
    int failures = 0;
    for (int n = 0; n < 3; n++) {
        struct forward_case forward = case_random(&chance, 0, MOST_WORK);
        forward.problem.dtype = (enum clattn_dtype)n;
        failures += !check(forward, numbers[n]);
    }
    assert_int_equal(failures, 0);
}

static void many_features(void **state)
{
    (void)state;
    int failures = 0;
    for (int n = 0; n < (at_home() ? 3 : 1); n++)
        failures +=
            !check(case_random(&chance, case_random_features(&chance, 3 + n, EVERYTHING), MOST_WORK), numbers[n]);
    failures += !check(case_random(&chance, EVERYTHING, MOST_WORK), 3);
    assert_int_equal(failures, 0);
}

/* Splits without keys, rows that see none, and none at all; a scale that turns the order of scores round. */
static void few_keys(void **state)
{
    (void)state;
    static const int64_t lengths[][2] = {{1, 0}, {1, 1}, {5, 3}, {33, 17}, {40, 1}, {200, 130}, {1, 300}};
    int failures = 0;
    for (int causal = CLATTN_FULL; causal <= CLATTN_CAUSAL_TOP_LEFT; causal++) {
        struct forward_case forward = {.problem = {.d = 40,
                                                   .d_v = 24,
                                                   .dtype = CLATTN_FP16,
                                                   .causal = (enum clattn_causal)causal,
                                                   .scale = causal == CLATTN_FULL ? -0.25f : 0.0f,
                                                   .features = causal == CLATTN_FULL ? CLATTN_SINKS : 0,
                                                   .splits = 7,
                                                   .skeleton = skeleton->name},
                                       .score = score_typical()};
        for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
            forward.shape = (struct clattn_shape){
                .batch = 2, .heads = 4, .kv_heads = 2, .n_q = lengths[n][0], .n_kv = lengths[n][1]};
            forward.seed = 100 + n;
            failures += !forward_check(&device, &forward);
        }
    }
    assert_int_equal(failures, 0);
}

/* What hides behind a mask, NaN even, stays there; what a row sees comes out of the split that has it. */
static struct forward_case of_shape(int splits, int64_t n_q, int64_t n_kv)
{
    return (struct forward_case){.problem = {.d = 64,
                                             .dtype = CLATTN_FP16,
                                             .skeleton = skeleton->name,
                                             .splits = splits,
                                             .knobs = test_knobs(skeleton, 1)},
                                 .shape = {.batch = 1, .heads = 2, .kv_heads = 1, .n_q = n_q, .n_kv = n_kv},
                                 .seed = 5};
}

static void poison(struct forward_arrays *arrays, const struct forward_case *forward, int64_t key, float value)
{
    const int64_t d = forward->problem.d;
    for (int64_t x = 0; x < d; x++)
        arrays->v[key * d + x] = value;
}

static void values_that_are_not_finite(void **state)
{
    (void)state;
    struct forward_case forward = of_shape(3, 50, 300);
    struct forward_arrays arrays;
    forward.problem.causal = CLATTN_CAUSAL_BOTTOM_RIGHT;
    assert_true(forward_arrays_make(&forward, &arrays));
    poison(&arrays, &forward, 280, NAN);      /* seen by rows from 30 on */
    poison(&arrays, &forward, 290, INFINITY); /* from 40 on */
    assert_true(forward_run(&device, NULL, &forward, &arrays));
    for (int64_t h = 0; h < 2; h++)
        for (int64_t i = 0; i < 50; i++)
            for (int64_t x = 0; x < 64; x++)
                if (isnan(arrays.o[(h * 50 + i) * 64 + x]) != (i >= 30))
                    fail_msg("head %d, row %d, column %d is %g", (int)h, (int)i, (int)x,
                             (double)arrays.o[(h * 50 + i) * 64 + x]);
    forward_arrays_free(&arrays);
}

static void the_same_bits(void **state)
{
    (void)state;
    const struct forward_case forward = of_shape(5, 33, 517);
    struct forward_arrays arrays;
    clattn_plan *plan = NULL;
    assert_int_equal(clattn_plan_create(&plan, device.clattn, &forward.problem), CLATTN_SUCCESS);
    assert_true(forward_arrays_make(&forward, &arrays));
    assert_true(forward_repeats(&device, plan, &forward, &arrays, 26) && compare_outputs(&forward, &arrays));
    clattn_plan_destroy(&plan);
    forward_arrays_free(&arrays);
}

static size_t bytes_of(const clattn_plan *plan, int64_t heads, int64_t n_q, int64_t n_kv)
{
    const struct clattn_shape shape = {.batch = 1, .heads = heads, .n_q = n_q, .n_kv = n_kv};
    size_t bytes = 1;
    assert_int_equal(clattn_plan_workspace_bytes(plan, &shape, &bytes), CLATTN_SUCCESS);
    return bytes;
}

static clattn_plan *plan_of(struct clattn_problem problem)
{
    clattn_plan *plan = NULL;
    if (clattn_plan_create(&plan, device.clattn, &problem))
        fail_msg("%s", clattn_error_message());
    return plan;
}

/* m and l end at multiples of 64 bytes. */
static size_t state_bytes(int64_t rows, int64_t d_v)
{
    return (size_t)((rows + 15) / 16 * 16 * 2 + rows * d_v) * sizeof(float);
}

/* As planned: of_shape asks for other knobs. */
static struct forward_case planned_of_shape(int splits, int64_t n_q, int64_t n_kv)
{
    struct forward_case forward = of_shape(splits, n_q, n_kv);
    forward.problem.knobs = NULL;
    return forward;
}

/* What forward_hopper's work-groups need with TMA lies behind the states, on a multiple of 128 bytes: three
 * times as many for each pipeline, which has a warp group for 64 of its rows; one more brings tiles. */
static size_t with_maps(const clattn_plan *plan, size_t bytes)
{
    struct clattn_plan_info info;
    if (strcmp(skeleton->name, "forward_hopper") != 0)
        return bytes;
    assert_int_equal(clattn_plan_get_info(plan, &info), CLATTN_SUCCESS);
    const int pipelines = (info.work_group_size / 128 - 1) * 64 / info.b_r;
    return (bytes + 127) / 128 * 128 +
           (size_t)3 * 128 * (size_t)pipelines * clattn_context_capabilities(device.clattn)->compute_units;
}

/* Where work-groups make results of their splits' states, a counter for each block of rows lies behind these. */
static size_t with_counters(const clattn_plan *plan, size_t bytes, size_t blocks)
{
    struct clattn_plan_info info;
    assert_int_equal(clattn_plan_get_info(plan, &info), CLATTN_SUCCESS);
    return strstr(info.knobs, "streams=1") ? (bytes + 127) / 128 * 128 + 8 * blocks : bytes;
}

static void workspace_is_exact(void **state)
{
    (void)state;
    struct clattn_plan_info info;
    struct forward_case forward = planned_of_shape(3, 33, 65);
    clattn_plan *plan = plan_of(forward.problem);
    assert_int_equal(bytes_of(plan, 2, 33, 65), with_maps(plan, state_bytes((int64_t)3 * 2 * 33, 64)));
    assert_int_equal(bytes_of(plan, 0, 33, 65), 0);
    assert_int_equal(clattn_plan_get_info(plan, &info), CLATTN_SUCCESS);
    assert_int_equal(info.splits, 3);
    clattn_plan_destroy(&plan);

    /* Block masks as CSR come behind it. */
    forward.problem.features = CLATTN_BLOCK_MASK;
    forward.problem.block_q = forward.problem.block_kv = 16;
    plan = plan_of(forward.problem);
    assert_int_equal(bytes_of(plan, 2, 33, 65), with_maps(plan, state_bytes((int64_t)3 * 2 * 33, 64)) + 2 * 3 * 5);
    clattn_plan_destroy(&plan);
}

static void too_small_workspaces(void **state)
{
    (void)state;
    char text[128];
    const struct forward_case forward = planned_of_shape(2, 3, 40);
    clattn_plan *plan = plan_of(forward.problem);
    const size_t needed = with_maps(plan, state_bytes(12, 64));
    cl_int code;
    cl_mem memory = clCreateBuffer(device.context, CL_MEM_READ_WRITE, 32768 + needed, NULL, &code);
    const struct clattn_tensor at_0 = {.buffer = memory}, at_16k = {.buffer = memory, .layout = {.offset = 8192}};
    struct clattn_forward_args args = {
        .shape = forward.shape, .q = at_0, .k = at_0, .v = at_0, .o = at_16k, .workspace_bytes = needed - 1};
    assert_int_equal(clattn_forward_enqueue(plan, device.queue, &args, 0, NULL, NULL), CLATTN_WORKSPACE_TOO_SMALL);
    snprintf(text, sizeof text, "workspace_bytes is %zu: this shape needs %zu", needed - 1, needed);
    assert_non_null(strstr(clattn_error_message(), text));
    args.workspace_bytes++;
    assert_int_equal(clattn_forward_enqueue(plan, device.queue, &args, 0, NULL, NULL), CLATTN_WORKSPACE_TOO_SMALL);
    snprintf(text, sizeof text, "workspace is NULL: it must be a cl_mem of %zu bytes", needed);
    assert_non_null(strstr(clattn_error_message(), text));
    args.workspace = memory;
    assert_int_equal(clattn_forward_enqueue(plan, device.queue, &args, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT);
    snprintf(text, sizeof text, "workspace (bytes 0 to %zu of its buffer) overlaps q", needed - 1);
    assert_non_null(strstr(clattn_error_message(), text));
    clReleaseMemObject(memory);
    clattn_plan_destroy(&plan);
}

/* A plan that may choose splits few blocks of rows and leaves many alone; the expected sizes say whether it may. */
static void by_shape(void **state)
{
    (void)state;
    const uint32_t units = clattn_context_capabilities(device.clattn)->compute_units;
    struct clattn_plan_info info;
    struct forward_case forward = planned_of_shape(CLATTN_SPLITS_BY_SHAPE, 1, 3000);
    clattn_plan *plan = plan_of(forward.problem);
    assert_int_equal(clattn_plan_get_info(plan, &info), CLATTN_SUCCESS);
    assert_int_equal(info.splits, 0);
    assert_int_equal(bytes_of(plan, (int64_t)units * 4096, 1, 100), with_maps(plan, 0));
    if (units > 1)
        assert_true(bytes_of(plan, 1, 1, 1 << 20) > with_maps(plan, 0));
    assert_true(forward_check(&device, &forward));
    clattn_plan_destroy(&plan);

    forward.problem.splits = 0;
    plan = plan_of(forward.problem);
    assert_int_equal(bytes_of(plan, 1, 1, 1 << 20), with_maps(plan, 0));
    clattn_plan_destroy(&plan);

    forward.problem.expected_heads = forward.problem.expected_n_q = 1;
    forward.problem.expected_n_kv = 1 << 20;
    plan = plan_of(forward.problem);
    assert_int_equal(clattn_plan_get_info(plan, &info), CLATTN_SUCCESS);
    assert_true(units > 1 ? info.splits > 1 : info.splits == 1);
    const size_t states = info.splits == 1 ? 0 : with_counters(plan, state_bytes(info.splits, forward.problem.d), 1);
    assert_int_equal(bytes_of(plan, 1, 1, 1 << 20), with_maps(plan, states));
    clattn_plan_destroy(&plan);

    /* Kernels for few rows, and scores so far apart that a row's largest grows from tile to tile by more than sums can
     * hold unscaled. */
    forward.problem.scale = 3.0f;
    assert_true(forward_check(&device, &forward));
}

/* The host level chooses by the call's shape, and brings the workspace. */
static void host_level(void **state)
{
    (void)state;
    struct forward_case forward = of_shape(0, 1, 3000);
    forward.path = PATH_HOST;
    assert_true(forward_check(&device, &forward));
    forward.problem.splits = 4;
    assert_true(forward_check(&device, &forward));
    forward.problem.features = CLATTN_BLOCK_MASK;
    forward.problem.block_q = forward.problem.block_kv = 16;
    forward.problem.knobs = NULL; /* what is forced may spill more than a plan does */
    forward.score = score_typical();
    forward.score.csr = true;
    assert_true(forward_check(&device, &forward));
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        int splits;
        enum clattn_pass pass;
        const char *text;
    } rows[] = {{-2, CLATTN_FORWARD, "problem.splits is -2: it is 0"},
                {257, CLATTN_FORWARD, "from 2 to 256"},
                {2, CLATTN_BACKWARD, "problem.splits is 2: keys are split in CLATTN_FORWARD alone"},
                {-1, CLATTN_ACCUMULATE, "problem.splits is -1: keys are split in CLATTN_FORWARD alone"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct clattn_problem problem = {.d = 64, .pass = rows[i].pass, .splits = rows[i].splits};
        clattn_plan *plan = NULL;
        assert_int_equal(clattn_plan_create(&plan, device.clattn, &problem), CLATTN_INVALID_ARGUMENT);
        if (!strstr(clattn_error_message(), rows[i].text))
            fail_msg("'%s' is not in: %s", rows[i].text, clattn_error_message());
    }
    float numbers_of[64] = {0};
    clattn_host *host = NULL;
    const struct clattn_host_params params = {.context = device.clattn};
    const struct clattn_problem problem = {.d = 4, .splits = 2};
    const struct clattn_host_forward_args args = {.shape = {.batch = 1, .heads = 1, .n_q = 1, .n_kv = 2},
                                                  .q = numbers_of,
                                                  .k = numbers_of,
                                                  .v = numbers_of,
                                                  .o = numbers_of + 32,
                                                  .kv_chunk = 1};
    assert_int_equal(clattn_host_create(&host, &params), CLATTN_SUCCESS);
    assert_int_equal(clattn_host_forward(host, &problem, &args), CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(clattn_error_message(), "problem.splits is 2: keys that arrive in pieces (here of 1)"));
    clattn_host_destroy(&host);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_keys),
        cmocka_unit_test(plain),
        cmocka_unit_test(every_feature),
        cmocka_unit_test(many_features),
        cmocka_unit_test(values_that_are_not_finite),
        cmocka_unit_test(the_same_bits),
        cmocka_unit_test(workspace_is_exact),
        cmocka_unit_test(too_small_workspaces),
        cmocka_unit_test(by_shape),
        cmocka_unit_test(host_level),
        cmocka_unit_test(refused),
    };
    skeleton = test_device_open_for(&device, argc, argv);
    chance.state = case_seed();
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
