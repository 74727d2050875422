/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/host_cache.h"
#include "device/clcall.h"

enum { FIRST_PAGES = 16 };

/* Twice as many as there were, within the limit. */
static int64_t room_for(const struct cla_cache_pages *pages, int64_t now)
{
    int64_t room = now ? 2 * now : FIRST_PAGES;
    room = room > pages->pages ? room : pages->pages;
    return room < pages->most ? room : pages->most;
}

static clattn_status wait_and_release(cl_event event, clattn_status status, struct cla_error *error)
{
    if (!status)
        status = cla_cl_wait(1, &event, error);
    cla_cl_release_event(event);
    return status;
}

/* A larger block with what the smaller one held, and zeros behind. */
static clattn_status grow_block(const struct clattn_host *host, struct cla_device_block *block, size_t bytes,
                                struct cla_error *error)
{
    struct cla_device_block grown = {0};
    cl_event event = NULL;
    clattn_status status = cla_device_block_grow(&grown, host->context->context, bytes, error);
    if (!status)
        status = cla_cl_enqueue_fill(host->queue, grown.buffer, 0, 0, bytes, &event, error);
    status = wait_and_release(event, status, error);
    event = NULL;
    if (!status && block->bytes) {
        status = cla_cl_enqueue_copy(host->queue, block->buffer, 0, grown.buffer, 0, block->bytes, &event, error);
        status = wait_and_release(event, status, error);
    }
    if (status) {
        cla_device_block_free(&grown);
        return status;
    }
    cla_device_block_free(block);
    *block = grown;
    return CLATTN_SUCCESS;
}

clattn_status cla_cache_layer_grow(struct clattn_host_cache *cache, int64_t number, struct cla_error *error)
{
    struct cla_cache_layer *layer = &cache->layers[number];
    if (layer->pages >= cache->pages.pages)
        return CLATTN_SUCCESS;
    const int64_t room = room_for(&cache->pages, layer->pages);
    clattn_status status = CLATTN_SUCCESS;
    for (int i = 0; i < CLA_CACHE_TENSORS && !status; i++) {
        const size_t bytes = (size_t)room * cache->page_bytes[i];
        if (layer->tensors[i].bytes < bytes)
            status = grow_block(cache->host, &layer->tensors[i], bytes, error);
    }
    if (!status)
        layer->pages = room;
    return status;
}

static clattn_status copy_page(const struct clattn_host_cache *cache, const struct cla_cache_layer *layer, int which,
                               int32_t from, int32_t to, struct cla_error *error)
{
    const size_t bytes = cache->page_bytes[which];
    const struct cla_device_block *block = &layer->tensors[which];
    cl_event event = NULL;
    if (!bytes)
        return CLATTN_SUCCESS;
    const clattn_status status = cla_cl_enqueue_copy(cache->host->queue, block->buffer, (size_t)from * bytes,
                                                     block->buffer, (size_t)to * bytes, bytes, &event, error);
    return wait_and_release(event, status, error);
}

/* A layer that has never had keys in a page has no room for it, and nothing to copy. */
static clattn_status copy_layers(struct clattn_host_cache *cache, int32_t from, int32_t to, struct cla_error *error)
{
    clattn_status status = CLATTN_SUCCESS;
    for (int64_t i = 0; i < cache->pages.layers && !status; i++) {
        struct cla_cache_layer *layer = &cache->layers[i];
        if (from >= layer->pages)
            continue;
        status = cla_cache_layer_grow(cache, i, error);
        for (int which = 0; which < CLA_CACHE_TENSORS && !status; which++)
            status = copy_page(cache, layer, which, from, to, error);
    }
    return status;
}

static clattn_status fail_full(const struct clattn_host_cache *cache, int64_t sequence, int64_t to,
                               struct cla_error *error)
{
    const struct cla_cache_pages *pages = &cache->pages;
    if (pages->used < pages->most)
        return cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for the pages of a cache");
    return cla_fail(error, CLATTN_TOO_LARGE,
                    "sequence %lld is to have %lld keys: all %lld pages of %lld keys are in use, which is what "
                    "max_bytes or one allocation of the device allows: truncate sequences or allow more",
                    (long long)sequence, (long long)to, (long long)pages->most, (long long)pages->page_keys);
}

clattn_status cla_cache_reserve(struct clattn_host_cache *cache, int64_t sequence, int64_t from, int64_t to,
                                struct cla_error *error)
{
    struct cla_cache_pages *pages = &cache->pages;
    const struct cla_page_list *list = &pages->lists[sequence];
    clattn_status status = CLATTN_SUCCESS;
    for (int64_t place; !status && (place = cla_cache_pages_next(pages, sequence, from, to)) >= 0;) {
        const int32_t number = cla_cache_pages_take(pages);
        if (number < 0)
            return fail_full(cache, sequence, to, error);
        if (place < list->count)
            status = copy_layers(cache, list->numbers[place], number, error);
        if (status)
            cla_cache_pages_leave(pages, number);
        else if (!cla_cache_pages_put(pages, sequence, place, number))
            status = cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for the pages of a cache");
    }
    return status;
}

void cla_cache_trim(struct clattn_host_cache *cache)
{
    for (int64_t i = 0; i < cache->pages.sequences; i++)
        cla_cache_pages_truncate(&cache->pages, i, cla_cache_longest(&cache->pages, i));
}

struct clattn_tensor cla_cache_tensor(const struct clattn_host_cache *cache, int64_t layer, int which)
{
    return (struct clattn_tensor){.buffer = cache->layers[layer].tensors[which].buffer};
}

struct clattn_kv_scales cla_cache_scales(const struct clattn_host_cache *cache, int64_t layer)
{
    return (struct clattn_kv_scales){.k_scales = cla_cache_tensor(cache, layer, CLA_CACHE_K_SCALES),
                                     .k_zeros = cla_cache_tensor(cache, layer, CLA_CACHE_K_ZEROS),
                                     .v_scales = cla_cache_tensor(cache, layer, CLA_CACHE_V_SCALES),
                                     .v_zeros = cla_cache_tensor(cache, layer, CLA_CACHE_V_ZEROS)};
}

size_t cla_cache_page_bytes(const struct clattn_host_cache *cache)
{
    size_t bytes = 0;
    for (int i = 0; i < CLA_CACHE_TENSORS; i++)
        bytes += cache->page_bytes[i];
    return bytes;
}
