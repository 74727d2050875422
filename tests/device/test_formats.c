/* SPDX-License-Identifier: BSD-2-Clause
 *
 * K and V in formats (CLATTN_AS_INT8 to CLATTN_AS_Q4_0), each in one of its own, against the float64 reference on the
 * values that the bytes hold: any bytes, scales a key, group, channel, head and tensor, zero points, contiguous, in
 * pages and in chunks, with masks and packed heads. Each buffer begins or ends at a page that must not be read. */
#include "plan/half.h"
#include "plan/types.h"
#include "random.h"
#include "reference/formats.h"
#include "reference/reference.h"
#include "support/device.h"
#include "support/fence.h"
#include "support/unit.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, HEADS = 4, KV_HEADS = 2, N_Q = 3, N_KV = 45, PAGES = 32 };

static struct test_device device;
static struct random chance;

/* Which scales differ: those that do not are broadcast. */
enum spread { BY_KEY = 1, BY_HEAD = 2, BY_GROUP = 4 };

struct operand_way {
    int type, columns, group;
    unsigned spread;
    bool zeros;
};

struct way {
    struct operand_way k, v;
    int page_keys, nan_key; /* a mask hides nan_key, as its scales are NaN; 0: there is no mask */
    bool chunks, latent;    /* latent: V is the first columns of K's rows, in K's buffer */
    bool halves, nan;       /* Q and O are fp16; a number of Q is NaN */
    struct clattn_problem problem;
};

static cl_mem put(size_t bytes, const void *data)
{
    char *memory = NULL;
    cl_mem buffer = fence_make(&device, &chance, bytes, 1, 0, &memory);
    if (data)
        memcpy(memory, data, bytes);
    return buffer;
}

/* --- an operand: its bytes, its scales, its values */

struct operand {
    struct formats_way way;
    size_t row_bytes;
    int64_t groups;
    uint8_t *rows;         /* [outer, KV_HEADS, inner] rows */
    float *scales, *zeros; /* as many, [groups] each */
    float *values;         /* [BATCH, KV_HEADS, N_KV, columns], as the reference has it */
};

/* Batch elements of N_KV keys, or pages. */
static int outer_of(const struct way *way)
{
    return way->page_keys ? PAGES : BATCH;
}

static int inner_of(const struct way *way)
{
    return way->page_keys ? way->page_keys : N_KV;
}

static uint8_t byte_of(int type)
{
    for (;;) {
        const uint8_t byte = (uint8_t)random_below(&chance, 256);
        const bool small = type != CLATTN_AS_FP8_E4M3 && type != CLATTN_AS_FP8_E5M2;
        if (small || fabsf(formats_stored(type, &byte, 0)) <= 28)
            return byte;
    }
}

static void draw_rows(const struct way *way, const struct operand_way *of, struct operand *operand)
{
    const size_t rows = (size_t)(outer_of(way) * KV_HEADS * inner_of(way));
    operand->rows = malloc(rows * operand->row_bytes);
    assert_non_null(operand->rows);
    for (size_t i = 0; i < rows * operand->row_bytes; i++)
        operand->rows[i] = byte_of(of->type);
    for (size_t i = 0; i < rows * operand->row_bytes && !operand->groups; i += cla_type(of->type - 1)->bytes) {
        operand->rows[i] = (uint8_t)random_below(&chance, 256);
        operand->rows[i + 1] = of->type == CLATTN_AS_Q8_0 ? 0x1c : 0x2c; /* about 2^-8, 2^-4 */
    }
}

