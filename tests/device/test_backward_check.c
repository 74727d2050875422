/* SPDX-License-Identifier: BSD-2-Clause
 *
 * clattn_backward_check: what a kernel says that gave up waiting is answered, until the next pass on the workspace; and
 * plans whose kernels wait for nobody succeed at once. No kernel of a CPU waits for others, so the word is written
 * here. */
#define CL_TARGET_OPENCL_VERSION 200
#include "attention/stages.h"
#include "attention/workspace.h"
#include "support/device.h"
#include "support/unit.h"
#include <string.h>

enum { HEADS = 2, ROWS = 70, KEYS = 70, D = 64, BUFFERS = 10 };

static struct test_device device;

/* A pass over zeros. */
struct pass {
    clattn_plan *plan;
    struct clattn_backward_args args;
    cl_mem buffers[BUFFERS];
};

static cl_mem zeros(struct pass *pass, int number, size_t bytes)
{
    const cl_uint zero = 0;
    cl_int code;
    pass->buffers[number] = clCreateBuffer(device.context, CL_MEM_READ_WRITE, bytes, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    assert_int_equal(
        clEnqueueFillBuffer(device.queue, pass->buffers[number], &zero, sizeof zero, 0, bytes, 0, NULL, NULL),
        CL_SUCCESS);
    return pass->buffers[number];
}

static void open_pass(struct pass *pass, const char *skeleton)
{
    const struct clattn_problem problem = {.pass = CLATTN_BACKWARD,
                                           .dtype = CLATTN_FP16,
                                           .d = D,
                                           .d_v = D,
                                           .unordered = 1,
                                           .b_c = strcmp(skeleton, "backward_fused_emulated") == 0 ? 64 : 0,
                                           .skeleton = skeleton};
    const size_t bytes = (size_t)HEADS * ROWS * D * 2;
    *pass = (struct pass){.args.shape = {.batch = 1, .heads = HEADS, .kv_heads = HEADS, .n_q = ROWS, .n_kv = KEYS}};
    assert_true(test_succeeded(clattn_plan_create(&pass->plan, device.clattn, &problem), "clattn_plan_create"));
    struct clattn_tensor *const tensors[] = {&pass->args.q,   &pass->args.k,   &pass->args.v,
                                             &pass->args.o,   &pass->args.d_o, &pass->args.d_q,
                                             &pass->args.d_k, &pass->args.d_v, &pass->args.lse};
    for (int i = 0; i < BUFFERS - 1; i++)
        tensors[i]->buffer = zeros(pass, i, bytes);
    assert_int_equal(clattn_plan_workspace_bytes(pass->plan, &pass->args.shape, &pass->args.workspace_bytes),
                     CLATTN_SUCCESS);
    pass->args.workspace = zeros(pass, BUFFERS - 1, pass->args.workspace_bytes);
}

/* Where nobody waits for it, a pass may still run when it was checked: it ends before its memory and the process. */
static void close_pass(struct pass *pass)
{
    assert_int_equal(clFinish(device.queue), CL_SUCCESS);
    for (int i = 0; i < BUFFERS; i++)
        clReleaseMemObject(pass->buffers[i]);
    clattn_plan_destroy(&pass->plan);
}

static clattn_status run(const struct pass *pass)
{
    assert_true(test_succeeded(clattn_backward_enqueue(pass->plan, device.queue, &pass->args, 0, NULL, NULL),
                               "clattn_backward_enqueue"));
    return clattn_backward_check(pass->plan, device.queue, &pass->args, 0, NULL);
}

/* As a kernel does that gives up. */
static void write_word(const struct pass *pass)
{
    const cl_uint one = 1;
    struct cla_recipe recipe;
    struct cla_error error;
    size_t statistics;
    assert_int_equal(cla_statistics_bytes(&pass->args.shape, &statistics, &error), CLATTN_SUCCESS);
    assert_int_equal(cla_recipe_make(pass->plan, &pass->args.shape, NULL, statistics, &recipe, &error), CLATTN_SUCCESS);
    const struct cla_words zeroed = cla_recipe_zeroed(&recipe);
    const int64_t at = recipe.regions[recipe.stuck_region].first + recipe.stuck_word;
    assert_true(at >= zeroed.first && at < zeroed.first + zeroed.count);
    if (pass->args.workspace_memory)
        assert_int_equal(clEnqueueSVMMemcpy(device.queue, CL_TRUE, (char *)pass->args.workspace + at * 4, &one,
                                            sizeof one, 0, NULL, NULL),
                         CL_SUCCESS);
    else
        assert_int_equal(clEnqueueWriteBuffer(device.queue, pass->args.workspace, CL_TRUE, (size_t)at * 4, sizeof one,
                                              &one, 0, NULL, NULL),
                         CL_SUCCESS);
}

static void who_gave_up_is_named(void **state)
{
    struct pass pass;
    (void)state;
    if (!test_is_for(&cla_backward_fused_emulated))
        skip();
    open_pass(&pass, "backward_fused_emulated");
    assert_int_equal(run(&pass), CLATTN_SUCCESS);
    write_word(&pass);
    assert_int_equal(clattn_backward_check(pass.plan, device.queue, &pass.args, 0, NULL), CLATTN_KERNEL_STUCK);
    assert_non_null(strstr(clattn_error_message(), "backward_fused_emulated: a work-group has waited"));
    assert_int_equal(clattn_backward_check(pass.plan, device.queue, &pass.args, 0, NULL), CLATTN_KERNEL_STUCK);
    assert_int_equal(run(&pass), CLATTN_SUCCESS);
    close_pass(&pass);
}

static void the_word_is_read_from_an_address_too(void **state)
{
    struct pass pass;
    cl_ulong grains = 0;
    (void)state;
    clGetDeviceInfo(device.device, CL_DEVICE_SVM_CAPABILITIES, sizeof grains, &grains, NULL);
    if (!test_is_for(&cla_backward_fused_emulated) || !grains)
        skip();
    open_pass(&pass, "backward_fused_emulated");
    void *const memory = clSVMAlloc(device.context, CL_MEM_READ_WRITE, pass.args.workspace_bytes, 0);
    assert_non_null(memory);
    pass.args.workspace = (cl_mem)memory;
    pass.args.workspace_memory = CLATTN_SVM;
    assert_int_equal(run(&pass), CLATTN_SUCCESS);
    write_word(&pass);
    assert_int_equal(clattn_backward_check(pass.plan, device.queue, &pass.args, 0, NULL), CLATTN_KERNEL_STUCK);
    assert_int_equal(run(&pass), CLATTN_SUCCESS);
    close_pass(&pass);
    clSVMFree(device.context, memory);
}

static void who_waits_for_nobody_succeeds(void **state)
{
    struct pass pass;
    (void)state;
    open_pass(&pass, "backward_simt");
    assert_int_equal(run(&pass), CLATTN_SUCCESS);
    close_pass(&pass);
}

static void wrong_arguments_are_refused(void **state)
{
    struct pass pass;
    (void)state;
    assert_int_equal(clattn_backward_check(NULL, device.queue, NULL, 0, NULL), CLATTN_INVALID_ARGUMENT);
    open_pass(&pass, "backward_simt");
    assert_int_equal(clattn_backward_check(pass.plan, NULL, &pass.args, 0, NULL), CLATTN_INVALID_ARGUMENT);
    assert_int_equal(clattn_backward_check(pass.plan, device.queue, NULL, 0, NULL), CLATTN_INVALID_ARGUMENT);
    assert_int_equal(clattn_backward_check(pass.plan, device.queue, &pass.args, 1, NULL), CLATTN_INVALID_ARGUMENT);
    pass.args.workspace_bytes = 4;
    assert_int_equal(clattn_backward_check(pass.plan, device.queue, &pass.args, 0, NULL), CLATTN_WORKSPACE_TOO_SMALL);
    close_pass(&pass);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_gave_up_is_named),
        cmocka_unit_test(the_word_is_read_from_an_address_too),
        cmocka_unit_test(who_waits_for_nobody_succeeds),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    test_device_open(&device);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failed;
}
