/* SPDX-License-Identifier: BSD-2-Clause
 *
 * cl/common/matrix_repair.clh, which forward_hopper ends with and no CPU runs otherwise, here with sub-groups of one
 * item: rows that an infinity or NaN behind the causal mask has spoilt are computed again, and others left as they are;
 * of all keys, and of a split of them, which leaves a state.
 */
#include "plan/half.h"
#include "plan/kernel_params.h"
#include "support/device.h"
#include "support/text.h"
#include "support/unit.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N_Q = 40, N_KV = 48, D = 16, D_V = 24, SHIFT = N_KV - N_Q, SPLITS = 2, TILE = 16 };

static struct test_device device;

static const char defines[] =
    "#define CLATTN_DTYPE 1\n#define CLATTN_D 16\n#define CLATTN_D_V 24\n#define CLATTN_CAUSAL 1\n"
    "#define CLATTN_FEATURES 0\n#define CLATTN_STATE 0\n#define CLATTN_B_R 16\n"
    "#define CLATTN_B_C 16\n#define CLATTN_KEYS 16\n#define CLATTN_ROW_TILES 1\n#define CLATTN_STALE_MAX 0\n"
    "#define CLATTN_STREAMS 0\n"
    "#define CLATTN_WORK_GROUP_SIZE 1\n#define CLATTN_SPLIT 0\n#define CLATTN_SET_BYTES 33554432\n";
static const char split_defines[] =
    "#define CLATTN_DTYPE 1\n#define CLATTN_D 16\n#define CLATTN_D_V 24\n#define CLATTN_CAUSAL 1\n"
    "#define CLATTN_FEATURES 0\n#define CLATTN_STATE 0\n#define CLATTN_B_R 16\n"
    "#define CLATTN_B_C 16\n#define CLATTN_KEYS 16\n#define CLATTN_ROW_TILES 1\n#define CLATTN_STALE_MAX 0\n"
    "#define CLATTN_STREAMS 0\n"
    "#define CLATTN_WORK_GROUP_SIZE 1\n#define CLATTN_SPLIT 1\n#define CLATTN_SET_BYTES 33554432\n";
static const char *const files[] = {"unit/emulated.clh", "common/matrix_repair.clh", NULL};

/* As forward_hopper does, with tiles of 16 keys. */
static const char kernel_text[] =
    "__kernel void repair(__global const clattn_storage *q, __global const clattn_storage *k,\n"
    "                     __global const clattn_storage *v, __global clattn_storage *o, clattn_forward_params p)\n"
    "{\n"
    "    const clattn_view view = clattn_open(0, 0, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);\n"
    "    const clattn_matrix_results to = clattn_matrix_locate(o, 0, 0, 0, p, 0, 0, 0);\n"
    "    const clattn_matrix_place whole = {0, 0, 0, 0, 0};\n"
    "    const clattn_matrix_operands in = clattn_matrix_operands_of(q, k, v, whole, p, &view);\n"
    "    for (int row = 0; row < p.n_q; row += 16) {\n"
    "        const int end = clattn_key_end(min(row + 16, p.n_q) - 1, &view);\n"
    "        clattn_matrix_repair(in, to, row, 0, end, 0, p, &view);\n"
    "    }\n"
    "}\n";

/* The second of two splits: m of both, l, then O. */
static const char split_text[] =
    "__kernel void repair(__global const clattn_storage *q, __global const clattn_storage *k,\n"
    "                     __global const clattn_storage *v, __global float *state, clattn_forward_params p)\n"
    "{\n"
    "    for (int row = 0; row < p.n_q; row += 16) {\n"
    "        clattn_view view = clattn_open(0, 0, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);\n"
    "        clattn_matrix_place place = {row, 0, 0, 0, 0, 1};\n"
    "        const clattn_matrix_operands in = clattn_matrix_operands_of(q, k, v, place, p, &view);\n"
    "        clattn_matrix_take_split(place, p, &view);\n"
    "        const clattn_matrix_results to =\n"
    "            clattn_matrix_results_of(state + 4 * p.n_q, 0, state, state + 2 * p.n_q, p, place, &view);\n"
    "        const int end = clattn_key_end(min(row + 16, p.n_q) - 1, &view);\n"
    "        if (view.first_key < end)\n"
    "            clattn_matrix_repair(in, to, row, view.first_key, end, 0, p, &view);\n"
    "    }\n"
    "}\n";

struct arrays {
    float q[N_Q * D], k[N_KV * D], v[N_KV * D_V], o[N_Q * D_V], expected[N_Q * D_V];
};

