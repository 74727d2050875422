/* SPDX-License-Identifier: BSD-2-Clause
 *
 * K and V in pages (CLATTN_PAGES) give the bits that the same keys give where they are contiguous: for pages of several
 * sizes in random order, tables dense and compressed, K and V apart and interleaved, with features, splits, packed
 * rows, packed sequences and keys in chunks. Keys of pages that are not there are hidden, as by a mask. What no key
 * lies in holds NaN. A ring, which has the first keys' page and the window's, gives what all keys give. */
#include "plan/half.h"
#include "random.h"
#include "support/device.h"
#include "support/unit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 3, HEADS = 4, KV_HEADS = 2, N_Q = 5, N_KV = 41, D = 24, D_V = 20, MOST_POOL = 160, SPARE = 4 };
enum { K_ELEMENTS = BATCH * KV_HEADS * N_KV * D, V_ELEMENTS = BATCH * KV_HEADS * N_KV * D_V };

static struct test_device device;
static struct random chance;
static const int lengths[BATCH] = {41, 0, 18}, sequences[BATCH + 1] = {0, 5, 6, 9};

static struct {
    float q[BATCH * HEADS * N_Q * D], k[K_ELEMENTS], v[V_ELEMENTS];
    uint8_t mask[BATCH * N_KV]; /* 0: the key's page is not there */
} given;

/* How a case lays pages. */
struct way {
    int page_keys;
    bool csr, interleaved, missing, chunks, lengths, packed, ring;
    unsigned features;
    struct clattn_problem problem;
};

struct results {
    float o[BATCH * HEADS * N_Q * D_V], lse[BATCH * HEADS * N_Q];
};

static void fill(float *values, size_t count)
{
    random_normal(&chance, 1.0, values, count);
    for (size_t i = 0; i < count; i++)
        values[i] = cla_half_to_float(cla_half_from_float(values[i]));
}

/* Floats as elements of the type. */
static cl_mem upload(enum clattn_dtype dtype, const float *values, size_t count)
{
    const size_t size = (size_t)clattn_dtype_size(dtype);
    char *stored = malloc(count * size);
    cl_int code = CL_SUCCESS;
    assert_non_null(stored);
    for (size_t i = 0; i < count; i++) {
        const uint16_t half = dtype == CLATTN_FP32 ? 0 : cla_half_from_float(values[i]);
        memcpy(stored + i * size, dtype == CLATTN_FP32 ? (const void *)&values[i] : &half, size);
    }
    cl_mem buffer =
        clCreateBuffer(device.context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, count * size, stored, &code);
    assert_int_equal(code, CL_SUCCESS);
    free(stored);
    return buffer;
}

static cl_mem ints(const int32_t *values, size_t count)
{
    cl_int code = CL_SUCCESS;
    cl_mem buffer = clCreateBuffer(device.context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, count * sizeof *values,
                                   (void *)(uintptr_t)values, &code);
    assert_int_equal(code, CL_SUCCESS);
    return buffer;
}

/* --- pages */

struct paged {
    int32_t table[BATCH][N_KV + 1], list[BATCH * (N_KV + 1)], offsets[BATCH + 1];
    int pool, count, each;
    float *keys; /* [pool, K and V, KV_HEADS, page_keys, D]: rows of V have D_V of D columns, as it is interleaved */
};

static float *row_of(const struct paged *paged, const struct way *way, int page, int v, int head, int row)
{
    return paged->keys + (size_t)((((page * 2 + v) * KV_HEADS + head) * way->page_keys + row) * D);
}

static void put_keys(struct paged *paged, const struct way *way, int b, int first, int page, int count)
{
    for (int head = 0; head < KV_HEADS; head++)
        for (int j = first; j < first + count; j++) {
            const size_t at = (size_t)((b * KV_HEADS + head) * N_KV + j);
            memcpy(row_of(paged, way, page, 0, head, j - first), given.k + at * D, D * sizeof(float));
            memcpy(row_of(paged, way, page, 1, head, j - first), given.v + at * D_V, D_V * sizeof(float));
        }
}

/* A ring's table: pages that no row's window reaches are not listed, but for the first. */
enum {
    REACH = 23,
    SINKS = 4,
    RING_FIRST = (N_KV - N_Q - REACH) / SINKS * SINKS,
    RING_KEYS = SINKS + N_KV - RING_FIRST
};
static void make_ring(int32_t table[N_KV + 1])
{
    memmove(table + 1, table + RING_FIRST / SINKS, (size_t)(RING_KEYS / SINKS) * sizeof *table);
}

