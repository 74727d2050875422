/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/score.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct score_case score_typical(void)
{
    return (struct score_case){.window_left = 40,
                               .window_right = 8,
                               .softcap = 4.0f,
                               .dropout_p = 0.25f,
                               .dropout_seed = UINT64_C(0x123456789abcdef1),
                               .dropout_offset = 7,
                               .density = 0.5};
}

static bool has(const struct clattn_problem *problem, unsigned feature)
{
    return (problem->features & feature) != 0;
}

static size_t count_of(const int64_t sizes[4])
{
    return (size_t)(sizes[0] * sizes[1] * sizes[2] * sizes[3]);
}

/* Dense, but broadcast over what has size 1 of the batch and of the heads. */
static struct clattn_layout spread(const int64_t sizes[4])
{
    return (struct clattn_layout){.batch = sizes[0] == 1 ? 0 : sizes[1] * sizes[2] * sizes[3],
                                  .head = sizes[1] == 1 ? 0 : sizes[2] * sizes[3],
                                  .row = sizes[3],
                                  .column = 1};
}

static void lay_out(const struct clattn_problem *problem, const struct clattn_shape *shape,
                    const struct score_case *score, struct score_arrays *arrays)
{
    const int64_t batch = score->one_batch ? 1 : shape->batch, heads = score->one_head ? 1 : shape->heads;
    const int64_t block_q = problem->block_q ? problem->block_q : 1,
                  block_kv = problem->block_kv ? problem->block_kv : 1;
    const int64_t sizes[4][4] = {
        {batch, heads, 1, 1},
        {batch, heads, shape->n_q, shape->n_kv},
        {batch, heads, (shape->n_q + block_q - 1) / block_q, (shape->n_kv + block_kv - 1) / block_kv},
        {batch, heads, (shape->n_q + block_q - 1) / block_q + 1, 1}};
    int64_t *const to[4] = {arrays->row_sizes, arrays->pair_sizes, arrays->block_sizes, arrays->offset_sizes};
    struct clattn_layout *const at[4] = {&arrays->row_at, &arrays->pair_at, &arrays->block_at, &arrays->offset_at};
    for (int i = 0; i < 4; i++) {
        memcpy(to[i], sizes[i], sizeof sizes[i]);
        *at[i] = spread(sizes[i]);
    }
    arrays->row_at.column = 0; /* the row's stride stays: without it one slope for all would read as dense */
    arrays->offset_at.row = 1;
    arrays->offset_at.column = 0;
}

static float *floats(struct random *random, size_t count, double deviation, enum clattn_dtype dtype)
{
    float *values = calloc(count + 1, sizeof *values);
    if (values)
        random_normal(random, deviation, values, count);
    for (size_t i = 0; values && i < count; i++)
        values[i] = reference_round(dtype, values[i]);
    return values;
}

static uint8_t *bytes(struct random *random, size_t count, double density)
{
    uint8_t *values = calloc(count + 1, sizeof *values);
    for (size_t i = 0; values && i < count; i++)
        values[i] =
            (double)random_below(random, 1000) < 1000.0 * density ? (uint8_t)(1 + random_below(random, 255)) : 0;
    return values;
}

static int32_t *lengths(struct random *random, int64_t count, int64_t most)
{
    int32_t *values = calloc((size_t)count + 1, sizeof *values);
    for (int64_t i = 0; values && i < count; i++)
        values[i] = (int32_t)random_below(random, most + 1);
    return values;
}

/* The first sequence is the longest, the second is empty; the rest is chance. Or all are as given. */
static int32_t *ends(struct random *random, const int32_t *given, int64_t batch, int64_t longest, int64_t *total)
{
    int32_t *values = calloc((size_t)batch + 1, sizeof *values);
    for (int64_t b = 0; values && b < batch; b++) {
        const int64_t length = given ? given[b] : b == 0 ? longest : b == 1 ? 0 : random_below(random, longest + 1);
        values[b + 1] = (int32_t)(values[b] + length);
    }
    *total = values ? values[batch] : 0;
    return values;
}