/* By one of the keys from `first` to before `end`. */
static bool is_spoilt(const struct arrays *arrays, int row, int first, int end)
{
    bool spoilt = false;
    for (int j = row + SHIFT + 1 > first ? row + SHIFT + 1 : first; j < end; j++)
        for (int x = 0; x < D_V; x++)
            spoilt = spoilt || !isfinite(arrays->v[j * D_V + x]);
    return spoilt;
}

/* To the keys from `first` on. Answers the log-sum-exp. */
static double attend(struct arrays *arrays, int row, int first)
{
    const int end = row + SHIFT + 1;
    double weights[N_KV], sum = 0.0;
    for (int j = first; j < end; j++) {
        double score = 0.0;
        for (int x = 0; x < D; x++)
            score += (double)arrays->q[row * D + x] * (double)arrays->k[j * D + x];
        weights[j] = exp(score * 0.25);
        sum += weights[j];
    }
    for (int x = 0; x < D_V; x++) {
        double o = 0.0;
        for (int j = first; j < end; j++)
            o += weights[j] / sum * (double)arrays->v[j * D_V + x];
        arrays->expected[row * D_V + x] = (float)o;
    }
    return log(sum);
}

/* Keys 20, 30 and 44 have values that are not finite. Rows that see all of them keep what they have. */
static void make_inputs(struct arrays *arrays)
{
    for (int i = 0; i < N_Q * D; i++)
        arrays->q[i] = (float)(i * 7 % 11 - 5) / 4.0f;
    for (int i = 0; i < N_KV * D; i++)
        arrays->k[i] = (float)(i * 5 % 13 - 6) / 4.0f;
    for (int i = 0; i < N_KV * D_V; i++)
        arrays->v[i] = (float)(i * 3 % 17 - 8) / 8.0f;
    arrays->v[20 * D_V + 3] = NAN;
    arrays->v[30 * D_V + 5] = INFINITY;
    arrays->v[44 * D_V] = -INFINITY;
}

static void make(struct arrays *arrays)
{
    make_inputs(arrays);
    for (int row = 0; row < N_Q; row++) {
        const bool spoilt = is_spoilt(arrays, row, 0, N_KV);
        attend(arrays, row, 0);
        for (int x = 0; x < D_V; x++)
            arrays->o[row * D_V + x] = spoilt || x == 3 ? NAN : 7.0f;
        if (!spoilt)
            memcpy(arrays->expected + row * D_V, arrays->o + row * D_V, D_V * sizeof(float));
    }
}

static cl_mem upload(const float *values, size_t count)
{
    uint16_t halves[N_KV * D_V];
    cl_int code = CL_SUCCESS;
    assert_true(count <= sizeof halves / sizeof *halves);
    for (size_t i = 0; i < count; i++)
        halves[i] = cla_half_from_float(values[i]);
    const cl_mem buffer = clCreateBuffer(device.context, CL_MEM_COPY_HOST_PTR, count * 2, halves, &code);
    assert_int_equal(code, CL_SUCCESS);
    return buffer;
}

static cl_kernel build(bool split, cl_program *program)
{
    return test_build_text(&device, split ? split_defines : defines, files, split ? split_text : kernel_text, "repair",
                           program);
}

static void run(bool split, cl_mem buffers[4])
{
    struct cla_forward_params params = {.q = cla_layout_dense(1, N_Q, D),
                                        .k = cla_layout_dense(1, N_KV, D),
                                        .v = cla_layout_dense(1, N_KV, D_V),
                                        .o = cla_layout_dense(1, N_Q, D_V),
                                        .batch = 1,
                                        .heads = 1,
                                        .kv_heads = 1,
                                        .n_q = N_Q,
                                        .n_kv = N_KV,
                                        .scale = 0.25f,
                                        .scale_log2e = 0.25f * 1.44269504f,
                                        .m = {.batch = N_Q, .head = N_Q, .row = 1},
                                        .l = {.batch = N_Q, .head = N_Q, .row = 1},
                                        .splits = SPLITS};
    cla_forward_params_divide(&params, 16);
    cl_program program = NULL;
    const cl_kernel kernel = build(split, &program);
    const size_t one = 1;
    for (cl_uint i = 0; i < 4; i++)
        assert_int_equal(clSetKernelArg(kernel, i, sizeof buffers[i], &buffers[i]), CL_SUCCESS);
    assert_int_equal(clSetKernelArg(kernel, 4, sizeof params, &params), CL_SUCCESS);
    assert_int_equal(clEnqueueNDRangeKernel(device.queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL), CL_SUCCESS);
    assert_int_equal(clFinish(device.queue), CL_SUCCESS);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
}

