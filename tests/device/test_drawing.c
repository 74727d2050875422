/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What cl/score/fast/dropout.clh draws, by sub-groups of a single item, against the host's mask, to the bit: for one
 * that goes from tile to tile, as forward_hopper's and forward_matrix's do, by calls that are kept, by calls that lie
 * in local memory and by calls of each tile, in whatever order tiles come; and by way of local memory, for keys along a
 * sub-group's rows, as backward_hopper's have them.
 */
#include "plan/features/feature.h"
#include "plan/kernel_params.h"
#include "plan/philox.h"
#include "support/device.h"
#include "support/text.h"
#include "support/unit.h"
#include <stdio.h>
#include <string.h>

enum { N_Q = 48, LEAST_KV = 1100, MOST_KV = LEAST_KV + 256, HEADS = 3, B = 1, H = 2, OFFSET = 9 };
static const uint64_t seed = UINT64_C(0x123456789abcdef0);

static struct test_device device;

static const char defines[] =
    "#define CLATTN_DTYPE 1\n#define CLATTN_D 16\n#define CLATTN_D_V 16\n#define CLATTN_CAUSAL 0\n"
    "#define CLATTN_FEATURES 512\n#define CLATTN_STATE 0\n#define CLATTN_SPLIT 0\n#define CLATTN_STALE_MAX 0\n"
    "#define CLATTN_B_R 16\n#define CLATTN_ROW_TILES 1\n#define CLATTN_WORK_GROUP_SIZE 1\n"
    "#define CLATTN_B_C %d\n#define CLATTN_KEYS %d\n#define CLATTN_KEEPS_PHILOX %d\n";
static const char *const files[] = {"unit/emulated.clh", "common/matrix_weights.clh", NULL};

/* Tiles come in strides, forth or back from amid them, so that calls are left and taken up again. */
static const char kernel_text[] =
    "__kernel void draw(__global uchar *kept, int tiles, int stride, int n_q CLATTN_SCORE_PARAMETERS)\n"
    "{\n"
    "    const int n_kv = tiles * CLATTN_KEYS;\n"
    "    const clattn_view view = clattn_open(1, 2, 3, n_q, n_kv CLATTN_SCORE_ARGUMENTS);\n"
    "    clattn_matrix_drawing drawing = MATRIX_DRAWING(0, 0, 0);\n"
    "    __local uint drawn[256] __attribute__((aligned(16)));\n"
    "#if MATRIX_STORES_PHILOX\n"
    "    clattn_matrix_stored_words stored = clattn_matrix_stored_at(clattn_unit_address_of(drawn), 0);\n"
    "#endif\n"
    "    for (int row = 0; row < n_q; row += 16) {\n"
    "        for (int t = 0; t < tiles; ++t) {\n"
    "            const int key = (t * stride + 1) % tiles * CLATTN_KEYS;\n"
    "            clattn_matrix_dropped dropped[1];\n"
    "#if MATRIX_STORES_PHILOX\n"
    "            drawing.row = row;\n"
    "            drawing.key = key;\n"
    "            stored.key = t == 0 ? -1 : stored.key;\n"
    "            clattn_matrix_draw_stored(&drawing, &stored, &view);\n"
    "#else\n"
    "            clattn_matrix_draw_tile(&drawing, row, key, t == 0, &view);\n"
    "#endif\n"
    "            for (int c = 0; c < KT; ++c) {\n"
    "                clattn_unit_accumulator a[1];\n"
    "                clattn_unit_operand left;\n"
    "                for (int e = 0; e < UNIT_ELEMENTS; ++e)\n"
    "                    a[0].x[e] = 1.0f;\n"
    "                clattn_matrix_draw_piece(dropped, c, &drawing, &view);\n"
    "                clattn_matrix_kept_to_left(&left, a, dropped, 0, c, &drawing);\n"
    "                for (int e = 0; e < UNIT_ELEMENTS; ++e) {\n"
    "                    const int i = row + clattn_unit_row(0, UNIT_SLOT(e)), j = key + 16 * c + "
    "clattn_unit_column(0, e);\n"
    "                    kept[i * n_kv + j] = a[0].x[e] != 0.0f;\n"
    "                }\n"
    "            }\n"
    "        }\n"
    "    }\n"
    "}\n";

/* The same arguments, but the stride: blocks of 128 keys, of which two take half the pieces each. */
static const char transposed_text[] =
    "__kernel void draw(__global uchar *kept, int tiles, int stride, int n_q CLATTN_SCORE_PARAMETERS)\n"
    "{\n"
    "    __local uint words[128] __attribute__((aligned(16))), made[32] __attribute__((aligned(16)));\n"
    "    const int n_kv = tiles * CLATTN_KEYS;\n"
    "    const clattn_view view = clattn_open(1, 2, 3, n_q, n_kv CLATTN_SCORE_ARGUMENTS);\n"
    "    const clattn_unit_address from = clattn_unit_address_of(words), to = clattn_unit_address_of(made);\n"
    "    for (int row = 0; row < n_q; row += 16) {\n"
    "        for (int key = 0; key < n_kv; key += 64) {\n"
    "            if (key % 128 == 0)\n"
    "                clattn_matrix_leave_philox(from, row, key, 0, &view);\n"
    "            clattn_matrix_leave_dropped(to, from, key, key / 64 % 2, 0, &view);\n"
    "            for (int c = 0; c < 4; ++c) {\n"
    "                const clattn_unit_dropped_keys keys = clattn_unit_take_dropped(to, 1, c, 0);\n"
    "                for (int e = 0; e < UNIT_ELEMENTS; ++e) {\n"
    "                    const int j = key + 16 * c + clattn_unit_row(0, UNIT_SLOT(e)), i = row + "
    "clattn_unit_column(0, e);\n"
    "                    float x = 1.0f;\n"
    "                    clattn_unit_drop_key(&x, &keys, 0, e);\n"
    "                    kept[i * n_kv + j] = x != 0.0f;\n"
    "                }\n"
    "            }\n"
    "        }\n"
    "    }\n"
    "}\n";

