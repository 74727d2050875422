/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Every documented error of plans, of the device level and of standard attention: the status, the
 * argument's name in the message, outputs as they were, and a message that reached the logger once.
 */
#include "api_fixture.h"
#include <math.h>

/* A way to make the arguments wrong, for the device level and standard attention alike. */
struct mistake {
    void (*make)(struct clattn_forward_args *args);
    clattn_status status;
    const char *part;
};

#define MISTAKE(name, change)                                                                                          \
    static void name(struct clattn_forward_args *args)                                                                 \
    {                                                                                                                  \
        change;                                                                                                        \
    }
MISTAKE(no_q, args->q.buffer = NULL)
MISTAKE(no_k, args->k.buffer = NULL)
MISTAKE(no_v, args->v.buffer = NULL)
MISTAKE(no_o, args->o.buffer = NULL)
MISTAKE(negative_batch, args->shape.batch = -1)
MISTAKE(negative_heads, args->shape.heads = -2)
MISTAKE(negative_n_q, args->shape.n_q = INT64_MIN)
MISTAKE(negative_n_kv, args->shape.n_kv = -3)
MISTAKE(bad_kv_heads, args->shape.kv_heads = 3)
MISTAKE(more_kv_heads, args->shape.kv_heads = 8)
MISTAKE(long_n_q, args->shape.n_q = INT64_C(0x7fffffff) - 4095)
MISTAKE(long_n_kv, args->shape.n_kv = INT64_MAX)
MISTAKE(many_heads, args->shape.heads = INT64_C(1) << 40)
MISTAKE(negative_offset, args->q.layout.offset = -1)
MISTAKE(negative_row, args->k.layout = ((struct clattn_layout){.row = -3, .column = 1}))
MISTAKE(negative_column, args->v.layout = ((struct clattn_layout){.head = 16, .row = 16, .column = -1}))
MISTAKE(negative_vector_row, args->lse.layout = ((struct clattn_layout){.batch = 24, .head = 6, .row = -1}))
MISTAKE(far_offset, args->k.layout.offset = INT64_MAX)
MISTAKE(far_stride, args->v.layout = ((struct clattn_layout){.head = INT64_MAX / 2, .row = 16, .column = 1}))
MISTAKE(o_rows_in_one_place, args->o.layout = ((struct clattn_layout){.batch = 96, .head = 16, .column = 1}))
MISTAKE(o_heads_in_one_place,
        args->o.layout = ((struct clattn_layout){.batch = 384, .head = 8, .row = 96, .column = 1}))
MISTAKE(l_heads_in_one_place, args->l.layout = ((struct clattn_layout){.batch = 24, .row = 1}))
MISTAKE(q_too_small, args->q.layout.offset = FLOATS - HEADS * N_Q * D + 1)
MISTAKE(k_too_small, args->k.layout.offset = FLOATS)
MISTAKE(o_too_small, args->o.layout = ((struct clattn_layout){.batch = 2048, .head = 512, .row = 64, .column = 1}))
MISTAKE(m_too_small, args->m.layout.offset = FLOATS - 1)
MISTAKE(o_is_q, args->o.buffer = args->q.buffer)
MISTAKE(o_reaches_v, args->o = (args->v.layout.offset = 384 - 1, args->v))
MISTAKE(lse_is_k, args->lse.buffer = args->k.buffer)
MISTAKE(m_is_lse, args->m.buffer = args->lse.buffer)
MISTAKE(l_in_o, (args->l.buffer = args->o.buffer, args->l.layout.offset = 383))

