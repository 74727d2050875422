/* SPDX-License-Identifier: BSD-2-Clause */
#include "verify/score.h"
#include "random.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DATA = 16 }; /* numbers that the user's functions look at */

const char verify_score_mod[] = "float score_mod(float score, int b, int h, int i, int j, __global const float *data)\n"
                                "{\n"
                                "    return score / (1.0f + 0.125f * fabs(score)) + data[(b + h + i + 3 * j) & 15];\n"
                                "}\n";
const char verify_score_mod_grad[] =
    "float score_mod_grad(float score, int b, int h, int i, int j, __global const float *data)\n"
    "{\n"
    "    const float width = 1.0f + 0.125f * fabs(score);\n"
    "    return 1.0f / (width * width);\n"
    "}\n";
const char verify_mask_mod[] = "bool mask_mod(int b, int h, int i, int j, __global const float *data)\n"
                               "{\n"
                               "    return data[(b + 2 * h + i + 5 * j) & 15] > -1.0f;\n"
                               "}\n";

static double score_mod(double score, int b, int h, int i, int j, const float *data)
{
    return score / (1.0 + 0.125 * fabs(score)) + (double)data[(b + h + i + 3 * j) & 15];
}

static double score_mod_grad(double score, int b, int h, int i, int j, const float *data)
{
    const double width = 1.0 + 0.125 * fabs(score);
    (void)b;
    (void)h;
    (void)i;
    (void)j;
    (void)data;
    return 1.0 / (width * width);
}

static bool mask_mod(int b, int h, int i, int j, const float *data)
{
    return data[(b + 2 * h + i + 5 * j) & 15] > -1.0f;
}

/* What is being made. */
struct making {
    struct reference_problem *problem;
    struct random random;
    struct verify_score *score;
    int arrays;
    bool given; /* the case has its numbers; lengths at the ends of their range are frequent */
    int kept;   /* per cent of a block mask */
};

static void *take(struct making *making, size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    making->score->failed = making->score->failed || !memory;
    return making->score->memory[making->arrays++] = memory;
}

/* An array over pairs that is broadcast over batch, heads, or rows as chance has it. */
static size_t spread(struct making *making, int64_t rows, int64_t columns, bool every_row, struct clattn_layout *layout)
{
    const struct clattn_shape *shape = &making->problem->shape;
    const int64_t chance = random_below(&making->random, 8);
    const int64_t n = every_row || chance != 7 ? rows : 1, heads = chance & 1 ? shape->heads : 1;
    const int64_t batch = chance & 2 ? shape->batch : 1;
    *layout = (struct clattn_layout){
        .batch = batch > 1 ? heads * n * columns : 0, .head = heads > 1 ? n * columns : 0, .column = 1};
    layout->row = n == rows ? columns : 0;
    return (size_t)(batch * heads * n * columns);
}

static float *normal(struct making *making, size_t count, double deviation)
{
    float *values = take(making, count, sizeof *values);
    if (values)
        random_normal(&making->random, deviation, values, count);
    return values;
}

/* One in `one_in` is 0. */
static uint8_t *flags(struct making *making, size_t count, int64_t one_in)
{
    uint8_t *values = take(making, count, 1);
    for (size_t i = 0; values && i < count; i++)
        values[i] = random_below(&making->random, one_in) != 0;
    return values;
}

static uint8_t *share_of_flags(struct making *making, size_t count, int percent)
{
    uint8_t *values = take(making, count, 1);
    for (size_t i = 0; values && i < count; i++)
        values[i] = random_below(&making->random, 100) < percent;
    return values;
}

static int64_t key_length(struct making *making, int64_t longest)
{
    const int64_t chance = making->given ? random_below(&making->random, 6) : 5;
    return chance == 0 ? 0 : chance == 1 ? longest : random_below(&making->random, longest + 1);
}

