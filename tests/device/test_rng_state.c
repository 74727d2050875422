/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Dropout's seed and offset in device memory (problem.rng_state): calls read them when they run. That every skeleton
 * drops the same as by value is in test_dropout.c. */
#include "support/device.h"
#include "support/unit.h"
#include <string.h>

static struct test_device device;

enum { FEW = 16, FLOATS = FEW * FEW };

static cl_mem buffer_of(size_t bytes, const void *data)
{
    cl_int code = CL_SUCCESS;
    cl_mem made =
        clCreateBuffer(device.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes, (void *)(uintptr_t)data, &code);
    assert_int_equal(code, CL_SUCCESS);
    return made;
}

/* Calls of one head with the same arguments; O of each. */
struct calls {
    clattn_plan *plan;
    struct clattn_forward_args args;
    cl_mem state;
};

static void open_calls(struct calls *calls, int64_t rng_state)
{
    static const float zeros[FLOATS];
    float unit[FLOATS] = {0};
    const uint64_t none[3] = {0};
    for (int i = 0; i < FEW; i++)
        unit[i * FEW + i] = 1;
    const struct clattn_problem problem = {.d = FEW, .features = CLATTN_DROPOUT, .rng_state = rng_state};
    *calls = (struct calls){.args = {.shape = {.batch = 1, .heads = 1, .n_q = FEW, .n_kv = FEW},
                                     .q.buffer = buffer_of(sizeof unit, zeros),
                                     .k.buffer = buffer_of(sizeof unit, zeros),
                                     .v.buffer = buffer_of(sizeof unit, unit),
                                     .o.buffer = buffer_of(sizeof unit, unit),
                                     .score.dropout_p = 0.5f},
                            .state = buffer_of(sizeof none, none)};
    assert_true(test_succeeded(clattn_plan_create(&calls->plan, device.clattn, &problem), "clattn_plan_create"));
    if (rng_state) {
        calls->args.score.rng_state = calls->state;
        calls->args.score.rng_state_offset = 1;
    }
}

static void close_calls(struct calls *calls)
{
    const cl_mem buffers[] = {calls->args.q.buffer, calls->args.k.buffer, calls->args.v.buffer, calls->args.o.buffer,
                              calls->state};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        clReleaseMemObject(buffers[i]);
    clattn_plan_destroy(&calls->plan);
}

static void call(const struct calls *calls, float o[FLOATS])
{
    assert_true(test_succeeded(clattn_forward_enqueue(calls->plan, device.queue, &calls->args, 0, NULL, NULL),
                               "clattn_forward_enqueue"));
    assert_int_equal(
        clEnqueueReadBuffer(device.queue, calls->args.o.buffer, CL_FALSE, 0, FLOATS * sizeof *o, o, 0, NULL, NULL),
        CL_SUCCESS);
}

/* Both calls are in the queue before the first has run: each drops what the buffer says when it does. */
static void calls_drop_what_the_buffer_says_when_they_run(void **state)
{
    static const uint64_t seeds[2][3] = {{99, UINT64_C(0x123456789abcdef0), 7}, {99, 42, UINT32_MAX}};
    static float o[2][FLOATS], by_value[2][FLOATS];
    struct calls calls;
    (void)state;
    open_calls(&calls, 1);
    calls.args.score.dropout_offset = 2;
    cl_event gate = clCreateUserEvent(device.context, NULL);
    assert_int_equal(clEnqueueBarrierWithWaitList(device.queue, 1, &gate, NULL), CL_SUCCESS);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            clEnqueueWriteBuffer(device.queue, calls.state, CL_FALSE, 0, sizeof seeds[i], seeds[i], 0, NULL, NULL),
            CL_SUCCESS);
        call(&calls, o[i]);
    }
    assert_int_equal(clSetUserEventStatus(gate, CL_COMPLETE), CL_SUCCESS);
    assert_int_equal(clFinish(device.queue), CL_SUCCESS);
    clReleaseEvent(gate);
    close_calls(&calls);

    open_calls(&calls, 0);
    for (int i = 0; i < 2; i++) {
        calls.args.score.dropout_seed = seeds[i][1];
        calls.args.score.dropout_offset = (uint32_t)(seeds[i][2] + 2);
        call(&calls, by_value[i]);
    }
    assert_int_equal(clFinish(device.queue), CL_SUCCESS);
    close_calls(&calls);
    assert_memory_equal(o, by_value, sizeof o);
    assert_memory_not_equal(o[0], o[1], sizeof o[0]);
}

static void assert_refused(const struct calls *calls, clattn_status wanted, const char *part)
{
    const clattn_status status = clattn_forward_enqueue(calls->plan, device.queue, &calls->args, 0, NULL, NULL);
    if (status != wanted || !strstr(clattn_error_message(), part))
        fail_msg("%s, \"%s\"", clattn_status_name(status), clattn_error_message());
}

static void wrong_states_are_refused(void **state)
{
    static const struct {
        struct clattn_problem problem;
        const char *error;
    } wrong[] = {
        {{.d = 16, .rng_state = 1}, "problem.rng_state is 1, and problem.features has no CLATTN_DROPOUT"},
        {{.d = 16, .features = CLATTN_DROPOUT, .rng_state = 2}, "problem.rng_state is 2: it is 0"},
        {{.d = 16, .features = CLATTN_DROPOUT, .rng_state = -1}, "problem.rng_state is -1: it is 0"},
    };
    struct calls calls;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(clattn_plan_create(&calls.plan, device.clattn, &wrong[i].problem), CLATTN_INVALID_ARGUMENT);
        assert_non_null(strstr(clattn_error_message(), wrong[i].error));
    }
    open_calls(&calls, 1);
    calls.args.score.dropout_seed = 7;
    assert_refused(&calls, CLATTN_INVALID_ARGUMENT, "score.dropout_seed is 7: with problem.rng_state");
    calls.args.score.dropout_seed = 0;
    calls.args.score.rng_state_offset = 2;
    assert_refused(&calls, CLATTN_BUFFER_TOO_SMALL, "score.rng_state has 24 bytes: this call needs 32");
    calls.args.score.rng_state_offset = -1;
    assert_refused(&calls, CLATTN_INVALID_LAYOUT, "score.rng_state");
    calls.args.score.rng_state_offset = 0;
    calls.args.score.rng_state = NULL;
    assert_refused(&calls, CLATTN_INVALID_ARGUMENT,
                   "score.rng_state is NULL: it must be a cl_mem of at least 16 bytes");
    close_calls(&calls);
    open_calls(&calls, 0);
    calls.args.score.rng_state = calls.state;
    assert_refused(&calls, CLATTN_INVALID_ARGUMENT, "score.rng_state is given, and the problem has no rng_state");
    calls.args.score.rng_state = NULL;
    calls.args.score.dropout_row = 16; /* in passes that take keys in pieces */
    assert_refused(&calls, CLATTN_INVALID_ARGUMENT, "score.dropout_row is 16: it is a multiple of 16, and 0 in all");
    close_calls(&calls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_drop_what_the_buffer_says_when_they_run),
        cmocka_unit_test(wrong_states_are_refused),
    };
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
