/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What clattn_append_enqueue leaves in a cache, to the bit against plain C: types, rotations, pages, positions, with
 * index arrays that hold anything. Each buffer begins or ends at a page that must not be touched. */
#include "plan/half.h"
#include "support/fence.h"
#include "support/unit.h"
#include <stdlib.h>
#include <string.h>

enum {
    BATCH = 3,
    HEADS = 4,
    KV_HEADS = 2,
    D = 24,
    D_V = 10,
    N_Q = 5,
    N_KV = 37,
    POOL = 17,
    ROPE_ROWS = 30,
    ROUNDS = 40
};

static struct test_device device;
static struct random chance;

struct way {
    int64_t new_type, k_type, v_type, q_type, page_keys, rotary_d, interleaved;
    bool csr, packed, lengths, positions, in_place, few, shifted, by_rows; /* by_rows: [batch, n, heads, d] */
};

/* A buffer, what it held and what it should hold. */
struct memory {
    cl_mem buffer;
    char *now;
    unsigned char *wanted;
    bool *contested; /* bytes that more than one row goes to */
    bool *taken;
    size_t bytes;
};

/* Of one call. */
struct round {
    const struct way *way;
    struct clattn_shape shape;
    struct clattn_append_args args;
    struct memory k, v, q;
    const char *k_new, *v_new, *q_from;
    const float *cosines, *sines;
    const int32_t *positions, *sequences, *lengths, *pages, *offsets, *rows, *shifts;
};

static int64_t bytes_of(int64_t type)
{
    return type == CLATTN_AS_FP32 ? 4 : 2;
}

static cl_mem fence(size_t bytes, char **memory)
{
    return fence_make(&device, &chance, bytes, 4, 0x5a, memory);
}

/* --- elements in plain C */

static float element(const char *from, int64_t type, int64_t at)
{
    uint16_t half;
    float value;
    if (type == CLATTN_AS_FP32) {
        memcpy(&value, from + 4 * at, 4);
        return value;
    }
    memcpy(&half, from + 2 * at, 2);
    return type == CLATTN_AS_FP16 ? cla_half_to_float(half) : cla_bf16_to_float(half);
}

static void set_element(struct memory *memory, int64_t type, int64_t at, float value)
{
    const size_t bytes = (size_t)bytes_of(type), byte = (size_t)at * bytes;
    const uint16_t half = type == CLATTN_AS_FP16 ? cla_half_from_float(value) : cla_bf16_from_float(value);
    assert_true(byte + bytes <= memory->bytes);
    memcpy(memory->wanted + byte, type == CLATTN_AS_FP32 ? (const void *)&value : (const void *)&half, bytes);
    memory->contested[byte] = memory->taken[byte];
    memory->taken[byte] = true;
}

/* A row, of which the first columns are rotated; each product and sum is rounded. */
static void copy_row(const struct round *round, const char *from, int64_t from_at, struct memory *to, int64_t type,
                     int64_t to_at, int columns, int rotary, int32_t position)
{
    const int pairs = rotary / 2;
    const int64_t new_type = round->way->new_type;
    for (int x = rotary; x < columns; x++)
        set_element(to, type, to_at + x, element(from, new_type, from_at + x));
    for (int i = 0; i < pairs; i++) {
        const int x = round->way->interleaved ? 2 * i : i, y = round->way->interleaved ? x + 1 : x + pairs;
        const float c = round->cosines[position * pairs + i], s = round->sines[position * pairs + i];
        const float a = element(from, new_type, from_at + x), b = element(from, new_type, from_at + y);
        volatile const float ac = a * c, bs = b * s, bc = b * c, as = a * s; /* not contracted */
        set_element(to, type, to_at + x, ac - bs);
        set_element(to, type, to_at + y, bc + as);
    }
}