/* Of keys `from` to `to` - 1 of each sequence: pages in random order; some entries name none. */
static void lay_out(struct paged *paged, const struct way *way, int from, int to)
{
    static const int32_t none[] = {-1, INT32_MIN, INT32_MAX};
    int order[MOST_POOL], used = 0;
    paged->each = (to - from + way->page_keys - 1) / way->page_keys;
    paged->pool = BATCH * paged->each + SPARE;
    paged->count = 0;
    paged->keys = malloc((size_t)(paged->pool * 2 * KV_HEADS * way->page_keys * D) * sizeof(float));
    assert_true(paged->keys && paged->pool <= MOST_POOL);
    for (int i = 0; i < paged->pool * 2 * KV_HEADS * way->page_keys * D; i++)
        paged->keys[i] = NAN;
    for (int i = 0; i < paged->pool; i++) {
        const int other = (int)random_below(&chance, i + 1);
        order[i] = order[other];
        order[other] = i;
    }
    for (int b = 0; b < BATCH; b++) {
        paged->offsets[b] = paged->count;
        for (int at = 0; at < paged->each; at++) {
            const int first = from + at * way->page_keys;
            const int count = to - first < way->page_keys ? to - first : way->page_keys;
            const bool there = given.mask[b * N_KV + first];
            paged->table[b][at] = there ? order[used] : at % 4 == 3 ? paged->pool : none[at % 3];
            if (there)
                put_keys(paged, way, b, first, order[used++], count);
            paged->list[paged->count++] = paged->table[b][at];
        }
        if (way->ring)
            make_ring(paged->table[b]);
    }
    paged->offsets[BATCH] = paged->count;
}

/* --- calls */

struct buffers {
    cl_mem made[16];
    int count;
};

static cl_mem keep(struct buffers *buffers, cl_mem buffer)
{
    return buffers->made[buffers->count++] = buffer;
}

static void give_pages(const struct paged *paged, const struct way *way, struct buffers *buffers,
                       struct clattn_tensor *k, struct clattn_tensor *v, struct clattn_score_args *score)
{
    const enum clattn_dtype dtype = way->problem.dtype;
    const int64_t head = way->page_keys * D, one = KV_HEADS * head, page = 2 * one;
    const size_t count = (size_t)(paged->pool * page);
    cl_mem keys = keep(buffers, upload(dtype, paged->keys, count));
    cl_mem values = way->interleaved ? keys : keep(buffers, upload(dtype, paged->keys, count));
    *k = (struct clattn_tensor){keys, {.batch = page, .head = head, .row = D, .column = 1}};
    *v = (struct clattn_tensor){values, {.offset = one, .batch = page, .head = head, .row = D, .column = 1}};
    score->pool_pages = paged->pool;
    if (way->csr) {
        score->pages.buffer = keep(buffers, ints(paged->list, (size_t)paged->count));
        score->page_offsets.buffer = keep(buffers, ints(paged->offsets, BATCH + 1));
        score->page_count = paged->count;
    } else {
        score->pages.buffer = keep(buffers, ints(paged->table[0], BATCH * (N_KV + 1)));
        score->pages.layout = (struct clattn_layout){.batch = N_KV + 1, .row = 1};
    }
}

/* Keys `from` to `to` - 1 as they lie without pages: [batch, heads, keys, columns], or with packed sequences those that
 * each has, end to end. */
static cl_mem contiguous(const struct way *way, struct buffers *buffers, const float *values, int columns, int from,
                         int to)
{
    float *part = malloc((size_t)(BATCH * KV_HEADS * N_KV * columns) * sizeof *part);
    size_t count = 0;
    assert_non_null(part);
    for (int outer = 0; outer < (way->packed ? KV_HEADS : BATCH); outer++)
        for (int inner = 0; inner < (way->packed ? BATCH : KV_HEADS); inner++) {
            const int b = way->packed ? inner : outer, head = way->packed ? outer : inner;
            for (int j = from; j < (way->packed ? lengths[b] : to); j++, count++)
                for (int x = 0; x < columns; x++) /* what is not there may be anything */
                    part[count * (size_t)columns + (size_t)x] =
                        given.mask[b * N_KV + j] ? values[((b * KV_HEADS + head) * N_KV + j) * columns + x] : 0.0f;
        }
    cl_mem buffer = keep(buffers, upload(way->problem.dtype, part, count * (size_t)columns));
    free(part);
    return buffer;
}

