/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The host level: arrays of every layout, buffers and plans that are kept from call to call, and arrays that are left
 * alone on errors.
 */
#include "support/compare.h"
#include "support/forward.h"
#include "support/unit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct test_device device;
static clattn_host *host;

static int make_host(void **state)
{
    (void)state;
    const struct clattn_host_params params = {.context = device.clattn};
    return test_succeeded(clattn_host_create(&host, &params), "clattn_host_create") ? 0 : -1;
}

static int free_host(void **state)
{
    (void)state;
    clattn_host_destroy(&host);
    return 0;
}

static void check(struct forward_case forward)
{
    forward.path = PATH_HOST;
    forward.seed = 1;
    assert_true(forward_check(&device, &forward));
}

/* In guarded memory: what lies between the elements is looked at, too. */
static void every_layout(void **state)
{
    (void)state;
    for (int dtype = CLATTN_FP32; dtype <= CLATTN_BF16; dtype++) {
        const struct clattn_problem problem = {.dtype = (enum clattn_dtype)dtype, .d = 24, .d_v = 16};
        const struct clattn_shape shape = {2, 4, 2, 11, 13};
        check((struct forward_case){.problem = problem, .shape = shape});
        /* dense, but not in the usual order */
        check((struct forward_case){.problem = problem,
                                    .shape = shape,
                                    .q = clattn_layout_bnhd(4, 11, 24),
                                    .k = clattn_layout_bnhd(2, 13, 24),
                                    .v = {0, 2 * 13 * 16, 13 * 16, 1, 13},
                                    .o = {0, 4, 1, 8, 88}});
        /* with gaps between columns, rows, heads and batches */
        check((struct forward_case){.problem = problem,
                                    .shape = shape,
                                    .q = {3, 5000, 11 * 50 + 7, 50, 2},
                                    .k = {0, 2 * 13 * 30, 13 * 30, 30, 1},
                                    .v = {1, 2 * 13 * 16 + 5, 13 * 16, 16, 1},
                                    .o = {2, 3000, 11 * 40, 40, 2}});
        check((struct forward_case){.problem = problem, .shape = shape, .o = {0, 4 * 11 * 17, 11 * 17, 17, 1}});
    }
}

/* Arrays for calls on one host. */
struct arrays {
    struct forward_case forward;
    struct forward_arrays given;
};

static struct clattn_host_forward_args args_of(const struct arrays *arrays)
{
    const struct forward_arrays *given = &arrays->given;
    return (struct clattn_host_forward_args){.shape = arrays->forward.shape,
                                             .q = given->q,
                                             .k = given->k,
                                             .v = given->v,
                                             .o = given->o,
                                             .lse = given->lse,
                                             .m = given->m,
                                             .l = given->l};
}

static void make_arrays(struct arrays *arrays, int d, int64_t n_q, int64_t n_kv)
{
    *arrays = (struct arrays){.forward = {.problem = {.d = d}, .shape = {1, 2, 0, n_q, n_kv}, .seed = (uint64_t)n_q}};
    assert_true(forward_arrays_make(&arrays->forward, &arrays->given));
}

static void run_and_compare(struct arrays *arrays)
{
    const struct clattn_host_forward_args args = args_of(arrays);
    assert_true(test_succeeded(clattn_host_forward(host, &arrays->forward.problem, &args), "clattn_host_forward"));
    assert_true(compare_outputs(&arrays->forward, &arrays->given));
}

static uint64_t bytes_held(void)
{
    struct clattn_host_info info;
    assert_int_equal(clattn_host_last(host, NULL, &info), CLATTN_SUCCESS);
    return info.device_bytes;
}

static void buffers_grow_and_stay(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{10, 20}, {40, 50}, {5, 3}, {1, 100}, {64, 1}, {40, 50}};
    uint64_t held = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct arrays arrays;
        make_arrays(&arrays, 32, sizes[i][0], sizes[i][1]);
        run_and_compare(&arrays);
        assert_true(bytes_held() >= held);
        held = bytes_held();
        forward_arrays_free(&arrays.given);
    }
    /* the largest of each: 64 rows, 100 keys */
    assert_int_equal(held, 2 * sizeof(float) * (64 * 32 + 100 * 32 + 100 * 32 + 64 * 32 + 3 * 64));
}

/* More problems than plans are kept, in turns. */
static void plans_are_kept_and_replaced(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 10; i++) {
            struct arrays arrays;
            struct clattn_plan_info plan;
            make_arrays(&arrays, 8, 9, 10);
            arrays.forward.problem.scale = 0.25f + 0.125f * (float)i;
            run_and_compare(&arrays);
            assert_int_equal(clattn_host_last(host, &plan, NULL), CLATTN_SUCCESS);
            assert_true(plan.b_r > 0 && strlen(plan.program_key) == 32);
            forward_arrays_free(&arrays.given);
        }
    }
}

