/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A cache of keys at host level beside plain arrays: random appends, forks and truncations, what attention then gives
 * (clattn_host_forward on the same keys), and what is copied in a step. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include "plan/half.h"
#include "random.h"
#include "reference/formats.h"
#include "support/device.h"
#include "support/unit.h"
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LAYERS = 2,
    SEQUENCES = 3,
    HEADS = 4,
    KV_HEADS = 2,
    D = 16,
    D_V = 12,
    MOST_ROWS = 6,
    PAGE_KEYS = 4,
    ROPE_ROWS = 50,
    STEPS = 40
};

static struct test_device device;
static struct random chance;
static bool in_formats; /* K int8 with a scale a key, V q8_0 */
static float cosines[ROPE_ROWS * D / 2], sines[ROPE_ROWS * D / 2];

/* --- what crosses to the device and back: the functions below stand in the loader's place */

static size_t bytes_in, bytes_out, bytes_within;

cl_int CL_API_CALL clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocks, size_t offset,
                                        size_t bytes, const void *data, cl_uint count, const cl_event *waits,
                                        cl_event *event)
{
    static cl_int(CL_API_CALL * real)(cl_command_queue, cl_mem, cl_bool, size_t, size_t, const void *, cl_uint,
                                      const cl_event *, cl_event *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "clEnqueueWriteBuffer");
    bytes_in += bytes;
    return real(queue, buffer, blocks, offset, bytes, data, count, waits, event);
}

cl_int CL_API_CALL clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocks, size_t offset,
                                       size_t bytes, void *data, cl_uint count, const cl_event *waits, cl_event *event)
{
    static cl_int(CL_API_CALL * real)(cl_command_queue, cl_mem, cl_bool, size_t, size_t, void *, cl_uint,
                                      const cl_event *, cl_event *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "clEnqueueReadBuffer");
    bytes_out += bytes;
    return real(queue, buffer, blocks, offset, bytes, data, count, waits, event);
}

cl_int CL_API_CALL clEnqueueCopyBuffer(cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset,
                                       size_t to_offset, size_t bytes, cl_uint count, const cl_event *waits,
                                       cl_event *event)
{
    static cl_int(CL_API_CALL * real)(cl_command_queue, cl_mem, cl_mem, size_t, size_t, size_t, cl_uint,
                                      const cl_event *, cl_event *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "clEnqueueCopyBuffer");
    bytes_within += bytes;
    return real(queue, from, to, from_offset, to_offset, bytes, count, waits, event);
}

/* --- the same cache in plain arrays: K as rotated, and both as they are rounded */

static struct {
    float k[LAYERS][SEQUENCES][KV_HEADS][ROPE_ROWS][D], v[LAYERS][SEQUENCES][KV_HEADS][ROPE_ROWS][D_V];
    int length[SEQUENCES];
} plain;

static void rotate(float *row, int position)
{
    for (int i = 0; i < D / 2; i++) {
        const float c = cosines[position * D / 2 + i], s = sines[position * D / 2 + i];
        const float a = row[i], b = row[i + D / 2];
        row[i] = a * c - b * s;
        row[i + D / 2] = b * c + a * s;
    }
}

static void round_row(int type, int columns, float *row)
{
    const struct formats_way way = {.type = type, .columns = columns};
    uint8_t stored[64];
    float scale = 0;
    formats_quantise(&way, row, stored, &scale, NULL);
    formats_expand(&way, stored, &scale, NULL, row);
}

static void round_rows(float *k, float *v)
{
    if (in_formats) {
        round_row(CLATTN_AS_INT8, D, k);
        round_row(CLATTN_AS_Q8_0, D_V, v);
        return;
    }
    for (int x = 0; x < D; x++)
        k[x] = cla_half_to_float(cla_half_from_float(k[x]));
    for (int x = 0; x < D_V; x++)
        v[x] = cla_bf16_to_float(cla_bf16_from_float(v[x]));
}

/* Of one batch element of one step. */
struct part {
    int sequence, rows, first; /* its rows begin at so many of all */
};

struct step {
    struct part parts[SEQUENCES];
    int count, total, most;
    float q[SEQUENCES * MOST_ROWS * HEADS * D], k[SEQUENCES * MOST_ROWS * KV_HEADS * D];
    float v[SEQUENCES * MOST_ROWS * KV_HEADS * D_V], o[SEQUENCES * MOST_ROWS * HEADS * D_V];
};

