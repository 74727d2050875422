/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Every documented error of the backward pass and of the streaming state: the status, the argument's name and value in
 * the message, and outputs as they were. */
#include "api_fixture.h"

static void state_errors(void **state)
{
    (void)state;
    const struct clattn_problem accumulate = {.d = D, .pass = CLATTN_ACCUMULATE};
    clattn_plan *made = NULL;
    size_t bytes = 0;
    assert_int_equal(clattn_plan_create(&made, device.clattn, &accumulate), CLATTN_SUCCESS);
    assert_int_equal(clattn_state_bytes(made, &shape, &bytes), CLATTN_SUCCESS);
    assert_int_equal(bytes, 128 + 128 + HEADS * N_Q * D * 4); /* 24 rows: 96 bytes, to a multiple of 64 */
    const clattn_status small = clattn_state_begin_enqueue(made, device.queue, &(struct clattn_shape){8, 8, 8, 8, 8},
                                                           buffers[O], 0, NULL, NULL);
    assert_failed(small, CLATTN_BUFFER_TOO_SMALL, "state has 4096 bytes: this call needs 36864");
    assert_failed(clattn_state_begin_enqueue(made, device.queue, &shape, NULL, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
                  "state is NULL: it must be a cl_mem of at least 1792 bytes");
    assert_failed(clattn_state_merge_enqueue(made, device.queue, &shape, buffers[O], buffers[O], 0, NULL, NULL),
                  CLATTN_INVALID_ARGUMENT, "from is the same cl_mem as into");
    assert_failed(clattn_state_merge_enqueue(made, device.queue, &shape, NULL, buffers[O], 0, NULL, NULL),
                  CLATTN_INVALID_ARGUMENT, "into is NULL");
    struct clattn_finish_args finish = {.shape = shape, .state = buffers[O], .o = {buffers[O], {0}}};
    assert_failed(clattn_state_finish_enqueue(made, device.queue, &finish, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
                  "overlaps");
    assert_int_equal(clFinish(device.queue), CL_SUCCESS);
    assert_nothing_written();
    clattn_plan_destroy(&made);
}

static void accumulate_errors(void **state)
{
    (void)state;
    const struct clattn_problem accumulate = {.d = D, .pass = CLATTN_ACCUMULATE};
    clattn_plan *made = NULL;
    assert_int_equal(clattn_plan_create(&made, device.clattn, &accumulate), CLATTN_SUCCESS);
    struct clattn_accumulate_args args = {.shape = shape,
                                          .first_key = 4,
                                          .key_count = N_KV - 3,
                                          .q = {buffers[Q], {0}},
                                          .k = {buffers[K], {0}},
                                          .v = {buffers[V], {0}},
                                          .state = buffers[O]};
    assert_failed(clattn_state_accumulate_enqueue(made, device.queue, &args, 0, NULL, NULL), CLATTN_INVALID_SHAPE,
                  "key_count is 7: from first_key 4 on there are 6 of 10 keys");
    args.key_count = 6;
    args.first_key = -1;
    assert_failed(clattn_state_accumulate_enqueue(made, device.queue, &args, 0, NULL, NULL), CLATTN_INVALID_SHAPE,
                  "first_key is -1");
    args.first_key = 4;
    args.state = args.k.buffer;
    assert_failed(clattn_state_accumulate_enqueue(made, device.queue, &args, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
                  "overlaps k");
    args.state = buffers[O];
    args.k.buffer = NULL;
    assert_failed(clattn_state_accumulate_enqueue(made, device.queue, &args, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
                  "k.buffer is NULL");
    assert_int_equal(clFinish(device.queue), CL_SUCCESS);
    assert_nothing_written();
    clattn_plan_destroy(&made);
}

/* With d_k, too. */
static struct clattn_backward_args backward_args(void)
{
    struct clattn_backward_args args = good_backward_args();
    args.d_k.buffer = buffers[L];
    return args;
}

static void refuse_backward(const clattn_plan *of, const struct clattn_backward_args *args, clattn_status status,
                            const char *part)
{
    assert_failed(clattn_backward_enqueue(of, device.queue, args, 0, NULL, NULL), status, part);
}

static void backward_errors(void **state)
{
    (void)state;
    const struct clattn_problem backward = {.d = D, .pass = CLATTN_BACKWARD};
    clattn_plan *made = NULL;
    size_t bytes = 0;
    assert_int_equal(clattn_plan_create(&made, device.clattn, &backward), CLATTN_SUCCESS);
    assert_int_equal(clattn_plan_workspace_bytes(made, &shape, &bytes), CLATTN_SUCCESS);
    assert_true(bytes >= HEADS * N_Q * 4 * sizeof(float) && bytes <= sizeof arrays[WORKSPACE]);
    char small[64];
    struct clattn_backward_args args = backward_args();
    args.workspace_bytes = bytes - 1;
    snprintf(small, sizeof small, "workspace_bytes is %zu: this shape needs %zu", bytes - 1, bytes);
    refuse_backward(made, &args, CLATTN_WORKSPACE_TOO_SMALL, small);
    args = backward_args();
    args.lse.buffer = NULL;
    refuse_backward(made, &args, CLATTN_INVALID_ARGUMENT, "lse.buffer is NULL, and so are m and l");
    args.m.buffer = buffers[LSE];
    refuse_backward(made, &args, CLATTN_INVALID_ARGUMENT, "m.buffer is given and l.buffer is NULL");
    args.lse.buffer = args.l.buffer = buffers[LSE];
    args.m.buffer = NULL;
    refuse_backward(made, &args, CLATTN_INVALID_ARGUMENT, "l.buffer is given and m.buffer is NULL");
    args.m.buffer = buffers[LSE];
    args.m.layout = (struct clattn_layout){.offset = 1 << 20, .batch = HEADS * N_Q, .head = N_Q, .row = 1};
    refuse_backward(made, &args, CLATTN_BUFFER_TOO_SMALL, "m.buffer has");
    assert_int_equal(clFinish(device.queue), CL_SUCCESS);
    assert_nothing_written();
    args = backward_args();
    assert_int_equal(clattn_backward_enqueue(made, device.queue, &args, 0, NULL, NULL), CLATTN_SUCCESS);
    assert_int_equal(clFinish(device.queue), CL_SUCCESS);
    clattn_plan_destroy(&made);
}

static void gradients_that_cannot_be_written(void **state)
{
    (void)state;
    const struct clattn_problem backward = {.d = D, .pass = CLATTN_BACKWARD};
    clattn_plan *made = NULL;
    cl_mem spare = clCreateBuffer(device.context, CL_MEM_READ_WRITE, 4096, NULL, NULL);
    assert_int_equal(clattn_plan_create(&made, device.clattn, &backward), CLATTN_SUCCESS);
    struct clattn_backward_args args = backward_args();
    args.d_o.buffer = NULL;
    refuse_backward(made, &args, CLATTN_INVALID_ARGUMENT, "d_o.buffer is NULL");
    args = backward_args();
    args.d_k.buffer = args.q.buffer;
    refuse_backward(made, &args, CLATTN_INVALID_ARGUMENT, "d_k (bytes 0 to 1279 of its buffer) overlaps q");
    args = backward_args();
    args.d_q.buffer = args.workspace;
    refuse_backward(made, &args, CLATTN_INVALID_ARGUMENT, "of its buffer) overlaps d_q");
    args = backward_args();
    args.d_bias.buffer = spare;
    refuse_backward(made, &args, CLATTN_INVALID_ARGUMENT, "d_bias.buffer is given, and the problem has no CLATTN_BIAS");
    args = backward_args();
    args.d_sinks.buffer = spare;
    refuse_backward(made, &args, CLATTN_INVALID_ARGUMENT, "d_sinks.buffer is given");
    refuse_backward(made, NULL, CLATTN_INVALID_ARGUMENT, "args is NULL");
    assert_int_equal(clFinish(device.queue), CL_SUCCESS);
    assert_nothing_written();
    clReleaseMemObject(spare);
    clattn_plan_destroy(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(state_errors),
        TEST(accumulate_errors),
        TEST(backward_errors),
        TEST(gradients_that_cannot_be_written),
    };
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