/* Sequences of random lengths, some of them 0; the first is as long as the case says. */
static const int32_t *sequences(struct making *making, int64_t longest, int64_t *total)
{
    const int64_t count = making->problem->shape.batch;
    int32_t *at = take(making, (size_t)count + 1, sizeof *at);
    *total = 0;
    for (int64_t i = 0; at && i < count; i++) {
        const int64_t length = !i                                      ? longest
                               : random_below(&making->random, 3) == 0 ? 0
                                                                       : random_below(&making->random, longest + 1);
        *total += length;
        at[i + 1] = (int32_t)*total;
    }
    return at;
}

static void make_lengths(struct making *making)
{
    struct reference_score *score = &making->problem->score;
    const struct clattn_shape *shape = &making->problem->shape;
    making->score->counts.lengths = (size_t)shape->batch;
    if (score->features & CLATTN_VARLEN) {
        score->cu_seqlens_q = sequences(making, shape->n_q, &score->total_q);
        score->cu_seqlens_kv = sequences(making, shape->n_kv, &score->total_kv);
    }
    if (score->features & CLATTN_KEY_LENGTHS) {
        int32_t *lengths = take(making, (size_t)shape->batch, sizeof *lengths);
        for (int64_t i = 0; lengths && i < shape->batch; i++)
            lengths[i] = (int32_t)key_length(making, shape->n_kv);
        score->key_lengths = lengths;
    }
}

static void make_bias(struct making *making)
{
    const struct reference_problem *problem = making->problem;
    struct reference_score *score = &making->problem->score;
    making->score->counts.bias = spread(making, problem->shape.n_q, problem->shape.n_kv, false, &score->bias_at);
    float *bias = normal(making, making->score->counts.bias, 1.5);
    for (size_t i = 0; bias && i < making->score->counts.bias; i++)
        bias[i] = reference_round(reference_type(problem, REFERENCE_BIAS), bias[i]);
    score->bias = bias;
}

static void make_masks(struct making *making)
{
    const struct clattn_shape *shape = &making->problem->shape;
    struct reference_score *score = &making->problem->score;
    if (score->features & CLATTN_MASK) {
        making->score->counts.mask = spread(making, shape->n_q, shape->n_kv, false, &score->mask_at);
        score->mask = flags(making, making->score->counts.mask, 3);
    }
    if (score->features & CLATTN_BLOCK_MASK) {
        making->score->counts.block_mask =
            spread(making, (shape->n_q + score->block_q - 1) / score->block_q,
                   (shape->n_kv + score->block_kv - 1) / score->block_kv, true, &score->block_mask_at);
        score->block_mask = making->given ? share_of_flags(making, making->score->counts.block_mask, making->kept)
                                          : flags(making, making->score->counts.block_mask, 2);
    }
}

/* The block mask, of each head that has one of its own, as compressed rows; the last block of a row comes first. */
static void compress(struct making *making)
{
    const struct clattn_shape *shape = &making->problem->shape;
    const struct reference_score *score = &making->problem->score;
    const struct clattn_layout *dense = &score->block_mask_at;
    const int64_t rows = (shape->n_q + score->block_q - 1) / score->block_q;
    const int64_t columns = (shape->n_kv + score->block_kv - 1) / score->block_kv;
    const int64_t heads = dense->head ? shape->heads : 1, batch = dense->batch ? shape->batch : 1;
    struct verify_csr *csr = &making->score->csr;
    csr->at = (struct clattn_layout){
        .batch = dense->batch ? heads * (rows + 1) : 0, .head = dense->head ? rows + 1 : 0, .row = 1};
    csr->offset_count = (size_t)(batch * heads * (rows + 1));
    csr->offsets = take(making, csr->offset_count, sizeof *csr->offsets);
    csr->columns = take(making, making->score->counts.block_mask, sizeof *csr->columns);
    for (int64_t head = 0; !making->score->failed && head < batch * heads; head++) {
        for (int64_t row = 0; row <= rows; row++) {
            csr->offsets[head * (rows + 1) + row] = (int32_t)csr->column_count;
            for (int64_t column = columns - 1; row < rows && column >= 0; column--)
                if (score->block_mask[(head * rows + row) * columns + column])
                    csr->columns[csr->column_count++] = (int32_t)column;
        }
    }
}

