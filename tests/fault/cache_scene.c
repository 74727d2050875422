/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault/cache_scene.h"
#include "support/compare.h"
#include <clattn/append.h>
#include <clattn/host_cache.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { D = 16, HEADS = 2, ROWS = 2, KEYS = 5, SHARED = 3, PAGE_KEYS = 4 };

/* The last rows of a sequence, which shares its first keys with another one. */
static const struct forward_case attention = {
    .problem = {.d = D, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT},
    .shape = {.batch = 1, .heads = HEADS, .kv_heads = 1, .n_q = ROWS, .n_kv = KEYS},
    .seed = 53};

/* What the scenes have beside the others. */
struct cache_scene {
    clattn_host_cache *host;
    clattn_appender *appender;
    cl_mem new_rows; /* K, as `results` is to have it */
    bool saved;      /* a file is there */
};

static bool open_cache(struct scene *scene, size_t outputs)
{
    scene->cache = calloc(1, sizeof *scene->cache);
    scene->outputs = outputs;
    scene->output = malloc(outputs * sizeof(float));
    if (!scene->cache || !scene->output || !forward_arrays_make(&attention, &scene->arrays))
        return false;
    scene_poison(scene);
    return true;
}

static void path_of(const struct scene *scene, char path[256])
{
    snprintf(path, 256, "%s/keys.cache", scene->cache_directory);
}

static void close_cache(struct scene *scene)
{
    struct cache_scene *cache = scene->cache;
    char path[256];
    if (!cache)
        return;
    path_of(scene, path);
    if (cache->saved)
        remove(path);
    clattn_host_cache_destroy(&cache->host);
    clattn_appender_destroy(&cache->appender);
    if (cache->new_rows)
        clReleaseMemObject(cache->new_rows);
    if (scene->results)
        clReleaseMemObject(scene->results);
    free(cache);
}

/* The host level */

static bool open_host_cache(struct scene *scene)
{
    return open_cache(scene, HEADS * ROWS * (D + 1));
}

static clattn_status create(struct scene *scene)
{
    struct clattn_problem problem = attention.problem;
    problem.page_keys = PAGE_KEYS;
    const struct clattn_host_cache_params params = {
        .context = scene->context, .problem = &problem, .sequences = 2, .kv_heads = 1};
    const clattn_status status = clattn_host_cache_create(&scene->cache->host, &params);
    return status && scene->cache->host ? 1 : status;
}

/* A call that fails leaves the cache as it was; this one ends with a status of its own where that does not hold. */
static clattn_status unless_grown(const struct scene *scene, clattn_status status, int64_t before)
{
    int64_t after = 0;
    if (!status || clattn_host_cache_length(scene->cache->host, 0, 0, &after))
        return status;
    return after == before ? status : 1;
}

static clattn_status append(struct scene *scene)
{
    const struct clattn_host_cache_args args = {
        .shape = {.batch = 1, .heads = HEADS, .n_q = KEYS}, .k = scene->arrays.k, .v = scene->arrays.v};
    return unless_grown(scene, clattn_host_cache_append(scene->cache->host, &args), 0);
}

static clattn_status save(struct scene *scene)
{
    char path[256];
    path_of(scene, path);
    const clattn_status status = clattn_host_cache_save(scene->cache->host, path);
    scene->cache->saved = !status;
    return status;
}

static clattn_status load(struct scene *scene)
{
    char path[256];
    path_of(scene, path);
    return unless_grown(scene, clattn_host_cache_load(scene->cache->host, path), KEYS);
}