static bool same(float found, float expected)
{
    if (isnan(expected) || isinf(expected))
        return isnan(expected) ? isnan(found) : found == expected;
    return fabsf(found - expected) < 2e-3f;
}

static void spoilt_rows_are_computed_again(void **state)
{
    static struct arrays arrays;
    uint16_t found[N_Q * D_V];
    (void)state;
    make(&arrays);
    cl_mem buffers[4] = {upload(arrays.q, N_Q * D), upload(arrays.k, N_KV * D), upload(arrays.v, N_KV * D_V),
                         upload(arrays.o, N_Q * D_V)};
    run(false, buffers);
    assert_int_equal(clEnqueueReadBuffer(device.queue, buffers[3], CL_TRUE, 0, sizeof found, found, 0, NULL, NULL),
                     CL_SUCCESS);
    for (int i = 0; i < N_Q * D_V; i++)
        if (!same(cla_half_to_float(found[i]), arrays.expected[i]))
            fail_msg("row %d, column %d: %g instead of %g", i / D_V, i % D_V, (double)cla_half_to_float(found[i]),
                     (double)arrays.expected[i]);
    for (int i = 0; i < 4; i++)
        clReleaseMemObject(buffers[i]);
}

/* Where the second split of a block of rows begins: tiles that do not come out even go to the first. */
static int second_split(int row)
{
    const int last = (row / TILE * TILE + TILE < N_Q ? row / TILE * TILE + TILE : N_Q) - 1;
    const int tiles = (last + SHIFT + 1 + TILE - 1) / TILE;
    return (tiles + 1) / 2 * TILE;
}

/* That of its last tile, which is multiplied whole: hidden keys at its end spoil rows, too. */
static int block_end(int row)
{
    const int rows = row / TILE * TILE + TILE, end = (rows < N_Q ? rows : N_Q) + SHIFT;
    return (end + TILE - 1) / TILE * TILE;
}

/* The second split's rows come behind the first's in m, l and O. */
static void rows_of_a_split_are_computed_again(void **state)
{
    enum { M_AT = N_Q, L_AT = 3 * N_Q, O_AT = 4 * N_Q + N_Q * D_V, FLOATS = 4 * N_Q + 2 * N_Q * D_V };
    static struct arrays arrays;
    static float before[FLOATS], found[FLOATS];
    cl_int code = CL_SUCCESS;
    int repaired = 0;
    (void)state;
    make_inputs(&arrays);
    for (int row = 0; row < N_Q; row++) {
        const bool spoilt = is_spoilt(&arrays, row, second_split(row), block_end(row));
        for (int x = 0; x < D_V; x++)
            before[O_AT + row * D_V + x] = spoilt || x == 3 ? NAN : 7.0f;
    }
    cl_mem buffers[4] = {upload(arrays.q, N_Q * D), upload(arrays.k, N_KV * D), upload(arrays.v, N_KV * D_V)};
    buffers[3] = clCreateBuffer(device.context, CL_MEM_COPY_HOST_PTR, sizeof before, before, &code);
    assert_int_equal(code, CL_SUCCESS);
    run(true, buffers);
    assert_int_equal(clEnqueueReadBuffer(device.queue, buffers[3], CL_TRUE, 0, sizeof found, found, 0, NULL, NULL),
                     CL_SUCCESS);
    for (int row = 0; row < N_Q; row++) {
        const int first = second_split(row);
        const bool spoilt = is_spoilt(&arrays, row, first, block_end(row)), none = row + SHIFT < first;
        const double lse = attend(&arrays, row, first);
        const float m = found[M_AT + row], l = found[L_AT + row];
        repaired += spoilt;
        if (spoilt && !none)
            assert_true(fabs((double)m + log((double)l) - lse) < 1e-3);
        else if (spoilt)
            assert_true(m == -INFINITY && l == 0.0f);
        for (int x = 0; x < D_V; x++) {
            const float o = found[O_AT + row * D_V + x];
            const float expected = !spoilt ? x == 3 ? NAN : 7.0f : none ? 0.0f : arrays.expected[row * D_V + x];
            if (!same(spoilt && !none ? o / l : o, expected))
                fail_msg("row %d, column %d: %g instead of %g", row, x, (double)o, (double)expected);
        }
    }
    assert_true(repaired > 3);
    for (int i = 0; i < 4; i++)
        clReleaseMemObject(buffers[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(spoilt_rows_are_computed_again),
                                       cmocka_unit_test(rows_of_a_split_are_computed_again)};
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