static void give_sequences(const struct way *way, bool pages, struct buffers *buffers, struct clattn_score_args *score)
{
    static const int32_t keys[BATCH + 1] = {0, 41, 41, 59};
    static const int in_ring[BATCH] = {RING_KEYS, RING_KEYS, RING_KEYS};
    if (way->ring && pages)
        score->key_lengths.buffer = keep(buffers, ints(in_ring, BATCH));
    if (way->lengths || (way->packed && pages))
        score->key_lengths.buffer = keep(buffers, ints(lengths, BATCH));
    if (!way->packed)
        return;
    score->cu_seqlens_q.buffer = keep(buffers, ints(sequences, BATCH + 1));
    score->total_q = sequences[BATCH];
    if (pages)
        return;
    score->cu_seqlens_kv.buffer = keep(buffers, ints(keys, BATCH + 1));
    score->total_kv = keys[BATCH];
}

static struct clattn_score_args score_of(const struct way *way, bool pages, struct buffers *buffers)
{
    struct clattn_score_args score = {0};
    cl_int code = CL_SUCCESS;
    give_sequences(way, pages, buffers, &score);
    if (way->problem.features & CLATTN_WINDOW)
        score.window_left = REACH;
    if (!way->missing || pages)
        return score;
    score.mask.buffer = keep(buffers, clCreateBuffer(device.context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                                                     sizeof given.mask, given.mask, &code));
    score.mask.layout = (struct clattn_layout){.batch = N_KV, .column = 1};
    return score;
}

static struct clattn_problem problem_of(const struct way *way, const char *skeleton, bool pages)
{
    struct clattn_problem problem = way->problem;
    problem.d = D;
    problem.d_v = D_V;
    problem.skeleton = skeleton;
    problem.pass = way->chunks ? CLATTN_ACCUMULATE : CLATTN_FORWARD;
    problem.features |= (way->packed ? CLATTN_VARLEN : 0) | (way->lengths ? CLATTN_KEY_LENGTHS : 0);
    if (pages) {
        problem.features |= CLATTN_PAGES | (way->packed || way->ring ? CLATTN_KEY_LENGTHS : 0);
        problem.page_keys = way->page_keys;
    } else if (way->missing)
        problem.features |= CLATTN_MASK;
    return problem;
}

static const struct clattn_shape shape = {
    .batch = BATCH, .heads = HEADS, .kv_heads = KV_HEADS, .n_q = N_Q, .n_kv = N_KV};

/* Where K and V of these keys are. */
static void give_keys(const struct way *way, bool pages, int from, int to, struct buffers *buffers,
                      struct clattn_tensor *k, struct clattn_tensor *v, struct clattn_score_args *score)
{
    struct paged paged;
    if (pages) {
        lay_out(&paged, way, from, to);
        give_pages(&paged, way, buffers, k, v, score);
        free(paged.keys);
        return;
    }
    k->buffer = contiguous(way, buffers, given.k, D, from, to);
    v->buffer = contiguous(way, buffers, given.v, D_V, from, to);
}

