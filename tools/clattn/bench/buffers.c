/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/buffers.h"
#include "bench/keys.h"
#include "bench/score.h"
#include "random.h"
#include "random_pool.h"
#include "reference/reference.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static cl_int write_repeated(const struct session *session, cl_mem buffer, const void *pool, size_t pool_bytes,
                             size_t bytes)
{
    cl_int code = CL_SUCCESS;
    for (size_t at = 0; !code && at < bytes; at += pool_bytes)
        code = clEnqueueWriteBuffer(session->queue, buffer, CL_FALSE, at,
                                    bytes - at < pool_bytes ? bytes - at : pool_bytes, pool, 0, NULL, NULL);
    return code ? code : clFinish(session->queue);
}

static int create(const struct session *session, const char *name, uint64_t bytes, cl_mem *buffer,
                  struct failure *failure)
{
    cl_int code = CL_SUCCESS;
    *buffer = clCreateBuffer(session->context, CL_MEM_READ_WRITE, bytes ? bytes : 1, NULL, &code);
    return code ? fail(failure, STATUS_DEVICE, "%s: a buffer of %llu bytes: %s", name, (unsigned long long)bytes,
                       clattn_status_name(code))
                : STATUS_OK;
}

int bench_fill(const struct session *session, const char *name, const void *pool, size_t pool_bytes, uint64_t bytes,
               cl_mem *buffer, struct failure *failure)
{
    const int status = create(session, name, bytes, buffer, failure);
    const cl_int code = status ? CL_SUCCESS : write_repeated(session, *buffer, pool, pool_bytes, bytes);
    return code ? fail_code(failure, "filling a buffer", code) : status;
}

static int create_filled(const struct session *session, const char *name, enum clattn_dtype dtype, uint64_t elements,
                         uint64_t seed, cl_mem *buffer, struct failure *failure)
{
    const size_t size = (size_t)clattn_dtype_size(dtype);
    void *pool = random_pool(dtype, seed);
    const int filled = pool ? bench_fill(session, name, pool, RANDOM_POOL * size, elements * size, buffer, failure)
                            : fail_code(failure, "filling a buffer", CL_OUT_OF_HOST_MEMORY);
    free(pool);
    return filled;
}

/* Packed sequences lie in [heads, total, d]; all others have the default layout. */
static struct clattn_layout layout_of(const struct bench_shape *shape, int64_t heads, int64_t n, int64_t d)
{
    return shape->features & CLATTN_VARLEN ? clattn_layout_bhnd(heads, shape->sizes.batch * n, d)
                                           : clattn_layout_bhnd(heads, n, d);
}

static uint64_t rows_of(const struct bench_shape *shape)
{
    return (uint64_t)(shape->sizes.batch * shape->sizes.heads * shape->sizes.n_q);
}

/* Of the softmax: LSE, or m and l, which a backward pass starts from. */
static int create_vectors(const struct session *session, const struct bench_shape *shape,
                          struct clattn_forward_args *args, struct failure *failure)
{
    const uint64_t bytes = rows_of(shape) * sizeof(float);
    if (shape->pass == CLATTN_FORWARD)
        return create(session, "LSE", bytes, &args->lse.buffer, failure);
    const int status = create(session, "m", bytes, &args->m.buffer, failure);
    return status ? status : create(session, "l", bytes, &args->l.buffer, failure);
}

static int create_forward(const struct session *session, const struct bench_shape *shape, struct bench_buffers *buffers,
                          struct failure *failure)
{
    const struct clattn_shape *s = &shape->sizes;
    struct clattn_forward_args *args = &buffers->args;
    args->q.layout = layout_of(shape, s->heads, s->n_q, shape->d);
    args->k.layout = layout_of(shape, s->kv_heads, s->n_kv, shape->d);
    args->v.layout = layout_of(shape, s->kv_heads, s->n_kv, shape->d_v);
    args->o.layout = layout_of(shape, s->heads, s->n_q, shape->d_v);
    args->lse.layout = layout_of(shape, s->heads, s->n_q, 1);
    args->lse.layout.column = 0;
    args->m.layout = args->l.layout = args->lse.layout;
    int status = create_filled(session, "Q", shape->dtype, buffers->q_elements, 1, &args->q.buffer, failure);
    if (!status && shape->k_type <= CLATTN_AS_BF16)
        status = create_filled(session, "K", shape->dtype, buffers->k_elements, 2, &args->k.buffer, failure);
    if (!status && shape->v_type <= CLATTN_AS_BF16)
        status = create_filled(session, "V", shape->dtype, buffers->v_elements, 3, &args->v.buffer, failure);
    if (!status)
        status = create(session, "O", buffers->o_elements * (uint64_t)clattn_dtype_size(shape->dtype), &args->o.buffer,
                        failure);
    if (!status)
        status = create_vectors(session, shape, args, failure);
    if (!status)
        status = bench_score_create(session, shape, &args->score, &buffers->more, failure);
    return status ? status : bench_keys_create(session, shape, buffers, failure);
}

static int create_backward(const struct session *session, const struct bench_shape *shape,
                           struct bench_buffers *buffers, struct failure *failure)
{
    const struct clattn_forward_args *forward = &buffers->args;
    const uint64_t size = (uint64_t)clattn_dtype_size(shape->dtype);
    struct clattn_backward_args *args = &buffers->backward;
    *args = (struct clattn_backward_args){.shape = forward->shape,
                                          .q = forward->q,
                                          .k = forward->k,
                                          .v = forward->v,
                                          .o = forward->o,
                                          .m = forward->m,
                                          .l = forward->l,
                                          .d_o = {.layout = forward->o.layout},
                                          .d_q = {.layout = forward->q.layout},
                                          .d_k = {.layout = forward->k.layout},
                                          .d_v = {.layout = forward->v.layout},
                                          .score = forward->score};
    int status = create_filled(session, "dO", shape->dtype, buffers->o_elements, 4, &args->d_o.buffer, failure);
    if (!status)
        status = create(session, "dQ", buffers->q_elements * size, &args->d_q.buffer, failure);
    if (!status)
        status = create(session, "dK", buffers->k_elements * size, &args->d_k.buffer, failure);
    return status ? status : create(session, "dV", buffers->v_elements * size, &args->d_v.buffer, failure);
}