/* Slopes of each head, or also of each batch element; and a sink that is none among the others. */
static void make_vectors(struct making *making)
{
    const struct clattn_shape *shape = &making->problem->shape;
    struct reference_score *score = &making->problem->score;
    if (score->features & CLATTN_ALIBI) {
        const int64_t batch = random_below(&making->random, 2) ? shape->batch : 1;
        score->alibi_at = (struct clattn_layout){.batch = batch > 1 ? shape->heads : 0, .head = 1};
        making->score->counts.alibi = (size_t)(batch * shape->heads);
        float *slopes = normal(making, making->score->counts.alibi, 0.1);
        /* Kernels may treat steep slopes in another way than the ordinary ones, and tiny ones. */
        static const float sizes[] = {1.0f, 1.0f, 30.0f, 1e-5f};
        for (size_t i = 0; slopes && i < making->score->counts.alibi; i++)
            slopes[i] *= sizes[(i + (size_t)shape->n_q) % (sizeof sizes / sizeof *sizes)];
        score->alibi = slopes;
    }
    if (score->features & CLATTN_SINKS) {
        making->score->counts.sinks = (size_t)shape->heads;
        float *sinks = normal(making, (size_t)shape->heads, 2.0);
        if (sinks && shape->heads > 1)
            sinks[random_below(&making->random, shape->heads)] = -INFINITY;
        score->sinks = sinks;
    }
}

static void make_numbers(struct making *making)
{
    static const int64_t windows[][2] = {{0, 0}, {17, 5}, {-1, 3}, {40, -1}, {31, 0}};
    static const double caps[] = {5.0, 30.0}, shares[] = {0.0125, 0.125, 0.5};
    struct reference_score *score = &making->problem->score;
    const int64_t *window = windows[random_below(&making->random, 5)];
    score->window_left = window[0];
    score->window_right = window[1];
    score->softcap = caps[random_below(&making->random, 2)];
    score->dropout_p = shares[random_below(&making->random, 3)];
    score->dropout_seed = random_next(&making->random);
    score->dropout_offset = (uint32_t)random_below(&making->random, 1000);
}

static float *drawn(struct making *making, size_t count, float from, float to)
{
    float *values = take(making, count, sizeof *values);
    for (size_t i = 0; values && i < count; i++)
        values[i] = from + (to - from) * (float)random_below(&making->random, 1 << 20) / (1 << 20);
    return values;
}

/* A number that shifts a sequence's rows, or its length, or words of bits. */
static int32_t drawn_integer(struct making *making, const struct cla_feature_tensor *row)
{
    const struct clattn_shape *shape = &making->problem->shape;
    if (row->extent == CLA_OF_TREE)
        return (int32_t)(uint32_t)random_next(&making->random);
    if (row->counts == CLA_COUNTS_ROWS)
        return (int32_t)key_length(making, shape->n_q);
    return (int32_t)(random_below(&making->random, shape->n_q + shape->n_kv + 1) - shape->n_q);
}

static int32_t *integers(struct making *making, const struct cla_feature_tensor *row, size_t count)
{
    int32_t *values = take(making, count, sizeof *values);
    for (size_t i = 0; values && i < count; i++)
        values[i] = drawn_integer(making, row);
    return values;
}

