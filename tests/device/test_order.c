/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The order that cl/backward_order.cl finds for the blocks of keys of each head, against a list that is sorted here:
 * with heads that share keys, rows and keys that do not fill their last tiles, and more blocks than a work-group has
 * items. */
#include "plan/features/feature.h"
#include "plan/kernel_params.h"
#include "support/device.h"
#include "support/text.h"
#include "support/unit.h"
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 64, BLOCK = 64, ITEMS = 8, MOST_BLOCKS = 32, MOST_HEADS = 8, MOST_MASK = 1 << 14, FIRST = 5 };

static struct test_device device;

static const char defines[] =
    "#define CLATTN_DTYPE 1\n#define CLATTN_D 64\n#define CLATTN_D_V 64\n#define CLATTN_CAUSAL %d\n"
    "#define CLATTN_FEATURES 32\n#define CLATTN_STATE 0\n#define CLATTN_BLOCK_Q 64\n#define CLATTN_BLOCK_KV 64\n"
    "#define CLATTN_B_R 64\n#define CLATTN_TILE_ROWS 64\n#define CLATTN_B_C %d\n#define CLATTN_UNORDERED %d\n"
    "#define CLATTN_WORK_GROUP_SIZE 8\n";
static const char *const files[] = {"backward_order.cl", NULL};

/* What is asked of one build. */
struct form {
    bool causal, unordered;
    int keys; /* of a block that has a place */
};

struct sizes {
    int batch, heads, kv_heads, n_q, n_kv;
};

static uint8_t mask[MOST_MASK];

static int ceil_div(int a, int b)
{
    return (a + b - 1) / b;
}

static size_t fill_mask(const struct sizes *s, int percent)
{
    const size_t count = (size_t)(s->batch * s->heads * ceil_div(s->n_q, BLOCK) * ceil_div(s->n_kv, BLOCK));
    assert_true(count <= sizeof mask);
    for (size_t n = 0; n < count; n++)
        mask[n] = rand() % 100 < percent;
    return count;
}

/* Whether a tile of rows sees any of so many keys, by blocks of the mask. Causal rows end with the tile's last, whether
 * it exists or not. */
static bool sees(const struct form *form, const struct sizes *s, int bh, int tile, int first_key, int keys)
{
    const int columns = ceil_div(s->n_kv, BLOCK), rows = ceil_div(s->n_q, BLOCK);
    for (int key = first_key; key < first_key + keys && key < s->n_kv; key += BLOCK) {
        const int last_row = tile * ROWS + ROWS <= s->n_q ? tile * ROWS + ROWS - 1 : s->n_q - 1;
        const bool within = !form->causal || key <= tile * ROWS + ROWS - 1 + s->n_kv - s->n_q;
        if (last_row >= tile * ROWS && within && mask[(bh * rows + tile) * columns + key / BLOCK])
            return true;
    }
    return false;
}

static unsigned cost_of(const struct form *form, const struct sizes *s, int b, int kv_head, int block)
{
    const int share = s->heads / s->kv_heads, halves = form->keys > 64 ? 2 : 1;
    unsigned cost = 0;
    for (int h = kv_head * share; h < (kv_head + 1) * share; h++)
        for (int tile = 0; tile < ceil_div(s->n_q, ROWS); tile++) {
            int seen = 0;
            for (int n = 0; n < halves; n++)
                seen += sees(form, s, b * s->heads + h, tile, block * form->keys + n * (form->keys / halves),
                             form->keys / halves);
            cost += seen == 0 ? 0 : seen == halves ? 5 : 3;
        }
    return cost;
}

static void check_head(const struct form *form, const struct sizes *s, int head, const cl_uint *order)
{
    const int blocks = ceil_div(s->n_kv, form->keys), b = head / s->kv_heads, kv_head = head % s->kv_heads;
    bool met[MOST_BLOCKS] = {false};
    for (int place = 0; place < blocks; place++) {
        const int block = (int)order[place];
        assert_in_range(block, 0, blocks - 1);
        assert_false(met[block]);
        met[block] = true;
        const unsigned own = cost_of(form, s, b, kv_head, block);
        assert_int_equal(order[blocks + block], own);
        if (place == 0)
            continue;
        const unsigned before = cost_of(form, s, b, kv_head, (int)order[place - 1]);
        assert_true(form->unordered ? before >= own : before <= own);
        assert_true(before != own || (int)order[place - 1] < block);
    }
}

