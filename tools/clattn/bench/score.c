/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/score.h"
#include "random.h"
#include "reference/reference.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 7, TREE = 64 };
static const float dropout_p = 0.1f;

void bench_score_problem(const struct bench_shape *shape, struct clattn_problem *problem)
{
    problem->features = shape->features;
    problem->dropout_p = shape->features & CLATTN_DROPOUT ? dropout_p : 0.0f;
    problem->score_mod = shape->texts->score_mod;
    problem->score_mod_grad = problem->pass == CLATTN_BACKWARD ? shape->texts->score_mod_grad : NULL;
    problem->mask_mod = shape->texts->mask_mod;
    if (shape->features & CLATTN_BLOCK_MASK) {
        problem->block_q = shape->block_q;
        problem->block_kv = shape->block_kv;
        problem->expected_density = (float)shape->block_density;
    }
}

/* A buffer that starts as a copy of `values`, which is freed; NULL: there was no memory for them. */
static int upload(const struct session *session, const char *name, void *values, size_t bytes, cl_mem *buffer,
                  struct failure *failure)
{
    if (!values)
        return fail(failure, STATUS_DEVICE, "%s: no memory for %zu bytes", name, bytes);
    cl_int code = CL_SUCCESS;
    *buffer = clCreateBuffer(session->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, bytes, values, &code);
    free(values);
    return code ? fail(failure, STATUS_DEVICE, "%s: a buffer of %zu bytes: %s", name, bytes, clattn_status_name(code))
                : STATUS_OK;
}

static size_t pairs_of(const struct bench_shape *shape)
{
    return (size_t)shape->sizes.n_q * (size_t)shape->sizes.n_kv;
}

static struct clattn_layout shared(int64_t columns)
{
    return (struct clattn_layout){.row = columns, .column = 1};
}

/* The slopes of the paper: 2^(-8 h / heads). */
static int make_alibi(const struct session *session, const struct bench_shape *shape, struct clattn_score_args *args,
                      struct failure *failure)
{
    const size_t heads = (size_t)shape->sizes.heads;
    float *slopes = malloc(heads * sizeof *slopes);
    for (size_t h = 0; slopes && h < heads; h++)
        slopes[h] = exp2f(-8.0f * (float)(h + 1) / (float)heads);
    args->alibi.layout = (struct clattn_layout){.head = 1};
    return upload(session, "slopes", slopes, heads * sizeof *slopes, &args->alibi.buffer, failure);
}

static int make_bias(const struct session *session, const struct bench_shape *shape, struct clattn_score_args *args,
                     struct failure *failure)
{
    const size_t count = pairs_of(shape), bytes = count * (size_t)clattn_dtype_size(shape->dtype);
    const int64_t sizes[4] = {1, 1, shape->sizes.n_q, shape->sizes.n_kv};
    const struct clattn_layout dense = {.offset = 0};
    struct random random = {.state = SEED};
    float *values = malloc(count * sizeof *values);
    void *stored = values ? malloc(bytes) : NULL;
    if (stored) {
        random_normal(&random, 1.0, values, count);
        reference_scatter(shape->dtype, sizes, &dense, values, stored);
    }
    free(values);
    args->bias.layout = shared(shape->sizes.n_kv);
    return upload(session, "bias", stored, bytes, &args->bias.buffer, failure);
}

static int make_mask(const struct session *session, const struct bench_shape *shape, struct clattn_score_args *args,
                     struct failure *failure)
{
    const size_t count = pairs_of(shape);
    struct random random = {.state = SEED};
    unsigned char *mask = malloc(count);
    for (size_t i = 0; mask && i < count; i++)
        mask[i] = random_below(&random, 10) != 0;
    args->mask.layout = shared(shape->sizes.n_kv);
    return upload(session, "mask", mask, count, &args->mask.buffer, failure);
}

/* Keeps the same number of blocks in each row, in random places (Knuth's selection sampling). */
static int make_block_mask(const struct session *session, const struct bench_shape *shape,
                           struct clattn_score_args *args, struct failure *failure)
{
    const int64_t rows = (shape->sizes.n_q + shape->block_q - 1) / shape->block_q;
    const int64_t columns = (shape->sizes.n_kv + shape->block_kv - 1) / shape->block_kv;
    const int64_t kept = bench_kept_blocks(shape);
    struct random random = {.state = SEED};
    unsigned char *mask = malloc((size_t)(rows * columns));
    for (int64_t i = 0; mask && i < rows; i++) {
        int64_t wanted = kept;
        for (int64_t j = 0; j < columns; j++) {
            const bool keep = random_below(&random, columns - j) < wanted;
            mask[i * columns + j] = keep;
            wanted -= keep;
        }
    }
    args->block_mask.layout = shared(columns);
    return upload(session, "block mask", mask, (size_t)(rows * columns), &args->block_mask.buffer, failure);
}

/* `first`, then further numbers `step` apart. */
static int make_numbers(const struct session *session, const char *name, int64_t count, int64_t first, int64_t step,
                        cl_mem *buffer, struct failure *failure)
{
    cl_int *numbers = malloc((size_t)count * sizeof *numbers);
    for (int64_t i = 0; numbers && i < count; i++)
        numbers[i] = (cl_int)(first + i * step);
    return upload(session, name, numbers, (size_t)count * sizeof *numbers, buffer, failure);
}

static int make_sinks(const struct session *session, const struct bench_shape *shape, struct clattn_score_args *args,
                      struct failure *failure)
{
    args->sinks.layout = (struct clattn_layout){.head = 1};
    return upload(session, "sinks", calloc((size_t)shape->sizes.heads, sizeof(float)),
                  (size_t)shape->sizes.heads * sizeof(float), &args->sinks.buffer, failure);
}

