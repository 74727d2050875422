/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A library that was built without CLBlast: this program has gemm_none.c in the place of gemm_clblast.c. Standard
 * attention says that there is none, once its arguments are right, and touches nothing; the rest runs.
 */
#include "support/compare.h"
#include "support/forward.h"
#include "support/unit.h"
#include <clattn/standard.h>
#include <string.h>

static struct test_device device;
static const struct clattn_problem problem = {.d = 16};

static cl_mem make_buffer(size_t bytes)
{
    cl_int code = CL_SUCCESS;
    const cl_mem buffer = clCreateBuffer(device.context, CL_MEM_READ_WRITE, bytes, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    return buffer;
}

static void the_workspace_says_so(void **state)
{
    (void)state;
    struct clattn_forward_args args = {.shape = {1, 1, 0, 8, 8}};
    size_t bytes = 7;
    assert_int_equal(clattn_standard_workspace_bytes(device.clattn, &problem, &args, &bytes), CLATTN_UNAVAILABLE);
    assert_non_null(strstr(clattn_error_message(), "built without it (-Dclblast=enabled has it)"));
    assert_int_equal(bytes, 7);
    args.shape.n_q = -1;
    assert_int_equal(clattn_standard_workspace_bytes(device.clattn, &problem, &args, &bytes), CLATTN_INVALID_SHAPE);
}

static void the_call_says_so(void **state)
{
    (void)state;
    const size_t bytes = 8 * 16 * sizeof(float);
    const cl_mem q = make_buffer(bytes), o = make_buffer(bytes), workspace = make_buffer(4096);
    struct clattn_forward_args args = {.shape = {1, 1, 0, 8, 8},
                                       .q = {.buffer = q},
                                       .k = {.buffer = q},
                                       .v = {.buffer = q},
                                       .o = {.buffer = o},
                                       .workspace = workspace,
                                       .workspace_bytes = 4096};
    cl_event event = NULL;
    assert_int_equal(clattn_standard_enqueue(device.clattn, &problem, device.queue, &args, 0, NULL, &event),
                     CLATTN_UNAVAILABLE);
    assert_null(event);
    args.o.buffer = NULL;
    assert_int_equal(clattn_standard_enqueue(device.clattn, &problem, device.queue, &args, 0, NULL, &event),
                     CLATTN_INVALID_ARGUMENT);
    clReleaseMemObject(q);
    clReleaseMemObject(o);
    clReleaseMemObject(workspace);
}

static void attention_runs(void **state)
{
    (void)state;
    assert_true(
        forward_check(&device, &(struct forward_case){.problem = problem, .shape = {1, 2, 0, 9, 13}, .seed = 1}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_workspace_says_so),
        cmocka_unit_test(the_call_says_so),
        cmocka_unit_test(attention_runs),
    };
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