/* Arrays are [rows of all parts, heads, columns]. */
static void append_plain(const struct step *step, const struct part *part, int layer)
{
    for (int i = 0; i < part->rows; i++)
        for (int h = 0; h < KV_HEADS; h++) {
            const int position = plain.length[part->sequence] + i, row = (part->first + i) * KV_HEADS + h;
            float *k = plain.k[layer][part->sequence][h][position], *v = plain.v[layer][part->sequence][h][position];
            memcpy(k, step->k + row * D, D * sizeof *k);
            memcpy(v, step->v + row * D_V, D_V * sizeof *v);
            rotate(k, position);
            round_rows(k, v);
        }
}

static float attend_plain(clattn_host *host, const struct step *step, const struct part *part, int layer)
{
    static float q[MOST_ROWS * HEADS * D], o[MOST_ROWS * HEADS * D_V];
    const struct clattn_problem problem = {.d = D, .d_v = D_V, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT, .splits = 1};
    const int length = plain.length[part->sequence] + part->rows;
    memcpy(q, step->q + part->first * HEADS * D, (size_t)(part->rows * HEADS * D) * sizeof *q);
    for (int i = 0; i < part->rows * HEADS; i++)
        rotate(q + i * D, length - part->rows + i / HEADS);
    const struct clattn_host_forward_args args = {
        .shape = {.batch = 1, .heads = HEADS, .kv_heads = KV_HEADS, .n_q = part->rows, .n_kv = length},
        .q = q,
        .k = plain.k[layer][part->sequence],
        .v = plain.v[layer][part->sequence],
        .o = o,
        .q_layout = clattn_layout_bnhd(HEADS, part->rows, D),
        .k_layout = clattn_layout_bhnd(KV_HEADS, ROPE_ROWS, D),
        .v_layout = clattn_layout_bhnd(KV_HEADS, ROPE_ROWS, D_V),
        .o_layout = clattn_layout_bnhd(HEADS, part->rows, D_V)};
    assert_true(test_succeeded(clattn_host_forward(host, &problem, &args), "clattn_host_forward"));
    float largest = 0;
    for (int i = 0; i < part->rows * HEADS * D_V; i++)
        largest = fmaxf(largest, fabsf(o[i] - step->o[part->first * HEADS * D_V + i]));
    return largest;
}

/* --- steps */

static void draw_step(struct step *step, bool packed)
{
    memset(step, 0, sizeof *step);
    const int rows = 1 + (int)random_below(&chance, MOST_ROWS);
    const int first = (int)random_below(&chance, SEQUENCES), count = 1 + (int)random_below(&chance, SEQUENCES);
    for (int i = 0; i < count; i++) {
        struct part *part = &step->parts[step->count];
        part->sequence = (first + i) % SEQUENCES;
        part->rows = packed ? (int)random_below(&chance, MOST_ROWS + 1) : rows;
        part->first = step->total;
        if (plain.length[part->sequence] + part->rows > ROPE_ROWS)
            continue;
        step->total += part->rows;
        step->most = part->rows > step->most ? part->rows : step->most;
        step->count++;
    }
    random_normal(&chance, 1.0, step->q, sizeof step->q / sizeof *step->q);
    random_normal(&chance, 1.0, step->k, sizeof step->k / sizeof *step->k);
    random_normal(&chance, 1.0, step->v, sizeof step->v / sizeof *step->v);
}

static void run_layer(clattn_host_cache *cache, struct step *step, int layer, bool packed, bool apart)
{
    int64_t sequences[SEQUENCES];
    int32_t cu[SEQUENCES + 1] = {0};
    const int n = packed ? step->total : step->most;
    for (int i = 0; i < step->count; i++) {
        sequences[i] = step->parts[i].sequence;
        cu[i + 1] = cu[i] + step->parts[i].rows;
    }
    struct clattn_host_cache_args args = {.shape = {.batch = step->count, .heads = HEADS, .n_q = step->most},
                                          .layer = layer,
                                          .sequences = sequences,
                                          .k = step->k,
                                          .v = step->v,
                                          .k_layout = clattn_layout_bnhd(KV_HEADS, n, D),
                                          .v_layout = clattn_layout_bnhd(KV_HEADS, n, D_V)};
    if (packed) {
        args.score.cu_seqlens_q = cu;
        args.score.total_q = step->total;
    }
    if (apart) {
        assert_true(test_succeeded(clattn_host_cache_append(cache, &args), "clattn_host_cache_append"));
        args.k = args.v = NULL;
    }
    args.q = step->q;
    args.o = step->o;
    args.q_layout = clattn_layout_bnhd(HEADS, n, D);
    args.o_layout = clattn_layout_bnhd(HEADS, n, D_V);
    assert_true(test_succeeded(clattn_host_cache_forward(cache, &args), "clattn_host_cache_forward"));
}

