/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/keys.h"
#include "random.h"
#include "reference/formats.h"
#include <stdlib.h>

enum { POOL = 1 << 18 }; /* elements that are made, and repeated */

static bool is_format(int type)
{
    return type > CLATTN_AS_BF16;
}

static bool has_scales(int type)
{
    return is_format(type) && type <= CLATTN_AS_FP8_E5M2;
}

bool bench_keys_are_apart(const struct bench_shape *shape)
{
    return is_format(shape->k_type) || is_format(shape->v_type) || shape->page_keys;
}

void bench_keys_problem(const struct bench_shape *shape, struct clattn_problem *problem)
{
    problem->k_type = is_format(shape->k_type) ? shape->k_type : CLATTN_AS_DTYPE;
    problem->v_type = is_format(shape->v_type) ? shape->v_type : CLATTN_AS_DTYPE;
    problem->page_keys = shape->page_keys;
    problem->features |= shape->page_keys ? CLATTN_PAGES : 0;
}

static int64_t pages_of(const struct bench_shape *shape)
{
    return (shape->sizes.n_kv + shape->page_keys - 1) / shape->page_keys;
}

uint64_t bench_key_rows(const struct bench_shape *shape)
{
    const int64_t keys = shape->page_keys ? pages_of(shape) * shape->page_keys : shape->sizes.n_kv;
    return (uint64_t)(shape->sizes.batch * shape->sizes.kv_heads * keys);
}

uint64_t bench_key_bytes(const struct bench_shape *shape, bool v)
{
    const int type = v ? shape->v_type : shape->k_type, columns = v ? shape->d_v : shape->d;
    return is_format(type) ? formats_row_bytes(type, columns)
                           : (uint64_t)columns * (uint64_t)clattn_dtype_size(shape->dtype);
}

/* Some quantised rows, and a scale for each. */
struct some {
    size_t rows, row_bytes;
    uint8_t *data;
    float *scales;
};

static bool make_some(int type, int columns, uint64_t seed, struct some *some)
{
    const struct formats_way way = {.type = type, .columns = columns};
    struct random random = {.state = seed};
    float values[CLATTN_MAX_LATENT_D];
    *some = (struct some){.rows = (size_t)(POOL / columns), .row_bytes = formats_row_bytes(type, columns)};
    some->data = malloc(some->rows * some->row_bytes);
    some->scales = malloc(some->rows * sizeof *some->scales);
    for (size_t i = 0; i < some->rows && some->data && some->scales; i++) {
        random_normal(&random, 1.0, values, (size_t)columns);
        formats_quantise(&way, values, some->data + i * some->row_bytes, some->scales + i, NULL);
    }
    return some->data && some->scales;
}

static int quantise(const struct session *session, const struct bench_shape *shape, bool v,
                    struct clattn_tensor *tensor, struct clattn_tensor *scales, struct failure *failure)
{
    const int type = v ? shape->v_type : shape->k_type;
    const uint64_t rows = bench_key_rows(shape);
    struct some some = {.rows = 0};
    int status = make_some(type, v ? shape->d_v : shape->d, v ? 3 : 2, &some)
                     ? STATUS_OK
                     : fail(failure, STATUS_DEVICE, "no memory for quantised rows");
    tensor->layout = (struct clattn_layout){.offset = 0};
    if (!status)
        status = bench_fill(session, v ? "V" : "K", some.data, some.rows * some.row_bytes, rows * some.row_bytes,
                            &tensor->buffer, failure);
    if (!status && has_scales(type))
        status = bench_fill(session, "scales", some.scales, some.rows * sizeof *some.scales, rows * sizeof *some.scales,
                            &scales->buffer, failure);
    free(some.data);
    free(some.scales);
    return status;
}

static int make_table(const struct session *session, const struct bench_shape *shape, struct clattn_score_args *score,
                      struct failure *failure)
{
    const int64_t count = shape->sizes.batch * pages_of(shape);
    struct random random = {.state = 7};
    cl_int *numbers = malloc((size_t)count * sizeof *numbers);
    for (int64_t i = 0; numbers && i < count; i++) {
        const int64_t other = random_below(&random, i + 1);
        numbers[i] = numbers[other];
        numbers[other] = (cl_int)i;
    }
    const size_t bytes = (size_t)count * sizeof *numbers;
    const int status = numbers ? bench_fill(session, "pages", numbers, bytes, bytes, &score->pages.buffer, failure)
                               : fail(failure, STATUS_DEVICE, "no memory for a table of pages");
    free(numbers);
    score->pool_pages = count;
    return status;
}

int bench_keys_create(const struct session *session, const struct bench_shape *shape, struct bench_buffers *buffers,
                      struct failure *failure)
{
    struct clattn_forward_args *args = &buffers->args;
    int status = STATUS_OK;
    args->score.kv_scales = &buffers->scales;
    if (is_format(shape->k_type))
        status = quantise(session, shape, false, &args->k, &buffers->scales.k_scales, failure);
    if (!status && is_format(shape->v_type))
        status = quantise(session, shape, true, &args->v, &buffers->scales.v_scales, failure);
    if (!status && shape->page_keys) {
        args->k.layout = args->v.layout = (struct clattn_layout){.offset = 0};
        status = make_table(session, shape, &args->score, failure);
    }
    return status;
}

void bench_keys_destroy(struct bench_buffers *buffers)
{
    const cl_mem all[] = {buffers->scales.k_scales.buffer, buffers->scales.v_scales.buffer,
                          buffers->args.score.pages.buffer};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i])
            clReleaseMemObject(all[i]);
}