static cl_kernel build(const char *text, int keys, int keeps, cl_program *program)
{
    char filled[sizeof defines + 32];
    snprintf(filled, sizeof filled, defines, keys, keys, keeps);
    return test_build_text(&device, filled, files, text, "draw", program);
}

static void draw(cl_kernel kernel, uint32_t threshold, int tiles, int stride, size_t size, uint8_t *kept)
{
    struct cla_score_params params = {.window_left = -1,
                                      .window_right = -1,
                                      .dropout_scale = 1.0f,
                                      .seed_low = (uint32_t)seed,
                                      .seed_high = (uint32_t)(seed >> 32),
                                      .dropout_offset = OFFSET};
    cla_dropout_digits(threshold, params.dropout_digits);
    const cl_int numbers[] = {tiles, stride, N_Q};
    const size_t one = 1;
    cl_int code = CL_SUCCESS;
    memset(kept, 2, size);
    const cl_mem buffer = clCreateBuffer(device.context, CL_MEM_COPY_HOST_PTR, size, kept, &code);
    assert_int_equal(code, CL_SUCCESS);
    assert_int_equal(clSetKernelArg(kernel, 0, sizeof buffer, &buffer), CL_SUCCESS);
    for (cl_uint i = 0; i < 3; i++)
        assert_int_equal(clSetKernelArg(kernel, 1 + i, sizeof numbers[i], &numbers[i]), CL_SUCCESS);
    assert_int_equal(clSetKernelArg(kernel, 4, cla_score_params_bytes(), &params), CL_SUCCESS);
    assert_int_equal(clEnqueueNDRangeKernel(device.queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL), CL_SUCCESS);
    assert_int_equal(clEnqueueReadBuffer(device.queue, buffer, CL_TRUE, 0, size, kept, 0, NULL, NULL), CL_SUCCESS);
    clReleaseMemObject(buffer);
}

static void compare(const uint8_t *kept, uint32_t threshold, int n_kv)
{
    static uint8_t mask[MOST_KV];
    for (int i = 0; i < N_Q; i++) {
        cla_dropout_row(threshold, seed, OFFSET, B * HEADS + H, (uint32_t)i, 0, n_kv, mask);
        for (int j = 0; j < n_kv; j++)
            if (kept[i * n_kv + j] != mask[j])
                fail_msg("row %d, key %d of %d: %d, not %d", i, j, n_kv, kept[i * n_kv + j], mask[j]);
    }
}

static const uint32_t thresholds[] = {0, 63, 410, 2048, 4095};

static void tiles_draw_the_hosts_mask(void **state)
{
    (void)state;
    static uint8_t kept[N_Q * MOST_KV];
    static const struct {
        int keys, keeps;
    } rows[] = {{128, 1}, {64, 1}, {256, 1}, {16, 1}, {128, 0}, {96, 0}, {80, 0}, {128, 2}, {64, 2}, {32, 2}, {16, 2}};
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        const int tiles = (LEAST_KV + rows[n].keys - 1) / rows[n].keys, n_kv = tiles * rows[n].keys;
        cl_program program = NULL;
        const cl_kernel kernel = build(kernel_text, rows[n].keys, rows[n].keeps, &program);
        for (size_t t = 0; t < sizeof thresholds / sizeof *thresholds; t++)
            for (int back = 0; back < 2; back++) {
                draw(kernel, thresholds[t], tiles, back ? tiles - 1 : 1, (size_t)N_Q * (size_t)n_kv, kept);
                compare(kept, thresholds[t], n_kv);
            }
        clReleaseKernel(kernel);
        clReleaseProgram(program);
    }
}

static void words_handed_over_make_the_hosts_mask(void **state)
{
    (void)state;
    enum { KEYS = 128, TILES = (LEAST_KV + KEYS - 1) / KEYS };
    static uint8_t kept[N_Q * TILES * KEYS];
    cl_program program = NULL;
    const cl_kernel kernel = build(transposed_text, KEYS, 0, &program);
    for (size_t t = 0; t < sizeof thresholds / sizeof *thresholds; t++) {
        draw(kernel, thresholds[t], TILES, 0, sizeof kept, kept);
        compare(kept, thresholds[t], TILES * KEYS);
    }
    clReleaseKernel(kernel);
    clReleaseProgram(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tiles_draw_the_hosts_mask),
                                       cmocka_unit_test(words_handed_over_make_the_hosts_mask)};
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