/* Tensors of later features: those of rows and bare ones dense, of pairs, keys or heads broadcast as chance has it. */
static void make_tensor(struct making *making, int n, const struct cla_feature_tensor *row)
{
    const struct clattn_shape *shape = &making->problem->shape;
    struct reference_score *score = &making->problem->score;
    size_t *count = &making->score->counts.more[n];
    const bool bare = cla_feature_is_bare(row);
    struct cla_sizes sizes;
    cla_feature_sizes(row, shape, &sizes);
    if (row->extent == CLA_OF_BATCH) {
        *count = (size_t)shape->batch;
    } else if (row->extent == CLA_OF_TREE) {
        score->tree_keys = 1 + random_below(&making->random, 40);
        *count = spread(making, shape->n_q, (score->tree_keys + 31) / 32, true, &score->more_at[n]);
    } else if (row->extent == CLA_OF_ROWS) {
        *count = reference_row_count(making->problem);
    } else if ((row->extent == CLA_OF_PAIRS || row->extent == CLA_OF_EACH_KEY) && bare) {
        *count = (size_t)(sizes.batch * sizes.heads * sizes.rows * sizes.columns);
    } else if (row->extent == CLA_OF_PAIRS || row->extent == CLA_OF_EACH_KEY) {
        *count = spread(making, sizes.rows, sizes.columns, true, &score->more_at[n]);
    } else {
        const int64_t batch =
            row->extent == CLA_OF_HEADS && (bare || random_below(&making->random, 2)) ? shape->batch : 1;
        const int64_t each = row->each ? row->each : 1;
        score->more_at[n] =
            (struct clattn_layout){.batch = batch > 1 ? shape->heads * each : 0, .head = each, .row = row->each > 0};
        *count = (size_t)(batch * shape->heads * each);
    }
    if (row->element == CLA_INT)
        score->more[n] = integers(making, row, *count);
    else
        score->more[n] = drawn(making, *count, row->drawn_from, row->drawn_to);
}

static void make_later_features(struct making *making)
{
    struct reference_score *score = &making->problem->score;
    const struct cla_feature *of;
    const struct cla_feature_tensor *row;
    const struct cla_feature_number *number;
    for (int i = 0; (row = cla_feature_tensor(i, &of)); i++)
        if ((score->features & of->bit) && row->drawn_from < row->drawn_to)
            make_tensor(making, i, row);
    for (int i = 0; (number = cla_feature_number(i, &of)); i++)
        if ((score->features & of->bit) && number->drawn_from < number->drawn_to)
            score->more_numbers[i] =
                (double)(number->drawn_from +
                         (number->drawn_to - number->drawn_from) * (float)random_below(&making->random, 4096) / 4096);
}

static void make_mods(struct making *making, int mods)
{
    struct reference_score *score = &making->problem->score;
    if (!mods)
        return;
    making->score->counts.data = DATA;
    score->data = normal(making, DATA, 1.0);
    if (mods & VERIFY_SCORE_MOD) {
        score->score_mod = score_mod;
        score->score_mod_grad = score_mod_grad;
    }
    if (mods & VERIFY_MASK_MOD)
        score->mask_mod = mask_mod;
}

bool verify_score_create(struct verify_case *item, uint64_t seed, struct verify_score *score)
{
    struct reference_problem *problem = &item->problem;
    struct making making = {.problem = problem,
                            .random = {.state = seed ^ 0x5c02eu},
                            .score = score,
                            .given = item->given,
                            .kept = item->kept};
    *score = (struct verify_score){.failed = false};
    if (!item->given)
        make_numbers(&making);
    make_lengths(&making);
    if (problem->score.features & CLATTN_BIAS)
        make_bias(&making);
    make_masks(&making);
    if (item->csr)
        compress(&making);
    make_vectors(&making);
    make_mods(&making, item->mods);
    make_later_features(&making);
    if (score->failed)
        verify_score_destroy(score);
    return !score->failed;
}

void verify_score_destroy(struct verify_score *score)
{
    for (int i = 0; i < VERIFY_SCORE_ARRAYS; i++)
        free(score->memory[i]);
    *score = (struct verify_score){.failed = score->failed};
}
