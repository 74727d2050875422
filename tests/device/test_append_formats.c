/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Rows that clattn_append_enqueue quantises, to the bit against the reference's rule (reference/formats.c): every
 * format, groups, zero points, in contiguous caches and in pages; and scales that are given. */
#include "reference/formats.h"
#include "support/fence.h"
#include "support/unit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, KV_HEADS = 2, D = 40, D_V = 33, N_Q = 3, N_KV = 11, ROTARY = 16, PAGE_KEYS = 4, POOL = 6 };
enum { ROWS = BATCH * KV_HEADS * N_Q, MOST_KEYS = POOL * KV_HEADS * PAGE_KEYS };

static struct test_device device;
static struct random chance;

static const int32_t table[BATCH * 3] = {4, 1, 0, 2, 5, 3}, positions[BATCH * N_Q] = {0, 9, 4, 10, 3, 7};
static float k_new[ROWS * D], v_new[ROWS * D_V], cosines[N_KV * ROTARY / 2], sines[N_KV * ROTARY / 2];

struct way {
    int type;
    int64_t group;
    bool zeros, pages;
};

/* K or V of a cache, and their scales. */
struct side {
    char *bytes, *scales, *zeros;
    cl_mem buffer, scale_buffer, zero_buffer;
};

static cl_mem copy_of(const void *data, size_t bytes)
{
    char *memory = NULL;
    cl_mem buffer = fence_make(&device, &chance, bytes, 4, 0, &memory);
    memcpy(memory, data, bytes);
    return buffer;
}

static struct formats_way format_of(const struct way *way, int columns)
{
    return (struct formats_way){.type = way->type, .columns = columns, .group = way->group, .zeros = way->zeros};
}

static struct side make_side(const struct way *way, int columns)
{
    const struct formats_way format = format_of(way, columns);
    const size_t keys = way->pages ? MOST_KEYS : BATCH * KV_HEADS * N_KV;
    const size_t groups = keys * (size_t)formats_groups(&format) * sizeof(float);
    struct side side = {0};
    side.buffer = fence_make(&device, &chance, keys * formats_row_bytes(way->type, columns), 4, 0x5a, &side.bytes);
    if (groups)
        side.scale_buffer = fence_make(&device, &chance, groups, 4, 0x5a, &side.scales);
    if (groups && way->zeros)
        side.zero_buffer = fence_make(&device, &chance, groups, 4, 0x5a, &side.zeros);
    return side;
}

static size_t key_row(const struct way *way, int b, int h, int position)
{
    if (!way->pages)
        return (size_t)((b * KV_HEADS + h) * N_KV + position);
    return (size_t)((table[b * 3 + position / PAGE_KEYS] * KV_HEADS + h) * PAGE_KEYS + position % PAGE_KEYS);
}

static void rotate(float *row, int position)
{
    for (int i = 0; i < ROTARY / 2; i++) {
        const float c = cosines[position * ROTARY / 2 + i], s = sines[position * ROTARY / 2 + i];
        volatile const float ac = row[i] * c, bs = row[i + ROTARY / 2] * s, bc = row[i + ROTARY / 2] * c,
                             as = row[i] * s;
        row[i] = ac - bs;
        row[i + ROTARY / 2] = bc + as;
    }
}

/* Whether one row of the cache is what the rule makes of the values. */
static bool is_right(const struct way *way, const struct side *side, int columns, const float *values, size_t at)
{
    const struct formats_way format = format_of(way, columns);
    const size_t bytes = formats_row_bytes(way->type, columns), groups = (size_t)formats_groups(&format);
    uint8_t row[64];
    float scales[D], zeros[D];
    formats_quantise(&format, values, row, scales, zeros);
    return memcmp(row, side->bytes + at * bytes, bytes) == 0 &&
           (!groups || memcmp(scales, side->scales + at * groups * sizeof *scales, groups * sizeof *scales) == 0) &&
           (!way->zeros || memcmp(zeros, side->zeros + at * groups * sizeof *zeros, groups * sizeof *zeros) == 0);
}

/* How many bytes of a side were written. */
static int written(const struct way *way, const struct side *side, int columns)
{
    const size_t bytes = (way->pages ? MOST_KEYS : BATCH * KV_HEADS * N_KV) * formats_row_bytes(way->type, columns);
    int count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += side->bytes[i] != 0x5a;
    return count;
}

static int wrong_rows(const struct way *way, const struct side *k, const struct side *v)
{
    int wrong = 0;
    for (int b = 0; b < BATCH; b++)
        for (int h = 0; h < KV_HEADS; h++)
            for (int i = 0; i < N_Q; i++) {
                const int row = (b * KV_HEADS + h) * N_Q + i, position = positions[b * N_Q + i];
                float rotated[D];
                memcpy(rotated, k_new + row * D, sizeof rotated);
                rotate(rotated, position);
                wrong += !is_right(way, k, D, rotated, key_row(way, b, h, position));
                wrong += !is_right(way, v, D_V, v_new + row * D_V, key_row(way, b, h, position));
            }
    return wrong + (written(way, k, D) > (int)(ROWS * formats_row_bytes(way->type, D))) +
           (written(way, v, D_V) > (int)(ROWS * formats_row_bytes(way->type, D_V)));
}