/* Tensors that are not drawn as their rows say. */
static const struct own {
    const char *name;
    int (*make)(const struct session *session, const struct bench_shape *shape, struct clattn_score_args *args,
                struct failure *failure);
} own[] = {{"alibi", make_alibi},
           {"bias", make_bias},
           {"mask", make_mask},
           {"block_mask", make_block_mask},
           {"sinks", make_sinks}};

static const struct own *own_of(const struct cla_feature_tensor *row)
{
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (!strcmp(own[i].name, row->name))
            return &own[i];
    return NULL;
}

/* Others have values of their own elsewhere: K's and V's pages and scales. */
static bool is_made(const struct cla_feature_tensor *row)
{
    return own_of(row) || row->counts || row->drawn_from < row->drawn_to;
}

/* Full lengths, rows whose last one sees the last key, and a tree of which all is seen. */
static int make_integers(const struct session *session, const struct bench_shape *shape,
                         const struct cla_feature_tensor *row, int64_t tree_keys, struct clattn_tensor *tensor,
                         struct failure *failure)
{
    const struct clattn_shape *s = &shape->sizes;
    const int64_t n = row->counts == CLA_COUNTS_ROWS ? s->n_q : row->counts ? s->n_kv : s->n_kv - s->n_q;
    const int64_t words = (tree_keys + 31) / 32;
    if (row->extent == CLA_OF_SEQUENCES)
        return make_numbers(session, row->name, s->batch + 1, 0, n, &tensor->buffer, failure);
    if (row->extent != CLA_OF_TREE)
        return make_numbers(session, row->name, s->batch, n, 0, &tensor->buffer, failure);
    tensor->layout = shared(words);
    return make_numbers(session, row->name, s->n_q * words, -1, 0, &tensor->buffer, failure);
}

/* Numbers of pairs, rows, keys or heads, dense, but that a bias is shared. */
static int make_floats(const struct session *session, const struct bench_shape *shape,
                       const struct cla_feature_tensor *row, struct clattn_tensor *tensor, struct failure *failure)
{
    const struct clattn_shape *s = &shape->sizes;
    const bool once = row->extent == CLA_OF_PAIRS && !cla_feature_is_bare(row);
    struct cla_sizes sizes = {s->batch, s->heads, s->n_q, 1}; /* of rows */
    cla_feature_sizes(row, s, &sizes);
    const size_t count = (size_t)((once ? 1 : sizes.batch * sizes.heads) * sizes.rows * sizes.columns);
    struct random random = {.state = SEED};
    float *values = malloc(count * sizeof *values);
    for (size_t i = 0; values && i < count; i++)
        values[i] = row->drawn_from + (row->drawn_to - row->drawn_from) * (float)random_below(&random, 4096) / 4096;
    if (once)
        tensor->layout = shared(s->n_kv);
    return upload(session, row->name, values, count * sizeof *values, &tensor->buffer, failure);
}

static int make_tensor(const struct session *session, const struct bench_shape *shape,
                       const struct cla_feature_tensor *row, struct clattn_score_args *args, struct failure *failure)
{
    struct clattn_tensor tensor = {.buffer = NULL};
    if (own_of(row))
        return own_of(row)->make(session, shape, args, failure);
    const int status = row->element == CLA_INT ? make_integers(session, shape, row, args->tree_keys, &tensor, failure)
                                               : make_floats(session, shape, row, &tensor, failure);
    cla_feature_give(row, tensor, args);
    return status;
}

/* Those whose rows say what verify draws are in the middle of that. */
static void give_numbers(const struct bench_shape *shape, struct clattn_score_args *args)
{
    const struct cla_feature *of;
    const struct cla_feature_number *row;
    for (int i = 0; (row = cla_feature_number(i, &of)); i++)
        if ((shape->features & of->bit) && row->drawn_from < row->drawn_to)
            cla_feature_give_number(row, 0, (double)(row->drawn_from + row->drawn_to) / 2, args);
    if (shape->features & CLATTN_WINDOW) {
        args->window_left = shape->window_left;
        args->window_right = shape->window_right;
    }
    if (shape->features & CLATTN_SOFTCAP)
        args->softcap = 30.0f;
    if (shape->features & CLATTN_VARLEN) {
        args->total_q = shape->sizes.batch * shape->sizes.n_q;
        args->total_kv = shape->sizes.batch * shape->sizes.n_kv;
    }
    if (shape->features & CLATTN_DROPOUT) {
        args->dropout_p = dropout_p;
        args->dropout_seed = SEED;
    }
    if (shape->features & CLATTN_TREE_MASK)
        args->tree_keys = shape->sizes.n_kv < TREE ? shape->sizes.n_kv : TREE;
}

int bench_score_create(const struct session *session, const struct bench_shape *shape, struct clattn_score_args *args,
                       struct clattn_score_more *more, struct failure *failure)
{
    int status = STATUS_OK;
    const struct cla_feature *of;
    const struct cla_feature_tensor *row;
    *args = (struct clattn_score_args){.more = more};
    give_numbers(shape, args);
    for (int i = 0; (row = cla_feature_tensor(i, &of)) && !status; i++)
        if ((shape->features & of->bit) && is_made(row))
            status = make_tensor(session, shape, row, args, failure);
    if (status)
        bench_score_destroy(args);
    return status;
}

void bench_score_destroy(struct clattn_score_args *args)
{
    const struct cla_feature *of;
    const struct cla_feature_tensor *row;
    for (int i = 0; (row = cla_feature_tensor(i, &of)); i++) {
        const cl_mem buffer = is_made(row) ? cla_feature_given(row, args).buffer : NULL;
        if (buffer)
            clReleaseMemObject(buffer);
    }
    *args = (struct clattn_score_args){.softcap = 0.0f};
}