void score_compress(struct score_arrays *arrays)
{
    const int64_t *sizes = arrays->block_sizes;
    int64_t kept = 0;
    for (int64_t head = 0; head < sizes[0] * sizes[1]; head++)
        for (int64_t i = 0; i < sizes[2]; i++) {
            int32_t *offsets = arrays->block_offsets + head * (sizes[2] + 1);
            offsets[i] = (int32_t)kept;
            for (int64_t j = sizes[3] - 1; j >= 0; j--) /* in any order: backwards */
                if (arrays->block_mask[(head * sizes[2] + i) * sizes[3] + j])
                    arrays->block_columns[kept++] = (int32_t)j;
            offsets[i + 1] = (int32_t)kept;
        }
    arrays->block_count = kept;
}

static bool make_blocks(struct random *random, const struct score_case *score, struct score_arrays *arrays)
{
    arrays->block_mask = bytes(random, count_of(arrays->block_sizes), score->density);
    if (!score->csr || !arrays->block_mask)
        return arrays->block_mask != NULL;
    arrays->block_offsets = calloc(count_of(arrays->offset_sizes) + 1, sizeof(int32_t));
    arrays->block_columns = calloc(count_of(arrays->block_sizes) + 1, sizeof(int32_t));
    if (!arrays->block_offsets || !arrays->block_columns)
        return false;
    score_compress(arrays);
    return true;
}

bool score_arrays_make(const struct clattn_problem *problem, const struct clattn_shape *shape,
                       const struct score_case *score, uint64_t seed, struct score_arrays *arrays)
{
    struct random random = {.state = seed ^ UINT64_C(0x5c09e)};
    bool made = true;
    *arrays = (struct score_arrays){.batch = shape->batch, .heads = shape->heads};
    lay_out(problem, shape, score, arrays);
    if (has(problem, CLATTN_ALIBI)) {
        made = (arrays->alibi = floats(&random, count_of(arrays->row_sizes), 0.1, CLATTN_FP32)) && made;
        /* Kernels may treat slopes of an ordinary size in another way than none, tiny ones, steep and negative ones. */
        static const float sizes[] = {1, -1, 50, 0, 1, 1e-5f, -50, -1e-5f};
        for (size_t i = 0; made && i < count_of(arrays->row_sizes); i++)
            arrays->alibi[i] = fabsf(arrays->alibi[i]) * sizes[i % (sizeof sizes / sizeof *sizes)];
    }
    if (has(problem, CLATTN_BIAS))
        made = (arrays->bias = floats(&random, count_of(arrays->pair_sizes), 1.0, problem->dtype)) && made;
    if (has(problem, CLATTN_MASK))
        made = (arrays->mask = bytes(&random, count_of(arrays->pair_sizes), score->density)) && made;
    if (has(problem, CLATTN_BLOCK_MASK))
        made = make_blocks(&random, score, arrays) && made;
    if (has(problem, CLATTN_KEY_LENGTHS))
        made = (arrays->key_lengths = lengths(&random, shape->batch, shape->n_kv)) && made;
    if (has(problem, CLATTN_VARLEN)) {
        made = (arrays->cu_q = ends(&random, score->sequence_rows, shape->batch, shape->n_q, &arrays->total_q)) && made;
        made =
            (arrays->cu_kv = ends(&random, score->sequence_keys, shape->batch, shape->n_kv, &arrays->total_kv)) && made;
    }
    if (has(problem, CLATTN_SINKS))
        made = (arrays->sinks = floats(&random, (size_t)shape->heads, 2.0, CLATTN_FP32)) && made;
    /* The upper half of the offset counts for nothing. */
    arrays->rng_state[0] = score->dropout_seed;
    arrays->rng_state[1] = (uint32_t)(score->dropout_offset - SCORE_LATER) | UINT64_C(5) << 32;
    if (problem->score_mod || problem->mask_mod)
        made = (arrays->data = floats(&random, SCORE_MOST_DATA, 1.0, CLATTN_FP32)) && made;
    if (!made)
        score_arrays_free(arrays);
    return made;
}

void score_arrays_free(struct score_arrays *arrays)
{
    void *const all[] = {arrays->alibi, arrays->bias,          arrays->sinks,        arrays->data,
                         arrays->mask,  arrays->block_mask,    arrays->key_lengths,  arrays->cu_q,
                         arrays->cu_kv, arrays->block_offsets, arrays->block_columns};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    *arrays = (struct score_arrays){0};
}