static void a_named_skeleton_is_told_from_another(void **state)
{
    (void)state;
    static const char *const names[] = {"forward_simt", "forward_cpu"};
    for (int i = 0; i < 4; i++) {
        struct arrays arrays;
        struct clattn_plan_info plan;
        char name[16];
        make_arrays(&arrays, 8, 9, 10);
        strcpy(name, names[i % 2]); /* the string need not outlive the call */
        arrays.forward.problem.skeleton = name;
        run_and_compare(&arrays);
        memset(name, 'x', sizeof name - 1);
        assert_int_equal(clattn_host_last(host, &plan, NULL), CLATTN_SUCCESS);
        assert_string_equal(plan.skeleton, names[i % 2]);
        forward_arrays_free(&arrays.given);
    }
}

static void knobs_are_told_from_others(void **state)
{
    (void)state;
    static const char *const knobs[] = {"micro=4", "micro=8"};
    for (int i = 0; i < 4; i++) {
        struct arrays arrays;
        struct clattn_plan_info plan;
        char text[16];
        make_arrays(&arrays, 8, 9, 10);
        strcpy(text, knobs[i % 2]);
        arrays.forward.problem.skeleton = "forward_cpu";
        arrays.forward.problem.knobs = text;
        run_and_compare(&arrays);
        memset(text, 'x', sizeof text - 1);
        assert_int_equal(clattn_host_last(host, &plan, NULL), CLATTN_SUCCESS);
        assert_non_null(strstr(plan.knobs, knobs[i % 2]));
        forward_arrays_free(&arrays.given);
    }
}

/* A hint that leads to another plan. */
static void expected_densities_are_told_apart(void **state)
{
    (void)state;
    enum { N = 70, D = 64 };
    static const uint16_t zeros[N * D];
    static const unsigned char seen[4] = {1, 1, 1, 1};
    static const float densities[] = {0, 0.9f};
    static const float lse[N];
    static const int b_c[] = {64, 128};
    for (int i = 0; i < 4; i++) {
        uint16_t d_v[N * D] = {1};
        struct clattn_plan_info plan;
        const struct clattn_problem problem = {.pass = CLATTN_BACKWARD,
                                               .dtype = CLATTN_FP16,
                                               .d = D,
                                               .features = CLATTN_BLOCK_MASK,
                                               .block_q = 64,
                                               .block_kv = 64,
                                               .unordered = 1,
                                               .expected_density = densities[i % 2],
                                               .skeleton = "backward_fused_emulated"};
        if (!test_serves(&device, &problem)) /* too little local memory, or no emulations */
            skip();
        const struct clattn_host_backward_args args = {.shape = {1, 1, 0, N, N},
                                                       .q = zeros,
                                                       .k = zeros,
                                                       .v = zeros,
                                                       .o = zeros,
                                                       .d_o = zeros,
                                                       .lse = lse,
                                                       .d_v = d_v,
                                                       .score.block_mask = seen};
        assert_true(test_succeeded(clattn_host_backward(host, &problem, &args), "clattn_host_backward"));
        assert_memory_equal(d_v, zeros, sizeof d_v);
        assert_int_equal(clattn_host_last(host, &plan, NULL), CLATTN_SUCCESS);
        assert_int_equal(plan.b_c, b_c[i % 2]);
    }
}

static void zero_lengths(void **state)
{
    (void)state;
    const struct clattn_problem problem = {.d = 4};
    float q[24], o[24], lse[6], m[6], l[6];
    for (int i = 0; i < 24; i++)
        q[i] = o[i] = (float)i;
    struct clattn_host_forward_args args = {.shape = {1, 2, 0, 3, 0}, .q = q, .o = o, .lse = lse, .m = m, .l = l};
    assert_int_equal(clattn_host_forward(host, &problem, &args), CLATTN_SUCCESS);
    for (int i = 0; i < 24; i++)
        assert_true(o[i] == 0.0f);
    for (int i = 0; i < 6; i++)
        assert_true(lse[i] == -INFINITY && m[i] == -INFINITY && l[i] == 0.0f);

    /* nothing to write: no array is needed */
    const struct clattn_shape nothing[] = {{0, 2, 0, 3, 5}, {1, 0, 0, 3, 5}, {1, 2, 0, 0, 5}, {0, 0, 0, 0, 0}};
    for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++) {
        args = (struct clattn_host_forward_args){.shape = nothing[i], .k = q, .v = q};
        args.shape.n_kv = nothing[i].n_kv ? 3 : 0;
        assert_int_equal(clattn_host_forward(host, &problem, &args), CLATTN_SUCCESS);
    }
}

