/* SPDX-License-Identifier: BSD-2-Clause
 *
 * problem.split_keys: a sequence has the same bits in whatever batch it comes. Sequences of different lengths in one
 * batch, then each by itself, in every skeleton of the forward pass. */
#include "random.h"
#include "support/device.h"
#include "support/unit.h"
#include <string.h>

enum { BATCH = 7, HEADS = 4, KV_HEADS = 2, N_Q = 5, N_KV = 150, D = 16, SPLIT = 40 };
enum { ROWS = HEADS * N_Q * D, KEYS = KV_HEADS * N_KV * D };

static struct test_device device;
static struct random chance;
static uint16_t q[BATCH][HEADS][N_Q][D], k[BATCH][KV_HEADS][N_KV][D], v[BATCH][KV_HEADS][N_KV][D];
static const int32_t keys[BATCH] = {150, 1, 40, 41, 97, 0, 128}, rows[BATCH] = {5, 5, 3, 1, 5, 2, 4};

static cl_mem upload(const void *data, size_t bytes)
{
    cl_int code = CL_SUCCESS;
    const cl_mem buffer = clCreateBuffer(device.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes,
                                         (void *)(uintptr_t)data, &code); /* which it only reads */
    assert_int_equal(code, CL_SUCCESS);
    return buffer;
}

/* Of `batch` sequences from number `first` on, whose tensors are for so many keys. */
static void attend(const clattn_plan *plan, int first, int batch, int64_t n_kv, uint16_t *o, float *lse)
{
    const struct clattn_layout of_keys = {.batch = KEYS, .head = N_KV * D, .row = D, .column = 1};
    const size_t o_bytes = (size_t)batch * ROWS * sizeof *o, lse_bytes = (size_t)batch * HEADS * N_Q * sizeof *lse;
    struct clattn_forward_args args = {
        .shape = {.batch = batch, .heads = HEADS, .kv_heads = KV_HEADS, .n_q = N_Q, .n_kv = n_kv},
        .q.buffer = upload(q[first], (size_t)batch * sizeof *q),
        .k = {upload(k[first], (size_t)batch * sizeof *k), of_keys},
        .v = {upload(v[first], (size_t)batch * sizeof *v), of_keys},
        .o.buffer = upload(o, o_bytes),
        .lse.buffer = upload(lse, lse_bytes),
        .score = {.key_lengths.buffer = upload(keys + first, (size_t)batch * sizeof *keys),
                  .query_lengths = upload(rows + first, (size_t)batch * sizeof *rows)}};
    assert_true(test_succeeded(clattn_plan_workspace_bytes(plan, &args.shape, &args.workspace_bytes), "the workspace"));
    cl_int code = CL_SUCCESS;
    args.workspace = clCreateBuffer(device.context, CL_MEM_READ_WRITE, args.workspace_bytes, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    assert_true(test_succeeded(clattn_forward_enqueue(plan, device.queue, &args, 0, NULL, NULL), "the call"));
    assert_int_equal(clEnqueueReadBuffer(device.queue, args.o.buffer, CL_TRUE, 0, o_bytes, o, 0, NULL, NULL),
                     CL_SUCCESS);
    assert_int_equal(clEnqueueReadBuffer(device.queue, args.lse.buffer, CL_TRUE, 0, lse_bytes, lse, 0, NULL, NULL),
                     CL_SUCCESS);
    const cl_mem buffers[] = {args.q.buffer,
                              args.k.buffer,
                              args.v.buffer,
                              args.o.buffer,
                              args.lse.buffer,
                              args.score.key_lengths.buffer,
                              args.score.query_lengths,
                              args.workspace};
    EACH (i, buffers)
        clReleaseMemObject(buffers[i]);
}

static void same_bits_in_any_batch(const struct clattn_problem *problem)
{
    static uint16_t all[BATCH][HEADS][N_Q][D], one[HEADS][N_Q][D];
    static float all_lse[BATCH][HEADS][N_Q], one_lse[HEADS][N_Q];
    clattn_plan *plan = NULL;
    assert_true(test_succeeded(clattn_plan_create(&plan, device.clattn, problem), "clattn_plan_create"));
    memset(all, 0, sizeof all);
    memset(all_lse, 0, sizeof all_lse);
    attend(plan, 0, BATCH, N_KV, &all[0][0][0][0], &all_lse[0][0][0]);
    assert_int_not_equal(all[0][0][0][0], 0);
    assert_int_equal(all[3][0][1][0], 0); /* a row beyond, left as it was */
    for (int b = 0; b < BATCH; b++) {
        memset(one, 0, sizeof one);
        memset(one_lse, 0, sizeof one_lse);
        attend(plan, b, 1, keys[b], &one[0][0][0], &one_lse[0][0]);
        if (memcmp(one, all[b], sizeof one) || memcmp(one_lse, all_lse[b], sizeof one_lse))
            fail_msg("%s: sequence %d by itself has other bits than in a batch", problem->skeleton, b);
    }
    clattn_plan_destroy(&plan);
}

static void of_each_skeleton(void **state)
{
    (void)state;
    for (const struct cla_skeleton *const *skeleton = test_skeletons(); *skeleton; skeleton++) {
        const struct clattn_problem problem = {.dtype = CLATTN_FP16,
                                               .d = D,
                                               .causal = CLATTN_CAUSAL_BOTTOM_RIGHT,
                                               .features = CLATTN_KEY_LENGTHS | CLATTN_QUERY_LENGTHS,
                                               .skeleton = (*skeleton)->name,
                                               .split_keys = SPLIT};
        if (test_serves(&device, &problem))
            same_bits_in_any_batch(&problem);
    }
}

static void refused(void **state)
{
    (void)state;
    static const struct clattn_problem wrong[] = {
        {.d = D, .split_keys = -1},
        {.d = D, .split_keys = 64, .splits = 2},
        {.d = D, .split_keys = 64, .pass = CLATTN_BACKWARD},
        {.d = D, .split_keys = 64, .pass = CLATTN_ACCUMULATE},
    };
    EACH (i, wrong) {
        clattn_plan *plan = NULL;
        assert_int_equal(clattn_plan_create(&plan, device.clattn, &wrong[i]), CLATTN_INVALID_ARGUMENT);
        assert_non_null(strstr(clattn_error_message(), "problem.split_keys is"));
    }
}

/* Halves from -2 to 2, of which one has more digits. */
static void fill(uint16_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] = (uint16_t)((random_below(&chance, 2) << 15) | (0x3000 + random_below(&chance, 0x1000)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_each_skeleton), cmocka_unit_test(refused)};
    chance.state = 41;
    fill(&q[0][0][0][0], sizeof q / sizeof(uint16_t));
    fill(&k[0][0][0][0], sizeof k / sizeof(uint16_t));
    fill(&v[0][0][0][0], sizeof v / sizeof(uint16_t));
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