/* One for each place; those that are broadcast are equal. */
static void draw_scales(const struct way *way, const struct operand_way *of, struct operand *operand)
{
    const int outer = outer_of(way), inner = inner_of(way);
    const int64_t groups = operand->groups, count = (int64_t)outer * KV_HEADS * inner * groups;
    const float size = of->type == CLATTN_AS_INT8 ? 0.015f : 0.2f;
    operand->scales = calloc((size_t)count + 1, sizeof(float));
    operand->zeros = calloc((size_t)count + 1, sizeof(float));
    assert_true(operand->scales && operand->zeros);
    for (int64_t i = 0; i < count; i++) {
        const int64_t g = i % groups, row = i / groups % inner, head = i / groups / inner % KV_HEADS;
        const int64_t first = (of->spread & BY_KEY ? i / groups / inner / KV_HEADS : 0) * KV_HEADS * inner * groups +
                              (of->spread & BY_HEAD ? head : 0) * inner * groups +
                              (of->spread & BY_KEY ? row : 0) * groups + (of->spread & BY_GROUP ? g : 0);
        const float u = (float)random_below(&chance, 1000) / 1000, z = (float)random_below(&chance, 9) - 4;
        operand->scales[i] = first == i ? size * (0.5f + u) : operand->scales[first];
        if (way->nan_key && row == way->nan_key)
            operand->scales[i] = NAN;
        operand->zeros[i] = !of->zeros ? 0 : first == i ? z : operand->zeros[first];
    }
}

static void expand(const struct way *way, struct operand *operand, const int32_t table[BATCH][N_KV])
{
    const int inner = inner_of(way);
    operand->values = malloc(sizeof(float) * (size_t)(BATCH * KV_HEADS * N_KV * operand->way.columns));
    assert_non_null(operand->values);
    for (int64_t i = 0; i < BATCH * KV_HEADS * N_KV; i++) {
        const int64_t b = i / N_KV / KV_HEADS, head = i / N_KV % KV_HEADS, j = i % N_KV;
        const int64_t outer = way->page_keys ? table[b][j / inner] : b;
        const int64_t row = (outer * KV_HEADS + head) * inner + j % inner;
        formats_expand(&operand->way, operand->rows + (size_t)row * operand->row_bytes,
                       operand->scales + row * operand->groups, operand->zeros + row * operand->groups,
                       operand->values + i * operand->way.columns);
    }
}

static struct operand draw(const struct way *way, const struct operand_way *of)
{
    struct operand operand = {.way = {of->type, of->columns, of->group, of->zeros}};
    operand.row_bytes = formats_row_bytes(of->type, of->columns);
    operand.groups = formats_groups(&operand.way);
    draw_rows(way, of, &operand);
    draw_scales(way, of, &operand);
    return operand;
}

static void cut(const struct way *way, const struct operand *k, struct operand *v)
{
    for (int i = 0; way->latent && i < outer_of(way) * KV_HEADS * inner_of(way); i++)
        memcpy(v->rows + (size_t)i * v->row_bytes, k->rows + (size_t)i * k->row_bytes, v->row_bytes);
}

static void drop(struct operand *operand)
{
    free(operand->rows);
    free(operand->scales);
    free(operand->zeros);
    free(operand->values);
}

/* --- the device's tensors: keys `from` to `to` - 1 of each batch element, or all pages */

static struct clattn_tensor tensor_of(const struct way *way, const void *data, size_t row_bytes, int from, int to)
{
    const int inner = inner_of(way), count = way->page_keys ? inner : to - from;
    char *part = malloc((size_t)(outer_of(way) * KV_HEADS * count) * row_bytes);
    assert_non_null(part);
    for (int i = 0; i < outer_of(way) * KV_HEADS; i++)
        memcpy(part + (size_t)(i * count) * row_bytes,
               (const char *)data + (size_t)(i * inner + (way->page_keys ? 0 : from)) * row_bytes,
               (size_t)count * row_bytes);
    const struct clattn_tensor tensor = {.buffer = put((size_t)(outer_of(way) * KV_HEADS * count) * row_bytes, part)};
    free(part);
    return tensor;
}

