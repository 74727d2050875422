/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What cl/backward_shares.cl makes of the parts of dK and dV that work-groups of backward_hopper leave, of which a
 * device that is none of NVIDIA's Hopper has no other test. Values that are their key's, column's and share's, laid out
 * as registers hold them, come out added up and scaled, in any layout. Nothing else is written; and a NaN is
 * flagged. */
#include "plan/half.h"
#include "plan/kernel_params.h"
#include "support/device.h"
#include "support/text.h"
#include "support/unit.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 16, FLAGS = 4, UNWRITTEN = 0x7bcd };

static struct test_device device;

static const char defines[] =
    "#define CLATTN_DTYPE 1\n#define CLATTN_D %d\n#define CLATTN_D_V %d\n#define CLATTN_CAUSAL 0\n"
    "#define CLATTN_FEATURES 0\n#define CLATTN_STATE 0\n#define CLATTN_B_R 64\n#define CLATTN_B_C %d\n"
    "#define CLATTN_D_PIECES %d\n#define CLATTN_V_PIECES %d\n#define CLATTN_WORK_GROUP_SIZE 64\n";
static const char *const files[] = {"backward_shares.cl", NULL};

/* keys: of a block. spread: elements from a column to the next. */
struct form {
    int keys, d, d_v, batch, kv_heads, n_kv, shares, spread;
};

static int pieces(int columns)
{
    return (columns + PIECE - 1) / PIECE;
}

static int blocks_of(const struct form *form)
{
    return (form->n_kv + form->keys - 1) / form->keys;
}

static int share_floats(const struct form *form)
{
    return form->keys * PIECE * (pieces(form->d) + pieces(form->d_v));
}

/* Small whole numbers: sums of them are exact in any type. */
static float value_of(int block, int share, int key, int x, bool of_v)
{
    return (float)((block * 7 + share * 5 + key * 3 + x * 11 + of_v * 2) % 41 - 20);
}

/* An item of a warp has the rows lane / 4 and 8 behind it, and of 8 columns lane % 4 * 2 and the next. */
static void fill_share(const struct form *form, int block, int share, float *to)
{
    for (int column = 0; column < PIECE * (pieces(form->d) + pieces(form->d_v)); column++)
        for (int key = 0; key < form->keys; key++) {
            const bool of_v = column >= PIECE * pieces(form->d);
            const int x = of_v ? column - PIECE * pieces(form->d) : column;
            const int item = key / 16 * 32 + key % 8 * 4 + x % 8 / 2, slot = key % 16 / 8 * 2 + x % 2;
            to[(column / 8 * (form->keys * 2) + item) * 4 + slot] = value_of(block, share, key, x, of_v);
        }
}

static struct cla_layout layout_of(const struct form *form, int columns)
{
    const int64_t row = columns * form->spread + 3 * (form->spread - 1), head = row * form->n_kv;
    return (struct cla_layout){8, head * form->kv_heads, head, row, form->spread};
}

static size_t elements_of(const struct form *form, const struct cla_layout *at)
{
    return (size_t)(at->offset + form->batch * at->batch + 8);
}

static int check_tensor(const struct form *form, const uint16_t *found, const struct cla_layout *at, int columns,
                        float factor, bool of_v)
{
    uint16_t *const expected = malloc(elements_of(form, at) * sizeof *expected);
    assert_non_null(expected);
    for (size_t n = 0; n < elements_of(form, at); n++)
        expected[n] = UNWRITTEN;
    for (int n = 0; n < form->batch * form->kv_heads * form->n_kv * columns; n++) {
        const int x = n % columns, key = n / columns % form->n_kv, head = n / columns / form->n_kv;
        const int block = head * blocks_of(form) + key / form->keys;
        float sum = 0;
        for (int share = 0; share < form->shares; share++)
            sum += value_of(block, share, key % form->keys, x, of_v);
        expected[at->offset + head * at->head + key * at->row + x * at->column] = cla_half_from_float(sum * factor);
    }
    int wrong = 0;
    for (size_t n = 0; n < elements_of(form, at); n++)
        wrong += expected[n] != found[n];
    free(expected);
    return wrong;
}

static cl_mem buffer_of(size_t bytes, void *from)
{
    cl_int code = CL_SUCCESS;
    const cl_mem buffer = clCreateBuffer(device.context, CL_MEM_COPY_HOST_PTR, bytes, from, &code);
    assert_int_equal(code, CL_SUCCESS);
    return buffer;
}