/* Can be repeated: what the second sequence was is forgotten first. */
static clattn_status fork_and_attend(struct scene *scene)
{
    static const int64_t second[] = {1};
    const struct clattn_host_cache_args args = {.shape = {.batch = 1, .heads = HEADS, .n_q = ROWS},
                                                .sequences = second,
                                                .q = scene->arrays.q,
                                                .k = scene->arrays.k + SHARED * D,
                                                .v = scene->arrays.v + SHARED * D,
                                                .o = scene->output,
                                                .lse = scene->output + HEADS * ROWS * D};
    scene_poison(scene);
    clattn_status status = clattn_host_cache_fork(scene->cache->host, 0, 1, SHARED + 1);
    if (!status)
        status = clattn_host_cache_truncate(scene->cache->host, 1, SHARED);
    if (!status)
        status = clattn_host_cache_forward(scene->cache->host, &args);
    scene->done = !status;
    return status;
}

static bool host_cache_right(struct scene *scene)
{
    struct forward_arrays *arrays = &scene->arrays;
    memcpy(arrays->o, scene->output, HEADS * ROWS * D * sizeof(float));
    memcpy(arrays->lse, scene->output + HEADS * ROWS * D, HEADS * ROWS * sizeof(float));
    arrays->without_m = true;
    return compare_outputs(&attention, arrays);
}

/* The device level: rows of K become the last keys of a cache of K alone. */

static bool open_appender(struct scene *scene)
{
    if (!open_cache(scene, KEYS * D))
        return false;
    const size_t bytes = KEYS * D * sizeof(float);
    cl_int codes[2];
    scene->cache->new_rows = clCreateBuffer(scene->device->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, bytes,
                                            scene->arrays.k, &codes[0]);
    scene->results = clCreateBuffer(scene->device->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes,
                                    scene->output, &codes[1]);
    return test_cl_succeeded(codes[0], "clCreateBuffer") && test_cl_succeeded(codes[1], "clCreateBuffer");
}

static clattn_status make_appender(struct scene *scene)
{
    const struct clattn_append_params params = {.problem = &attention.problem};
    const clattn_status status = clattn_appender_create(&scene->cache->appender, scene->context, &params);
    return status && scene->cache->appender ? 1 : status;
}

static clattn_status enqueue(struct scene *scene)
{
    const struct clattn_append_args args = {
        .shape = {.batch = 1, .heads = HEADS, .kv_heads = 1, .n_q = KEYS, .n_kv = KEYS},
        .k_new = {.buffer = scene->cache->new_rows},
        .k = {.buffer = scene->results}};
    const clattn_status status =
        clattn_append_enqueue(scene->cache->appender, scene->device->queue, &args, 0, NULL, &scene->event);
    scene->done = !status;
    return status;
}

static bool appended_right(struct scene *scene)
{
    const size_t bytes = KEYS * D * sizeof(float);
    return test_cl_succeeded(clWaitForEvents(1, &scene->event), "clWaitForEvents") &&
           test_cl_succeeded(clEnqueueReadBuffer(scene->device->queue, scene->results, CL_TRUE, 0, bytes, scene->output,
                                                 0, NULL, NULL),
                             "clEnqueueReadBuffer") &&
           memcmp(scene->output, scene->arrays.k, bytes) == 0;
}

static const struct step host_cache_steps[] = {{"clattn_context_create", scene_make_context},
                                               {"clattn_host_cache_create", create},
                                               {"clattn_host_cache_append", append},
                                               {"clattn_host_cache_save", save},
                                               {"clattn_host_cache_load", load},
                                               {"clattn_host_cache_fork, _truncate, _forward", fork_and_attend},
                                               {0}};
static const struct step append_steps[] = {{"clattn_context_create", scene_make_context},
                                           {"clattn_appender_create", make_appender},
                                           {"clattn_append_enqueue", enqueue},
                                           {0}};

const struct scenario cache_scenarios[] = {{.name = "host cache",
                                            .steps = host_cache_steps,
                                            .sparse = true,
                                            .files = true,
                                            .warm_only = true,
                                            .open = open_host_cache,
                                            .close = close_cache,
                                            .right = host_cache_right},
                                           {.name = "append",
                                            .steps = append_steps,
                                            .warm_only = true,
                                            .open = open_appender,
                                            .close = close_cache,
                                            .right = appended_right}};
const int cache_scenario_count = sizeof cache_scenarios / sizeof cache_scenarios[0];