/* Those that are not spread are the first, broadcast. */
static struct clattn_tensor scales_of(const struct way *way, const struct operand_way *of,
                                      const struct operand *operand, const float *scales, int from, int to)
{
    const int64_t groups = operand->groups, count = way->page_keys ? inner_of(way) : to - from;
    const bool by_key = of->spread & BY_KEY, by_head = of->spread & BY_HEAD, by_group = of->spread & BY_GROUP;
    if (by_key && by_head && by_group)
        return tensor_of(way, scales, (size_t)groups * sizeof *scales, from, to);
    /* [outer or 1, heads or 1, keys or 1, groups or 1] */
    const int64_t g = by_group ? groups : 1, n = by_key ? count : 1, h = by_head ? KV_HEADS : 1,
                  o = by_key ? outer_of(way) : 1;
    float *part = malloc(sizeof *part * (size_t)(o * h * n * g));
    assert_non_null(part);
    for (int64_t i = 0; i < o * h * n * g; i++) {
        const int64_t row = i / g % n + (way->page_keys || !by_key ? 0 : from), head = i / g / n % h,
                      outer = i / g / n / h;
        part[i] = scales[((outer * KV_HEADS + head) * inner_of(way) + row) * groups + i % g];
    }
    const struct clattn_tensor tensor = {.buffer = put(sizeof *part * (size_t)(o * h * n * g), part),
                                         .layout = {.batch = o > 1 ? h * n * g : 0,
                                                    .head = h > 1 ? n * g : 0,
                                                    .row = n > 1 ? g : 0,
                                                    .column = g > 1,
                                                    .strided = 1}};
    free(part);
    return tensor;
}

struct job {
    const struct way *way;
    struct operand k, v;
    int32_t table[BATCH][N_KV];
    float q[BATCH * HEADS * N_Q * 640];
};

static void give_keys(const struct job *job, int from, int to, struct clattn_tensor *k, struct clattn_tensor *v,
                      struct clattn_score_args *score, struct clattn_kv_scales *scales)
{
    const struct way *way = job->way;
    *k = tensor_of(way, job->k.rows, job->k.row_bytes, from, to);
    *v = way->latent ? *k : tensor_of(way, job->v.rows, job->v.row_bytes, from, to);
    if (way->latent)
        v->layout = clattn_layout_bhnd(KV_HEADS, inner_of(way), way->k.columns);
    if (job->k.groups)
        scales->k_scales = scales_of(way, &way->k, &job->k, job->k.scales, from, to);
    if (way->k.zeros)
        scales->k_zeros = scales_of(way, &way->k, &job->k, job->k.zeros, from, to);
    if (job->v.groups)
        scales->v_scales = scales_of(way, &way->v, &job->v, job->v.scales, from, to);
    if (way->v.zeros)
        scales->v_zeros = scales_of(way, &way->v, &job->v, job->v.zeros, from, to);
    score->kv_scales = scales;
    if (!way->page_keys)
        return;
    score->pages = (struct clattn_tensor){.buffer = put(sizeof job->table, job->table),
                                          .layout = {.offset = from / way->page_keys, .batch = N_KV, .row = 1}};
    score->pool_pages = PAGES;
}

static const struct clattn_shape shape = {
    .batch = BATCH, .heads = HEADS, .kv_heads = KV_HEADS, .n_q = N_Q, .n_kv = N_KV};

/* Of all rows: 0 hides a key. */
static uint8_t *mask_of(const struct way *way)
{
    static uint8_t mask[N_KV];
    memset(mask, 1, sizeof mask);
    mask[way->nan_key] = 0;
    return mask;
}

static struct clattn_score_args score_of(const struct way *way)
{
    struct clattn_score_args score = {0};
    if (way->problem.features & CLATTN_WINDOW)
        score.window_left = 30;
    if (way->problem.features & CLATTN_SOFTCAP)
        score.softcap = 20;
    if (way->nan_key)
        score.mask = (struct clattn_tensor){.buffer = put(N_KV, mask_of(way)), .layout = {.column = 1, .strided = 1}};
    return score;
}

static clattn_status whole(const struct job *job, const clattn_plan *plan, struct clattn_tensor q,
                           struct clattn_tensor o)
{
    struct clattn_kv_scales scales = {0};
    struct clattn_forward_args args = {.shape = shape, .q = q, .o = o, .score = score_of(job->way)};
    give_keys(job, 0, N_KV, &args.k, &args.v, &args.score, &scales);
    assert_int_equal(clattn_plan_workspace_bytes(plan, &shape, &args.workspace_bytes), CLATTN_SUCCESS);
    if (args.workspace_bytes)
        args.workspace = put((args.workspace_bytes + 127) / 128 * 128, NULL);
    return clattn_forward_enqueue(plan, device.queue, &args, 0, NULL, NULL);
}

