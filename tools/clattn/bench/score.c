/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/score.h"
#include "random.h"
#include "reference/reference.h"
#include <math.h>
#include <stdlib.h>

enum { SEED = 7 };
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

static int make_varlen(const struct session *session, const struct bench_shape *shape, struct clattn_score_args *args,
                       struct failure *failure)
{
    const struct clattn_shape *s = &shape->sizes;
    args->total_q = s->batch * s->n_q;
    args->total_kv = s->batch * s->n_kv;
    const int status =
        make_numbers(session, "cu_seqlens_q", s->batch + 1, 0, s->n_q, &args->cu_seqlens_q.buffer, failure);
    return status
               ? status
               : make_numbers(session, "cu_seqlens_kv", s->batch + 1, 0, s->n_kv, &args->cu_seqlens_kv.buffer, failure);
}

int bench_score_create(const struct session *session, const struct bench_shape *shape, struct clattn_score_args *args,
                       struct failure *failure)
{
    const unsigned features = shape->features;
    int status = STATUS_OK;
    *args = (struct clattn_score_args){.softcap = features & CLATTN_SOFTCAP ? 30.0f : 0.0f,
                                       .dropout_p = features & CLATTN_DROPOUT ? dropout_p : 0.0f,
                                       .dropout_seed = features & CLATTN_DROPOUT ? SEED : 0};
    if (features & CLATTN_WINDOW) {
        args->window_left = shape->window_left;
        args->window_right = shape->window_right;
    }
    if (!status && features & CLATTN_ALIBI)
        status = make_alibi(session, shape, args, failure);
    if (!status && features & CLATTN_BIAS)
        status = make_bias(session, shape, args, failure);
    if (!status && features & CLATTN_MASK)
        status = make_mask(session, shape, args, failure);
    if (!status && features & CLATTN_BLOCK_MASK)
        status = make_block_mask(session, shape, args, failure);
    if (!status && features & CLATTN_KEY_LENGTHS)
        status = make_numbers(session, "key lengths", shape->sizes.batch, shape->sizes.n_kv, 0,
                              &args->key_lengths.buffer, failure);
    if (!status && features & CLATTN_VARLEN)
        status = make_varlen(session, shape, args, failure);
    if (!status && features & CLATTN_SINKS)
        status = make_sinks(session, shape, args, failure);
    if (status)
        bench_score_destroy(args);
    return status;
}

void bench_score_destroy(struct clattn_score_args *args)
{
    const cl_mem all[] = {args->alibi.buffer,         args->bias.buffer,        args->mask.buffer,
                          args->block_mask.buffer,    args->key_lengths.buffer, args->cu_seqlens_q.buffer,
                          args->cu_seqlens_kv.buffer, args->sinks.buffer};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i])
            clReleaseMemObject(all[i]);
    *args = (struct clattn_score_args){.softcap = 0.0f};
}
