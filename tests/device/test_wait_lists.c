/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Every public call with a wait list refuses a list that is not there, an event that is NULL, and one of another
 * cl_context, by name and before it enqueues anything: buffers are as they were. */
#include "api_fixture.h"

/* How a call is made with a list, all else being right. */
typedef clattn_status (*call_with)(cl_uint count, const cl_event *list);

static clattn_plan *backward, *streaming;
static clattn_appender *appender;

static clattn_status forward_with(cl_uint count, const cl_event *list)
{
    const struct clattn_forward_args args = good_args();
    return clattn_forward_enqueue(plan, device.queue, &args, count, list, NULL);
}

static clattn_status standard_with(cl_uint count, const cl_event *list)
{
    const struct clattn_forward_args args = good_args();
    return clattn_standard_enqueue(device.clattn, &problem, device.queue, &args, count, list, NULL);
}

/* A forward pass's buffers: one for each gradient is not needed, as nothing runs; but none may overlap. */
static struct clattn_backward_args backward_args(void)
{
    struct clattn_backward_args args = good_backward_args();
    args.workspace = buffers[WORKSPACE];
    assert_int_equal(clattn_plan_workspace_bytes(backward, &shape, &args.workspace_bytes), CLATTN_SUCCESS);
    return args;
}

static clattn_status backward_with(cl_uint count, const cl_event *list)
{
    const struct clattn_backward_args args = backward_args();
    return clattn_backward_enqueue(backward, device.queue, &args, count, list, NULL);
}

static clattn_status check_with(cl_uint count, const cl_event *list)
{
    const struct clattn_backward_args args = backward_args();
    return clattn_backward_check(backward, device.queue, &args, count, list);
}

static clattn_status append_with(cl_uint count, const cl_event *list)
{
    const struct clattn_append_args args = {.shape = shape,
                                            .k_new = {buffers[Q], {0}},
                                            .v_new = {buffers[O], {0}},
                                            .k = {buffers[K], {0}},
                                            .v = {buffers[V], {0}}};
    return clattn_append_enqueue(appender, device.queue, &args, count, list, NULL);
}

static clattn_status begin_with(cl_uint count, const cl_event *list)
{
    return clattn_state_begin_enqueue(streaming, device.queue, &shape, buffers[O], count, list, NULL);
}

static clattn_status begin_memory_with(cl_uint count, const cl_event *list)
{
    return clattn_state_begin_memory_enqueue(streaming, device.queue, &shape, buffers[O], CLATTN_BUFFER, count, list,
                                             NULL);
}

static clattn_status accumulate_with(cl_uint count, const cl_event *list)
{
    const struct clattn_accumulate_args args = {.shape = shape,
                                                .key_count = N_KV,
                                                .q = {buffers[Q], {0}},
                                                .k = {buffers[K], {0}},
                                                .v = {buffers[V], {0}},
                                                .state = buffers[O]};
    return clattn_state_accumulate_enqueue(streaming, device.queue, &args, count, list, NULL);
}

static clattn_status merge_with(cl_uint count, const cl_event *list)
{
    return clattn_state_merge_enqueue(streaming, device.queue, &shape, buffers[O], buffers[WORKSPACE], count, list,
                                      NULL);
}

static clattn_status merge_memory_with(cl_uint count, const cl_event *list)
{
    return clattn_state_merge_memory_enqueue(streaming, device.queue, &shape, buffers[O], CLATTN_BUFFER,
                                             buffers[WORKSPACE], CLATTN_BUFFER, count, list, NULL);
}

static clattn_status finish_with(cl_uint count, const cl_event *list)
{
    const struct clattn_finish_args args = {.shape = shape, .state = buffers[WORKSPACE], .o = {buffers[O], {0}}};
    return clattn_state_finish_enqueue(streaming, device.queue, &args, count, list, NULL);
}

static const struct {
    const char *name;
    call_with call;
} calls[] = {{"clattn_forward_enqueue", forward_with},
             {"clattn_standard_enqueue", standard_with},
             {"clattn_backward_enqueue", backward_with},
             {"clattn_backward_check", check_with},
             {"clattn_append_enqueue", append_with},
             {"clattn_state_begin_enqueue", begin_with},
             {"clattn_state_begin_memory_enqueue", begin_memory_with},
             {"clattn_state_accumulate_enqueue", accumulate_with},
             {"clattn_state_merge_enqueue", merge_with},
             {"clattn_state_merge_memory_enqueue", merge_memory_with},
             {"clattn_state_finish_enqueue", finish_with}};

static void make_plans(void)
{
    const struct clattn_problem back = {.d = D, .pass = CLATTN_BACKWARD},
                                accumulate = {.d = D, .pass = CLATTN_ACCUMULATE};
    const struct clattn_append_params params = {.problem = &problem};
    assert_int_equal(clattn_plan_create(&backward, device.clattn, &back), CLATTN_SUCCESS);
    assert_int_equal(clattn_plan_create(&streaming, device.clattn, &accumulate), CLATTN_SUCCESS);
    assert_int_equal(clattn_appender_create(&appender, device.clattn, &params), CLATTN_SUCCESS);
}

static void destroy_plans(void)
{
    clattn_plan_destroy(&backward);
    clattn_plan_destroy(&streaming);
    clattn_appender_destroy(&appender);
}

static void refuses(const char *name, call_with call, cl_uint count, const cl_event *list, const char *part)
{
    const int told = times_told;
    const clattn_status status = call(count, list);
    if (status != CLATTN_INVALID_ARGUMENT || !strstr(clattn_error_message(), part))
        fail_msg("%s: got %s, \"%s\"; wanted \"%s\"", name, clattn_status_name(status), clattn_error_message(), part);
    assert_int_equal(times_told, told + 1);
}

static void every_call_refuses_what_it_cannot_wait_for(void **state)
{
    (void)state;
    cl_int code = CL_SUCCESS;
    cl_event own = clCreateUserEvent(device.context, &code), other = clCreateUserEvent(foreign_context, &code);
    const cl_event second_foreign[] = {own, other}, second_missing[] = {own, NULL};
    assert_true(own && other);
    assert_int_equal(clSetUserEventStatus(own, CL_COMPLETE), CL_SUCCESS);
    assert_int_equal(clSetUserEventStatus(other, CL_COMPLETE), CL_SUCCESS);
    make_plans();
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        refuses(calls[i].name, calls[i].call, 1, NULL, "wait_list is NULL with a wait_count of 1");
        refuses(calls[i].name, calls[i].call, 2, second_missing, "wait_list[1] is NULL");
        refuses(calls[i].name, calls[i].call, 2, second_foreign, "wait_list[1] belongs to the cl_context");
    }
    assert_int_equal(clFinish(device.queue), CL_SUCCESS);
    assert_nothing_written();
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) /* all else was right */
        assert_true(test_succeeded(calls[i].call(1, &own), calls[i].name));
    assert_int_equal(clFinish(device.queue), CL_SUCCESS);
    destroy_plans();
    clReleaseEvent(own);
    clReleaseEvent(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(every_call_refuses_what_it_cannot_wait_for)};
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
