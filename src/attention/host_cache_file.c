/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/host_cache.h"
#include "device/clcall.h"
#include "device/os.h"
#include "device/report.h"
#include "plan/binary_format.h"
#include "plan/cache_file.h"
#include "plan/types.h"
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IDENTITY = 256 };

/* What the elements of the file are. */
static void identify(const struct clattn_host_cache *cache, char identity[IDENTITY])
{
    const struct clattn_problem *problem = &cache->problem;
    snprintf(
        identity, IDENTITY,
        "clattn cache of keys 1: layers %lld, kv_heads %lld, d %d, d_v %d, K %s by %lld, V %s by %lld, zero_points "
        "%lld, page_keys %lld, rotary_d %d, interleaved %lld",
        (long long)cache->pages.layers, (long long)cache->kv_heads, problem->d, problem->d_v,
        cla_type((int)cla_type_of(problem, CLA_K))->name, (long long)cla_scale_group(problem, CLA_K),
        cla_type((int)cla_type_of(problem, CLA_V))->name, (long long)cla_scale_group(problem, CLA_V),
        (long long)problem->zero_points, (long long)cache->pages.page_keys, cache->appender->rotary_d,
        (long long)cache->interleaved);
}

/* --- save */

/* How many keys of each page of a layer there are: what sequences that share it have at most. */
static void count_keys(const struct cla_cache_pages *pages, int64_t layer, int64_t *keys)
{
    for (int64_t i = 0; i < pages->sequences; i++) {
        const int64_t length = *cla_cache_length(pages, layer, i);
        for (int64_t place = 0; place * pages->page_keys < length; place++) {
            int64_t *of_page = &keys[pages->lists[i].numbers[place]];
            const int64_t left = length - place * pages->page_keys;
            const int64_t there = left < pages->page_keys ? left : pages->page_keys;
            *of_page = *of_page > there ? *of_page : there;
        }
    }
}

/* What was once written behind a sequence's keys, or to pages that nobody has, does not leave the device's memory. */
static void clear_others(const struct clattn_host_cache *cache, const int64_t *keys, int which, unsigned char *elements)
{
    const size_t head = cache->page_bytes[which] / (size_t)cache->kv_heads;
    const size_t row = head / (size_t)cache->pages.page_keys;
    for (int64_t page = 0; page < cache->pages.pages; page++)
        for (int64_t h = 0; h < cache->kv_heads; h++) {
            unsigned char *at = elements + (size_t)page * cache->page_bytes[which] + (size_t)h * head;
            const size_t kept = (size_t)keys[page] * row;
            memset(at + kept, 0, head - kept);
        }
}

/* Pages that a layer has no room for have no keys in it. */
static clattn_status read_pages(const struct clattn_host_cache *cache, const struct cla_cache_layer *layer, int which,
                                unsigned char *elements, struct cla_error *error)
{
    const int64_t there = layer->pages < cache->pages.pages ? layer->pages : cache->pages.pages;
    const size_t bytes = (size_t)there * cache->page_bytes[which];
    cl_event event = NULL;
    memset(elements + bytes, 0, (size_t)(cache->pages.pages - there) * cache->page_bytes[which]);
    if (!bytes)
        return CLATTN_SUCCESS;
    clattn_status status = cla_cl_enqueue_read(cache->host->queue, layer->tensors[which].buffer, 0, bytes, elements, 0,
                                               NULL, &event, error);
    if (!status)
        status = cla_cl_wait(1, &event, error);
    cla_cl_release_event(event);
    return status;
}

static clattn_status put_elements(const struct clattn_host_cache *cache, unsigned char *elements,
                                  struct cla_error *error)
{
    const size_t count = (size_t)cache->pages.pages;
    int64_t *keys = malloc((count + 1) * sizeof *keys);
    clattn_status status = CLATTN_SUCCESS;
    if (!keys)
        return cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory to count the keys of %zu pages", count);
    for (int64_t layer = 0; layer < cache->pages.layers && !status; layer++) {
        memset(keys, 0, count * sizeof *keys);
        count_keys(&cache->pages, layer, keys);
        for (int which = 0; which < CLA_CACHE_TENSORS && !status; which++) {
            status = read_pages(cache, &cache->layers[layer], which, elements, error);
            if (!status)
                clear_others(cache, keys, which, elements);
            elements += count * cache->page_bytes[which];
        }
    }
    free(keys);
    return status;
}

static clattn_status save_cache(const struct clattn_host_cache *cache, const char *path, struct cla_error *error)
{
    char identity[IDENTITY];
    size_t table = 0, elements = 0, size = 0;
    void *payload = NULL, *file = NULL;
    identify(cache, identity);
    if (cla_cache_file_bytes(&cache->pages, cla_cache_page_bytes(cache), &table, &elements))
        file = cla_binary_begin(identity, table + elements, &payload, &size);
    if (!file)
        return cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for the %zu bytes of %s", table + elements, path);
    cla_cache_file_put_table(&cache->pages, payload);
    clattn_status status = put_elements(cache, (unsigned char *)payload + table, error);
    errno = 0;
    if (!status) {
        cla_binary_seal(file, size);
        if (!cla_os_replace_kept_file(path, file, size))
            status = cla_fail(error, CLATTN_FILE_FAILED, "%s: cannot be written: %s", path, strerror(errno));
    }
    free(file);
    return status;
}

