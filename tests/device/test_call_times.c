/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The time of a whole call: no kernel of it starts before args.first_event, none ends after its event. Every kernel
 * goes through the function below, which stands in the loader's place and keeps an event of each. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include "support/calls.h"
#include "support/device.h"
#include "support/unit.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { D = 16, N_Q = 40, N_KV = 96, HEADS = 4, KV_HEADS = 2, FLOATS = 1 << 15, MOST = 64, BLOCK = 16 };
enum { STATE = CALL_TENSORS, MASK, OFFSETS, COLUMNS, SINKS, D_SINKS, BUFFERS };

static struct test_device device;
static cl_command_queue queue;
static cl_mem buffers[BUFFERS];
static cl_event commands[MOST];
static int command_count;
static bool recording;

/* CLBlast calls it, too. The library waits in kernels' wait lists, not by barriers, for what must be in order. */
cl_int CL_API_CALL clEnqueueNDRangeKernel(cl_command_queue on, cl_kernel kernel, cl_uint dimensions,
                                          const size_t *offset, const size_t *global, const size_t *local,
                                          cl_uint wait_count, const cl_event *wait_list, cl_event *event)
{
    static cl_int(CL_API_CALL * real)(cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *,
                                      const size_t *, cl_uint, const cl_event *, cl_event *);
    cl_event own = NULL;
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "clEnqueueNDRangeKernel");
    const cl_int code = real(on, kernel, dimensions, offset, global, local, wait_count, wait_list, &own);
    if (code)
        return code;
    if (event) {
        *event = own;
        clRetainEvent(own);
    }
    if (recording && command_count < MOST)
        commands[command_count++] = own;
    else
        clReleaseEvent(own);
    return CL_SUCCESS;
}

/* As NVIDIA's driver, which has 0 for all times of a marker or a barrier that waits for events: the library is not to
 * take the time from one. */
static cl_event timeless[MOST];
static int timeless_count;

static void note_timeless(cl_uint wait_count, const cl_event *event)
{
    if (wait_count && event)
        timeless[timeless_count++ % MOST] = *event;
}

static bool is_timeless(cl_event event)
{
    for (int i = 0; i < MOST; i++)
        if (timeless[i] == event)
            return true;
    return false;
}

typedef cl_int(CL_API_CALL *wait_function)(cl_command_queue, cl_uint, const cl_event *, cl_event *);

static cl_int enqueue_timeless(const char *name, wait_function *real, cl_command_queue on, cl_uint wait_count,
                               const cl_event *wait_list, cl_event *event)
{
    if (!*real)
        *(void **)real = dlsym(RTLD_NEXT, name);
    const cl_int code = (*real)(on, wait_count, wait_list, event);
    if (!code)
        note_timeless(wait_count, event);
    return code;
}

cl_int CL_API_CALL clEnqueueMarkerWithWaitList(cl_command_queue on, cl_uint wait_count, const cl_event *wait_list,
                                               cl_event *event)
{
    static wait_function real;
    return enqueue_timeless("clEnqueueMarkerWithWaitList", &real, on, wait_count, wait_list, event);
}

cl_int CL_API_CALL clEnqueueBarrierWithWaitList(cl_command_queue on, cl_uint wait_count, const cl_event *wait_list,
                                                cl_event *event)
{
    static wait_function real;
    return enqueue_timeless("clEnqueueBarrierWithWaitList", &real, on, wait_count, wait_list, event);
}

cl_int CL_API_CALL clGetEventProfilingInfo(cl_event event, cl_profiling_info name, size_t size, void *value,
                                           size_t *size_of_it)
{
    static cl_int(CL_API_CALL * real)(cl_event, cl_profiling_info, size_t, void *, size_t *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "clGetEventProfilingInfo");
    const cl_int code = real(event, name, size, value, size_of_it);
    if (!code && value && is_timeless(event))
        memset(value, 0, sizeof(cl_ulong));
    return code;
}

