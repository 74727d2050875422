/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What clattn_append_enqueue and clattn_appender_create refuse, and in what words; what an append waits for, and how it
 * tells that it is done. */
#include "support/fence.h"
#include "support/unit.h"
#include <string.h>

static struct test_device device;
static struct random chance;

static cl_mem fence(size_t bytes)
{
    return fence_make(&device, &chance, bytes, 4, 0, NULL);
}

struct scene {
    struct clattn_problem problem;
    struct clattn_append_params params;
    struct clattn_append_args args;
    clattn_appender *appender;
};

static void open_scene(struct scene *scene)
{
    memset(scene, 0, sizeof *scene);
    scene->problem = (struct clattn_problem){.d = 4};
    scene->params = (struct clattn_append_params){.problem = &scene->problem, .rotary_d = 4};
    scene->args = (struct clattn_append_args){.shape = {.batch = 1, .heads = 1, .n_q = 2, .n_kv = 8},
                                              .k_new.buffer = fence(32),
                                              .v_new.buffer = fence(32),
                                              .k.buffer = fence(128),
                                              .v.buffer = fence(128),
                                              .rope_cos.buffer = fence(64),
                                              .rope_sin.buffer = fence(64),
                                              .rope_rows = 8};
    assert_true(test_succeeded(clattn_appender_create(&scene->appender, device.clattn, &scene->params), "create"));
}

static void close_scene(struct scene *scene)
{
    assert_int_equal(clFinish(device.queue), CL_SUCCESS);
    clattn_appender_destroy(&scene->appender);
    fence_drop_all();
}

static void refuses(const struct scene *scene, const struct clattn_append_args *args, clattn_status status,
                    const char *words)
{
    assert_int_equal(clattn_append_enqueue(scene->appender, device.queue, args, 0, NULL, NULL), status);
    if (!strstr(clattn_error_message(), words))
        fail_msg("\"%s\" is not in: %s", words, clattn_error_message());
}

static void wrong_calls_are_refused(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene);
    struct clattn_append_args args = scene.args;
    args.k.buffer = NULL;
    refuses(&scene, &args, CLATTN_INVALID_ARGUMENT, "k.buffer is NULL: it must be a cl_mem of at least 128 bytes");
    args = scene.args;
    args.k.buffer = args.k_new.buffer = args.v.buffer = args.v_new.buffer = NULL;
    refuses(&scene, &args, CLATTN_INVALID_ARGUMENT, "k_new, v_new and q are all NULL");
    args = scene.args;
    args.rope_sin.buffer = NULL;
    refuses(&scene, &args, CLATTN_INVALID_ARGUMENT, "rope_sin.buffer is NULL");
    args = scene.args;
    args.rope_rows = 9;
    refuses(&scene, &args, CLATTN_BUFFER_TOO_SMALL, "rope_cos.buffer has 64 bytes");
    args = scene.args;
    args.shape.n_kv = 9;
    refuses(&scene, &args, CLATTN_BUFFER_TOO_SMALL, "k.buffer has 128 bytes");
    args = scene.args;
    args.k_new.buffer = args.k.buffer;
    refuses(&scene, &args, CLATTN_INVALID_ARGUMENT, "k (bytes 0 to 127 of its buffer) overlaps k_new");
    args = scene.args;
    args.q = args.q_rotated = args.k;
    refuses(&scene, &args, CLATTN_INVALID_ARGUMENT, "overlaps");
    assert_int_equal(clattn_append_enqueue(NULL, device.queue, &scene.args, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT);
    refuses(&scene, NULL, CLATTN_INVALID_ARGUMENT, "args is NULL");
    close_scene(&scene);
}

static void wrong_appenders_are_refused(void **state)
{
    (void)state;
    const struct clattn_problem good = {.d = 8}, packed = {.d = 8, .features = CLATTN_VARLEN},
                                back = {.d = 8, .pass = CLATTN_BACKWARD};
    const struct {
        struct clattn_append_params params;
        const char *words;
    } wrong[] = {{{.problem = NULL}, "problem is NULL"},
                 {{.problem = &good, .rotary_d = 3}, "params->rotary_d is 3"},
                 {{.problem = &good, .rotary_d = 10}, "even number of columns up to d, 8"},
                 {{.problem = &good, .interleaved = 2}, "params->interleaved is 2"},
                 {{.problem = &good, .new_type = 4}, "params->new_type is 4"},
                 {{.problem = &packed}, "CLATTN_VARLEN without CLATTN_PAGES"},
                 {{.problem = &back}, "params->problem->pass is 1"}};
    clattn_appender *appender = NULL;
    EACH (i, wrong) {
        assert_true(clattn_appender_create(&appender, device.clattn, &wrong[i].params) < 0);
        assert_null(appender);
        assert_non_null(strstr(clattn_error_message(), wrong[i].words));
    }
    assert_int_equal(clattn_appender_create(&appender, NULL, &wrong[0].params), CLATTN_INVALID_ARGUMENT);
    assert_int_equal(clattn_appender_create(NULL, device.clattn, &wrong[0].params), CLATTN_INVALID_ARGUMENT);
}

static void it_waits_and_tells_when_it_is_done(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene);
    cl_int code = CL_SUCCESS, done = CL_QUEUED;
    cl_event begins = clCreateUserEvent(device.context, &code), first = NULL, last = NULL;
    assert_int_equal(code, CL_SUCCESS);
    scene.args.first_event = &first;
    assert_true(test_succeeded(clattn_append_enqueue(scene.appender, device.queue, &scene.args, 1, &begins, &last),
                               "clattn_append_enqueue"));
    assert_true(first && last && first != last);
    clFlush(device.queue);
    clGetEventInfo(last, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof done, &done, NULL);
    assert_int_not_equal(done, CL_COMPLETE);
    assert_int_equal(clSetUserEventStatus(begins, CL_COMPLETE), CL_SUCCESS);
    assert_int_equal(clWaitForEvents(1, &last), CL_SUCCESS);
    scene.args.shape.batch = 0; /* nothing to do: an event all the same */
    scene.args.first_event = NULL;
    clReleaseEvent(last);
    assert_true(test_succeeded(clattn_append_enqueue(scene.appender, device.queue, &scene.args, 0, NULL, &last),
                               "clattn_append_enqueue"));
    assert_int_equal(clWaitForEvents(1, &last), CL_SUCCESS);
    clReleaseEvent(begins);
    clReleaseEvent(first);
    clReleaseEvent(last);
    close_scene(&scene);
}

int main(void)
{
    test_device_open(&device);
    const struct CMUnitTest tests[] = {cmocka_unit_test(wrong_calls_are_refused),
                                       cmocka_unit_test(wrong_appenders_are_refused),
                                       cmocka_unit_test(it_waits_and_tells_when_it_is_done)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failed;
}