uint64_t bench_tensor_bytes(const struct bench_shape *shape)
{
    const uint64_t columns = (uint64_t)(shape->d + shape->d_v), times = shape->pass == CLATTN_BACKWARD ? 2 : 1;
    return times * (rows_of(shape) * columns * (uint64_t)clattn_dtype_size(shape->dtype) +
                    bench_key_rows(shape) * (bench_key_bytes(shape, false) + bench_key_bytes(shape, true)));
}

uint64_t bench_largest_tensor(const struct bench_shape *shape)
{
    const uint64_t columns = (uint64_t)(shape->d > shape->d_v ? shape->d : shape->d_v);
    const uint64_t k = bench_key_bytes(shape, false), v = bench_key_bytes(shape, true);
    const uint64_t keys = bench_key_rows(shape) * (k > v ? k : v);
    const uint64_t rows = rows_of(shape) * columns * (uint64_t)clattn_dtype_size(shape->dtype);
    return rows > keys ? rows : keys;
}

uint64_t bench_vector_bytes(const struct bench_shape *shape)
{
    return rows_of(shape) * sizeof(float) * (shape->pass == CLATTN_FORWARD ? 1 : 2);
}

int bench_buffers_create(const struct session *session, const struct bench_shape *shape, struct bench_buffers *buffers,
                         struct failure *failure)
{
    const uint64_t rows = rows_of(shape), keys = bench_key_rows(shape);
    *buffers = (struct bench_buffers){.args = {.shape = shape->sizes},
                                      .q_elements = rows * (uint64_t)shape->d,
                                      .k_elements = keys * (uint64_t)shape->d,
                                      .v_elements = keys * (uint64_t)shape->d_v,
                                      .o_elements = rows * (uint64_t)shape->d_v};
    int status = create_forward(session, shape, buffers, failure);
    if (!status && shape->pass == CLATTN_BACKWARD)
        status = create_backward(session, shape, buffers, failure);
    if (status)
        bench_buffers_destroy(buffers);
    return status;
}

void bench_buffers_destroy(struct bench_buffers *buffers)
{
    const struct clattn_backward_args *backward = &buffers->backward;
    const cl_mem all[] = {buffers->args.q.buffer, buffers->args.k.buffer,   buffers->args.v.buffer,
                          buffers->args.o.buffer, buffers->args.lse.buffer, buffers->args.m.buffer,
                          buffers->args.l.buffer, backward->d_o.buffer,     backward->d_q.buffer,
                          backward->d_k.buffer,   backward->d_v.buffer};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i])
            clReleaseMemObject(all[i]);
    bench_keys_destroy(buffers);
    bench_score_destroy(&buffers->args.score);
    *buffers = (struct bench_buffers){.o_elements = 0};
}

static bool all_finite(enum clattn_dtype dtype, const void *stored, float *values, size_t count)
{
    const int64_t sizes[4] = {1, 1, 1, (int64_t)count};
    const struct clattn_layout dense = {.offset = 0};
    reference_gather(dtype, sizes, &dense, stored, values);
    for (size_t i = 0; i < count; i++)
        if (!isfinite(values[i]))
            return false;
    return true;
}

static int check_finite(const struct session *session, const struct bench_shape *shape, const char *name, cl_mem buffer,
                        uint64_t elements, struct failure *failure)
{
    const size_t size = (size_t)clattn_dtype_size(shape->dtype);
    float *values = malloc(RANDOM_POOL * sizeof *values);
    void *stored = malloc(RANDOM_POOL * size);
    int status = values && stored ? STATUS_OK : fail(failure, STATUS_DEVICE, "no memory to read %s back", name);
    for (uint64_t at = 0; !status && at < elements; at += RANDOM_POOL) {
        const size_t left = (size_t)(elements - at), count = left < RANDOM_POOL ? left : RANDOM_POOL;
        const cl_int code =
            clEnqueueReadBuffer(session->queue, buffer, CL_TRUE, at * size, count * size, stored, 0, NULL, NULL);
        if (code)
            status = fail_code(failure, "clEnqueueReadBuffer", code);
        else if (!all_finite(shape->dtype, stored, values, count))
            status = fail(failure, STATUS_DEVICE, "%s is not finite: 'clattn verify' says more", name);
    }
    free(values);
    free(stored);
    return status;
}

int bench_check_finite(const struct session *session, const struct bench_shape *shape,
                       const struct bench_buffers *buffers, struct failure *failure)
{
    const struct clattn_backward_args *backward = &buffers->backward;
    int status = check_finite(session, shape, "O", buffers->args.o.buffer, buffers->o_elements, failure);
    if (status || shape->pass != CLATTN_BACKWARD)
        return status;
    status = check_finite(session, shape, "dQ", backward->d_q.buffer, buffers->q_elements, failure);
    if (!status)
        status = check_finite(session, shape, "dK", backward->d_k.buffer, buffers->k_elements, failure);
    return status ? status : check_finite(session, shape, "dV", backward->d_v.buffer, buffers->v_elements, failure);
}