static clattn_status in_chunks(const struct job *job, const clattn_plan *plan, struct clattn_tensor q,
                               struct clattn_tensor o)
{
    static const int ends[] = {0, 16, N_KV};
    size_t bytes = 0;
    assert_int_equal(clattn_state_bytes(plan, &shape, &bytes), CLATTN_SUCCESS);
    cl_mem state = put((bytes + 127) / 128 * 128, NULL);
    clattn_status status = clattn_state_begin_enqueue(plan, device.queue, &shape, state, 0, NULL, NULL);
    for (int i = 0; i < 2 && !status; i++) {
        struct clattn_kv_scales scales = {0};
        struct clattn_accumulate_args args = {.shape = shape,
                                              .first_key = ends[i],
                                              .key_count = ends[i + 1] - ends[i],
                                              .q = q,
                                              .state = state,
                                              .score = score_of(job->way)};
        give_keys(job, ends[i], ends[i + 1], &args.k, &args.v, &args.score, &scales);
        status = clattn_state_accumulate_enqueue(plan, device.queue, &args, 0, NULL, NULL);
    }
    const struct clattn_finish_args finish = {.shape = shape, .state = state, .o = o};
    return status ? status : clattn_state_finish_enqueue(plan, device.queue, &finish, 0, NULL, NULL);
}

static struct clattn_problem problem_of(const struct way *way, const char *skeleton)
{
    struct clattn_problem problem = way->problem;
    problem.d = way->k.columns;
    problem.d_v = way->v.columns;
    problem.k_type = way->k.type;
    problem.v_type = way->v.type;
    problem.k_scale_group = way->k.group;
    problem.v_scale_group = way->v.group;
    problem.zero_points = (way->k.zeros ? CLATTN_K_ZEROS : 0) | (way->v.zeros ? CLATTN_V_ZEROS : 0);
    problem.skeleton = skeleton;
    problem.pass = way->chunks ? CLATTN_ACCUMULATE : CLATTN_FORWARD;
    if (way->halves)
        problem.q_type = problem.o_type = CLATTN_AS_FP16;
    if (way->page_keys) {
        problem.features |= CLATTN_PAGES;
        problem.page_keys = way->page_keys;
    }
    return problem;
}

static bool judge(const struct job *job, float *o)
{
    const struct way *way = job->way;
    const struct reference_problem problem = {.d = way->k.columns,
                                              .d_v = way->v.columns,
                                              .causal = way->problem.causal,
                                              .types = {[REFERENCE_O] = way->halves ? CLATTN_AS_FP16 : CLATTN_AS_DTYPE},
                                              .shape = shape,
                                              .score = {.features = way->problem.features,
                                                        .window_left = 30,
                                                        .softcap = 20,
                                                        .mask = mask_of(way),
                                                        .mask_at = {.column = 1, .strided = 1}}};
    const size_t count = reference_o_count(&problem);
    double *exact = malloc(count * sizeof *exact);
    bool good = exact && reference_attention(&problem, job->q, job->k.values, job->v.values, exact, NULL, NULL, NULL);
    if (good) {
        const struct reference_floor floor = reference_floor(&problem, job->q, job->k.values, job->v.values, exact);
        for (size_t i = 3 * (size_t)problem.d_v; way->nan && i < 4 * (size_t)problem.d_v; i++) {
            good = good && isnan(o[i]) && isnan(exact[i]);
            exact[i] = o[i] = 0;
        }
        const struct reference_verdict verdict = reference_judge(o, exact, NULL, count, floor.o);
        good = good && verdict.pass;
        if (!good)
            print_error("error %g, allowed %g, at %zu: %g for %g\n", verdict.error, verdict.allowed, verdict.at,
                        (double)o[verdict.at], exact[verdict.at]);
    }
    free(exact);
    return good;
}