static const struct mistake mistakes[] = {
    {no_q, CLATTN_INVALID_ARGUMENT, "q.buffer is NULL"},
    {no_k, CLATTN_INVALID_ARGUMENT, "k.buffer is NULL"},
    {no_v, CLATTN_INVALID_ARGUMENT, "v.buffer is NULL"},
    {no_o, CLATTN_INVALID_ARGUMENT, "o.buffer is NULL"},
    {negative_batch, CLATTN_INVALID_SHAPE, "shape.batch is -1"},
    {negative_heads, CLATTN_INVALID_SHAPE, "shape.heads is -2"},
    {negative_n_q, CLATTN_INVALID_SHAPE, "shape.n_q is -9223372036854775808"},
    {negative_n_kv, CLATTN_INVALID_SHAPE, "shape.n_kv is -3"},
    {bad_kv_heads, CLATTN_INVALID_SHAPE, "shape.kv_heads is 3"},
    {more_kv_heads, CLATTN_INVALID_SHAPE, "shape.kv_heads is 8"},
    {long_n_q, CLATTN_TOO_LARGE, "shape.n_q is 2147479552"},
    {long_n_kv, CLATTN_TOO_LARGE, "shape.n_kv is 9223372036854775807"},
    {many_heads, CLATTN_TOO_LARGE, "shape.heads is 1099511627776"},
    {negative_offset, CLATTN_INVALID_LAYOUT, "q.layout.offset is -1"},
    {negative_row, CLATTN_INVALID_LAYOUT, "k.layout.row is -3: strides are not negative"},
    {negative_column, CLATTN_INVALID_LAYOUT, "v.layout.column is -1"},
    {negative_vector_row, CLATTN_INVALID_LAYOUT, "lse.layout.row is -1"},
    {far_offset, CLATTN_INVALID_LAYOUT, "k.layout (offset 9223372036854775807"},
    {far_stride, CLATTN_INVALID_LAYOUT, "v.layout (offset 0"},
    {o_rows_in_one_place, CLATTN_INVALID_LAYOUT, "o.layout.row is 0"},
    {o_heads_in_one_place, CLATTN_INVALID_LAYOUT, "o.layout.head is 8"},
    {l_heads_in_one_place, CLATTN_INVALID_LAYOUT, "l.layout.head is 0"},
    {q_too_small, CLATTN_BUFFER_TOO_SMALL, "q.buffer has 4096 bytes"},
    {k_too_small, CLATTN_BUFFER_TOO_SMALL, "k.buffer has 4096 bytes"},
    {o_too_small, CLATTN_BUFFER_TOO_SMALL, "o.buffer has 4096 bytes"},
    {m_too_small, CLATTN_BUFFER_TOO_SMALL, "m.buffer has 4096 bytes"},
    {o_is_q, CLATTN_INVALID_ARGUMENT, "o (bytes 0 to 1535 of its buffer) overlaps q"},
    {o_reaches_v, CLATTN_INVALID_ARGUMENT, "overlaps v"},
    {lse_is_k, CLATTN_INVALID_ARGUMENT, "lse (bytes 0 to 95 of its buffer) overlaps k"},
    {m_is_lse, CLATTN_INVALID_ARGUMENT, "m (bytes 0 to 95 of its buffer) overlaps lse"},
    {l_in_o, CLATTN_INVALID_ARGUMENT, "l (bytes 1532 to 1627 of its buffer) overlaps o"},
};

typedef clattn_status (*enqueue_function)(cl_command_queue queue, const struct clattn_forward_args *args,
                                          cl_uint wait_count, const cl_event *wait_list, cl_event *event);

static clattn_status enqueue_forward(cl_command_queue queue, const struct clattn_forward_args *args, cl_uint wait_count,
                                     const cl_event *wait_list, cl_event *event)
{
    return clattn_forward_enqueue(plan, queue, args, wait_count, wait_list, event);
}

static clattn_status enqueue_standard(cl_command_queue queue, const struct clattn_forward_args *args,
                                      cl_uint wait_count, const cl_event *wait_list, cl_event *event)
{
    return clattn_standard_enqueue(device.clattn, &problem, queue, args, wait_count, wait_list, event);
}

/* A call that fails: the event is left alone, and the logger told once. */
static void assert_refused(enqueue_function enqueue, cl_command_queue queue, const struct clattn_forward_args *args,
                           cl_uint wait_count, const cl_event *wait_list, clattn_status status, const char *part)
{
    cl_event untouched = (cl_event)(void *)buffers, event = untouched;
    const int told = times_told;
    assert_failed(enqueue(queue, args, wait_count, wait_list, &event), status, part);
    assert_ptr_equal(event, untouched);
    assert_int_equal(times_told, told + 1);
}

static void check_enqueue(enqueue_function enqueue)
{
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        struct clattn_forward_args args = good_args();
        mistakes[i].make(&args);
        assert_refused(enqueue, device.queue, &args, 0, NULL, mistakes[i].status, mistakes[i].part);
    }
    const struct clattn_forward_args args = good_args();
    const cl_event none = NULL;
    assert_refused(enqueue, device.queue, NULL, 0, NULL, CLATTN_INVALID_ARGUMENT, "args is NULL");
    assert_refused(enqueue, NULL, &args, 0, NULL, CLATTN_INVALID_ARGUMENT, "queue is NULL");
    assert_refused(enqueue, foreign_queue, &args, 0, NULL, CLATTN_INVALID_ARGUMENT, "queue belongs to the cl_context");
    assert_refused(enqueue, device.queue, &args, 2, NULL, CLATTN_INVALID_ARGUMENT, "wait_list is NULL");
    assert_refused(enqueue, device.queue, &args, 1, &none, CLATTN_INVALID_ARGUMENT, "wait_list[0] is NULL");
    assert_int_equal(clFinish(device.queue), CL_SUCCESS);
    assert_nothing_written();
}