/* `words` are the workspace's. */
static void run(cl_kernel kernel, const struct sizes *s, size_t mask_bytes, cl_uint *words, size_t bytes)
{
    const int rows = ceil_div(s->n_q, BLOCK), columns = ceil_div(s->n_kv, BLOCK);
    const struct cla_backward_params params = {
        .order = FIRST, .batch = s->batch, .heads = s->heads, .kv_heads = s->kv_heads, .n_q = s->n_q, .n_kv = s->n_kv};
    const struct cla_score_params score = {
        .block_mask = {.batch = s->heads * rows * columns, .head = rows * columns, .row = columns, .column = 1}};
    const size_t items = ITEMS, all = items * (size_t)(s->batch * s->kv_heads);
    cl_int code = CL_SUCCESS;
    const cl_mem space = clCreateBuffer(device.context, CL_MEM_COPY_HOST_PTR, bytes, words, &code);
    assert_int_equal(code, CL_SUCCESS);
    const cl_mem blocks = clCreateBuffer(device.context, CL_MEM_COPY_HOST_PTR, mask_bytes, mask, &code);
    assert_int_equal(code, CL_SUCCESS);
    const cl_mem none = NULL;
    for (cl_uint i = 0; i < 4; i++)
        assert_int_equal(clSetKernelArg(kernel, i, sizeof none, &none), CL_SUCCESS);
    assert_int_equal(clSetKernelArg(kernel, 4, sizeof space, &space), CL_SUCCESS);
    assert_int_equal(clSetKernelArg(kernel, 5, sizeof params, &params), CL_SUCCESS);
    assert_int_equal(clSetKernelArg(kernel, 6, sizeof blocks, &blocks), CL_SUCCESS);
    assert_int_equal(clSetKernelArg(kernel, 7, cla_score_params_bytes(), &score), CL_SUCCESS);
    assert_int_equal(clEnqueueNDRangeKernel(device.queue, kernel, 1, NULL, &all, &items, 0, NULL, NULL), CL_SUCCESS);
    assert_int_equal(clEnqueueReadBuffer(device.queue, space, CL_TRUE, 0, bytes, words, 0, NULL, NULL), CL_SUCCESS);
    clReleaseMemObject(space);
    clReleaseMemObject(blocks);
}

static void check(cl_kernel kernel, const struct form *form, const struct sizes *s, int percent)
{
    const int blocks = ceil_div(s->n_kv, form->keys), heads = s->batch * s->kv_heads;
    cl_uint words[FIRST + MOST_HEADS * 2 * MOST_BLOCKS + 1];
    const size_t mask_bytes = fill_mask(s, percent), end = FIRST + (size_t)(heads * 2 * blocks);
    for (size_t n = 0; n < sizeof words / sizeof *words; n++)
        words[n] = 0xdeadbeef;
    assert_true(heads <= MOST_HEADS && blocks <= MOST_BLOCKS);
    run(kernel, s, mask_bytes, words, sizeof words);
    for (int head = 0; head < heads; head++)
        check_head(form, s, head, words + FIRST + head * 2 * blocks);
    assert_int_equal(words[FIRST - 1], 0xdeadbeef);
    assert_int_equal(words[end], 0xdeadbeef);
}

static void blocks_come_by_what_they_cost(void **state)
{
    (void)state;
    static const struct form forms[] = {
        {false, false, 128}, {false, true, 128}, {true, false, 128}, {true, true, 64}, {false, false, 64}};
    static const struct sizes sizes[] = {
        {1, 1, 1, 640, 1200}, {2, 4, 2, 300, 333}, {1, 3, 1, 130, 1700}, {1, 2, 2, 1, 1}, {2, 1, 1, 1000, 1984}};
    static const int percents[] = {50, 90, 10, 0, 100};
    EACH (f, forms) {
        char filled[sizeof defines + 32];
        cl_program program = NULL;
        snprintf(filled, sizeof filled, defines, forms[f].causal, forms[f].keys, forms[f].unordered);
        const cl_kernel kernel = test_build_text(&device, filled, files, "", "clattn_order", &program);
        EACH (i, sizes)
            EACH (k, percents)
                check(kernel, &forms[f], &sizes[i], percents[k]);
        clReleaseKernel(kernel);
        clReleaseProgram(program);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_come_by_what_they_cost)};
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
