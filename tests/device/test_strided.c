/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Layouts whose strides are all 0: with `strided` they are one element for all, which lies at the end of a page here,
 * so that whoever takes the tensor for dense reads what must not be read. And what a host array's layout can tell. */
#define _DEFAULT_SOURCE /* mmap's MAP_ANONYMOUS */
#include "support/compare.h"
#include "support/device.h"
#include "support/unit.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, BATCH = 2, HEADS = 3, N_Q = 5, N_KV = 7, D = 8, PAIRS = BATCH * HEADS * N_Q * N_KV };
enum { ROWS = BATCH * HEADS * N_Q * D, KEYS = BATCH * HEADS * N_KV * D };

static struct test_device device;
static clattn_host *host;

static const struct clattn_layout one_for_all = {.strided = 1}, all_zero = {0};
static const struct clattn_shape shape = {.batch = BATCH, .heads = HEADS, .n_q = N_Q, .n_kv = N_KV};

/* Two pages, of which the second must not be touched; `bytes` at the end of the first. */
static void *fence(const void *value, size_t bytes)
{
    char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages + PAGE, PAGE, PROT_NONE), 0);
    return memcpy(pages + PAGE - bytes, value, bytes);
}

static void unfence(void *value, size_t bytes)
{
    munmap((char *)value + bytes - PAGE, 2 * PAGE);
}

struct tensors {
    float q[ROWS], k[KEYS], v[KEYS], o[ROWS], lse[BATCH * HEADS * N_Q];
    float d_o[ROWS], d_q[ROWS], d_k[KEYS], d_v[KEYS], d_bias[2 * N_Q * N_KV];
};

static void fill(struct tensors *t)
{
    memset(t, 0, sizeof *t);
    for (int i = 0; i < ROWS; i++) {
        t->q[i] = (float)(i % 13) / 8 - 0.5f;
        t->d_o[i] = (float)(i % 7) / 4 - 0.75f;
    }
    for (int i = 0; i < KEYS; i++) {
        t->k[i] = (float)(i % 11) / 8 - 0.5f;
        t->v[i] = (float)(i % 17) / 8 - 1;
    }
}

/* A forward and a backward pass on arrays. */
static void run_host(struct tensors *t, const struct clattn_host_score_args *score, int64_t kv_chunk)
{
    struct clattn_problem problem = {.d = D, .features = CLATTN_BIAS | CLATTN_MASK | CLATTN_BLOCK_MASK | CLATTN_ALIBI};
    problem.block_q = problem.block_kv = 16;
    const struct clattn_host_forward_args forward = {.shape = shape,
                                                     .q = t->q,
                                                     .k = t->k,
                                                     .v = t->v,
                                                     .o = t->o,
                                                     .lse = t->lse,
                                                     .score = *score,
                                                     .kv_chunk = kv_chunk};
    assert_true(test_succeeded(clattn_host_forward(host, &problem, &forward), "clattn_host_forward"));
    problem.pass = CLATTN_BACKWARD;
    const struct clattn_host_backward_args backward = {.shape = shape,
                                                       .q = t->q,
                                                       .k = t->k,
                                                       .v = t->v,
                                                       .o = t->o,
                                                       .d_o = t->d_o,
                                                       .lse = t->lse,
                                                       .d_q = t->d_q,
                                                       .d_k = t->d_k,
                                                       .d_v = t->d_v,
                                                       .d_bias = t->d_bias,
                                                       /* summed over batch and heads, rows apart from each other */
                                                       .d_bias_layout = {.row = 2 * N_KV, .column = 1},
                                                       .score = *score,
                                                       .kv_chunk = kv_chunk};
    assert_true(test_succeeded(clattn_host_backward(host, &problem, &backward), "clattn_host_backward"));
}