/* --- load */

/* What is read, until it takes the place of what was there. */
struct loaded {
    struct cla_cache_pages pages;
    struct cla_cache_layer *layers;
};

static void drop_loaded(struct loaded *loaded)
{
    for (int64_t i = 0; loaded->layers && i < loaded->pages.layers; i++)
        for (int which = 0; which < CLA_CACHE_TENSORS; which++)
            cla_device_block_free(&loaded->layers[i].tensors[which]);
    free(loaded->layers);
    cla_cache_pages_finish(&loaded->pages);
}

static clattn_status write_pages(const struct clattn_host_cache *cache, struct loaded *loaded,
                                 const unsigned char *elements, struct cla_error *error)
{
    clattn_status status = CLATTN_SUCCESS;
    for (int64_t i = 0; i < loaded->pages.layers && !status; i++)
        for (int which = 0; which < CLA_CACHE_TENSORS && !status; which++) {
            struct cla_device_block *block = &loaded->layers[i].tensors[which];
            const size_t bytes = (size_t)loaded->pages.pages * cache->page_bytes[which];
            cl_event event = NULL;
            if (!bytes)
                continue;
            status = cla_device_block_grow(block, cache->host->context->context, bytes, error);
            if (!status)
                status =
                    cla_cl_enqueue_write(cache->host->queue, block->buffer, 0, bytes, elements, 0, NULL, &event, error);
            if (!status)
                status = cla_cl_wait(1, &event, error);
            cla_cl_release_event(event);
            elements += bytes;
            loaded->layers[i].pages = loaded->pages.pages;
        }
    return status;
}

/* A sequence that is longer than the tables of the rotation could not go on. */
static clattn_status check_lengths(const struct clattn_host_cache *cache, const struct cla_cache_pages *pages,
                                   const char *path, struct cla_error *error)
{
    for (int64_t i = 0; i < pages->sequences && cache->rope_rows; i++)
        if (cla_cache_longest(pages, i) > cache->rope_rows)
            return cla_fail(error, CLATTN_TOO_LARGE,
                            "%s has a sequence of %lld keys: the tables of the rotation go to %lld", path,
                            (long long)cla_cache_longest(pages, i), (long long)cache->rope_rows);
    return CLATTN_SUCCESS;
}

static clattn_status take_file(struct clattn_host_cache *cache, const char *path, const void *file, size_t size,
                               struct cla_error *error)
{
    const struct cla_cache_pages *now = &cache->pages;
    struct loaded loaded = {.layers = calloc((size_t)now->layers, sizeof *loaded.layers)};
    const unsigned char *elements = NULL;
    char identity[IDENTITY];
    clattn_status status = CLATTN_SUCCESS;
    identify(cache, identity);
    if (!cla_cache_pages_init(&loaded.pages, now->page_keys, now->layers, now->sequences, now->most) || !loaded.layers)
        status = cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for what is in %s", path);
    if (!status)
        status = cla_cache_file_take(path, file, size, identity, cla_cache_page_bytes(cache), &loaded.pages, &elements,
                                     error);
    if (!status)
        status = check_lengths(cache, &loaded.pages, path, error);
    if (!status)
        status = write_pages(cache, &loaded, elements, error);
    if (!status) {
        const struct loaded old = {cache->pages, cache->layers};
        cache->pages = loaded.pages;
        cache->layers = loaded.layers;
        loaded = old;
    }
    drop_loaded(&loaded);
    return status;
}

static clattn_status load_cache(struct clattn_host_cache *cache, const char *path, struct cla_error *error)
{
    size_t size = 0;
    errno = 0;
    void *file = cla_os_read_file(path, SIZE_MAX / 2, &size);
    if (!file)
        return cla_fail(error, CLATTN_FILE_FAILED, "%s: cannot be read: %s", path,
                        errno ? strerror(errno) : "it is not a regular file");
    const clattn_status status = take_file(cache, path, file, size, error);
    free(file);
    return status;
}

/* --- the public functions */

static clattn_status check_path(const struct clattn_host_cache *cache, const char *path, struct cla_error *error)
{
    if (!cache)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "cache is NULL: it must be a clattn_host_cache");
    if (!path || !*path)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "path is %s: it must name a file", path ? "empty" : "NULL");
    return CLATTN_SUCCESS;
}

clattn_status clattn_host_cache_save(const clattn_host_cache *cache, const char *path)
{
    struct cla_error error;
    clattn_status status = check_path(cache, path, &error);
    if (!status)
        status = save_cache(cache, path, &error);
    return status ? cla_report(cache ? &cache->host->context->log : NULL, &error) : CLATTN_SUCCESS;
}

clattn_status clattn_host_cache_load(clattn_host_cache *cache, const char *path)
{
    struct cla_error error;
    clattn_status status = check_path(cache, path, &error);
    if (!status)
        status = load_cache(cache, path, &error);
    return status ? cla_report(cache ? &cache->host->context->log : NULL, &error) : CLATTN_SUCCESS;
}