static void arrays_may_be_shared(void **state)
{
    (void)state;
    struct arrays apart, shared;
    make_arrays(&apart, 16, 20, 20);
    make_arrays(&shared, 16, 20, 20);
    memcpy(apart.given.v, apart.given.k, 2 * 20 * 16 * sizeof(float));
    run_and_compare(&apart);
    /* k is v, and the output takes the place of q */
    struct clattn_host_forward_args args = args_of(&shared);
    args.v = args.k;
    args.o = shared.given.q;
    assert_int_equal(clattn_host_forward(host, &shared.forward.problem, &args), CLATTN_SUCCESS);
    assert_memory_equal(shared.given.q, apart.given.o, 2 * 20 * 16 * sizeof(float));
    assert_memory_equal(shared.given.lse, apart.given.lse, 2 * 20 * sizeof(float));
    forward_arrays_free(&apart.given);
    forward_arrays_free(&shared.given);
}

/* One head of k and v for all, by strides of 0, is the same as copies of it. */
static void inputs_may_be_broadcast(void **state)
{
    (void)state;
    struct arrays arrays, copies;
    const size_t head = 30 * 16;
    make_arrays(&arrays, 16, 20, 30);
    make_arrays(&copies, 16, 20, 30);
    memcpy(copies.given.k + head, copies.given.k, head * sizeof(float));
    memcpy(copies.given.v + head, copies.given.v, head * sizeof(float));
    run_and_compare(&copies);
    struct clattn_host_forward_args args = args_of(&arrays);
    args.k_layout = args.v_layout = (struct clattn_layout){.row = 16, .column = 1};
    assert_int_equal(clattn_host_forward(host, &arrays.forward.problem, &args), CLATTN_SUCCESS);
    assert_memory_equal(arrays.given.o, copies.given.o, 2 * 20 * 16 * sizeof(float));
    forward_arrays_free(&arrays.given);
    forward_arrays_free(&copies.given);
}

static void vectors_are_optional(void **state)
{
    (void)state;
    struct arrays arrays;
    make_arrays(&arrays, 16, 20, 30);
    struct clattn_host_forward_args args = args_of(&arrays);
    args.lse = args.l = NULL;
    assert_int_equal(clattn_host_forward(host, &arrays.forward.problem, &args), CLATTN_SUCCESS);
    assert_true(arrays.given.lse[0] == 0.0f && arrays.given.l[0] == 0.0f); /* as allocated */
    run_and_compare(&arrays);
    forward_arrays_free(&arrays.given);
}

static cl_uint references(cl_command_queue queue)
{
    cl_uint count = 0;
    assert_int_equal(clGetCommandQueueInfo(queue, CL_QUEUE_REFERENCE_COUNT, sizeof count, &count, NULL), CL_SUCCESS);
    return count;
}

static void times_are_told_where_the_queue_knows_them(void **state)
{
    (void)state;
    struct clattn_host_info info;
    struct arrays arrays;
    make_arrays(&arrays, 64, 256, 256);
    run_and_compare(&arrays);
    assert_int_equal(clattn_host_last(host, NULL, &info), CLATTN_SUCCESS);
    assert_true(info.compute_ms > 0 && info.copy_in_ms > 0 && info.copy_out_ms > 0);

    const cl_uint before = references(device.queue);
    const struct clattn_host_params params = {.context = device.clattn, .queue = device.queue};
    clattn_host *own = host;
    assert_int_equal(clattn_host_create(&host, &params), CLATTN_SUCCESS);
    assert_int_equal(references(device.queue), before + 1);
    run_and_compare(&arrays);
    assert_int_equal(clattn_host_last(host, NULL, &info), CLATTN_SUCCESS);
    assert_true(info.compute_ms == 0 && info.copy_in_ms == 0 && info.copy_out_ms == 0 && info.device_bytes > 0);
    clattn_host_destroy(&host);
    assert_null(host);
    assert_int_equal(references(device.queue), before);
    host = own;
    forward_arrays_free(&arrays.given);
}

static void out_of_order_queues_are_kept_in_order(void **state)
{
    (void)state;
    cl_int code = CL_SUCCESS;
    cl_command_queue queue =
        clCreateCommandQueue(device.context, device.device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &code);
    if (code != CL_SUCCESS)
        skip();
    const struct clattn_host_params params = {.context = device.clattn, .queue = queue};
    clattn_host *own = host;
    struct arrays arrays;
    make_arrays(&arrays, 64, 100, 200);
    assert_int_equal(clattn_host_create(&host, &params), CLATTN_SUCCESS);
    run_and_compare(&arrays);
    clattn_host_destroy(&host);
    clReleaseCommandQueue(queue);
    host = own;
    forward_arrays_free(&arrays.given);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make_host, free_host)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_layout),
        TEST(buffers_grow_and_stay),
        TEST(plans_are_kept_and_replaced),
        TEST(a_named_skeleton_is_told_from_another),
        TEST(knobs_are_told_from_others),
        TEST(expected_densities_are_told_apart),
        TEST(zero_lengths),
        TEST(arrays_may_be_shared),
        TEST(inputs_may_be_broadcast),
        TEST(vectors_are_optional),
        TEST(times_are_told_where_the_queue_knows_them),
        TEST(out_of_order_queues_are_kept_in_order),
    };
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
