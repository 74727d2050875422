/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The model of traffic against what kernels really load: built with CLATTN_COUNT_LOADS (cl/common/types.clh), they add
 * the elements that they read of a head to an int behind its last row. The define comes through PoCL's
 * POCL_EXTRA_BUILD_FLAGS, so the program's text, and all else, is what ships. */
#include "support/device.h"
#include "support/unit.h"
#include <clattn/traffic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 2, KV_HEADS = 1, D = 64, D_V = 48, SKIPPED = 77, SPARE = 1 /* row of a head, for the counter */ };
enum { Q, K, V, O, LSE, D_O, D_Q, D_K, D_V_GRADIENT, WORKSPACE, BUFFERS };

static struct test_device device;

struct counted {
    enum clattn_pass pass;
    enum clattn_dtype dtype;
    const char *skeleton;
    int n_q, n_kv;
    enum clattn_causal causal;
    int left; /* of a window; 0: none */
};

/* One call's tensors: each head has a row more than it needs. */
struct call {
    cl_mem buffers[BUFFERS];
    struct clattn_tensor tensors[BUFFERS];
};

static void make_tensor(struct call *call, int which, int heads, int rows, int columns, size_t size)
{
    const size_t bytes = (size_t)heads * (size_t)(rows + SPARE) * (size_t)columns * size;
    const cl_float zero = 0.0f;
    call->buffers[which] = clCreateBuffer(device.context, CL_MEM_READ_WRITE, bytes, NULL, NULL);
    assert_non_null(call->buffers[which]);
    assert_int_equal(clEnqueueFillBuffer(device.queue, call->buffers[which], &zero, 2, 0, bytes, 0, NULL, NULL),
                     CL_SUCCESS);
    call->tensors[which] = (struct clattn_tensor){call->buffers[which],
                                                  {.batch = (int64_t)heads * (rows + SPARE) * columns,
                                                   .head = (rows + SPARE) * columns,
                                                   .row = columns,
                                                   .column = 1}};
}

static void set_up_call(const struct counted *counted, struct call *call)
{
    const size_t size = (size_t)clattn_dtype_size(counted->dtype);
    *call = (struct call){{NULL}, {{NULL, {0}}}};
    make_tensor(call, Q, HEADS, counted->n_q, D, size);
    make_tensor(call, K, KV_HEADS, counted->n_kv, D, size);
    make_tensor(call, V, KV_HEADS, counted->n_kv, D_V, size);
    make_tensor(call, O, HEADS, counted->n_q, D_V, size);
    make_tensor(call, LSE, HEADS, counted->n_q, 1, sizeof(float));
    make_tensor(call, D_O, HEADS, counted->n_q, D_V, size);
    make_tensor(call, D_Q, HEADS, counted->n_q, D, size);
    make_tensor(call, D_K, KV_HEADS, counted->n_kv, D, size);
    make_tensor(call, D_V_GRADIENT, KV_HEADS, counted->n_kv, D_V, size);
    make_tensor(call, WORKSPACE, HEADS, counted->n_q, 4, sizeof(float));
}

static void run(const struct counted *counted, const struct clattn_traffic_params *params, const clattn_plan *plan,
                struct call *call)
{
    const struct clattn_score_args score = {.window_left = params->window_left, .window_right = params->window_right};
    const struct clattn_forward_args forward = {.shape = params->shape,
                                                .q = call->tensors[Q],
                                                .k = call->tensors[K],
                                                .v = call->tensors[V],
                                                .o = call->tensors[O],
                                                .lse = call->tensors[LSE],
                                                .score = score};
    const struct clattn_backward_args backward = {.shape = params->shape,
                                                  .q = call->tensors[Q],
                                                  .k = call->tensors[K],
                                                  .v = call->tensors[V],
                                                  .o = call->tensors[O],
                                                  .lse = call->tensors[LSE],
                                                  .d_o = call->tensors[D_O],
                                                  .d_q = call->tensors[D_Q],
                                                  .d_k = call->tensors[D_K],
                                                  .d_v = call->tensors[D_V_GRADIENT],
                                                  .score = score,
                                                  .workspace = call->buffers[WORKSPACE],
                                                  .workspace_bytes = (size_t)HEADS * (size_t)(counted->n_q + SPARE) *
                                                                     4 * sizeof(float)};
    const clattn_status status = counted->pass == CLATTN_BACKWARD
                                     ? clattn_backward_enqueue(plan, device.queue, &backward, 0, NULL, NULL)
                                     : clattn_forward_enqueue(plan, device.queue, &forward, 0, NULL, NULL);
    assert_true(test_succeeded(status, "enqueue"));
}

/* The counters of a tensor's heads together, in bytes read. */
static double loaded(const struct counted *counted, const struct call *call, int which, int heads, int rows)
{
    const size_t size = (size_t)clattn_dtype_size(counted->dtype);
    const struct clattn_layout *layout = &call->tensors[which].layout;
    double sum = 0.0;
    for (int head = 0; head < heads; head++) {
        cl_int count = -1;
        const size_t at = (size_t)(head * layout->head + rows * layout->row) * size;
        assert_int_equal(
            clEnqueueReadBuffer(device.queue, call->buffers[which], CL_TRUE, at, sizeof count, &count, 0, NULL, NULL),
            CL_SUCCESS);
        sum += (double)count * (double)size;
    }
    return sum;
}