/* Floats to halves, to a buffer of the device; what they are then goes back. */
static cl_mem put_halves(float *values, size_t count)
{
    uint16_t *halves = malloc(count * sizeof *halves);
    assert_non_null(halves);
    for (size_t i = 0; i < count; i++) {
        halves[i] = cla_half_from_float(values[i]);
        values[i] = cla_half_to_float(halves[i]);
    }
    cl_mem buffer = put(count * sizeof *halves, halves);
    free(halves);
    return buffer;
}

static void draw_job(struct job *job, const struct way *way)
{
    job->way = way;
    for (int i = 0; i < BATCH * N_KV; i++)
        job->table[i / N_KV][i % N_KV] = (int32_t)random_below(&chance, PAGES);
    random_normal(&chance, 1.0, job->q, sizeof job->q / sizeof *job->q);
    job->q[3 * way->k.columns + 5] *= way->nan ? NAN : 1;
    job->k = draw(way, &way->k);
    job->v = draw(way, &way->v);
    cut(way, &job->k, &job->v);
    expand(way, &job->k, (const int32_t(*)[N_KV])job->table);
    expand(way, &job->v, (const int32_t(*)[N_KV])job->table);
}

static size_t o_count(const struct way *way)
{
    return (size_t)(BATCH * HEADS * N_Q * way->v.columns);
}

/* O of a job by one problem, as floats. */
static bool compute(struct job *job, const struct clattn_problem *problem, float *o)
{
    const struct way *way = job->way;
    const size_t count = o_count(way), q_count = (size_t)(BATCH * HEADS * N_Q * way->k.columns),
                 bytes = count * (way->halves ? sizeof(uint16_t) : sizeof(float));
    clattn_plan *plan = NULL;
    bool good = test_succeeded(clattn_plan_create(&plan, device.clattn, problem), "clattn_plan_create");
    if (good) {
        const struct clattn_tensor q = {.buffer = way->halves ? put_halves(job->q, q_count) : put(q_count * 4, job->q)};
        const struct clattn_tensor out = {.buffer = put(bytes, NULL)};
        good = test_succeeded(way->chunks ? in_chunks(job, plan, q, out) : whole(job, plan, q, out), "the call") &&
               test_cl_succeeded(clEnqueueReadBuffer(device.queue, out.buffer, CL_TRUE, 0, bytes, o, 0, NULL, NULL),
                                 "clEnqueueReadBuffer");
    }
    for (size_t i = count; i-- && good && way->halves;)
        o[i] = cla_half_to_float(((const uint16_t *)o)[i]);
    clFinish(device.queue);
    fence_drop_all();
    clattn_plan_destroy(&plan);
    return good;
}

static bool check(const struct way *way, const char *skeleton)
{
    static struct job job;
    const struct clattn_problem problem = problem_of(way, skeleton);
    draw_job(&job, way);
    float *o = malloc(o_count(way) * sizeof *o);
    assert_non_null(o);
    const bool good = compute(&job, &problem, o) && judge(&job, o);
    free(o);
    drop(&job.k), drop(&job.v);
    return good;
}

#define ALL (BY_KEY | BY_HEAD | BY_GROUP)
static const struct way ways[] = {
    {.k = {CLATTN_AS_INT8, 64, 0, BY_KEY | BY_HEAD, false}, .v = {CLATTN_AS_INT8, 32, 0, BY_KEY | BY_HEAD, true}},
    {.k = {CLATTN_AS_INT8, 45, 16, ALL, true},
     .v = {CLATTN_AS_INT4, 37, 5, ALL, false},
     .page_keys = 7,
     .problem = {.causal = CLATTN_CAUSAL_BOTTOM_RIGHT, .packing = CLATTN_PACKING_ALWAYS}},
    {.k = {CLATTN_AS_INT4, 39, 1, BY_HEAD | BY_GROUP, true}, /* a scale a channel */
     .v = {CLATTN_AS_FP8_E4M3, 40, 0, 0, false},             /* one a tensor */
     .problem = {.features = CLATTN_WINDOW, .splits = 3}},
    {.k = {CLATTN_AS_FP8_E4M3, 24, 0, BY_HEAD, false},
     .v = {CLATTN_AS_FP8_E5M2, 21, 8, BY_KEY | BY_GROUP, false},
     .page_keys = 16,
     .chunks = true},
    {.k = {CLATTN_AS_Q8_0, 64, 0, 0, false}, .v = {CLATTN_AS_Q4_0, 64, 0, 0, false}, .page_keys = 1},
    {.k = {CLATTN_AS_Q4_0, 40, 0, 0, false},
     .v = {CLATTN_AS_Q8_0, 50, 0, 0, false},
     .problem = {.features = CLATTN_SOFTCAP, .causal = CLATTN_CAUSAL_TOP_LEFT}},
    {.k = {CLATTN_AS_Q8_0, 576, 0, 0, false}, .v = {CLATTN_AS_FP8_E4M3, 512, 128, BY_GROUP, false}},
    {.k = {CLATTN_AS_Q8_0, 576, 0, 0, 0}, .v = {CLATTN_AS_Q8_0, 512, 0, 0, 0}, .page_keys = 16, .latent = true},
    {.k = {CLATTN_AS_FP8_E5M2, 33, 3, ALL, false}, .v = {CLATTN_AS_INT8, 64, 32, ALL, true}, .chunks = true},
};

