/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/host_cache.h"
#include "device/clcall.h"
#include "device/report.h"
#include "plan/checked.h"
#include "plan/reserved.h"
#include "plan/types.h"
#include <stdlib.h>

enum { PAGE_KEYS = 64, MOST_NUMBERS = 1 << 24 };

/* What the cache adds to the problem, and what it cannot have. */
static clattn_status take_problem(struct clattn_problem *problem, struct cla_error *error)
{
    const unsigned own = CLATTN_PAGES | CLATTN_KEY_LENGTHS;
    if (problem->features & (own | CLATTN_DROPOUT | CLATTN_QUERY_LENGTHS | CLATTN_ROW_SHIFTS))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "params->problem->features is 0x%x: a cache has pages and key lengths of its own, and no "
                        "dropout, row shifts or query lengths (CLATTN_VARLEN packs rows), so that CLATTN_PAGES, "
                        "CLATTN_KEY_LENGTHS, CLATTN_DROPOUT, CLATTN_ROW_SHIFTS and CLATTN_QUERY_LENGTHS must not be "
                        "set",
                        problem->features);
    if (problem->pass != CLATTN_FORWARD)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "params->problem->pass is %d: a cache is for CLATTN_FORWARD (0)", (int)problem->pass);
    if (problem->causal == CLATTN_CAUSAL_TOP_LEFT)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "params->problem->causal is CLATTN_CAUSAL_TOP_LEFT (2): new rows follow the cache's keys, so "
                        "it is CLATTN_FULL (0) or CLATTN_CAUSAL_BOTTOM_RIGHT (1)");
    if (problem->q_type != CLATTN_AS_DTYPE && problem->q_type != (int64_t)problem->dtype + CLATTN_AS_FP32)
        return cla_fail(error, CLATTN_INVALID_TYPE,
                        "params->problem->q_type is %lld: arrays of Q, K and V are of problem.dtype, so it is 0 "
                        "(k_type and v_type say how the cache stores them)",
                        (long long)problem->q_type);
    problem->features |= own;
    problem->page_keys = problem->page_keys ? problem->page_keys : PAGE_KEYS;
    if (!problem->splits)
        problem->splits = CLATTN_SPLITS_BY_SHAPE;
    return CLATTN_SUCCESS;
}

static clattn_status check_number(const char *name, int64_t number, int64_t least, struct cla_error *error)
{
    if (number >= least && number <= MOST_NUMBERS)
        return CLATTN_SUCCESS;
    return cla_fail(error, CLATTN_INVALID_ARGUMENT, "params->%s is %lld: it is from %lld to %d", name,
                    (long long)number, (long long)least, MOST_NUMBERS);
}

static clattn_status check_cache_params(const struct clattn_host_cache_params *params, struct cla_error *error)
{
    if (!params)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "params is NULL: it must point to a struct clattn_host_cache_params");
    clattn_status status = cla_check_reserved(&cla_struct_host_cache_params, "params", params, error);
    if (!status && !params->problem)
        status = cla_fail(error, CLATTN_INVALID_ARGUMENT,
                          "params->problem is NULL: it must point to a struct clattn_problem");
    if (!status)
        status = check_number("layers", params->layers, 0, error);
    if (!status)
        status = check_number("sequences", params->sequences, 0, error);
    if (!status)
        status = check_number("kv_heads", params->kv_heads, 1, error);
    if (!status && params->layers * params->sequences > MOST_NUMBERS)
        status =
            cla_fail(error, CLATTN_INVALID_ARGUMENT, "params->layers x params->sequences is %lld: it is at most %d",
                     (long long)(params->layers * params->sequences), MOST_NUMBERS);
    if (status)
        return status;
    const bool tables = params->rope_cos && params->rope_sin;
    if (params->rope_rows < 0 || params->rope_rows > CLA_MAX_LENGTH ||
        (params->rotary_d ? !tables : params->rope_cos || params->rope_sin || params->rope_rows))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "params->rotary_d is %lld with rope_cos %p, rope_sin %p and rope_rows %lld: both tables and "
                        "how many positions they have go with a rotary_d that is not 0",
                        (long long)params->rotary_d, (const void *)params->rope_cos, (const void *)params->rope_sin,
                        (long long)params->rope_rows);
    return CLATTN_SUCCESS;
}

/* Pages that max_bytes and one allocation of the device allow. */
static int64_t most_pages(const struct clattn_host_cache *cache, const struct clattn_host_cache_params *params,
                          int64_t layers)
{
    size_t larger = 1;
    for (int i = 0; i < CLA_CACHE_TENSORS; i++)
        larger = cache->page_bytes[i] > larger ? cache->page_bytes[i] : larger;
    const uint64_t device = cache->host->context->capabilities.max_allocation_bytes / larger;
    uint64_t most = device < INT32_MAX ? device : INT32_MAX;
    if (params->max_bytes) {
        const uint64_t asked = params->max_bytes / (uint64_t)layers / cla_cache_page_bytes(cache);
        most = asked < most ? asked : most;
    }
    return (int64_t)most;
}

/* A row of one key and head. */
static int64_t row_bytes(const struct clattn_problem *problem, int which)
{
    const int operand =
        which == CLA_CACHE_K || which == CLA_CACHE_K_SCALES || which == CLA_CACHE_K_ZEROS ? CLA_K : CLA_V;
    const int64_t columns = operand == CLA_K ? problem->d : problem->d_v, group = cla_scale_group(problem, operand);
    const struct cla_type *type = cla_type((int)cla_type_of(problem, operand));
    const bool zeros = problem->zero_points & (operand == CLA_K ? CLATTN_K_ZEROS : CLATTN_V_ZEROS);
    if (which <= CLA_CACHE_V)
        return cla_ceil_div(columns, type->block) * type->bytes;
    if (!group || (which >= CLA_CACHE_K_ZEROS && !zeros))
        return 0;
    return cla_ceil_div(columns, group) * (int64_t)sizeof(float);
}