static int64_t clamped(int64_t value, int64_t least, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

/* Where key `position` lies, in rows of its cache; negative: nowhere. */
static int64_t page_row(const struct round *round, int b, int h, int32_t position)
{
    const int64_t page_keys = round->way->page_keys, at = position / page_keys;
    const struct clattn_score_args *score = &round->args.score;
    int64_t begin = 0, listed = (round->shape.n_kv + page_keys - 1) / page_keys;
    if (round->offsets) {
        begin = clamped(round->offsets[b], 0, score->page_count);
        listed = clamped(round->offsets[b + 1], begin, score->page_count) - begin;
    } else
        begin = b * listed;
    const int32_t number = at < listed ? round->pages[begin + at] : -1;
    if (number < 0 || number >= score->pool_pages)
        return -1;
    return (number * KV_HEADS + h) * page_keys + position % page_keys;
}

static int64_t row_of(const struct round *round, int heads, int64_t n, int b, int h, int64_t i)
{
    return round->way->by_rows ? (b * n + i) * heads + h : (b * heads + h) * n + i;
}

/* All heads of one new row. */
static void expect_row(struct round *round, int b, int64_t base, int64_t i, int32_t position)
{
    const struct way *way = round->way;
    const int64_t n = way->packed ? round->args.score.total_q : round->shape.n_q, at = base + i;
    const int batch = way->packed ? 0 : b;
    const bool in_tables = !way->rotary_d || position < ROPE_ROWS;
    for (int h = 0; h < KV_HEADS; h++) {
        const int64_t to = way->page_keys ? page_row(round, b, h, position)
                                          : row_of(round, KV_HEADS, round->shape.n_kv, b, h, position);
        const int64_t from = row_of(round, KV_HEADS, n, batch, h, at);
        if (to >= 0 && in_tables)
            copy_row(round, round->k_new, from * D, &round->k, way->k_type, to * D, D, (int)way->rotary_d, position);
        if (to >= 0)
            copy_row(round, round->v_new, from * D_V, &round->v, way->v_type, to * D_V, D_V, 0, position);
    }
    for (int h = 0; h < HEADS && way->rotary_d && in_tables; h++) {
        const int64_t row = row_of(round, HEADS, n, batch, h, at) * D;
        copy_row(round, round->q_from, row, &round->q, way->q_type, row, D, (int)way->rotary_d, position);
    }
}

static void expect(struct round *round)
{
    const int64_t n_q = round->shape.n_q, n_kv = round->shape.n_kv, total = round->args.score.total_q;
    for (int b = 0; b < (int)round->shape.batch; b++) {
        int64_t base = 0, rows = n_q;
        if (round->sequences) {
            base = clamped(round->sequences[b], 0, total);
            rows = clamped(clamped(round->sequences[b + 1], base, total) - base, 0, n_q);
        }
        if (round->rows)
            rows = clamped(round->rows[b], 0, rows);
        const int64_t keys = round->lengths ? clamped(round->lengths[b], 0, n_kv) : n_kv;
        for (int64_t i = 0; i < rows; i++) {
            const int64_t place = round->sequences ? base + i : b * n_q + i;
            const int64_t position = round->positions ? round->positions[place]
                                     : round->shifts  ? round->shifts[b] + i
                                                      : keys - rows + i;
            if (position >= 0 && position < n_kv)
                expect_row(round, b, base, i, (int32_t)position);
        }
    }
}

/* --- a call with random arguments */

static struct memory make_memory(int64_t bytes)
{
    struct memory memory = {.bytes = (size_t)bytes};
    memory.buffer = fence(memory.bytes, &memory.now);
    memory.wanted = malloc(memory.bytes + 1);
    memory.contested = calloc(memory.bytes + 1, 1);
    memory.taken = calloc(memory.bytes + 1, 1);
    assert_true(memory.wanted && memory.contested && memory.taken);
    if (bytes)
        memcpy(memory.wanted, memory.now, memory.bytes);
    return memory;
}

static void free_memory(struct memory *memory)
{
    free(memory->wanted);
    free(memory->contested);
    free(memory->taken);
}

static void fill(char *memory, int64_t count, int64_t type)
{
    for (int64_t i = 0; i < count; i++) {
        float value;
        random_normal(&chance, 2.0, &value, 1);
        const uint16_t half = type == CLATTN_AS_FP16 ? cla_half_from_float(value) : cla_bf16_from_float(value);
        memcpy(memory + i * bytes_of(type), type == CLATTN_AS_FP32 ? (const void *)&value : (const void *)&half,
               (size_t)bytes_of(type));
    }
}

static cl_mem numbers(int64_t count, int64_t type, char **memory)
{
    cl_mem buffer = fence((size_t)(count * bytes_of(type)), memory);
    fill(*memory, count, type);
    return buffer;
}

/* Numbers below `usual`, mostly; at times, where they are to be offsets, in order. */
static cl_mem indices(int64_t count, int64_t usual, bool offsets, const int32_t **list)
{
    const bool ordered = offsets && random_below(&chance, 2);
    static const int32_t wild[] = {-1, INT32_MIN, INT32_MAX, INT32_MAX - 1, -77};
    char *memory = NULL;
    cl_mem buffer = fence((size_t)count * 4, &memory);
    for (int64_t i = 0; i < count; i++) {
        const int32_t value = ordered                    ? (int32_t)(usual * i / (count - 1))
                              : random_below(&chance, 6) ? (int32_t)random_below(&chance, usual + 1)
                                                         : wild[random_below(&chance, 5)];
        memcpy(memory + 4 * i, &value, 4);
    }
    *list = (const int32_t *)(void *)memory;
    return buffer;
}

static struct clattn_layout layout_of(const struct round *round, int64_t heads, int64_t n, int64_t d)
{
    return round->way->by_rows ? clattn_layout_bnhd(heads, n, d) : clattn_layout_bhnd(heads, n, d);
}

static void give_places(struct round *round)
{
    const struct way *way = round->way;
    struct clattn_score_args *score = &round->args.score;
    const int64_t batch = round->shape.batch;
    if (way->lengths)
        score->key_lengths.buffer = indices(batch, N_KV, false, &round->lengths);
    if (way->few)
        score->query_lengths = indices(batch, N_Q, false, &round->rows);
    if (way->shifted)
        score->row_shifts = indices(batch, N_KV, false, &round->shifts);
    if (way->packed) {
        score->total_q = random_below(&chance, batch * round->shape.n_q + 1);
        score->cu_seqlens_q.buffer = indices(batch + 1, score->total_q, true, &round->sequences);
    }
    if (way->positions)
        round->args.positions.buffer = indices(way->packed ? score->total_q : batch * round->shape.n_q,
                                               round->shape.n_kv, false, &round->positions);
    if (!way->page_keys)
        return;
    score->pool_pages = random_below(&chance, POOL + 1);
    score->page_count = way->csr ? 1 + random_below(&chance, 30) : 0;
    const int64_t each = (round->shape.n_kv + way->page_keys - 1) / way->page_keys;
    score->pages.buffer = indices(way->csr ? score->page_count : batch * each, score->pool_pages, false, &round->pages);
    if (way->csr)
        score->page_offsets.buffer = indices(batch + 1, score->page_count, true, &round->offsets);
}

static void give_q(struct round *round, int64_t n, int64_t rows)
{
    const struct way *way = round->way;
    char *memory = NULL;
    const struct clattn_layout layout = layout_of(round, HEADS, n, D);
    if (!way->rotary_d)
        return;
    round->q = make_memory(rows * HEADS * D * bytes_of(way->q_type));
    round->args.q = round->args.q_rotated = (struct clattn_tensor){.buffer = round->q.buffer, .layout = layout};
    if (!way->in_place) {
        round->args.q.buffer = numbers(rows * HEADS * D, way->new_type, &memory);
        round->q_from = memory;
        return;
    }
    fill(round->q.now, rows * HEADS * D, way->q_type); /* what it holds is what is rotated */
    char *const before = malloc(round->q.bytes + 1);
    assert_non_null(before);
    memcpy(before, round->q.now, round->q.bytes);
    memcpy(round->q.wanted, round->q.now, round->q.bytes);
    round->q_from = before;
}

static void give(struct round *round)
{
    const struct way *way = round->way;
    char *k = NULL, *v = NULL, *cosines = NULL, *sines = NULL;
    round->shape = (struct clattn_shape){.batch = 1 + random_below(&chance, BATCH),
                                         .heads = HEADS,
                                         .kv_heads = KV_HEADS,
                                         .n_q = 1 + random_below(&chance, N_Q),
                                         .n_kv = 1 + random_below(&chance, N_KV)};
    round->args.shape = round->shape;
    give_places(round);
    const int64_t batch = round->shape.batch, n = way->packed ? round->args.score.total_q : round->shape.n_q;
    const int64_t rows = way->packed ? n : batch * n;
    const int64_t keys =
        KV_HEADS * (way->page_keys ? round->args.score.pool_pages * way->page_keys : batch * round->shape.n_kv);
    round->k = make_memory(keys * D * bytes_of(way->k_type));
    round->v = make_memory(keys * D_V * bytes_of(way->v_type));
    round->args.k.buffer = round->k.buffer;
    round->args.v.buffer = round->v.buffer;
    if (!way->page_keys) {
        round->args.k.layout = layout_of(round, KV_HEADS, round->shape.n_kv, D);
        round->args.v.layout = layout_of(round, KV_HEADS, round->shape.n_kv, D_V);
    }
    round->args.k_new =
        (struct clattn_tensor){numbers(rows * KV_HEADS * D, way->new_type, &k), layout_of(round, KV_HEADS, n, D)};
    round->args.v_new =
        (struct clattn_tensor){numbers(rows * KV_HEADS * D_V, way->new_type, &v), layout_of(round, KV_HEADS, n, D_V)};
    round->k_new = k;
    round->v_new = v;
    give_q(round, n, rows);
    if (!way->rotary_d)
        return;
    round->args.rope_cos.buffer = numbers(ROPE_ROWS * way->rotary_d / 2, CLATTN_AS_FP32, &cosines);
    round->args.rope_sin.buffer = numbers(ROPE_ROWS * way->rotary_d / 2, CLATTN_AS_FP32, &sines);
    round->args.rope_rows = ROPE_ROWS;
    round->cosines = (const float *)(void *)cosines;
    round->sines = (const float *)(void *)sines;
}

static int differing(const struct memory *memory, int64_t type, const char *name)
{
    int count = 0;
    const size_t step = (size_t)bytes_of(type);
    for (size_t i = 0; i < memory->bytes; i += step)
        if (!memory->contested[i] && memcmp(memory->now + i, memory->wanted + i, step) != 0 && !count++)
            print_message("%s: element %zu of %zu is not what it should be\n", name, i / step, memory->bytes / step);
    return count;
}

static void run(const clattn_appender *appender, const struct way *way, int *written)
{
    struct round round = {.way = way};
    give(&round);
    fence_to_device(&device);
    const bool any =
        round.args.k_new.buffer && round.args.k.buffer; /* packed sequences may be empty, and so may pools */
    if (any)
        assert_true(test_succeeded(clattn_append_enqueue(appender, device.queue, &round.args, 0, NULL, NULL),
                                   "clattn_append_enqueue"));
    fence_from_device(&device);
    if (any)
        expect(&round);
    assert_int_equal(differing(&round.k, way->k_type, "k"), 0);
    assert_int_equal(differing(&round.v, way->v_type, "v"), 0);
    if (way->rotary_d)
        assert_int_equal(differing(&round.q, way->q_type, "q"), 0);
    for (size_t i = 0; i < round.k.bytes; i++)
        *written += round.k.taken[i];
    if (way->in_place)
        free((char *)(uintptr_t)round.q_from);
    free_memory(&round.k);
    free_memory(&round.v);
    free_memory(&round.q);
    fence_drop_all();
}

#define FP32 CLATTN_AS_FP32
#define FP16 CLATTN_AS_FP16
#define BF16 CLATTN_AS_BF16
static const struct way ways[] = {
    {.new_type = FP32, .k_type = FP32, .v_type = FP16, .q_type = FP32},
    {.new_type = FP32,
     .k_type = FP16,
     .v_type = BF16,
     .q_type = FP32,
     .rotary_d = D,
     .in_place = true,
     .lengths = true},
    {.new_type = FP16,
     .k_type = BF16,
     .v_type = FP32,
     .q_type = BF16,
     .rotary_d = 10,
     .interleaved = 1,
     .positions = true,
     .by_rows = true},
    {.new_type = BF16,
     .k_type = FP16,
     .v_type = FP16,
     .q_type = FP16,
     .page_keys = 5,
     .rotary_d = 16,
     .lengths = true,
     .by_rows = true},
    {.new_type = FP32,
     .k_type = BF16,
     .v_type = FP16,
     .q_type = FP16,
     .page_keys = 1,
     .csr = true,
     .packed = true,
     .positions = true,
     .rotary_d = 2},
    {.new_type = FP16,
     .k_type = FP16,
     .v_type = FP16,
     .q_type = FP16,
     .page_keys = 16,
     .packed = true,
     .lengths = true,
     .rotary_d = 12,
     .interleaved = 1,
     .few = true,
     .in_place = true},
    {.new_type = FP32,
     .k_type = FP16,
     .v_type = FP16,
     .q_type = FP16,
     .rotary_d = 8,
     .lengths = true,
     .few = true,
     .shifted = true},
};

static struct clattn_problem problem_of(const struct way *way)
{
    return (struct clattn_problem){
        .d = D,
        .d_v = D_V,
        .q_type = way->q_type,
        .k_type = way->k_type,
        .v_type = way->v_type,
        .page_keys = way->page_keys,
        .features = (way->page_keys ? CLATTN_PAGES : 0u) | (way->packed ? CLATTN_VARLEN : 0u) |
                    (way->lengths ? CLATTN_KEY_LENGTHS : 0u) | (way->few ? CLATTN_QUERY_LENGTHS : 0u) |
                    (way->shifted ? CLATTN_ROW_SHIFTS : 0u)};
}

static void same_bits(void **state)
{
    (void)state;
    EACH (i, ways) {
        const struct clattn_problem problem = problem_of(&ways[i]);
        const struct clattn_append_params params = {.problem = &problem,
                                                    .new_type = ways[i].new_type,
                                                    .rotary_d = ways[i].rotary_d,
                                                    .interleaved = ways[i].interleaved};
        clattn_appender *appender = NULL;
        int written = 0;
        assert_true(test_succeeded(clattn_appender_create(&appender, device.clattn, &params), "create"));
        for (int round = 0; round < ROUNDS; round++)
            run(appender, &ways[i], &written);
        clattn_appender_destroy(&appender);
        assert_null(appender);
        if (!written)
            fail_msg("way %zu: nothing was ever written", (size_t)i);
    }
}

int main(void)
{
    chance.state = 11;
    test_device_open(&device);
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failed;
}