static void take_step(clattn_host_cache *cache, clattn_host *host, bool packed)
{
    static struct step step;
    draw_step(&step, packed);
    for (int layer = 0; layer < LAYERS; layer++) {
        run_layer(cache, &step, layer, packed, random_below(&chance, 2));
        for (int i = 0; i < step.count; i++) {
            append_plain(&step, &step.parts[i], layer);
            const float error = step.parts[i].rows ? attend_plain(host, &step, &step.parts[i], layer) : 0;
            if (!(error < 2e-5f))
                fail_msg("layer %d, sequence %d: off by %g", layer, step.parts[i].sequence, (double)error);
        }
    }
    for (int i = 0; i < step.count; i++)
        plain.length[step.parts[i].sequence] += step.parts[i].rows;
}

static void fork_or_truncate(clattn_host_cache *cache)
{
    const int from = (int)random_below(&chance, SEQUENCES), to = (from + 1) % SEQUENCES;
    const int length = (int)random_below(&chance, plain.length[from] + 2);
    const int kept = length < plain.length[from] ? length : plain.length[from];
    if (random_below(&chance, 3)) {
        assert_int_equal(clattn_host_cache_fork(cache, from, to, length), CLATTN_SUCCESS);
        for (int layer = 0; layer < LAYERS; layer++) {
            memcpy(plain.k[layer][to], plain.k[layer][from], sizeof plain.k[layer][to]);
            memcpy(plain.v[layer][to], plain.v[layer][from], sizeof plain.v[layer][to]);
        }
        plain.length[to] = kept;
    } else {
        assert_int_equal(clattn_host_cache_truncate(cache, from, length), CLATTN_SUCCESS);
        plain.length[from] = kept;
    }
}

static clattn_host_cache *make_cache(bool packed, uint64_t max_bytes)
{
    const struct clattn_problem problem = {.d = D,
                                           .d_v = D_V,
                                           .k_type = in_formats ? CLATTN_AS_INT8 : CLATTN_AS_FP16,
                                           .v_type = in_formats ? CLATTN_AS_Q8_0 : CLATTN_AS_BF16,
                                           .causal = CLATTN_CAUSAL_BOTTOM_RIGHT,
                                           .features = packed ? CLATTN_VARLEN : 0,
                                           .page_keys = PAGE_KEYS};
    const struct clattn_host_cache_params params = {.context = device.clattn,
                                                    .problem = &problem,
                                                    .layers = LAYERS,
                                                    .sequences = SEQUENCES,
                                                    .kv_heads = KV_HEADS,
                                                    .max_bytes = max_bytes,
                                                    .rotary_d = D,
                                                    .rope_cos = cosines,
                                                    .rope_sin = sines,
                                                    .rope_rows = ROPE_ROWS};
    clattn_host_cache *cache = NULL;
    assert_true(test_succeeded(clattn_host_cache_create(&cache, &params), "clattn_host_cache_create"));
    return cache;
}

static int64_t length_of(const clattn_host_cache *cache, int layer, int sequence)
{
    int64_t length = -1;
    assert_int_equal(clattn_host_cache_length(cache, layer, sequence, &length), CLATTN_SUCCESS);
    return length;
}

static void beside_plain_arrays(bool packed)
{
    const struct clattn_host_params params = {.context = device.clattn};
    clattn_host *host = NULL;
    clattn_host_cache *cache = make_cache(packed, 0);
    struct clattn_host_cache_info info;
    assert_int_equal(clattn_host_create(&host, &params), CLATTN_SUCCESS);
    memset(&plain, 0, sizeof plain);
    for (int i = 0; i < STEPS; i++) {
        take_step(cache, host, packed);
        if (random_below(&chance, 2))
            fork_or_truncate(cache);
        for (int sequence = 0; sequence < SEQUENCES; sequence++)
            for (int layer = 0; layer < LAYERS; layer++)
                assert_int_equal(length_of(cache, layer, sequence), plain.length[sequence]);
    }
    for (int i = 0; i < SEQUENCES; i++)
        assert_int_equal(clattn_host_cache_truncate(cache, i, 0), CLATTN_SUCCESS);
    assert_int_equal(clattn_host_cache_get_info(cache, &info), CLATTN_SUCCESS);
    assert_int_equal(info.pages, 0); /* each was given back */
    clattn_host_destroy(&host);
    clattn_host_cache_destroy(&cache);
    assert_null(cache);
}

static void as_plain_arrays(void **state)
{
    (void)state;
    beside_plain_arrays(false);
}

static void as_plain_arrays_with_packed_rows_in_formats(void **state)
{
    (void)state;
    in_formats = true;
    beside_plain_arrays(true);
    in_formats = false;
}

/* --- one sequence, whose rows are zeros */