/* The user's functions */

const char score_mod_text[] =
    "float score_mod(float score, int b, int h, int i, int j, __global const float *data)\n"
    "{\n"
    "    return score * 0.875f + 0.125f * sin(score) + 0.015625f * (float)(i - j) + data[b * 7 + h];\n"
    "}\n";
const char score_mod_grad_text[] =
    "float score_mod_grad(float score, int b, int h, int i, int j, __global const float *data)\n"
    "{\n"
    "    return 0.875f + 0.125f * cos(score);\n"
    "}\n";
const char mask_mod_text[] = "bool mask_mod(int b, int h, int i, int j, __global const float *data)\n"
                             "{\n"
                             "    return ((i * 7 + j * 3 + h + b) & 7) != 0 && data[j & 31] < 1.0f;\n"
                             "}\n";

static double twin_score_mod(double score, int b, int h, int i, int j, const float *data)
{
    return score * 0.875 + 0.125 * sin(score) + 0.015625 * (double)(i - j) + (double)data[b * 7 + h];
}

static double twin_score_mod_grad(double score, int b, int h, int i, int j, const float *data)
{
    (void)b, (void)h, (void)i, (void)j, (void)data;
    return 0.875 + 0.125 * cos(score);
}

static bool twin_mask_mod(int b, int h, int i, int j, const float *data)
{
    return ((i * 7 + j * 3 + h + b) & 7) != 0 && data[j & 31] < 1.0f;
}

struct reference_score score_reference(const struct clattn_problem *problem, const struct score_case *score,
                                       const struct score_arrays *arrays)
{
    return (struct reference_score){.features = problem->features,
                                    .window_left = score->window_left,
                                    .window_right = score->window_right,
                                    .softcap = (double)score->softcap,
                                    .alibi = arrays->alibi,
                                    .alibi_at = arrays->row_at,
                                    .bias = arrays->bias,
                                    .bias_at = arrays->pair_at,
                                    .mask = arrays->mask,
                                    .mask_at = arrays->pair_at,
                                    .block_mask = arrays->block_mask,
                                    .block_mask_at = arrays->block_at,
                                    .block_q = problem->block_q,
                                    .block_kv = problem->block_kv,
                                    .key_lengths = arrays->key_lengths,
                                    .cu_seqlens_q = arrays->cu_q,
                                    .cu_seqlens_kv = arrays->cu_kv,
                                    .total_q = arrays->total_q,
                                    .total_kv = arrays->total_kv,
                                    .sinks = arrays->sinks,
                                    .dropout_p = (double)score->dropout_p,
                                    .dropout_seed = score->dropout_seed,
                                    .dropout_offset = score->dropout_offset,
                                    .score_mod = problem->score_mod ? twin_score_mod : NULL,
                                    .score_mod_grad = problem->score_mod ? twin_score_mod_grad : NULL,
                                    .mask_mod = problem->mask_mod ? twin_mask_mod : NULL,
                                    .data = arrays->data};
}

int score_describe(const struct clattn_problem *problem, const struct score_case *score, char *text, size_t size)
{
    static const char *const names[] = {"window",     "softcap",     "alibi",  "bias",  "mask",
                                        "block mask", "key lengths", "varlen", "sinks", "dropout"};
    size_t at = 0;
    text[0] = 0;
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        if (problem->features & 1u << i && at < size)
            at += (size_t)snprintf(text + at, size - at, ", %s", names[i]);
    if (at < size)
        at += (size_t)snprintf(text + at, size - at, "%s%s", problem->score_mod ? ", score_mod" : "",
                               problem->mask_mod ? ", mask_mod" : "");
    if (has(problem, CLATTN_WINDOW) && at < size)
        at += (size_t)snprintf(text + at, size - at, ", window %" PRId64 " %" PRId64, score->window_left,
                               score->window_right);
    if (has(problem, CLATTN_BLOCK_MASK) && at < size)
        at += (size_t)snprintf(text + at, size - at, ", blocks %d x %d%s, expected density %g", problem->block_q,
                               problem->block_kv, score->csr ? " csr" : "", (double)problem->expected_density);
    return (int)at;
}