static void forward_errors(void **state)
{
    (void)state;
    check_enqueue(enqueue_forward);
    const struct clattn_forward_args args = good_args();
    assert_failed(clattn_forward_enqueue(NULL, device.queue, &args, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
                  "plan is NULL");
}

static void standard_errors(void **state)
{
    (void)state;
    check_enqueue(enqueue_standard);
    struct clattn_forward_args args = good_args();
    args.workspace_bytes--;
    assert_refused(enqueue_standard, device.queue, &args, 0, NULL, CLATTN_WORKSPACE_TOO_SMALL,
                   "workspace_bytes is 479: this shape needs 480");
    args = good_args();
    args.workspace = NULL;
    assert_refused(enqueue_standard, device.queue, &args, 0, NULL, CLATTN_WORKSPACE_TOO_SMALL, "workspace is NULL");
    args.workspace = buffers[K];
    assert_refused(enqueue_standard, device.queue, &args, 0, NULL, CLATTN_INVALID_ARGUMENT, "workspace overlaps k");
    args.workspace = clCreateBuffer(device.context, 0, 479, NULL, NULL);
    assert_refused(enqueue_standard, device.queue, &args, 0, NULL, CLATTN_WORKSPACE_TOO_SMALL,
                   "workspace has 479 bytes");
    clReleaseMemObject(args.workspace);
    args = good_args();
    assert_failed(clattn_standard_enqueue(NULL, &problem, device.queue, &args, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
                  "context is NULL");
    assert_failed(clattn_standard_enqueue(device.clattn, NULL, device.queue, &args, 0, NULL, NULL),
                  CLATTN_INVALID_ARGUMENT, "problem is NULL");
    assert_int_equal(clFinish(device.queue), CL_SUCCESS);
    assert_nothing_written();
}

static void standard_workspace_errors(void **state)
{
    (void)state;
    size_t bytes = 12345;
    struct clattn_forward_args args = good_args();
    const struct clattn_problem bad_type = {.dtype = (enum clattn_dtype)9, .d = D};
    assert_failed(clattn_standard_workspace_bytes(NULL, &problem, &args, &bytes), CLATTN_INVALID_ARGUMENT, "context");
    assert_failed(clattn_standard_workspace_bytes(device.clattn, NULL, &args, &bytes), CLATTN_INVALID_ARGUMENT,
                  "problem is NULL");
    assert_failed(clattn_standard_workspace_bytes(device.clattn, &problem, NULL, &bytes), CLATTN_INVALID_ARGUMENT,
                  "args is NULL");
    assert_failed(clattn_standard_workspace_bytes(device.clattn, &problem, &args, NULL), CLATTN_INVALID_ARGUMENT,
                  "bytes is NULL");
    assert_failed(clattn_standard_workspace_bytes(device.clattn, &bad_type, &args, &bytes), CLATTN_INVALID_TYPE,
                  "problem.dtype is 9");
    args.shape.heads = 3;
    assert_failed(clattn_standard_workspace_bytes(device.clattn, &problem, &args, &bytes), CLATTN_INVALID_SHAPE,
                  "shape.kv_heads is 2");
    args = good_args();
    args.shape.n_q = args.shape.n_kv = 70000;
    assert_failed(clattn_standard_workspace_bytes(device.clattn, &problem, &args, &bytes), CLATTN_TOO_LARGE,
                  "n_q 70000, n_kv 70000");
    assert_int_equal(bytes, 12345);
}

static const struct {
    struct clattn_problem problem;
    clattn_status status;
    const char *part;
} wrong_problems[] = {
    {{.d = 0}, CLATTN_INVALID_SHAPE, "problem.d is 0"},
    {{.d = -1}, CLATTN_INVALID_SHAPE, "problem.d is -1"},
    {{.d = 577}, CLATTN_INVALID_SHAPE, "problem.d is 577"},
    {{.d = 8, .d_v = 513}, CLATTN_INVALID_SHAPE, "problem.d_v is 513"},
    {{.d = 8, .d_v = -4}, CLATTN_INVALID_SHAPE, "problem.d_v is -4"},
    {{.d = 8, .dtype = (enum clattn_dtype)3}, CLATTN_INVALID_TYPE, "problem.dtype is 3"},
    {{.d = 8, .causal = (enum clattn_causal)3}, CLATTN_INVALID_ARGUMENT, "problem.causal is 3"},
    {{.d = 8, .scale = INFINITY}, CLATTN_INVALID_ARGUMENT, "problem.scale"},
    {{.d = 8, .scale = NAN}, CLATTN_INVALID_ARGUMENT, "problem.scale"},
    {{.d = 8, .expected_n_q = -1}, CLATTN_INVALID_SHAPE, "problem.expected_n_q is -1"},
    {{.d = 8, .expected_n_q = INT64_MAX}, CLATTN_TOO_LARGE, "problem.expected_n_q is 9223372036854775807"},
    {{.d = 8, .expected_heads = INT64_C(1) << 31}, CLATTN_TOO_LARGE, "problem.expected_heads is 2147483648"},
    {{.d = 8, .expected_density = 0.5f}, CLATTN_INVALID_ARGUMENT, "problem.expected_density is 0.5"},
    {{.d = 8, .features = CLATTN_BLOCK_MASK, .block_q = 16, .block_kv = 16, .expected_density = 2},
     CLATTN_INVALID_ARGUMENT,
     "problem.expected_density is 2"},
    {{.d = 8, .skeleton = "backward_simt"}, CLATTN_INVALID_ARGUMENT, "problem.skeleton is \"backward_simt\""},
    {{.d = 8, .b_r = -1}, CLATTN_INVALID_ARGUMENT, "problem.b_r is -1"},
    {{.d = 8, .skeleton = "forward_simt", .work_group_size = 65536}, CLATTN_NOTHING_FITS, "forced"},
};

static void problem_errors(void **state)
{
    (void)state;
    const struct clattn_host_forward_args args = {
        .shape = shape, .q = arrays[Q], .k = arrays[K], .v = arrays[V], .o = arrays[O]};
    for (size_t i = 0; i < sizeof wrong_problems / sizeof *wrong_problems; i++) {
        clattn_plan *made = plan;
        struct clattn_plan_info info = {.b_r = 12345};
        const int told = times_told;
        assert_failed(clattn_plan_create(&made, device.clattn, &wrong_problems[i].problem), wrong_problems[i].status,
                      wrong_problems[i].part);
        assert_ptr_equal(made, plan);
        assert_failed(
            clattn_plan_preview(clattn_context_capabilities(device.clattn), &wrong_problems[i].problem, &info),
            wrong_problems[i].status, wrong_problems[i].part);
        assert_int_equal(info.b_r, 12345);
        assert_failed(clattn_host_forward(host, &wrong_problems[i].problem, &args), wrong_problems[i].status,
                      wrong_problems[i].part);
        assert_int_equal(times_told, told + 2); /* a preview has no logger */
    }
    assert_nothing_written();
}

static void plan_errors(void **state)
{
    (void)state;
    clattn_plan *made = plan, *none = NULL;
    struct clattn_plan_info info;
    size_t bytes = 12345;
    const struct clattn_capabilities *capabilities = clattn_context_capabilities(device.clattn);
    assert_failed(clattn_plan_create(NULL, device.clattn, &problem), CLATTN_INVALID_ARGUMENT, "plan is NULL");
    assert_failed(clattn_plan_create(&made, NULL, &problem), CLATTN_INVALID_ARGUMENT, "context is NULL");
    assert_failed(clattn_plan_create(&made, device.clattn, NULL), CLATTN_INVALID_ARGUMENT, "problem is NULL");
    assert_ptr_equal(made, plan);
    assert_failed(clattn_plan_preview(NULL, &problem, &info), CLATTN_INVALID_ARGUMENT, "capabilities is NULL");
    assert_failed(clattn_plan_preview(capabilities, NULL, &info), CLATTN_INVALID_ARGUMENT, "problem is NULL");
    assert_failed(clattn_plan_preview(capabilities, &problem, NULL), CLATTN_INVALID_ARGUMENT, "info is NULL");
    assert_failed(clattn_plan_get_info(NULL, &info), CLATTN_INVALID_ARGUMENT, "plan is NULL");
    assert_failed(clattn_plan_get_info(plan, NULL), CLATTN_INVALID_ARGUMENT, "info is NULL");
    const int skeletons = clattn_skeleton_count();
    struct clattn_skeleton_info skeleton = {.any_order = true};
    assert_failed(clattn_skeleton_get_info(-1, &skeleton), CLATTN_INVALID_ARGUMENT, "index is -1");
    assert_failed(clattn_skeleton_get_info(skeletons, &skeleton), CLATTN_INVALID_ARGUMENT, "counted from 0");
    assert_failed(clattn_skeleton_get_info(0, NULL), CLATTN_INVALID_ARGUMENT, "info is NULL");
    assert_true(skeleton.any_order && !skeleton.name[0]);
    assert_failed(clattn_plan_workspace_bytes(NULL, &shape, &bytes), CLATTN_INVALID_ARGUMENT, "plan is NULL");
    assert_failed(clattn_plan_workspace_bytes(plan, NULL, &bytes), CLATTN_INVALID_ARGUMENT, "shape is NULL");
    assert_failed(clattn_plan_workspace_bytes(plan, &shape, NULL), CLATTN_INVALID_ARGUMENT, "bytes is NULL");
    struct clattn_shape wrong = shape;
    wrong.n_kv = -1;
    assert_failed(clattn_plan_workspace_bytes(plan, &wrong, &bytes), CLATTN_INVALID_SHAPE, "shape.n_kv is -1");
    wrong = (struct clattn_shape){1 << 20, 1 << 20, 0, 1 << 20, 1};
    assert_failed(clattn_plan_workspace_bytes(plan, &wrong, &bytes), CLATTN_TOO_LARGE, "batch 1048576");
    assert_int_equal(bytes, 12345);
    assert_int_equal(clattn_plan_workspace_bytes(plan, &shape, &bytes), CLATTN_SUCCESS);
    assert_int_equal(bytes, 0);
    clattn_plan_destroy(NULL);
    clattn_plan_destroy(&none);
}

/* Sizes that leave nothing to do need no tensors, and give an event that waits for what was to be waited for. */
static void check_nothing_to_do(enqueue_function enqueue)
{
    static const struct clattn_shape nothing[] = {{0, 4, 2, 6, 10}, {1, 0, 0, 6, 10}, {1, 4, 2, 0, 10}};
    for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++) {
        const struct clattn_forward_args args = {.shape = nothing[i], .k = {buffers[K], {0}}, .v = {buffers[V], {0}}};
        cl_int code = CL_SUCCESS, progress = CL_COMPLETE;
        cl_event go = clCreateUserEvent(device.context, &code), done = NULL;
        assert_int_equal(enqueue(device.queue, &args, 1, &go, &done), CLATTN_SUCCESS);
        assert_non_null(done);
        assert_int_equal(clGetEventInfo(done, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof progress, &progress, NULL),
                         CL_SUCCESS);
        assert_int_not_equal(progress, CL_COMPLETE);
        assert_int_equal(clSetUserEventStatus(go, CL_COMPLETE), CL_SUCCESS);
        assert_int_equal(clWaitForEvents(1, &done), CL_SUCCESS);
        clReleaseEvent(done);
        clReleaseEvent(go);
    }
    assert_nothing_written();
}

static void nothing_to_do(void **state)
{
    (void)state;
    check_nothing_to_do(enqueue_forward);
    check_nothing_to_do(enqueue_standard);
}

/* After all those errors the same objects still work. */
static void everything_still_works(void **state)
{
    (void)state;
    const struct clattn_forward_args args = good_args();
    const struct clattn_host_forward_args host_args = good_host_args();
    float results[2][HEADS * N_Q * D];
    forward_errors(state);
    assert_int_equal(clattn_forward_enqueue(plan, device.queue, &args, 0, NULL, NULL), CLATTN_SUCCESS);
    assert_int_equal(
        clEnqueueReadBuffer(device.queue, buffers[O], CL_TRUE, 0, sizeof results[0], results[0], 0, NULL, NULL),
        CL_SUCCESS);
    assert_int_equal(clattn_standard_enqueue(device.clattn, &problem, device.queue, &args, 0, NULL, NULL),
                     CLATTN_SUCCESS);
    assert_int_equal(
        clEnqueueReadBuffer(device.queue, buffers[O], CL_TRUE, 0, sizeof results[1], results[1], 0, NULL, NULL),
        CL_SUCCESS);
    assert_int_equal(clattn_host_forward(host, &problem, &host_args), CLATTN_SUCCESS);
    assert_memory_equal(arrays[O], results[0], sizeof results[0]);
    for (int i = 0; i < HEADS * N_Q * D; i++)
        assert_true(fabsf(results[0][i] - results[1][i]) <= 1e-5f * fabsf(results[0][i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(forward_errors), TEST(standard_errors), TEST(standard_workspace_errors), TEST(problem_errors),
        TEST(plan_errors),    TEST(nothing_to_do),   TEST(everything_still_works),
    };
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
