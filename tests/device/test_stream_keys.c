/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Few rows on matrix units take K and V from pages and formats (cl/common/matrix_stream.clh). In pages the bits are
 * those of the same keys where they are contiguous. Bytes, of which more keys are taken at a time, give what fp16
 * gives, which holds all values here, but for rounding. Keys of a page that is not there are hidden. */
#include "plan/half.h"
#include "support/device.h"
#include "support/unit.h"
#include <math.h>
#include <string.h>

enum { BATCH = 2, HEADS = 4, KV_HEADS = 2, N_Q = 3, N_KV = 45, D = 32, D_V = 64, MOST_PAGES = 16 };
enum { KEYS = BATCH * KV_HEADS * N_KV, OUTPUTS = BATCH * HEADS * N_Q * D_V, MISSING = 1000 };

static struct test_device device;
static const char *skeleton; /* on CPUs the emulation */

/* What byte x of a row of K or V stands for: int8 times 1/32, or e4m3, of which positive normal numbers suffice. */
static uint8_t byte_of(int key, int x, int seed)
{
    return (uint8_t)((key * 29 + x * 7 + seed) % 64 + 0x18);
}
static float value_of(bool fp8, uint8_t byte)
{
    return fp8 ? ldexpf(1 + (float)(byte & 7) / 8, (byte >> 3) - 7) : (float)byte / 32;
}

/* How keys lie: `page_keys` 0: contiguous. `missing`: the last page of each sequence is not there. */
struct way {
    int page_keys;
    bool formats, missing;
};

static int pages_of(const struct way *way)
{
    return way->page_keys ? (N_KV + way->page_keys - 1) / way->page_keys : 0;
}

/* Where row j of a head of a batch element lies: pages are taken from the pool's end. */
static size_t row_of(const struct way *way, int b, int h, int j)
{
    if (!way->page_keys)
        return (size_t)((b * KV_HEADS + h) * N_KV + j);
    const int page = MOST_PAGES - 1 - b * pages_of(way) - j / way->page_keys;
    return (size_t)((page * KV_HEADS + h) * way->page_keys + j % way->page_keys);
}

static cl_mem buffer_of(const void *data, size_t bytes)
{
    cl_int code = CL_SUCCESS;
    cl_mem buffer = clCreateBuffer(device.context, CL_MEM_READ_WRITE | (data ? CL_MEM_COPY_HOST_PTR : 0), bytes,
                                   (void *)data, &code);
    assert_int_equal(code, CL_SUCCESS);
    return buffer;
}

static cl_mem keys_of(const struct way *way, int columns, bool fp8, int seed)
{
    static uint8_t bytes[MOST_PAGES * KV_HEADS * 16 * D_V * 2];
    memset(bytes, 0, sizeof bytes);
    for (int key = 0; key < KEYS; key++)
        for (int x = 0; x < columns; x++) {
            const uint8_t byte = byte_of(key, x, seed);
            const size_t at = row_of(way, key / N_KV / KV_HEADS, key / N_KV % KV_HEADS, key % N_KV) * (size_t)columns;
            const uint16_t half = cla_half_from_float(value_of(fp8, byte));
            if (way->formats)
                bytes[at + (size_t)x] = byte;
            else
                memcpy(bytes + 2 * (at + (size_t)x), &half, sizeof half);
        }
    return buffer_of(bytes, sizeof bytes);
}

static cl_mem table_of(const struct way *way)
{
    int32_t table[BATCH * MOST_PAGES] = {0};
    for (int b = 0; b < BATCH; b++)
        for (int page = 0; page < pages_of(way); page++)
            table[b * pages_of(way) + page] =
                way->missing && page == pages_of(way) - 1 ? MISSING : MOST_PAGES - 1 - b * pages_of(way) - page;
    return buffer_of(table, sizeof table);
}

static clattn_plan *plan_of(const struct way *way)
{
    const struct clattn_problem problem = {.d = D,
                                           .d_v = D_V,
                                           .dtype = CLATTN_FP16,
                                           .o_type = CLATTN_AS_FP32,
                                           .k_type = way->formats ? CLATTN_AS_INT8 : CLATTN_AS_DTYPE,
                                           .v_type = way->formats ? CLATTN_AS_FP8_E4M3 : CLATTN_AS_DTYPE,
                                           .features = way->page_keys ? CLATTN_PAGES : 0,
                                           .page_keys = way->page_keys,
                                           .packing = CLATTN_PACKING_ALWAYS,
                                           .splits = 2,
                                           .expected_n_q = N_Q,
                                           .expected_n_kv = N_KV,
                                           .skeleton = skeleton,
                                           .b_r = way->formats ? 8 : 0,
                                           .b_c = way->formats ? 32 : 0,
                                           .knobs = way->formats ? "q_registers=0 sharers=2" : NULL};
    clattn_plan *plan = NULL;
    assert_true(test_succeeded(clattn_plan_create(&plan, device.clattn, &problem), "clattn_plan_create"));
    return plan;
}