static clattn_status measure_pages(struct clattn_host_cache *cache, struct cla_error *error)
{
    for (int i = 0; i < CLA_CACHE_TENSORS; i++) {
        int64_t bytes = row_bytes(&cache->problem, i);
        if (!cla_multiply(bytes, cache->kv_heads, &bytes) || !cla_multiply(bytes, cache->problem.page_keys, &bytes))
            return cla_fail(error, CLATTN_TOO_LARGE, "a page of %lld keys of %lld heads is larger than 64 bits count",
                            (long long)cache->problem.page_keys, (long long)cache->kv_heads);
        cache->page_bytes[i] = (size_t)bytes;
    }
    return CLATTN_SUCCESS;
}

static clattn_status make_store(struct clattn_host_cache *cache, const struct clattn_host_cache_params *params,
                                struct cla_error *error)
{
    const int64_t layers = params->layers ? params->layers : 1, sequences = params->sequences ? params->sequences : 1;
    const clattn_status status = measure_pages(cache, error);
    if (status)
        return status;
    cache->layers = calloc((size_t)layers, sizeof *cache->layers);
    if (!cache->layers || !cla_cache_pages_init(&cache->pages, cache->problem.page_keys, layers, sequences,
                                                most_pages(cache, params, layers)))
        return cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for %lld layers and %lld sequences of a cache",
                        (long long)layers, (long long)sequences);
    return CLATTN_SUCCESS;
}

static clattn_status upload(struct clattn_host *host, struct cla_device_block *block, const float *table, int64_t count,
                            struct cla_error *error)
{
    cl_event event = NULL;
    clattn_status status = cla_device_block_grow(block, host->context->context, (size_t)count * sizeof *table, error);
    if (status || !count)
        return status;
    status = cla_cl_enqueue_write(host->queue, block->buffer, 0, block->bytes, table, 0, NULL, &event, error);
    if (!status)
        status = cla_cl_wait(1, &event, error);
    cla_cl_release_event(event);
    return status;
}

static clattn_status make_tables(struct clattn_host_cache *cache, const struct clattn_host_cache_params *params,
                                 struct cla_error *error)
{
    const int64_t count = params->rope_rows * (params->rotary_d / 2);
    cache->rope_rows = params->rope_rows;
    const clattn_status status = upload(cache->host, &cache->cosines, params->rope_cos, count, error);
    return status ? status : upload(cache->host, &cache->sines, params->rope_sin, count, error);
}

static clattn_status make_cache_parts(struct clattn_host_cache *cache, const struct clattn_host_cache_params *params,
                                      struct cla_error *error)
{
    const struct clattn_host_params host = {.context = params->context, .queue = params->queue};
    struct clattn_problem problem = *params->problem;
    const struct clattn_append_params append = {.problem = &problem,
                                                .new_type = (int64_t)problem.dtype + CLATTN_AS_FP32,
                                                .rotary_d = params->rotary_d,
                                                .interleaved = params->interleaved};
    clattn_status status = take_problem(&problem, error);
    if (!status)
        status = cla_host_make(&cache->host, &host, error);
    if (!status)
        status = cla_appender_make(&cache->appender, params->context, &append, error);
    if (!status)
        status = cla_plan_make(&cache->plan, params->context, &problem, error);
    if (status)
        return status;
    cache->problem = cache->plan->problem;
    cache->features = cache->plan->features;
    cache->kv_heads = params->kv_heads;
    cache->interleaved = params->interleaved;
    status = make_store(cache, params, error);
    return status ? status : make_tables(cache, params, error);
}

clattn_status cla_host_cache_make(struct clattn_host_cache **result, const struct clattn_host_cache_params *params,
                                  struct cla_error *error)
{
    if (!result)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "cache is NULL: it must point to the handle to be set");
    clattn_status status = check_cache_params(params, error);
    if (status)
        return status;
    struct clattn_host_cache *cache = calloc(1, sizeof *cache);
    if (!cache)
        return cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for a clattn_host_cache");
    status = make_cache_parts(cache, params, error);
    if (status)
        clattn_host_cache_destroy(&cache);
    else
        *result = cache;
    return status;
}

clattn_status clattn_host_cache_create(clattn_host_cache **cache, const struct clattn_host_cache_params *params)
{
    struct cla_error error;
    if (!cla_host_cache_make(cache, params, &error))
        return CLATTN_SUCCESS;
    return cla_report(params && params->context ? &params->context->log : NULL, &error);
}

void clattn_host_cache_destroy(clattn_host_cache **handle)
{
    if (!handle || !*handle)
        return;
    struct clattn_host_cache *cache = *handle;
    *handle = NULL;
    for (int64_t i = 0; cache->layers && i < cache->pages.layers; i++)
        for (int which = 0; which < CLA_CACHE_TENSORS; which++)
            cla_device_block_free(&cache->layers[i].tensors[which]);
    free(cache->layers);
    cla_cache_pages_finish(&cache->pages);
    cla_device_block_free(&cache->cosines);
    cla_device_block_free(&cache->sines);
    cla_host_block_free(&cache->lengths);
    cla_host_block_free(&cache->table);
    clattn_plan_destroy(&cache->plan);
    clattn_appender_destroy(&cache->appender);
    clattn_host_destroy(&cache->host);
    free(cache);
}