static cl_mem blank(struct buffers *buffers, size_t bytes)
{
    cl_int code = CL_SUCCESS;
    cl_mem buffer = clCreateBuffer(device.context, CL_MEM_READ_WRITE, bytes ? bytes : 4, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    return keep(buffers, buffer);
}

static clattn_status whole(const clattn_plan *plan, const struct way *way, bool pages, struct buffers *buffers,
                           struct clattn_tensor q, struct clattn_tensor o, struct clattn_tensor lse)
{
    struct clattn_forward_args args = {
        .shape = shape, .q = q, .o = o, .lse = lse, .score = score_of(way, pages, buffers)};
    give_keys(way, pages, 0, N_KV, buffers, &args.k, &args.v, &args.score);
    assert_int_equal(clattn_plan_workspace_bytes(plan, &shape, &args.workspace_bytes), CLATTN_SUCCESS);
    args.workspace = blank(buffers, args.workspace_bytes);
    return clattn_forward_enqueue(plan, device.queue, &args, 0, NULL, NULL);
}

static clattn_status in_chunks(const clattn_plan *plan, const struct way *way, bool pages, struct buffers *buffers,
                               struct clattn_tensor q, struct clattn_tensor o, struct clattn_tensor lse)
{
    static const int ends[] = {0, 17, N_KV};
    size_t bytes = 0;
    assert_int_equal(clattn_state_bytes(plan, &shape, &bytes), CLATTN_SUCCESS);
    cl_mem state = blank(buffers, bytes);
    clattn_status status = clattn_state_begin_enqueue(plan, device.queue, &shape, state, 0, NULL, NULL);
    for (int i = 0; i < 2 && !status; i++) {
        struct clattn_accumulate_args args = {.shape = shape,
                                              .first_key = ends[i],
                                              .key_count = ends[i + 1] - ends[i],
                                              .q = q,
                                              .state = state,
                                              .score = score_of(way, pages, buffers)};
        give_keys(way, pages, ends[i], ends[i + 1], buffers, &args.k, &args.v, &args.score);
        status = clattn_state_accumulate_enqueue(plan, device.queue, &args, 0, NULL, NULL);
    }
    const struct clattn_finish_args finish = {.shape = shape, .state = state, .o = o, .lse = lse};
    return status ? status : clattn_state_finish_enqueue(plan, device.queue, &finish, 0, NULL, NULL);
}

static bool compute(const struct way *way, const char *skeleton, bool pages, struct results *results)
{
    const struct clattn_problem problem = problem_of(way, skeleton, pages);
    struct buffers buffers = {.count = 0};
    clattn_plan *plan = NULL;
    struct clattn_tensor o = {0}, lse = {0};
    memset(results, 0, sizeof *results);
    if (!test_succeeded(clattn_plan_create(&plan, device.clattn, &problem), "clattn_plan_create"))
        return false;
    const struct clattn_tensor q = {.buffer = keep(&buffers, upload(problem.dtype, given.q, sizeof given.q / 4))};
    o.buffer = blank(&buffers, sizeof results->o);
    lse.buffer = blank(&buffers, sizeof results->lse);
    const clattn_status status =
        way->chunks ? in_chunks(plan, way, pages, &buffers, q, o, lse) : whole(plan, way, pages, &buffers, q, o, lse);
    const size_t rows = (size_t)(way->packed ? sequences[BATCH] : BATCH * N_Q) * HEADS;
    bool good = test_succeeded(status, "the call");
    if (good)
        good = !clEnqueueReadBuffer(device.queue, o.buffer, CL_TRUE, 0,
                                    rows * D_V * (size_t)clattn_dtype_size(problem.dtype), results->o, 0, NULL, NULL) &&
               !clEnqueueReadBuffer(device.queue, lse.buffer, CL_TRUE, 0, rows * sizeof(float), results->lse, 0, NULL,
                                    NULL);
    clFinish(device.queue);
    for (int i = 0; i < buffers.count; i++)
        clReleaseMemObject(buffers.made[i]);
    clattn_plan_destroy(&plan);
    return good;
}

static const struct way ways[] = {
    {.page_keys = 1, .interleaved = true, .problem = {.causal = CLATTN_CAUSAL_BOTTOM_RIGHT}},
    {.page_keys = 16, .csr = true, .lengths = true, .missing = true, .problem = {.dtype = CLATTN_FP16, .splits = 3}},
    {.page_keys = 6,
     .missing = true,
     .problem = {.features = CLATTN_WINDOW, .sink_keys = 3, .packing = CLATTN_PACKING_ALWAYS}},
    {.page_keys = 64, .interleaved = true, .packed = true, .problem = {.causal = CLATTN_CAUSAL_BOTTOM_RIGHT}},
    {.page_keys = 7, .csr = true, .missing = true, .chunks = true},
};

static const struct way ring = {
    .page_keys = SINKS,
    .ring = true,
    .problem = {.causal = CLATTN_CAUSAL_BOTTOM_RIGHT, .features = CLATTN_WINDOW, .sink_keys = SINKS}};

static void take_pages_away(const struct way *way)
{
    for (int b = 0; b < BATCH; b++)
        for (int j = 0; j < N_KV; j++) /* of both chunks pages begin at the chunk */
            given.mask[b * N_KV + j] = !way->missing || (way->chunks && j < 17 ? j
                                                         : way->chunks         ? j - 17
                                                                               : j) /
                                                                way->page_keys % 3 !=
                                                            1 - b % 2;
}

static void same_bits(void **state)
{
    (void)state;
    static struct results contiguous_ones, paged_ones;
    int failures = 0;
    for (const struct cla_skeleton *const *skeleton = test_skeletons(); *skeleton; skeleton++)
        EACH (i, ways) {
            if ((*skeleton)->declines)
                continue;
            take_pages_away(&ways[i]);
            const bool good = compute(&ways[i], (*skeleton)->name, false, &contiguous_ones) &&
                              compute(&ways[i], (*skeleton)->name, true, &paged_ones);
            if (good && memcmp(&contiguous_ones, &paged_ones, sizeof paged_ones) == 0)
                continue;
            print_message("%s, pages of %d keys: not as contiguous keys\n", (*skeleton)->name, ways[i].page_keys);
            failures++;
        }
    assert_int_equal(failures, 0);
}

static void rings(void **state)
{
    (void)state;
    static struct results all, kept;
    const float *const a = all.o, *const b = kept.o;
    take_pages_away(&ring);
    assert_true(compute(&ring, NULL, false, &all) && compute(&ring, NULL, true, &kept));
    for (int i = 0; i < BATCH * HEADS * N_Q * D_V; i++)
        assert_true(fabsf(a[i] - b[i]) < 1e-5f);
}

/* What the host level checks, and what it computes. */
static void host_level(void **state)
{
    (void)state;
    enum { KEYS = 4, PAGES = 3 };
    static const float q[D] = {1}, k[PAGES * KEYS * D] = {0};
    static float v[PAGES * KEYS * D], o[D];
    int32_t table[2] = {2, 0};
    for (int i = 0; i < PAGES * KEYS * D; i++)
        v[i] = (float)(i / (KEYS * D));
    const struct clattn_problem problem = {.d = D, .features = CLATTN_PAGES, .page_keys = KEYS};
    struct clattn_host_forward_args args = {.shape = {.batch = 1, .heads = 1, .n_q = 1, .n_kv = 8},
                                            .q = q,
                                            .k = k,
                                            .v = v,
                                            .o = o,
                                            .score = {.pages = table, .pool_pages = PAGES}};
    const struct clattn_host_params params = {.context = device.clattn, .queue = device.queue};
    clattn_host *host = NULL;
    assert_int_equal(clattn_host_create(&host, &params), CLATTN_SUCCESS);
    assert_true(test_succeeded(clattn_host_forward(host, &problem, &args), "clattn_host_forward"));
    assert_true(fabsf(o[0] - 1.0f) < 1e-6f); /* the mean of pages 2 and 0 */
    table[1] = 3;
    assert_int_equal(clattn_host_forward(host, &problem, &args), CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(clattn_error_message(), "score.pages has 3 as page 1 of batch element 0"));
    table[1] = 0;
    args.kv_chunk = 4;
    assert_int_equal(clattn_host_forward(host, &problem, &args), CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(clattn_error_message(), "kv_chunk is 4 with CLATTN_PAGES"));
    clattn_host_destroy(&host);
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        struct clattn_problem problem;
        clattn_status status;
        const char *words;
    } wrong[] = {
        {{.d = 8, .features = CLATTN_PAGES}, CLATTN_INVALID_ARGUMENT, "problem.page_keys is 0: with CLATTN_PAGES"},
        {{.d = 8, .page_keys = 16}, CLATTN_INVALID_ARGUMENT, "without it 0"},
        {{.d = 8, .sink_keys = 4}, CLATTN_INVALID_ARGUMENT, "problem.sink_keys is 4: with CLATTN_WINDOW"},
        {{.d = 8, .features = CLATTN_WINDOW, .sink_keys = 4, .pass = CLATTN_BACKWARD},
         CLATTN_INVALID_ARGUMENT,
         "problem.sink_keys is 4, and problem.pass is 1, a backward one"},
        {{.d = 8, .features = CLATTN_PAGES, .page_keys = 16, .pass = CLATTN_BACKWARD},
         CLATTN_INVALID_ARGUMENT,
         "problem.features has CLATTN_PAGES, and problem.pass is 1, a backward one"},
        {{.d = 64,
          .dtype = CLATTN_FP16,
          .features = CLATTN_PAGES,
          .page_keys = 16,
          .skeleton = "forward_matrix_emulated"},
         CLATTN_NOTHING_FITS,
         "problem.features has CLATTN_PAGES: forward_matrix_emulated reads keys that lie at one distance"}};
    struct clattn_plan_info info;
    EACH (i, wrong) {
        assert_int_equal(clattn_plan_preview(clattn_context_capabilities(device.clattn), &wrong[i].problem, &info),
                         wrong[i].status);
        assert_non_null(strstr(clattn_error_message(), wrong[i].words));
    }
}

int main(void)
{
    chance.state = 3;
    fill(given.q, sizeof given.q / sizeof *given.q);
    fill(given.k, K_ELEMENTS);
    fill(given.v, V_ELEMENTS);
    test_device_open(&device);
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits), cmocka_unit_test(rings),
                                       cmocka_unit_test(host_level), cmocka_unit_test(refused)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failed;
}