static struct clattn_tensor in_pages(const struct way *way, cl_mem buffer, int columns)
{
    struct clattn_tensor tensor = {.buffer = buffer};
    if (way->page_keys)
        tensor.layout = clattn_layout_bhnd(KV_HEADS, way->page_keys, columns);
    return tensor;
}

static void compute(const struct way *way, int n_kv, float o[OUTPUTS])
{
    static const float scales[] = {1.0f / 32, 1};
    static uint16_t q[BATCH * HEADS * N_Q * D];
    for (size_t i = 0; i < sizeof q / sizeof *q; i++)
        q[i] = cla_half_from_float((float)(i * 13 % 41) / 32 - 0.6f);
    clattn_plan *plan = plan_of(way);
    const struct clattn_layout one = {.strided = 1};
    cl_mem made[] = {
        buffer_of(q, sizeof q), keys_of(way, D, false, 3), keys_of(way, D_V, true, 11), buffer_of(NULL, OUTPUTS * 4),
        table_of(way),          buffer_of(scales, 4),      buffer_of(scales + 1, 4),    NULL};
    const struct clattn_kv_scales kv_scales = {.k_scales = {.buffer = made[5], .layout = one},
                                               .v_scales = {.buffer = made[6], .layout = one}};
    struct clattn_forward_args args = {
        .shape = {.batch = BATCH, .heads = HEADS, .kv_heads = KV_HEADS, .n_q = N_Q, .n_kv = n_kv},
        .q = {.buffer = made[0]},
        .k = in_pages(way, made[1], D),
        .v = in_pages(way, made[2], D_V),
        .o = {.buffer = made[3]}};
    if (!way->page_keys) {
        args.k.layout = clattn_layout_bhnd(KV_HEADS, N_KV, D);
        args.v.layout = clattn_layout_bhnd(KV_HEADS, N_KV, D_V);
    } else {
        args.score.pages = (struct clattn_tensor){.buffer = made[4]};
        args.score.pool_pages = MOST_PAGES;
    }
    if (way->formats)
        args.score.kv_scales = &kv_scales;
    assert_int_equal(clattn_plan_workspace_bytes(plan, &args.shape, &args.workspace_bytes), CLATTN_SUCCESS);
    args.workspace = made[7] = buffer_of(NULL, args.workspace_bytes);
    assert_true(test_succeeded(clattn_forward_enqueue(plan, device.queue, &args, 0, NULL, NULL), "the call"));
    assert_int_equal(clEnqueueReadBuffer(device.queue, made[3], CL_TRUE, 0, OUTPUTS * 4, o, 0, NULL, NULL), CL_SUCCESS);
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        clReleaseMemObject(made[i]);
    clattn_plan_destroy(&plan);
}

static void assert_near(const float *a, const float *b)
{
    for (int i = 0; i < OUTPUTS; i++)
        assert_true(fabsf(a[i] - b[i]) <= 2e-3f * (1 + fabsf(a[i])));
}

static void same_keys(void **state)
{
    (void)state;
    static const struct way plain = {0}, paged = {.page_keys = 16}, expanded = {.page_keys = 7, .formats = true};
    static float of_plain[OUTPUTS], of_paged[OUTPUTS], of_expanded[OUTPUTS];
    compute(&plain, N_KV, of_plain);
    compute(&paged, N_KV, of_paged);
    compute(&expanded, N_KV, of_expanded);
    assert_memory_equal(of_plain, of_paged, sizeof of_plain);
    assert_near(of_plain, of_expanded);
}

static void missing_pages(void **state)
{
    (void)state;
    static const struct way plain = {0}, paged = {.page_keys = 16, .missing = true};
    static float of_plain[OUTPUTS], of_paged[OUTPUTS];
    compute(&plain, N_KV / 16 * 16, of_plain);
    compute(&paged, N_KV, of_paged);
    assert_near(of_plain, of_paged);
}

int main(void)
{
    test_device_open(&device);
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_keys), cmocka_unit_test(missing_pages)};
    const struct clattn_capabilities *here = clattn_context_capabilities(device.clattn);
    skeleton = test_is_for(&cla_forward_matrix_emulated) ? "forward_matrix_emulated"
               : here->nv_compute_capability >= 800      ? "forward_matrix"
                                                         : NULL;
    const int failed = skeleton ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
    test_device_close(&device);
    return failed;
}