static void every_format(void **state)
{
    (void)state;
    bool good = true;
    for (const struct cla_skeleton *const *skeleton = test_skeletons(); *skeleton; skeleton++)
        for (size_t i = 0; i < sizeof ways / sizeof *ways && !(*skeleton)->declines; i++)
            if (!check(&ways[i], (*skeleton)->name)) {
                print_error("%s, way %zu\n", (*skeleton)->name, i);
                good = false;
            }
    assert_true(good);
}

/* decode_cpu's integers (cl/common/decode_pairs.clh, decode_scores.clh): tiles of 16 keys, the last not whole, NaN in Q
 * and in a hidden scale, panels of 4 and of 2 rows. The device's instruction and OpenCL C give the same bits. */
static const struct way integers[] = {
    {.k = {CLATTN_AS_INT8, 64, 0, BY_KEY | BY_HEAD, false},
     .v = {CLATTN_AS_INT8, 64, 0, BY_KEY | BY_HEAD, false},
     .halves = true,
     .nan_key = 20,
     .problem = {.features = CLATTN_MASK | CLATTN_SOFTCAP, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT}},
    {.k = {CLATTN_AS_Q8_0, 64, 0, 0, false}, .v = {CLATTN_AS_Q8_0, 192, 0, 0, false}, .halves = true, .nan = true},
    {.k = {CLATTN_AS_Q4_0, 128, 0, 0, false},
     .v = {CLATTN_AS_Q4_0, 128, 0, 0, false},
     .page_keys = 7,
     .halves = true,
     .problem = {.features = CLATTN_WINDOW, .splits = 2}},
};

static void sums_of_integers_are_right(void **state)
{
    (void)state;
    static struct job job;
    static float o[3][BATCH * HEADS * N_Q * 192];
    if (!test_is_for(&cla_decode_cpu))
        skip();
    EACH (i, integers) {
        struct clattn_problem problem = problem_of(&integers[i], "decode_cpu");
        const bool has = clattn_context_capabilities(device.clattn)->cpu_bf16_dot;
        problem.b_c = 16;
        problem.packing = CLATTN_PACKING_ALWAYS;
        draw_job(&job, &integers[i]);
        for (int pairs = 0; pairs < 3; pairs++) {
            char knobs[64];
            snprintf(knobs, sizeof knobs, "pairs=%d vector_width=16 rows=4 columns=4", pairs); /* on any processor */
            problem.knobs = knobs;
            if (pairs == 2 || (pairs == 1 && has) || (pairs == 0 && i == 0))
                assert_true(compute(&job, &problem, o[pairs]) && judge(&job, o[pairs]));
        }
        const size_t bytes = o_count(&integers[i]) * sizeof **o;
        assert_true(!has || memcmp(o[1], o[2], bytes) == 0);
        if (i == 0)
            assert_memory_not_equal(o[0], o[2], bytes); /* those are floats' */
        drop(&job.k), drop(&job.v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_format), cmocka_unit_test(sums_of_integers_are_right)};
    chance.state = 41;
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
