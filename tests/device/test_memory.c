/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Memory linear in n: forward and backward of long sequences allocate inputs, outputs, m and l, and the workspace,
 * whose size test_backward.c judges.
 * Every buffer that is made passes through here, since this program's clCreateBuffer comes before the loader's. */
#define _GNU_SOURCE
#include "random.h"
#include "support/device.h"
#include "support/unit.h"
#include <clattn/host.h>
#include <dlfcn.h>
#include <stdlib.h>

static struct test_device device;
static uint64_t allocated;

CL_API_ENTRY cl_mem CL_API_CALL clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host_ptr,
                                               cl_int *code)
{
    typedef cl_mem(CL_API_CALL * create)(cl_context, cl_mem_flags, size_t, void *, cl_int *);
    static create next;
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "clCreateBuffer");
    allocated += size;
    return next(context, flags, size, host_ptr, code);
}

enum { HEADS = 2, N = 16384, D = 32, ROWS = HEADS * N, ELEMENTS = ROWS * D };
enum { Q, K, V, O, D_O, D_Q, D_K, D_V, TENSORS };

/* A window keeps the arithmetic small; memory does not depend on it. */
static const struct clattn_problem problem = {
    .d = D, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT, .features = CLATTN_WINDOW, .expected_n_q = N, .expected_n_kv = N};
static const struct clattn_shape shape = {.batch = 1, .heads = HEADS, .n_q = N, .n_kv = N};
static const struct clattn_host_score_args score = {.window_left = 15};

static void run_both(clattn_host *host, float *tensors[TENSORS], float *m, float *l, int64_t kv_chunk)
{
    struct clattn_problem backward = problem;
    const struct clattn_host_forward_args forward_args = {.shape = shape,
                                                          .q = tensors[Q],
                                                          .k = tensors[K],
                                                          .v = tensors[V],
                                                          .o = tensors[O],
                                                          .m = m,
                                                          .l = l,
                                                          .score = score,
                                                          .kv_chunk = kv_chunk};
    const struct clattn_host_backward_args backward_args = {.shape = shape,
                                                            .q = tensors[Q],
                                                            .k = tensors[K],
                                                            .v = tensors[V],
                                                            .o = tensors[O],
                                                            .d_o = tensors[D_O],
                                                            .m = m,
                                                            .l = l,
                                                            .d_q = tensors[D_Q],
                                                            .d_k = tensors[D_K],
                                                            .d_v = tensors[D_V],
                                                            .score = score,
                                                            .kv_chunk = kv_chunk};
    backward.pass = CLATTN_BACKWARD;
    assert_true(test_succeeded(clattn_host_forward(host, &problem, &forward_args), "clattn_host_forward"));
    assert_true(test_succeeded(clattn_host_backward(host, &backward, &backward_args), "clattn_host_backward"));
}

/* What forward and backward allocate on the device, all buffers together. */
static uint64_t bytes_of_both(int64_t kv_chunk)
{
    const struct clattn_host_params params = {.context = device.clattn};
    struct random random = {.state = 4};
    float *tensors[TENSORS], *m = calloc(2 * ROWS, sizeof *m);
    clattn_host *host = NULL;
    struct clattn_host_info info;
    assert_non_null(m);
    for (int i = 0; i < TENSORS; i++) {
        tensors[i] = calloc(ELEMENTS, sizeof **tensors);
        assert_non_null(tensors[i]);
        if (i <= V || i == D_O)
            random_normal(&random, 1.0, tensors[i], ELEMENTS);
    }
    allocated = 0;
    assert_true(test_succeeded(clattn_host_create(&host, &params), "clattn_host_create"));
    run_both(host, tensors, m, m + ROWS, kv_chunk);
    const uint64_t bytes = allocated;
    assert_int_equal(clattn_host_last(host, NULL, &info), CLATTN_SUCCESS);
    assert_int_equal(info.device_bytes, bytes); /* and it says so */
    clattn_host_destroy(&host);
    for (int i = 0; i < TENSORS; i++)
        free(tensors[i]);
    free(m);
    return bytes;
}

static size_t workspace_of_backward(void)
{
    struct clattn_problem backward = problem;
    clattn_plan *plan = NULL;
    size_t bytes = 0;
    backward.pass = CLATTN_BACKWARD;
    assert_int_equal(clattn_plan_create(&plan, device.clattn, &backward), CLATTN_SUCCESS);
    assert_int_equal(clattn_plan_workspace_bytes(plan, &shape, &bytes), CLATTN_SUCCESS);
    clattn_plan_destroy(&plan);
    return bytes;
}

static void two_floats_a_row_and_the_workspace(void **state)
{
    (void)state;
    const uint64_t bytes = bytes_of_both(0), tensors = (uint64_t)TENSORS * ELEMENTS * sizeof(float);
    assert_true(bytes > tensors); /* all of it was counted */
    assert_true(bytes <= tensors + (uint64_t)2 * ROWS * sizeof(float) + workspace_of_backward());
}

/* K, V, dK and dV have room for two pieces, whatever their lengths; the state adds O, m and l. */
static void pieces_take_less(void **state)
{
    (void)state;
    const uint64_t whole = (uint64_t)ELEMENTS * sizeof(float), row = (uint64_t)ROWS * sizeof(float);
    const uint64_t pieces = (uint64_t)4 * 2 * HEADS * 1000 * D * sizeof(float);
    assert_true(bytes_of_both(1000) <= 5 * whole + 8 * row + pieces + 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(two_floats_a_row_and_the_workspace),
                                       cmocka_unit_test(pieces_take_less)};
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
