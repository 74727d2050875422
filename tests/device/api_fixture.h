/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_API_FIXTURE_H
#define TEST_API_FIXTURE_H

/* For the tests of errors: a plan, a clattn_host, and for each tensor a buffer and an array whose contents are known,
 * so that it shows if a call that fails has written to them. */
#include "support/device.h"
#include "support/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { D = 16, N_Q = 6, N_KV = 10, HEADS = 4, KV_HEADS = 2, FLOATS = 1024, BUFFERS = 8 };
enum { Q, K, V, O, LSE, M, L, WORKSPACE };

static struct test_device device;
static clattn_plan *plan;
static clattn_host *host;
static cl_mem buffers[BUFFERS];
static float arrays[BUFFERS][FLOATS];
static cl_context foreign_context;
static cl_command_queue foreign_queue;
static int times_told; /* how often the logger was */

static const struct clattn_problem problem = {.d = D};
static const struct clattn_shape shape = {1, HEADS, KV_HEADS, N_Q, N_KV};

static void listen(void *user, enum clattn_log_level level, const char *text)
{
    (void)user;
    if (level == CLATTN_LOG_ERROR && strcmp(text, clattn_error_message()) == 0)
        times_told++;
}

static void set_up_context(void)
{
    clattn_context_destroy(&device.clattn);
    const struct clattn_context_params params = {
        .context = device.context, .device = device.device, .log = {.function = listen}};
    assert_int_equal(clattn_context_create(&device.clattn, &params), CLATTN_SUCCESS);
}

static void make_buffers(void)
{
    for (int i = 0; i < BUFFERS; i++) {
        for (int x = 0; x < FLOATS; x++)
            arrays[i][x] = (float)(i + x);
        buffers[i] =
            clCreateBuffer(device.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof arrays[i], arrays[i], NULL);
        assert_non_null(buffers[i]);
    }
}

static int set_up(void **state)
{
    (void)state;
    set_up_context();
    const struct clattn_host_params host_params = {.context = device.clattn};
    assert_int_equal(clattn_plan_create(&plan, device.clattn, &problem), CLATTN_SUCCESS);
    assert_int_equal(clattn_host_create(&host, &host_params), CLATTN_SUCCESS);
    make_buffers();
    foreign_context = clCreateContext(NULL, 1, &device.device, NULL, NULL, NULL);
    foreign_queue = clCreateCommandQueue(foreign_context, device.device, 0, NULL);
    return foreign_queue ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    clReleaseCommandQueue(foreign_queue);
    clReleaseContext(foreign_context);
    for (int i = 0; i < BUFFERS; i++)
        clReleaseMemObject(buffers[i]);
    clattn_host_destroy(&host);
    clattn_plan_destroy(&plan);
    return 0;
}

/* Nothing was enqueued or written: after all that the queues hold is done, every buffer and array is as it was. */
static void assert_nothing_written(void)
{
    float now[FLOATS];
    for (int i = 0; i < BUFFERS; i++) {
        assert_int_equal(clEnqueueReadBuffer(device.queue, buffers[i], CL_TRUE, 0, sizeof now, now, 0, NULL, NULL),
                         CL_SUCCESS);
        for (int x = 0; x < FLOATS; x++)
            assert_true(now[x] == (float)(i + x) && arrays[i][x] == (float)(i + x));
    }
}

static void assert_failed(clattn_status got, clattn_status wanted, const char *part)
{
    if (got != wanted || !strstr(clattn_error_message(), part))
        fail_msg("got %s, \"%s\"; wanted %s with \"%s\"", clattn_status_name(got), clattn_error_message(),
                 clattn_status_name(wanted), part);
}

static struct clattn_forward_args good_args(void)
{
    return (struct clattn_forward_args){.shape = shape,
                                        .q = {buffers[Q], {0}},
                                        .k = {buffers[K], {0}},
                                        .v = {buffers[V], {0}},
                                        .o = {buffers[O], {0}},
                                        .lse = {buffers[LSE], {0}},
                                        .m = {buffers[M], {0}},
                                        .l = {buffers[L], {0}},
                                        .workspace = buffers[WORKSPACE],
                                        .workspace_bytes = HEADS / KV_HEADS * N_Q * N_KV * sizeof(float)};
}

static struct clattn_backward_args good_backward_args(void)
{
    return (struct clattn_backward_args){.shape = shape,
                                         .q = {buffers[Q], {0}},
                                         .k = {buffers[K], {0}},
                                         .v = {buffers[V], {0}},
                                         .o = {buffers[O], {0}},
                                         .d_o = {buffers[O], {0}},
                                         .lse = {buffers[LSE], {0}},
                                         .d_q = {buffers[M], {0}},
                                         .workspace = buffers[WORKSPACE],
                                         .workspace_bytes = sizeof arrays[WORKSPACE]};
}

static struct clattn_host_forward_args good_host_args(void)
{
    return (struct clattn_host_forward_args){.shape = shape,
                                             .q = arrays[Q],
                                             .k = arrays[K],
                                             .v = arrays[V],
                                             .o = arrays[O],
                                             .lse = arrays[LSE],
                                             .m = arrays[M],
                                             .l = arrays[L]};
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

#endif