/* An event's place may be another's later on. */
static void forget_timeless(void)
{
    memset(timeless, 0, sizeof timeless);
}

static void assert_success(clattn_status status)
{
    if (status)
        fail_msg("%s", clattn_error_message());
}

static cl_ulong time_of(cl_event event, cl_profiling_info what)
{
    cl_ulong time = 0;
    assert_int_equal(clGetEventProfilingInfo(event, what, sizeof time, &time, NULL), CL_SUCCESS);
    return time;
}

/* What the call did must lie between its two events; `least` commands are known to be in it. */
static void check_times(const char *name, clattn_status status, cl_event *first_event, cl_event *last_event, int least)
{
    cl_event first = *first_event, last = *last_event;
    recording = false;
    if (status)
        fail_msg("%s: %s", name, clattn_error_message());
    assert_non_null(first);
    assert_non_null(last);
    assert_int_equal(clFinish(queue), CL_SUCCESS);
    const cl_ulong start = time_of(first, CL_PROFILING_COMMAND_START), end = time_of(last, CL_PROFILING_COMMAND_END);
    if (command_count < least || start > end || (least && !start))
        fail_msg("%s: %d commands, at least %d expected; %llu to %llu ns", name, command_count, least,
                 (unsigned long long)start, (unsigned long long)end);
    for (int i = 0; i < command_count; i++) {
        const cl_ulong from = time_of(commands[i], CL_PROFILING_COMMAND_START);
        const cl_ulong to = time_of(commands[i], CL_PROFILING_COMMAND_END);
        if (from < start || to > end)
            fail_msg("%s: command %d of %d runs from %llu to %llu ns, the call from %llu to %llu", name, i,
                     command_count, (unsigned long long)from, (unsigned long long)to, (unsigned long long)start,
                     (unsigned long long)end);
        clReleaseEvent(commands[i]);
    }
    /* One command has one event; of several the first is another than the last. */
    assert_int_equal(first == last, command_count == 1 || command_count == 0);
    command_count = 0;
    clReleaseEvent(first);
    clReleaseEvent(last);
    forget_timeless();
}

/* A command that the call waits for, and that is none of its own. */
static cl_event hold_up(void)
{
    cl_event event = NULL;
    const cl_float zero = 0;
    assert_int_equal(
        clEnqueueFillBuffer(queue, buffers[D_O], &zero, sizeof zero, 0, FLOATS * sizeof zero, 0, NULL, &event),
        CL_SUCCESS);
    recording = true;
    return event;
}

static const struct clattn_shape shape = {.batch = 1, .heads = HEADS, .kv_heads = KV_HEADS, .n_q = N_Q, .n_kv = N_KV};

static struct clattn_score_args csr(void)
{
    return (struct clattn_score_args){.block_offsets = {.buffer = buffers[OFFSETS]},
                                      .block_columns = buffers[COLUMNS],
                                      .block_count = 1,
                                      .sinks = {.buffer = buffers[SINKS]}};
}

static void forward(const char *name, const struct clattn_problem *problem, int least)
{
    clattn_plan *plan = NULL;
    cl_event first = NULL, last = NULL;
    assert_success(clattn_plan_create(&plan, device.clattn, problem));
    struct clattn_forward_args args = call_forward(&shape, buffers, FLOATS * sizeof(float));
    args.first_event = &first;
    if (problem->features)
        args.score = csr();
    cl_event before = hold_up();
    check_times(name, clattn_forward_enqueue(plan, queue, &args, 1, &before, &last), &first, &last, least);
    clReleaseEvent(before);
    first = NULL; /* without the last one's */
    assert_success(clattn_forward_enqueue(plan, queue, &args, 0, NULL, NULL));
    assert_non_null(first);
    clReleaseEvent(first);
    first = last = NULL;
    args.shape.n_q = 0; /* nothing to do: a marker */
    before = hold_up();
    check_times(name, clattn_forward_enqueue(plan, queue, &args, 1, &before, &last), &first, &last, 0);
    clReleaseEvent(before);
    args.shape.n_q = -1;
    first = before;
    assert_int_equal(clattn_forward_enqueue(plan, queue, &args, 0, NULL, NULL), CLATTN_INVALID_SHAPE);
    assert_ptr_equal(first, before); /* left alone */
    clattn_plan_destroy(&plan);
}

