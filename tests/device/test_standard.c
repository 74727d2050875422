/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Standard attention through CLBlast against the float64 reference: types, masks, grouped heads, and every way in which
 * the tensors can lie, since that decides what is packed and how the matrix products are batched.
 */
#include "support/compare.h"
#include "support/forward.h"
#include "support/unit.h"
#include <clattn/standard.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct test_device device;

static void check(struct forward_case forward)
{
    forward.path = PATH_STANDARD;
    forward.seed = forward.seed ? forward.seed : 1;
    assert_true(forward_check(&device, &forward));
}

static void every_type_and_mask(void **state)
{
    (void)state;
    for (int dtype = CLATTN_FP32; dtype <= CLATTN_BF16; dtype++)
        for (int causal = CLATTN_FULL; causal <= CLATTN_CAUSAL_TOP_LEFT; causal++)
            check((struct forward_case){
                .problem = {.dtype = (enum clattn_dtype)dtype, .d = 40, .causal = (enum clattn_causal)causal},
                .shape = {2, 2, 0, 37, 83}});
}

static void odd_sizes(void **state)
{
    (void)state;
    static const struct {
        int d, d_v;
        int64_t n_q, n_kv;
    } sizes[] = {{1, 1, 1, 1}, {64, 64, 1, 200}, {59, 111, 113, 31}, {512, 3, 5, 17}, {128, 128, 128, 128}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check((struct forward_case){.problem = {.d = sizes[i].d, .d_v = sizes[i].d_v},
                                    .shape = {1, 3, 0, sizes[i].n_q, sizes[i].n_kv},
                                    .seed = i + 1});
}

static void grouped_heads(void **state)
{
    (void)state;
    for (int64_t kv_heads = 1; kv_heads <= 6; kv_heads++) {
        if (6 % kv_heads)
            continue;
        check((struct forward_case){.problem = {.d = 32}, .shape = {2, 6, kv_heads, 20, 50}});
        check((struct forward_case){.problem = {.dtype = CLATTN_FP16, .d = 32, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT},
                                    .shape = {2, 6, kv_heads, 20, 50}});
    }
}

/* More rows than keys: the first rows see none. */
static void rows_that_see_nothing(void **state)
{
    (void)state;
    check((struct forward_case){.problem = {.d = 16, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT}, .shape = {1, 2, 0, 50, 9}});
    for (int dtype = CLATTN_FP32; dtype <= CLATTN_BF16; dtype++)
        check(
            (struct forward_case){.problem = {.dtype = (enum clattn_dtype)dtype, .d = 16}, .shape = {2, 2, 0, 21, 0}});
}

static void scales(void **state)
{
    (void)state;
    check((struct forward_case){.problem = {.d = 24, .scale = 0.7f}, .shape = {1, 2, 0, 33, 44}});
    check((struct forward_case){.problem = {.d = 24, .scale = -0.7f}, .shape = {1, 2, 0, 33, 44}});
}

static void layouts(void **state)
{
    (void)state;
    for (int dtype = CLATTN_FP32; dtype <= CLATTN_FP16; dtype++) {
        const struct clattn_problem problem = {.dtype = (enum clattn_dtype)dtype, .d = 32};
        const struct clattn_shape shape = {2, 3, 0, 19, 27};
        /* [batch, n, heads, d] */
        check((struct forward_case){.problem = problem,
                                    .shape = shape,
                                    .q = clattn_layout_bnhd(3, 19, 32),
                                    .k = clattn_layout_bnhd(3, 27, 32),
                                    .v = clattn_layout_bnhd(3, 27, 32),
                                    .o = clattn_layout_bnhd(3, 19, 32),
                                    .rows = {.batch = 19 * 3 * 2, .head = 2, .row = 6}});
        /* gaps everywhere */
        check((struct forward_case){.problem = problem,
                                    .shape = shape,
                                    .q = {3, 3 * 19 * 50 + 1, 19 * 50 + 7, 50, 1},
                                    .k = {5, 3 * 27 * 40 + 9, 27 * 40, 40, 1},
                                    .v = {0, 3 * 27 * 33 + 1, 27 * 33, 33, 1},
                                    .o = {1, 4000, 19 * 64, 64, 1}});
        /* columns apart, and heads innermost: a GEMM takes neither */
        check((struct forward_case){.problem = problem,
                                    .shape = shape,
                                    .q = {0, 3 * 19 * 64, 19 * 64, 64, 2},
                                    .k = {0, 3 * 27 * 32, 1, 3 * 32, 3},
                                    .v = {0, 3 * 27 * 32, 27 * 32, 1, 27},
                                    .o = {0, 3 * 19 * 32, 1, 96, 3}});
    }
}

/* q, k and v of [batch, n, 3, heads, d] in one buffer. */
static void packed_tensors(void **state)
{
    (void)state;
    const int64_t heads = 2, n = 30, d = 16, row = 3 * heads * d;
    for (int dtype = CLATTN_FP32; dtype <= CLATTN_BF16; dtype++) {
        struct forward_case forward = {
            .problem = {.dtype = (enum clattn_dtype)dtype, .d = (int)d}, .shape = {2, heads, 0, n, n}, .packed = true};
        struct clattn_layout *const inputs[] = {&forward.q, &forward.k, &forward.v};
        for (int i = 0; i < 3; i++)
            *inputs[i] =
                (struct clattn_layout){.offset = i * heads * d, .batch = n * row, .head = d, .row = row, .column = 1};
        check(forward);
    }
}

/* What a program holds that calls the library itself, on dense fp32 tensors from the start of their buffers. */
struct direct {
    struct forward_case forward;
    struct forward_arrays arrays;
    size_t counts[7];
    cl_mem buffers[7];
    struct clattn_forward_args args;
};

static void direct_make(struct direct *direct, const struct forward_case *forward)
{
    *direct = (struct direct){.forward = *forward};
    const struct reference_problem problem = forward_reference(forward);
    assert_true(forward_arrays_make(forward, &direct->arrays));
    const struct forward_arrays *a = &direct->arrays;
    float *const arrays[] = {a->q, a->k, a->v, a->o, a->lse, a->m, a->l};
    const size_t rows = reference_row_count(&problem);
    const size_t counts[] = {reference_q_count(&problem),
                             reference_k_count(&problem),
                             reference_v_count(&problem),
                             reference_o_count(&problem),
                             rows,
                             rows,
                             rows};
    struct clattn_tensor *const tensors[] = {&direct->args.q,   &direct->args.k, &direct->args.v, &direct->args.o,
                                             &direct->args.lse, &direct->args.m, &direct->args.l};
    direct->args.shape = forward->shape;
    for (int i = 0; i < 7; i++) {
        cl_int code = CL_SUCCESS;
        direct->counts[i] = counts[i];
        if (i > 2)
            memset(arrays[i], 0xff, counts[i] * sizeof(float));
        direct->buffers[i] = clCreateBuffer(device.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                            counts[i] * sizeof(float), arrays[i], &code);
        assert_int_equal(code, CL_SUCCESS);
        tensors[i]->buffer = direct->buffers[i];
    }
}

static void direct_fetch(struct direct *direct)
{
    const struct forward_arrays *a = &direct->arrays;
    float *const arrays[] = {a->q, a->k, a->v, a->o, a->lse, a->m, a->l};
    for (int i = 3; i < 7; i++)
        assert_int_equal(clEnqueueReadBuffer(device.queue, direct->buffers[i], CL_TRUE, 0,
                                             direct->counts[i] * sizeof(float), arrays[i], 0, NULL, NULL),
                         CL_SUCCESS);
}

static void direct_free(struct direct *direct)
{
    for (int i = 0; i < 7; i++)
        clReleaseMemObject(direct->buffers[i]);
    if (direct->args.workspace)
        clReleaseMemObject(direct->args.workspace);
    forward_arrays_free(&direct->arrays);
}

/* Makes the workspace, poisoned, with 64 bytes more than were asked for. */
static void make_workspace(struct direct *direct)
{
    assert_int_equal(clattn_standard_workspace_bytes(device.clattn, &direct->forward.problem, &direct->args,
                                                     &direct->args.workspace_bytes),
                     CLATTN_SUCCESS);
    assert_true(direct->args.workspace_bytes > 0);
    void *poison = malloc(direct->args.workspace_bytes + 64);
    assert_non_null(poison);
    memset(poison, 0xff, direct->args.workspace_bytes + 64);
    direct->args.workspace = clCreateBuffer(device.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                            direct->args.workspace_bytes + 64, poison, NULL);
    free(poison);
    assert_non_null(direct->args.workspace);
}

static void assert_workspace_end_is_intact(const struct direct *direct)
{
    unsigned char end[64];
    assert_int_equal(clEnqueueReadBuffer(device.queue, direct->args.workspace, CL_TRUE, direct->args.workspace_bytes,
                                         sizeof end, end, 0, NULL, NULL),
                     CL_SUCCESS);
    for (size_t i = 0; i < sizeof end; i++)
        assert_int_equal(end[i], 0xff);
}

/* Sizes that are whole tiles make CLBlast take the matrices where they lie, all heads in one call. */
static void whole_tiles_in_one_batch(void **state)
{
    (void)state;
    static const struct clattn_shape shapes[] = {{2, 3, 0, 256, 512}, {1, 4, 2, 512, 256}, {3, 1, 0, 128, 128}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct direct direct;
        const struct forward_case forward = {.problem = {.d = 64, .d_v = 128}, .shape = shapes[i], .seed = i + 1};
        direct_make(&direct, &forward);
        make_workspace(&direct);
        cl_event event = NULL;
        assert_int_equal(
            clattn_standard_enqueue(device.clattn, &forward.problem, device.queue, &direct.args, 0, NULL, &event),
            CLATTN_SUCCESS);
        assert_int_equal(clWaitForEvents(1, &event), CL_SUCCESS);
        clReleaseEvent(event);
        direct_fetch(&direct);
        assert_true(compare_outputs(&forward, &direct.arrays));
        assert_workspace_end_is_intact(&direct);
        direct_free(&direct);
    }
}

/* Whether kernels may be released, as CLBlast does, while something holds their commands back. NVIDIA's driver
 * (580.159) reads them after it has freed them. */
static bool commands_outlive_kernels(void)
{
    return clattn_context_capabilities(device.clattn)->nv_compute_capability == 0;
}

static void assert_refused(const struct direct *direct, cl_command_queue queue)
{
    cl_event done = NULL;
    assert_int_equal(
        clattn_standard_enqueue(device.clattn, &direct->forward.problem, queue, &direct->args, 0, NULL, &done),
        CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(clattn_error_message(), "queue executes its commands out of order"));
    assert_null(done);
}

/* On an out-of-order queue stages still follow each other, and nothing starts before what was waited for. */
static void events_and_out_of_order_queues(void **state)
{
    (void)state;
    cl_int code = CL_SUCCESS;
    cl_command_queue queue =
        clCreateCommandQueue(device.context, device.device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &code);
    if (code != CL_SUCCESS)
        skip();
    struct direct direct;
    const struct forward_case forward = {
        .problem = {.d = 32, .causal = CLATTN_CAUSAL_TOP_LEFT}, .shape = {2, 4, 2, 64, 96}, .seed = 5};
    direct_make(&direct, &forward);
    make_workspace(&direct);
    if (!commands_outlive_kernels()) {
        assert_refused(&direct, queue);
        direct_free(&direct);
        clReleaseCommandQueue(queue);
        return;
    }
    cl_event go = clCreateUserEvent(device.context, &code), done = NULL;
    cl_int progress = CL_COMPLETE;
    assert_int_equal(code, CL_SUCCESS);
    assert_int_equal(clattn_standard_enqueue(device.clattn, &forward.problem, queue, &direct.args, 1, &go, &done),
                     CLATTN_SUCCESS);
    assert_int_equal(clFlush(queue), CL_SUCCESS);
    assert_int_equal(clGetEventInfo(done, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof progress, &progress, NULL),
                     CL_SUCCESS);
    assert_int_not_equal(progress, CL_COMPLETE);
    assert_int_equal(clSetUserEventStatus(go, CL_COMPLETE), CL_SUCCESS);
    assert_int_equal(clWaitForEvents(1, &done), CL_SUCCESS);
    direct_fetch(&direct);
    assert_true(compare_outputs(&forward, &direct.arrays));
    direct_free(&direct);
    clReleaseEvent(go);
    clReleaseEvent(done);
    clReleaseCommandQueue(queue);
}

static void workspace_is_what_the_matrix_takes(void **state)
{
    (void)state;
    const struct clattn_problem problem = {.d = 64}, half = {.dtype = CLATTN_FP16, .d = 64};
    struct clattn_forward_args args = {.shape = {2, 4, 0, 100, 300}};
    size_t bytes = 0, half_bytes = 0;
    assert_int_equal(clattn_standard_workspace_bytes(device.clattn, &problem, &args, &bytes), CLATTN_SUCCESS);
    assert_int_equal(bytes, 2 * 4 * 100 * 300 * sizeof(float));
    assert_int_equal(clattn_standard_workspace_bytes(device.clattn, &half, &args, &half_bytes), CLATTN_SUCCESS);
    assert_true(half_bytes >= bytes + 2 * 2 * 4 * (100 + 300) * 64 * sizeof(float));
    args.shape.n_q = 0;
    assert_int_equal(clattn_standard_workspace_bytes(device.clattn, &problem, &args, &bytes), CLATTN_SUCCESS);
    assert_int_equal(bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_mask),
        cmocka_unit_test(odd_sizes),
        cmocka_unit_test(grouped_heads),
        cmocka_unit_test(rows_that_see_nothing),
        cmocka_unit_test(scales),
        cmocka_unit_test(layouts),
        cmocka_unit_test(packed_tensors),
        cmocka_unit_test(whole_tiles_in_one_batch),
        cmocka_unit_test(events_and_out_of_order_queues),
        cmocka_unit_test(workspace_is_what_the_matrix_takes),
    };
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
