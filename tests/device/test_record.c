/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Calls that are recorded into a command buffer (clattn/record.h): replayed with other inputs they give the bits of
 * calls that are enqueued. */
#include "device/recorder.h"
#include "support/calls.h"
#include "support/device.h"
#include "support/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 4, N = 64, D = 32, COUNT = HEADS * N * D, ROWS = HEADS * N, REPLAYS = 3 };
enum { TENSORS = CALL_TENSORS };

static struct test_device device;
static const struct clattn_shape shape = {1, HEADS, HEADS, N, N};

/* The extension's functions, in the version 0.9. */
typedef struct _cl_command_buffer_khr *command_buffer;
static command_buffer(CL_API_CALL *create)(cl_uint queues, const cl_command_queue *queue, const void *properties,
                                           cl_int *code);
static cl_int(CL_API_CALL *finalize)(command_buffer buffer);
static cl_int(CL_API_CALL *release)(command_buffer buffer);
static cl_int(CL_API_CALL *enqueue)(cl_uint queues, cl_command_queue *queue, command_buffer buffer, cl_uint wait_count,
                                    const cl_event *wait_list, cl_event *event);

static bool find(const char *name, void *function)
{
    cl_platform_id platform;
    if (clGetDeviceInfo(device.device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL))
        return false;
    void *const found = clGetExtensionFunctionAddressForPlatform(platform, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static bool device_records(void)
{
    return find("clCreateCommandBufferKHR", &create) && find("clFinalizeCommandBufferKHR", &finalize) &&
           find("clReleaseCommandBufferKHR", &release) && find("clEnqueueCommandBufferKHR", &enqueue);
}

static command_buffer begin(void)
{
    cl_int code;
    const command_buffer buffer = create(1, &device.queue, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    return buffer;
}

static void succeeds(clattn_status status)
{
    if (status)
        fail_msg("%s: %s", clattn_status_name(status), clattn_error_message());
}

/* Tensors of a forward and a backward pass, twice: [1] is for calls that are enqueued. */
struct scene {
    cl_mem buffers[2][TENSORS];
    size_t workspace_bytes;
};

static size_t bytes_of(const struct scene *scene, int which)
{
    return which == WORKSPACE ? scene->workspace_bytes : which == LSE ? ROWS * sizeof(float) : COUNT * sizeof(float);
}

static void open_scene(struct scene *scene, size_t workspace_bytes)
{
    *scene = (struct scene){.workspace_bytes = workspace_bytes};
    for (int i = 0; i < 2 * TENSORS; i++) {
        const size_t bytes = bytes_of(scene, i % TENSORS);
        cl_int code = CL_SUCCESS;
        if (bytes)
            scene->buffers[i / TENSORS][i % TENSORS] =
                clCreateBuffer(device.context, CL_MEM_READ_WRITE, bytes, NULL, &code);
        assert_int_equal(code, CL_SUCCESS);
    }
}

static void close_scene(struct scene *scene)
{
    for (int i = 0; i < 2 * TENSORS; i++)
        if (scene->buffers[i / TENSORS][i % TENSORS])
            clReleaseMemObject(scene->buffers[i / TENSORS][i % TENSORS]);
}

/* The same random numbers in both copies of a tensor. Their low halves are those of bf16, too. */
static void fill(const struct scene *scene, int which, unsigned seed)
{
    static float values[COUNT];
    for (int i = 0; i < COUNT; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        bits = (bits & 0xffff0000u) | bits >> 16;
        memcpy(&values[i], &bits, sizeof bits);
    }
    for (int copy = 0; copy < 2; copy++)
        assert_int_equal(clEnqueueWriteBuffer(device.queue, scene->buffers[copy][which], CL_TRUE, 0, sizeof values,
                                              values, 0, NULL, NULL),
                         CL_SUCCESS);
}

static void fill_inputs(const struct scene *scene, unsigned turn)
{
    static const int inputs[] = {Q, K, V, D_O};
    for (unsigned i = 0; i < 4; i++)
        fill(scene, inputs[i], 10 * turn + i);
}

static void read(const struct scene *scene, int copy, int which, float *values)
{
    assert_int_equal(clEnqueueReadBuffer(device.queue, scene->buffers[copy][which], CL_TRUE, 0, bytes_of(scene, which),
                                         values, 0, NULL, NULL),
                     CL_SUCCESS);
}

/* Both copies hold the same bits, and not those of the turn before. */
static void same(const struct scene *scene, int which, float *before)
{
    static float replayed[COUNT], enqueued[COUNT];
    const size_t bytes = bytes_of(scene, which);
    read(scene, 0, which, replayed);
    read(scene, 1, which, enqueued);
    assert_memory_equal(replayed, enqueued, bytes);
    assert_memory_not_equal(replayed, before, bytes);
    memcpy(before, replayed, bytes);
}

static struct clattn_forward_args forward_args(const struct scene *scene, int copy)
{
    return call_forward(&shape, scene->buffers[copy], scene->workspace_bytes);
}

static struct clattn_backward_args backward_args(const struct scene *scene, int copy)
{
    return call_backward(&shape, scene->buffers[copy], scene->workspace_bytes);
}

static clattn_plan *plan_of(struct clattn_problem problem, size_t *workspace_bytes)
{
    clattn_plan *plan = NULL;
    problem.d = D;
    succeeds(clattn_plan_create(&plan, device.clattn, &problem));
    succeeds(clattn_plan_workspace_bytes(plan, &shape, workspace_bytes));
    return plan;
}

static void replay(command_buffer buffer)
{
    assert_int_equal(enqueue(0, NULL, buffer, 0, NULL, NULL), CL_SUCCESS);
    assert_int_equal(clFinish(device.queue), CL_SUCCESS);
}

/* As one kernel, and as two with a sync point between them. Calls of the same plan that are enqueued in between set
 * other arguments of the same kernels. */
static void forward_is_replayed(void **state)
{
    (void)state;
    static float before[COUNT];
    for (int splits = 1; splits <= 2; splits++) {
        struct scene scene;
        size_t bytes = 0;
        cl_uint point = 0;
        clattn_plan *plan = plan_of((struct clattn_problem){.splits = splits}, &bytes);
        open_scene(&scene, bytes);
        const struct clattn_forward_args recorded = forward_args(&scene, 0), enqueued = forward_args(&scene, 1);
        const command_buffer buffer = begin();
        succeeds(clattn_forward_record(plan, buffer, &recorded, 0, NULL, splits == 1 ? NULL : &point));
        succeeds(clattn_forward_enqueue(plan, device.queue, &enqueued, 0, NULL, NULL));
        assert_int_equal(finalize(buffer), CL_SUCCESS);
        for (unsigned turn = 0; turn < REPLAYS; turn++) {
            fill_inputs(&scene, turn);
            succeeds(clattn_forward_enqueue(plan, device.queue, &enqueued, 0, NULL, NULL));
            replay(buffer);
            same(&scene, O, before);
        }
        release(buffer);
        close_scene(&scene);
        clattn_plan_destroy(&plan);
    }
}

static bool device_multiplies(const char *unit)
{
    if (!strstr(unit, "dot=3"))
        return true;
    return clattn_context_capabilities(device.clattn)->cpu_amx_bf16 != 0;
}

/* Blocks by tickets: each replay counts from 0 again, with the same number of its call, and whatever the workspace held
 * before the first. */
static void tickets_are_replayed(void **state)
{
    (void)state;
    static const char *const units[] = {"dot=0 micro=8 row_vectors=2 tickets=1 vector_width=16",
                                        "dot=4 micro=32 row_vectors=2 vector_width=16",
                                        "dot=3 micro=32 row_vectors=2 vector_width=16"};
    static const uint64_t noise = UINT64_C(0x123456789abc0005);
    if (clattn_context_capabilities(device.clattn)->type != CLATTN_DEVICE_CPU)
        skip();
    for (unsigned i = 0; i < sizeof units / sizeof *units && device_multiplies(units[i]); i++) {
        static float before[COUNT];
        struct scene scene;
        size_t bytes = 0;
        uint64_t taken = 1;
        clattn_plan *plan = plan_of((struct clattn_problem){.dtype = CLATTN_BF16,
                                                            .o_type = CLATTN_AS_FP32,
                                                            .splits = 1,
                                                            .skeleton = "forward_cpu",
                                                            .knobs = units[i],
                                                            .b_r = 32,
                                                            .b_c = 32},
                                    &bytes);
        assert_int_equal(bytes, sizeof taken);
        open_scene(&scene, bytes);
        const cl_mem counter = scene.buffers[0][WORKSPACE];
        assert_int_equal(clEnqueueWriteBuffer(device.queue, counter, CL_TRUE, 0, sizeof noise, &noise, 0, NULL, NULL),
                         CL_SUCCESS);
        const struct clattn_forward_args recorded = forward_args(&scene, 0), enqueued = forward_args(&scene, 1);
        const command_buffer buffer = begin();
        succeeds(clattn_forward_record(plan, buffer, &recorded, 0, NULL, NULL));
        assert_int_equal(finalize(buffer), CL_SUCCESS);
        for (unsigned turn = 0; turn < REPLAYS; turn++) {
            fill_inputs(&scene, turn);
            succeeds(clattn_forward_enqueue(plan, device.queue, &enqueued, 0, NULL, NULL));
            replay(buffer);
            same(&scene, O, before);
            assert_int_equal(
                clEnqueueReadBuffer(device.queue, counter, CL_TRUE, 0, sizeof taken, &taken, 0, NULL, NULL),
                CL_SUCCESS);
            assert_int_equal(taken, 0);
        }
        release(buffer);
        close_scene(&scene);
        clattn_plan_destroy(&plan);
    }
}

/* Two plans in one command buffer, the second on what the first one gives, with a workspace that both use. */
static void forward_and_backward_are_replayed(void **state)
{
    (void)state;
    static float before[3][COUNT];
    struct scene scene;
    size_t bytes[2] = {0};
    cl_uint points[2] = {0};
    clattn_plan *forward = plan_of((struct clattn_problem){.pass = CLATTN_FORWARD}, &bytes[0]);
    clattn_plan *backward = plan_of((struct clattn_problem){.pass = CLATTN_BACKWARD}, &bytes[1]);
    open_scene(&scene, bytes[0] > bytes[1] ? bytes[0] : bytes[1]);
    const struct clattn_forward_args f[] = {forward_args(&scene, 0), forward_args(&scene, 1)};
    const struct clattn_backward_args b[] = {backward_args(&scene, 0), backward_args(&scene, 1)};
    const command_buffer buffer = begin();
    succeeds(clattn_forward_record(forward, buffer, &f[0], 0, NULL, &points[0]));
    succeeds(clattn_backward_record(backward, buffer, &b[0], 1, &points[0], &points[1]));
    assert_int_not_equal(points[0], points[1]);
    assert_int_equal(finalize(buffer), CL_SUCCESS);
    for (unsigned turn = 0; turn < REPLAYS; turn++) {
        fill_inputs(&scene, turn);
        succeeds(clattn_forward_enqueue(forward, device.queue, &f[1], 0, NULL, NULL));
        succeeds(clattn_backward_enqueue(backward, device.queue, &b[1], 0, NULL, NULL));
        replay(buffer);
        succeeds(clattn_backward_check(backward, device.queue, &b[0], 0, NULL));
        for (int i = 0; i < 3; i++)
            same(&scene, D_Q + i, before[i]);
    }
    release(buffer);
    close_scene(&scene);
    clattn_plan_destroy(&forward);
    clattn_plan_destroy(&backward);
}

static void refused(clattn_status got, clattn_status wanted, const char *part)
{
    if (got != wanted || !strstr(clattn_error_message(), part))
        fail_msg("got %s, \"%s\"; wanted %s with \"%s\"", clattn_status_name(got), clattn_error_message(),
                 clattn_status_name(wanted), part);
}

/* A row goes to where the contents of `positions` say, which change between replays; the rest of the cache stays. */
static void append_is_replayed(void **state)
{
    (void)state;
    static float before[COUNT];
    struct scene scene;
    clattn_appender *appender = NULL;
    const struct clattn_problem problem = {.d = D};
    cl_uint points[2] = {0};
    succeeds(clattn_appender_create(&appender, device.clattn, &(struct clattn_append_params){.problem = &problem}));
    open_scene(&scene, HEADS * sizeof(int32_t));
    struct clattn_append_args args[2];
    for (int i = 0; i < 2; i++)
        args[i] = (struct clattn_append_args){.shape = {1, HEADS, HEADS, 1, N},
                                              .k_new.buffer = scene.buffers[i][Q],
                                              .v_new.buffer = scene.buffers[i][D_O],
                                              .k.buffer = scene.buffers[i][K],
                                              .v.buffer = scene.buffers[i][V],
                                              .positions.buffer = scene.buffers[i][WORKSPACE]};
    fill_inputs(&scene, 0);
    const command_buffer buffer = begin();
    succeeds(clattn_append_record(appender, buffer, &args[0], 0, NULL, &points[0]));
    succeeds(clattn_append_record(appender, buffer, &args[0], 1, &points[0], &points[1]));
    assert_int_not_equal(points[0], points[1]);
    assert_int_equal(finalize(buffer), CL_SUCCESS);
    for (int32_t turn = 0; turn < REPLAYS; turn++) {
        const int32_t position = 5 + 7 * turn;
        for (int copy = 0; copy < 2; copy++)
            assert_int_equal(clEnqueueWriteBuffer(device.queue, scene.buffers[copy][WORKSPACE], CL_TRUE, 0,
                                                  sizeof position, &position, 0, NULL, NULL),
                             CL_SUCCESS);
        succeeds(clattn_append_enqueue(appender, device.queue, &args[1], 0, NULL, NULL));
        replay(buffer);
        same(&scene, K, before);
        same(&scene, V, before);
    }
    release(buffer);
    close_scene(&scene);
    clattn_appender_destroy(&appender);
}

/* Two states over halves of the keys, merged and finished; the second one lies where workspaces do. */
struct halves {
    struct clattn_accumulate_args of[2];
    struct clattn_finish_args finish;
};

static struct halves halves_of(const struct scene *scene, int copy, cl_mem first)
{
    const cl_mem *const buffers = scene->buffers[copy];
    const struct clattn_accumulate_args half = {
        .shape = shape, .key_count = N / 2, .q.buffer = buffers[Q], .k.buffer = buffers[K], .v.buffer = buffers[V]};
    struct halves halves = {{half, half}, {.shape = shape, .state = first, .o.buffer = buffers[O]}};
    halves.of[0].state = first;
    halves.of[1].state = buffers[WORKSPACE];
    halves.of[1].first_key = N / 2;
    return halves;
}

static void enqueue_halves(const clattn_plan *plan, const struct halves *halves)
{
    for (int i = 0; i < 2; i++) {
        succeeds(clattn_state_begin_enqueue(plan, device.queue, &shape, halves->of[i].state, 0, NULL, NULL));
        succeeds(clattn_state_accumulate_enqueue(plan, device.queue, &halves->of[i], 0, NULL, NULL));
    }
    succeeds(clattn_state_merge_enqueue(plan, device.queue, &shape, halves->of[0].state, halves->of[1].state, 0, NULL,
                                        NULL));
    succeeds(clattn_state_finish_enqueue(plan, device.queue, &halves->finish, 0, NULL, NULL));
}

static void record_halves(const clattn_plan *plan, command_buffer buffer, const struct halves *halves)
{
    cl_uint begun, points[2], merged, finished;
    for (int i = 0; i < 2; i++) {
        succeeds(clattn_state_begin_record(plan, buffer, &shape, halves->of[i].state, CLATTN_BUFFER, 0, NULL, &begun));
        succeeds(clattn_state_accumulate_record(plan, buffer, &halves->of[i], 1, &begun, &points[i]));
    }
    succeeds(clattn_state_merge_record(plan, buffer, &shape, halves->of[0].state, CLATTN_BUFFER, halves->of[1].state,
                                       CLATTN_BUFFER, 2, points, &merged));
    succeeds(clattn_state_finish_record(plan, buffer, &halves->finish, 1, &merged, &finished));
}

static void states_are_replayed(void **state)
{
    (void)state;
    static float before[COUNT];
    struct scene scene;
    size_t bytes = 0, workspace_bytes = 0;
    cl_mem first[2];
    clattn_plan *plan = plan_of((struct clattn_problem){.pass = CLATTN_ACCUMULATE, .splits = 1}, &workspace_bytes);
    succeeds(clattn_state_bytes(plan, &shape, &bytes));
    open_scene(&scene, bytes);
    struct halves halves[2];
    for (int i = 0; i < 2; i++) {
        first[i] = clCreateBuffer(device.context, CL_MEM_READ_WRITE, bytes, NULL, NULL);
        halves[i] = halves_of(&scene, i, first[i]);
    }
    const command_buffer buffer = begin();
    record_halves(plan, buffer, &halves[0]);
    refused(clattn_state_finish_record(plan, NULL, &halves[0].finish, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
            "command_buffer is NULL");
    assert_int_equal(finalize(buffer), CL_SUCCESS);
    for (unsigned turn = 0; turn < REPLAYS; turn++) {
        fill_inputs(&scene, turn);
        enqueue_halves(plan, &halves[1]);
        replay(buffer);
        same(&scene, O, before);
    }
    release(buffer);
    for (int i = 0; i < 2; i++)
        clReleaseMemObject(first[i]);
    close_scene(&scene);
    clattn_plan_destroy(&plan);
}

static void wrong_calls_are_refused(void **state)
{
    (void)state;
    struct scene scene;
    size_t bytes = 0;
    cl_uint point = 77;
    cl_event event = NULL;
    clattn_plan *plan = plan_of((struct clattn_problem){.splits = 1}, &bytes);
    open_scene(&scene, bytes);
    struct clattn_forward_args args = forward_args(&scene, 0);
    const command_buffer buffer = begin();
    refused(clattn_forward_record(plan, NULL, &args, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT, "command_buffer is NULL");
    refused(clattn_forward_record(plan, buffer, &args, 2, NULL, NULL), CLATTN_INVALID_ARGUMENT,
            "sync_points is NULL with a wait_count of 2");
    refused(clattn_forward_record(NULL, buffer, &args, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT, "plan is NULL");
    refused(clattn_backward_record(plan, buffer, NULL, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
            "clattn_backward_record");
    args.first_event = &event;
    refused(clattn_forward_record(plan, buffer, &args, 0, NULL, &point), CLATTN_INVALID_ARGUMENT, "first_event");
    args = forward_args(&scene, 0);
    args.o.buffer = NULL;
    refused(clattn_forward_record(plan, buffer, &args, 0, NULL, &point), CLATTN_INVALID_ARGUMENT, "o.buffer is NULL");
    args = forward_args(&scene, 0);
    args.shape.n_q = 0;
    refused(clattn_forward_record(plan, buffer, &args, 0, NULL, &point), CLATTN_INVALID_ARGUMENT, "records nothing");
    succeeds(clattn_forward_record(plan, buffer, &args, 0, NULL, NULL));
    args = forward_args(&scene, 0);
    succeeds(clattn_forward_record(plan, buffer, &args, 0, NULL, NULL));
    assert_int_equal(finalize(buffer), CL_SUCCESS);
    refused(clattn_forward_record(plan, buffer, &args, 0, NULL, &point), CLATTN_INVALID_ARGUMENT,
            "it must not have been finalized");
    assert_int_equal(point, 77);
    release(buffer);
    close_scene(&scene);
    clattn_plan_destroy(&plan);
}

/* By what devices say of their extensions. */
static void devices_without_a_known_version_are_refused(void **state)
{
    (void)state;
    static const struct {
        unsigned major, minor, patch;
        const char *name, *says; /* NULL: it is taken */
    } cases[] = {{0, 9, 0, "cl_khr_command_buffer", NULL},
                 {0, 9, 8, "cl_khr_command_buffer", NULL},
                 {0, 8, 0, "cl_khr_command_buffer", "the device has cl_khr_command_buffer 0.8.0"},
                 {1, 0, 0, "cl_khr_command_buffer", "the device has cl_khr_command_buffer 1.0.0"},
                 {0, 9, 0, "cl_khr_command_buffer_multi_device", "the device does not have cl_khr_command_buffer"},
                 {1, 0, 0, "cl_khr_fp16", "the device does not have cl_khr_command_buffer"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cla_error error = {0};
        struct cla_extension extensions[2] = {{1 << 22, "cl_khr_fp64"},
                                              {cases[i].major << 22 | cases[i].minor << 12 | cases[i].patch, ""}};
        strcpy(extensions[1].name, cases[i].name);
        const clattn_status status = cla_recorder_check_version(extensions, 2, &error);
        assert_int_equal(status, cases[i].says ? CLATTN_UNSUPPORTED_DEVICE : CLATTN_SUCCESS);
        assert_true(!cases[i].says || strstr(error.text, cases[i].says) == error.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(devices_without_a_known_version_are_refused),
                                       cmocka_unit_test(forward_is_replayed),
                                       cmocka_unit_test(tickets_are_replayed),
                                       cmocka_unit_test(forward_and_backward_are_replayed),
                                       cmocka_unit_test(append_is_replayed),
                                       cmocka_unit_test(states_are_replayed),
                                       cmocka_unit_test(wrong_calls_are_refused)};
    test_device_open(&device);
    const int failures = device_records() ? cmocka_run_group_tests(tests, NULL, NULL)
                                          : cmocka_run_group_tests((struct CMUnitTest[]){tests[0]}, NULL, NULL);
    test_device_close(&device);
    return failures;
}