static void append(const struct way *way, const struct clattn_kv_scales *scales, const struct side *k,
                   const struct side *v)
{
    const struct clattn_problem problem = {.d = D,
                                           .d_v = D_V,
                                           .k_type = way->type,
                                           .v_type = way->type,
                                           .k_scale_group = way->group,
                                           .v_scale_group = way->group,
                                           .zero_points = way->zeros ? CLATTN_K_ZEROS | CLATTN_V_ZEROS : 0,
                                           .features = way->pages ? CLATTN_PAGES : 0,
                                           .page_keys = way->pages ? PAGE_KEYS : 0};
    const struct clattn_append_params params = {.problem = &problem, .rotary_d = ROTARY};
    struct clattn_append_args args = {.shape = {.batch = BATCH, .heads = KV_HEADS, .n_q = N_Q, .n_kv = N_KV},
                                      .k_new.buffer = copy_of(k_new, sizeof k_new),
                                      .v_new.buffer = copy_of(v_new, sizeof v_new),
                                      .k.buffer = k->buffer,
                                      .v.buffer = v->buffer,
                                      .positions.buffer = copy_of(positions, sizeof positions),
                                      .rope_cos.buffer = copy_of(cosines, sizeof cosines),
                                      .rope_sin.buffer = copy_of(sines, sizeof sines),
                                      .rope_rows = N_KV,
                                      .score = {.kv_scales = scales}};
    clattn_appender *appender = NULL;
    if (way->pages) {
        args.score.pages.buffer = copy_of(table, sizeof table);
        args.score.pool_pages = POOL;
    }
    assert_true(test_succeeded(clattn_appender_create(&appender, device.clattn, &params), "create"));
    fence_to_device(&device);
    assert_true(test_succeeded(clattn_append_enqueue(appender, device.queue, &args, 0, NULL, NULL), "append"));
    fence_from_device(&device);
    clattn_appender_destroy(&appender);
}

static void fill_new(void)
{
    random_normal(&chance, 3.0, k_new, ROWS * D);
    random_normal(&chance, 0.02, v_new, ROWS * D_V);
    memset(v_new, 0, D_V * sizeof *v_new); /* a row of zeros */
    v_new[2 * D_V] = INFINITY;
    v_new[2 * D_V + 3] = NAN;
    v_new[3 * D_V + 1] = 1e6f;
}

static void as_the_rule_says(void **state)
{
    (void)state;
    static const struct way ways[] = {{CLATTN_AS_INT8, 0, false, false},    {CLATTN_AS_INT8, 8, true, true},
                                      {CLATTN_AS_INT4, 0, true, true},      {CLATTN_AS_INT4, 5, false, false},
                                      {CLATTN_AS_FP8_E4M3, 0, false, true}, {CLATTN_AS_FP8_E5M2, 16, false, false},
                                      {CLATTN_AS_Q8_0, 0, false, true},     {CLATTN_AS_Q4_0, 0, false, false}};
    fill_new();
    EACH (i, ways) {
        const struct side k = make_side(&ways[i], D), v = make_side(&ways[i], D_V);
        const struct clattn_kv_scales scales = {.k_scales.buffer = k.scale_buffer,
                                                .k_zeros.buffer = k.zero_buffer,
                                                .v_scales.buffer = v.scale_buffer,
                                                .v_zeros.buffer = v.zero_buffer};
        append(&ways[i], k.scale_buffer ? &scales : NULL, &k, &v);
        const int wrong = wrong_rows(&ways[i], &k, &v);
        if (wrong)
            fail_msg("type %d, groups of %d: %d of %d rows are wrong", ways[i].type, (int)ways[i].group, wrong,
                     2 * ROWS);
        fence_drop_all();
    }
}

/* One scale for all keys: it is used, and stays. */
static void a_scale_that_is_given_is_used(void **state)
{
    (void)state;
    static const struct way way = {CLATTN_AS_INT8, 0, false, false};
    const float scale = 0.0625f;
    const struct side k = make_side(&way, D), v = make_side(&way, D_V);
    cl_mem one = copy_of(&scale, sizeof scale);
    const struct clattn_kv_scales scales = {.k_scales = {.buffer = one, .layout.strided = 1},
                                            .v_scales = {.buffer = one, .layout.strided = 1}};
    fill_new();
    append(&way, &scales, &k, &v);
    float now = 0;
    assert_int_equal(clEnqueueReadBuffer(device.queue, one, CL_TRUE, 0, sizeof now, &now, 0, NULL, NULL), CL_SUCCESS);
    assert_true(now == scale);
    for (int x = 0; x < D_V; x++) {
        const float stored = rintf(v_new[D_V + x] / scale); /* row 1 of head 0 goes to key 9 */
        const int wanted = stored < -128 ? -128 : stored > 127 ? 127 : (int)stored;
        assert_int_equal((signed char)v.bytes[9 * D_V + x], wanted);
    }
    fence_drop_all();
}

int main(void)
{
    chance.state = 21;
    random_normal(&chance, 1.0, cosines, N_KV * ROTARY / 2);
    random_normal(&chance, 1.0, sines, N_KV * ROTARY / 2);
    test_device_open(&device);
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_the_rule_says),
                                       cmocka_unit_test(a_scale_that_is_given_is_used)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failed;
}