static void run(cl_kernel kernel, const struct form *form, const struct cla_backward_params *params,
                const cl_mem buffers[3])
{
    const cl_mem none = NULL;
    const size_t items = 64,
                 all = (size_t)(form->batch * form->kv_heads * blocks_of(form)) * (size_t)(share_floats(form) / 8);
    for (cl_uint i = 0; i < 7; i++)
        assert_int_equal(clSetKernelArg(kernel, i, sizeof none, i < 4 ? &none : &buffers[i - 4]), CL_SUCCESS);
    assert_int_equal(clSetKernelArg(kernel, 7, sizeof *params, params), CL_SUCCESS);
    assert_int_equal(clEnqueueNDRangeKernel(device.queue, kernel, 1, NULL, &all, &items, 0, NULL, NULL), CL_SUCCESS);
}

static void read_and_release(cl_mem buffer, size_t bytes, void *to)
{
    assert_int_equal(clEnqueueReadBuffer(device.queue, buffer, CL_TRUE, 0, bytes, to, 0, NULL, NULL), CL_SUCCESS);
    clReleaseMemObject(buffer);
}

/* One key of one block has a NaN in one share's dV. */
static void poison(const struct form *form, int block, float *parts)
{
    parts[((long)block * form->shares + form->shares - 1) * share_floats(form) + form->keys * PIECE * pieces(form->d)] =
        NAN;
}

static void check(cl_kernel kernel, const struct form *form, bool poisoned)
{
    const int blocks = form->batch * form->kv_heads * blocks_of(form);
    const struct cla_backward_params params = {.d_k = layout_of(form, form->d),
                                               .d_v = layout_of(form, form->d_v),
                                               .flags = FLAGS,
                                               .share_sums = FLAGS + blocks,
                                               .batch = form->batch,
                                               .heads = 2 * form->kv_heads,
                                               .kv_heads = form->kv_heads,
                                               .n_q = 1,
                                               .n_kv = form->n_kv,
                                               .scale = 0.5f,
                                               .shares = form->shares,
                                               .group = 2};
    const size_t words = (size_t)(FLAGS + blocks) + (size_t)blocks * (size_t)(form->shares * share_floats(form));
    const size_t k = elements_of(form, &params.d_k), v = elements_of(form, &params.d_v);
    cl_uint *const workspace = calloc(words, sizeof *workspace);
    uint16_t *const d_k = malloc((k + v) * sizeof *d_k), *const d_v = d_k + k;
    assert_true(workspace && d_k);
    float *const parts = (float *)(workspace + FLAGS + blocks);
    for (size_t n = 0; n < k + v; n++)
        d_k[n] = UNWRITTEN;
    for (int n = 0; n < blocks * form->shares; n++)
        fill_share(form, n / form->shares, n % form->shares, parts + (long)n * share_floats(form));
    if (poisoned)
        poison(form, blocks - 1, parts);
    const cl_mem buffers[] = {buffer_of(words * sizeof *workspace, workspace), buffer_of(k * sizeof *d_k, d_k),
                              buffer_of(v * sizeof *d_v, d_v)};
    run(kernel, form, &params, buffers);
    read_and_release(buffers[0], words * sizeof *workspace, workspace);
    read_and_release(buffers[1], k * sizeof *d_k, d_k);
    read_and_release(buffers[2], v * sizeof *d_v, d_v);
    assert_int_equal(check_tensor(form, d_k, &params.d_k, form->d, 0.5f, false), 0);
    assert_int_equal(check_tensor(form, d_v, &params.d_v, form->d_v, 1.0f, true), poisoned);
    for (int n = 0; n < FLAGS + blocks; n++)
        assert_int_equal(workspace[n], poisoned && n == FLAGS + blocks - 1);
    free(d_k);
    free(workspace);
}

static void shares_are_added_up(void **state)
{
    (void)state;
    static const struct form forms[] = {
        {128, 64, 64, 2, 2, 200, 3, 1}, {128, 40, 100, 1, 2, 129, 2, 1}, {64, 200, 136, 1, 1, 100, 5, 2}};
    EACH (f, forms) {
        char filled[sizeof defines + 64];
        cl_program program = NULL;
        snprintf(filled, sizeof filled, defines, forms[f].d, forms[f].d_v, forms[f].keys, pieces(forms[f].d),
                 pieces(forms[f].d_v));
        const cl_kernel kernel = test_build_text(&device, filled, files, "", "clattn_shares", &program);
        check(kernel, &forms[f], false);
        check(kernel, &forms[f], true);
        clReleaseKernel(kernel);
        clReleaseProgram(program);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(shares_are_added_up)};
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