static void assert_near(const char *skeleton, const char *what, double counted, double modelled)
{
    const double ratio = modelled / counted;
    fprintf(stderr, "%s: %s: counted %.0f bytes, model %.0f, ratio %.4f\n", skeleton, what, counted, modelled, ratio);
    assert_true(counted > 0.0 && ratio > 0.95 && ratio < 1.05);
}

static void check(const struct counted *counted)
{
    const struct clattn_problem problem = {.pass = counted->pass,
                                           .dtype = counted->dtype,
                                           .d = D,
                                           .d_v = D_V,
                                           .causal = counted->causal,
                                           .features = counted->left ? CLATTN_WINDOW : 0,
                                           .skeleton = counted->skeleton};
    const struct clattn_traffic_params params = {
        .shape = {.batch = 1, .heads = HEADS, .kv_heads = KV_HEADS, .n_q = counted->n_q, .n_kv = counted->n_kv},
        .window_left = counted->left,
        .window_right = 0};
    clattn_plan *plan = NULL;
    struct clattn_plan_info info;
    struct clattn_traffic traffic;
    struct call call;
    assert_true(test_succeeded(clattn_plan_create(&plan, device.clattn, &problem), "clattn_plan_create"));
    assert_int_equal(clattn_plan_get_info(plan, &info), CLATTN_SUCCESS);
    assert_true(test_succeeded(clattn_plan_traffic(&problem, &info, &params, &traffic), "clattn_plan_traffic"));
    set_up_call(counted, &call);
    run(counted, &params, plan, &call);
    const double keys =
        loaded(counted, &call, K, KV_HEADS, counted->n_kv) + loaded(counted, &call, V, KV_HEADS, counted->n_kv);
    const double rows =
        loaded(counted, &call, Q, HEADS, counted->n_q) + loaded(counted, &call, D_O, HEADS, counted->n_q);
    assert_near(info.skeleton, "K and V", keys, traffic.keys);
    /* What else there is: O and LSE; or what statistics of rows take, these, and the gradients; and those that pass
     * with Q and dO. */
    const double size = clattn_dtype_size(counted->dtype), q_rows = HEADS * counted->n_q;
    const double gradients = size * (q_rows * D + KV_HEADS * counted->n_kv * (D + D_V));
    const double rest = counted->pass == CLATTN_BACKWARD ? q_rows * (2 * size * D_V + 8 + 16 + 16) + gradients
                                                         : q_rows * (size * D_V + 4);
    const double each = size * (info.streams[1].reads * D + info.streams[1].reads_v * D_V);
    const double passing = counted->pass == CLATTN_BACKWARD ? rows / each * 16 : 0;
    assert_near(info.skeleton, "Q and dO", rows, traffic.flash - traffic.keys - rest - passing);
    for (int i = 0; i < BUFFERS; i++)
        clReleaseMemObject(call.buffers[i]);
    clattn_plan_destroy(&plan);
}

static void forward_simt_loads_what_the_model_says(void **state)
{
    (void)state;
    check(&(struct counted){CLATTN_FORWARD, CLATTN_FP32, "forward_simt", 260, 300, CLATTN_FULL, 0});
    check(&(struct counted){CLATTN_FORWARD, CLATTN_FP32, "forward_simt", 1024, 1024, CLATTN_CAUSAL_BOTTOM_RIGHT, 200});
}

static void forward_matrix_loads_what_the_model_says(void **state)
{
    (void)state;
    check(&(struct counted){CLATTN_FORWARD, CLATTN_BF16, "forward_matrix_emulated", 520, 520,
                            CLATTN_CAUSAL_BOTTOM_RIGHT, 0});
}

static void backward_loads_what_the_model_says(void **state)
{
    (void)state;
    check(&(struct counted){CLATTN_BACKWARD, CLATTN_FP32, "backward_simt", 500, 520, CLATTN_CAUSAL_BOTTOM_RIGHT, 0});
    check(&(struct counted){CLATTN_BACKWARD, CLATTN_FP16, "backward_matrix_emulated", 300, 300, CLATTN_FULL, 0});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_simt_loads_what_the_model_says),
        cmocka_unit_test(forward_matrix_loads_what_the_model_says),
        cmocka_unit_test(backward_loads_what_the_model_says),
    };
    const char *flags = getenv("POCL_EXTRA_BUILD_FLAGS");
    if (!flags || !strstr(flags, "-DCLATTN_COUNT_LOADS")) {
        fprintf(stderr, "skipped: POCL_EXTRA_BUILD_FLAGS has no -DCLATTN_COUNT_LOADS\n");
        return SKIPPED;
    }
    test_device_open(&device);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failed;
}