static clattn_status append_rows(clattn_host_cache *cache, int64_t sequence, int64_t rows)
{
    static float zeros[ROPE_ROWS * KV_HEADS * D], o[ROPE_ROWS * HEADS * D_V], q[ROPE_ROWS * HEADS * D];
    const struct clattn_host_cache_args args = {.shape = {.batch = 1, .heads = HEADS, .n_q = rows},
                                                .sequences = &sequence,
                                                .q = q,
                                                .k = zeros,
                                                .v = zeros,
                                                .o = o};
    return clattn_host_cache_forward(cache, &args);
}

static void a_step_copies_what_is_new(void **state)
{
    (void)state;
    clattn_host_cache *cache = make_cache(false, 0);
    struct clattn_host_cache_info info;
    enum { PAGE = KV_HEADS * PAGE_KEYS * (D + D_V) * 2 }; /* bytes of one page in a layer */
    assert_int_equal(append_rows(cache, 0, 37), CLATTN_SUCCESS);
    bytes_in = bytes_out = bytes_within = 0;
    assert_int_equal(append_rows(cache, 0, 1), CLATTN_SUCCESS);
    const size_t rows = (HEADS * D + KV_HEADS * (D + D_V)) * sizeof(float), pages = (38 + PAGE_KEYS - 1) / PAGE_KEYS;
    assert_int_equal(bytes_in, rows + pages * sizeof(int32_t) + sizeof(int32_t)); /* and a length */
    assert_int_equal(bytes_out, HEADS * D_V * sizeof(float));
    assert_int_equal(bytes_within, 0);
    assert_int_equal(clattn_host_cache_fork(cache, 0, 1, 38), CLATTN_SUCCESS);
    assert_int_equal(clattn_host_cache_get_info(cache, &info), CLATTN_SUCCESS);
    assert_int_equal(info.pages, pages); /* of both */
    assert_int_equal(bytes_within, 0);
    assert_int_equal(append_rows(cache, 1, 1), CLATTN_SUCCESS);
    assert_int_equal(bytes_within, PAGE); /* the last page, which was not full; the other layer has no keys */
    assert_int_equal(append_rows(cache, 0, 1), CLATTN_SUCCESS);
    assert_int_equal(bytes_within, PAGE); /* that one is its own now */
    clattn_host_cache_destroy(&cache);
}

static void limits_hold(void **state)
{
    (void)state;
    enum { PAGE = LAYERS * KV_HEADS * PAGE_KEYS * (D + D_V) * 2 };
    clattn_host_cache *cache = make_cache(false, 3 * PAGE + 1);
    struct clattn_host_cache_info info;
    assert_int_equal(append_rows(cache, 0, 9), CLATTN_SUCCESS);
    assert_int_equal(append_rows(cache, 1, 1), CLATTN_TOO_LARGE);
    assert_non_null(strstr(clattn_error_message(), "all 3 pages of 4 keys are in use"));
    assert_int_equal(length_of(cache, 0, 1), 0);
    assert_int_equal(append_rows(cache, 0, 3), CLATTN_SUCCESS);
    assert_int_equal(append_rows(cache, 0, 1), CLATTN_TOO_LARGE);
    assert_int_equal(clattn_host_cache_truncate(cache, 0, 4), CLATTN_SUCCESS);
    assert_int_equal(append_rows(cache, 1, 9), CLATTN_TOO_LARGE); /* of which two pages were to be had */
    assert_int_equal(clattn_host_cache_get_info(cache, &info), CLATTN_SUCCESS);
    assert_int_equal(info.pages, 1);
    assert_true(info.cache_bytes <= 3 * PAGE);
    assert_int_equal(append_rows(cache, 1, 8), CLATTN_SUCCESS);
    clattn_host_cache_destroy(&cache);
    cache = make_cache(false, 0);
    assert_int_equal(append_rows(cache, 0, ROPE_ROWS), CLATTN_SUCCESS);
    assert_int_equal(append_rows(cache, 0, 1), CLATTN_TOO_LARGE);
    assert_non_null(strstr(clattn_error_message(), "the tables of the rotation go to 50"));
    clattn_host_cache_destroy(&cache);
}

int main(void)
{
    chance.state = 5;
    for (int i = 0; i < ROPE_ROWS * D / 2; i++) {
        const double angle = (i / (D / 2)) * pow(100.0, -(double)(i % (D / 2)) / (D / 2));
        cosines[i] = (float)cos(angle);
        sines[i] = (float)sin(angle);
    }
    test_device_open(&device);
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_plain_arrays),
                                       cmocka_unit_test(as_plain_arrays_with_packed_rows_in_formats),
                                       cmocka_unit_test(a_step_copies_what_is_new), cmocka_unit_test(limits_hold)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failed;
}