static void one_element_serves_all_on_the_host(void **state)
{
    (void)state;
    static struct tensors with, without;
    const float bias = -0.5f, slope = 0.25f;
    const uint8_t seen = 1;
    float biases[PAIRS], slopes[BATCH * HEADS];
    uint8_t mask[PAIRS], blocks[BATCH * HEADS];
    for (int i = 0; i < PAIRS; i++)
        biases[i] = bias;
    for (int i = 0; i < BATCH * HEADS; i++)
        slopes[i] = slope;
    memset(mask, 1, sizeof mask);
    memset(blocks, 1, sizeof blocks);
    struct clattn_host_score_args one = {.bias = fence(&bias, sizeof bias),
                                         .mask = fence(&seen, 1),
                                         .block_mask = fence(&seen, 1),
                                         .alibi = fence(&slope, sizeof slope)};
    one.bias_layout = one.mask_layout = one.block_mask_layout = one.alibi_layout = one_for_all;
    const struct clattn_host_score_args all = {.bias = biases, .mask = mask, .block_mask = blocks, .alibi = slopes};
    for (int64_t kv_chunk = 0; kv_chunk < 4; kv_chunk += 3) {
        fill(&with);
        fill(&without);
        run_host(&with, &one, kv_chunk);
        run_host(&without, &all, kv_chunk);
        assert_memory_equal(&with, &without, sizeof with);
        assert_true(with.d_bias[2 * N_KV] != 0 && with.d_bias[N_KV] == 0);
    }
    unfence((void *)(uintptr_t)one.bias, sizeof bias);
    unfence((void *)(uintptr_t)one.mask, 1);
    unfence((void *)(uintptr_t)one.block_mask, 1);
    unfence((void *)(uintptr_t)one.alibi, sizeof slope);
}

static cl_mem buffer_of(void *memory, size_t bytes)
{
    cl_int code = CL_SUCCESS;
    cl_mem made = clCreateBuffer(device.context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes, memory, &code);
    assert_int_equal(code, CL_SUCCESS);
    return made;
}

static void one_element_serves_all_on_the_device(void **state)
{
    (void)state;
    static struct tensors t;
    const struct clattn_problem problem = {.d = D, .features = CLATTN_BIAS};
    const float bias = 3;
    float *const fenced = fence(&bias, sizeof bias);
    clattn_plan *plan = NULL;
    fill(&t);
    cl_mem buffers[] = {buffer_of(t.q, sizeof t.q), buffer_of(t.k, sizeof t.k), buffer_of(t.v, sizeof t.v),
                        buffer_of(t.o, sizeof t.o), buffer_of(fenced, sizeof bias)};
    struct clattn_forward_args args = {.shape = shape,
                                       .q = {buffers[0], all_zero},
                                       .k = {buffers[1], all_zero},
                                       .v = {buffers[2], all_zero},
                                       .o = {buffers[3], all_zero},
                                       .score = {.bias = {buffers[4], one_for_all}}};
    assert_true(test_succeeded(clattn_plan_create(&plan, device.clattn, &problem), "clattn_plan_create"));
    assert_true(
        test_succeeded(clattn_forward_enqueue(plan, device.queue, &args, 0, NULL, NULL), "clattn_forward_enqueue"));
    args.score.bias.layout = all_zero; /* which is dense, as ever */
    assert_int_equal(clattn_forward_enqueue(plan, device.queue, &args, 0, NULL, NULL), CLATTN_BUFFER_TOO_SMALL);
    args.score.bias.layout = one_for_all;
    args.o.layout = one_for_all;
    assert_int_equal(clattn_forward_enqueue(plan, device.queue, &args, 0, NULL, NULL), CLATTN_INVALID_LAYOUT);
    assert_int_equal(clFinish(device.queue), CL_SUCCESS);
    clattn_plan_destroy(&plan);
    EACH (i, buffers)
        clReleaseMemObject(buffers[i]);
    unfence(fenced, sizeof bias);
}

/* The library does not know how large an array is, but none goes beyond the end of memory. */
static void arrays_end_where_memory_does(void **state)
{
    (void)state;
    static struct tensors t;
    const struct clattn_problem problem = {.d = D};
    struct clattn_host_forward_args args = {.shape = shape, .q = t.q, .k = t.k, .v = t.v, .o = t.o};
    fill(&t);
    args.q_layout = (struct clattn_layout){.batch = INT64_C(1) << 58, .row = D, .column = 1};
    assert_int_equal(clattn_host_forward(host, &problem, &args), CLATTN_INVALID_LAYOUT);
    assert_non_null(strstr(clattn_error_message(), "q.layout"));
    args.q_layout = all_zero;
    args.k = (const void *)(UINTPTR_MAX - 64);
    assert_int_equal(clattn_host_forward(host, &problem, &args), CLATTN_INVALID_LAYOUT);
    assert_non_null(strstr(clattn_error_message(), "k.layout"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_element_serves_all_on_the_host),
        cmocka_unit_test(one_element_serves_all_on_the_device),
        cmocka_unit_test(arrays_end_where_memory_does),
    };
    test_device_open(&device);
    const struct clattn_host_params params = {.context = device.clattn};
    if (!test_succeeded(clattn_host_create(&host, &params), "clattn_host_create"))
        return 1;
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    clattn_host_destroy(&host);
    test_device_close(&device);
    return failures;
}