static void forward_calls(void)
{
    const unsigned features = CLATTN_BLOCK_MASK | CLATTN_SINKS;
    forward("forward", &(struct clattn_problem){.d = D}, 1);
    forward("forward with CSR",
            &(struct clattn_problem){.d = D, .features = features, .block_q = BLOCK, .block_kv = BLOCK}, 2);
    forward("forward with splits", &(struct clattn_problem){.d = D, .splits = 3}, 2);
    forward("forward with splits and CSR",
            &(struct clattn_problem){.d = D, .splits = 3, .features = features, .block_q = BLOCK, .block_kv = BLOCK},
            3);
}

static void accumulate_calls(void)
{
    const struct clattn_problem problem = {.d = D,
                                           .pass = CLATTN_ACCUMULATE,
                                           .features = CLATTN_BLOCK_MASK | CLATTN_SINKS,
                                           .block_q = BLOCK,
                                           .block_kv = BLOCK};
    clattn_plan *plan = NULL;
    cl_event first = NULL, last = NULL;
    assert_success(clattn_plan_create(&plan, device.clattn, &problem));
    assert_success(clattn_state_begin_enqueue(plan, queue, &shape, buffers[STATE], 0, NULL, &last));
    const struct clattn_accumulate_args args = {.shape = shape,
                                                .key_count = N_KV,
                                                .q.buffer = buffers[Q],
                                                .k.buffer = buffers[K],
                                                .v.buffer = buffers[V],
                                                .state = buffers[STATE],
                                                .score = csr(),
                                                .workspace = buffers[WORKSPACE],
                                                .workspace_bytes = FLOATS * sizeof(float),
                                                .first_event = &first};
    cl_event begun = last;
    last = NULL;
    recording = true;
    check_times("accumulate", clattn_state_accumulate_enqueue(plan, queue, &args, 1, &begun, &last), &first, &last, 2);
    clReleaseEvent(begun);
    clattn_plan_destroy(&plan);
}

static void backward_calls(void)
{
    const struct clattn_problem problems[] = {{.d = D, .pass = CLATTN_BACKWARD},
                                              {.d = D,
                                               .pass = CLATTN_BACKWARD_ACCUMULATE,
                                               .features = CLATTN_BLOCK_MASK | CLATTN_SINKS,
                                               .block_q = BLOCK,
                                               .block_kv = BLOCK}};
    for (int i = 0; i < 2; i++) {
        clattn_plan *plan = NULL;
        cl_event first = NULL, last = NULL;
        assert_success(clattn_plan_create(&plan, device.clattn, &problems[i]));
        struct clattn_backward_args args = call_backward(&shape, buffers, FLOATS * sizeof(float));
        args.first_event = &first;
        if (i) {
            args.score = csr();
            args.d_sinks.buffer = buffers[D_SINKS];
            args.key_count = N_KV;
        }
        cl_event before = hold_up();
        check_times("backward", clattn_backward_enqueue(plan, queue, &args, 1, &before, &last), &first, &last,
                    i ? 4 : 2); /* a CPU has one kernel for all gradients */
        clReleaseEvent(before);
        clattn_plan_destroy(&plan);
    }
}

static void standard_calls(void)
{
    const struct clattn_problem problem = {.d = D};
    cl_event first = NULL, last = NULL;
    struct clattn_forward_args args = call_forward(&shape, buffers, FLOATS * sizeof(float));
    args.lse.buffer = NULL;
    args.first_event = &first;
    /* The first call compiles. */
    assert_success(clattn_standard_enqueue(device.clattn, &problem, queue, &args, 0, NULL, NULL));
    assert_non_null(first);
    clReleaseEvent(first);
    first = NULL;
    cl_event before = hold_up();
    check_times("standard", clattn_standard_enqueue(device.clattn, &problem, queue, &args, 1, &before, &last), &first,
                &last, 3);
    clReleaseEvent(before);
}

/* At the host level the library waits for its copies by markers of its own. */
static void check_host_time(const struct clattn_host *host, clattn_status status)
{
    struct clattn_host_info info;
    assert_success(status);
    assert_success(clattn_host_last(host, NULL, &info));
    if (!(info.compute_ms > 0 && info.compute_ms < 100e3))
        fail_msg("the kernels took %g ms", info.compute_ms);
    forget_timeless();
}

static void host_calls_are_timed(void **state)
{
    (void)state;
    static float arrays[BUFFERS][FLOATS];
    clattn_host *host = NULL;
    assert_success(clattn_host_create(&host, &(struct clattn_host_params){.context = device.clattn}));
    struct clattn_problem problem = {.d = D};
    const struct clattn_problem gradients = {.d = D, .pass = CLATTN_BACKWARD};
    struct clattn_host_forward_args forward_args = {
        .shape = shape, .q = arrays[Q], .k = arrays[K], .v = arrays[V], .o = arrays[O], .lse = arrays[LSE]};
    struct clattn_host_backward_args backward_args = {.shape = shape,
                                                      .q = arrays[Q],
                                                      .k = arrays[K],
                                                      .v = arrays[V],
                                                      .o = arrays[O],
                                                      .d_o = arrays[D_O],
                                                      .lse = arrays[LSE],
                                                      .d_q = arrays[D_Q],
                                                      .d_k = arrays[D_K],
                                                      .d_v = arrays[D_V]};
    for (int chunk = 0; chunk <= N_KV / 2; chunk += N_KV / 2) {
        forward_args.kv_chunk = backward_args.kv_chunk = chunk;
        check_host_time(host, clattn_host_forward(host, &problem, &forward_args));
        check_host_time(host, clattn_host_backward(host, &gradients, &backward_args));
    }
    problem.splits = 3;
    forward_args.kv_chunk = 0;
    check_host_time(host, clattn_host_forward(host, &problem, &forward_args));
    clattn_host_destroy(&host);
}

static void open_queue(cl_command_queue_properties properties)
{
    cl_int code;
    queue = clCreateCommandQueue(device.context, device.device, properties | CL_QUEUE_PROFILING_ENABLE, &code);
    assert_int_equal(code, CL_SUCCESS);
    for (int i = 0; i < BUFFERS; i++) {
        const cl_uint zero = 0;
        buffers[i] = clCreateBuffer(device.context, 0, FLOATS * sizeof(float), NULL, NULL);
        assert_int_equal(
            clEnqueueFillBuffer(queue, buffers[i], &zero, sizeof zero, 0, FLOATS * sizeof(float), 0, NULL, NULL),
            CL_SUCCESS);
    }
    assert_int_equal(clFinish(queue), CL_SUCCESS);
}

static void close_queue(void)
{
    for (int i = 0; i < BUFFERS; i++)
        clReleaseMemObject(buffers[i]);
    clReleaseCommandQueue(queue);
}

static void whole_calls_are_timed_in_order(void **state)
{
    (void)state;
    open_queue(0);
    forward_calls();
    accumulate_calls();
    backward_calls();
    standard_calls();
    close_queue();
}

static void whole_calls_are_timed_out_of_order(void **state)
{
    (void)state;
    open_queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    forward_calls();
    accumulate_calls();
    backward_calls();
    if (!clattn_context_capabilities(device.clattn)->nv_compute_capability) /* refused there: clattn/standard.h */
        standard_calls();
    close_queue();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_calls_are_timed_in_order),
        cmocka_unit_test(whole_calls_are_timed_out_of_order),
        cmocka_unit_test(host_calls_are_timed),
    };
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
