/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_HOST_CACHE_H
#define CLA_HOST_CACHE_H

#include "attention/append.h"
#include "attention/host_job.h"
#include "plan/cache_pages.h"
#include <clattn/host_cache.h>

/* What a layer has in pages: K and V, and where these are in formats that take them their scales and zero points. */
enum {
    CLA_CACHE_K,
    CLA_CACHE_V,
    CLA_CACHE_K_SCALES,
    CLA_CACHE_V_SCALES,
    CLA_CACHE_K_ZEROS,
    CLA_CACHE_V_ZEROS,
    CLA_CACHE_TENSORS
};

struct cla_cache_layer {
    struct cla_device_block tensors[CLA_CACHE_TENSORS];
    int64_t pages; /* that they have room for */
};

struct clattn_host_cache {
    struct clattn_host *host; /* stages what is copied */
    struct clattn_plan *plan;
    struct clattn_appender *appender;
    struct clattn_problem problem; /* resolved; its strings are NULL */
    unsigned features;
    int64_t kv_heads, rope_rows, interleaved;
    struct cla_cache_pages pages;
    struct cla_cache_layer *layers;
    size_t page_bytes[CLA_CACHE_TENSORS]; /* of a layer; 0: there is no such tensor */
    struct cla_device_block cosines, sines;
    /* Of a step, by batch element: what each sequence will have, and the pages. */
    struct cla_host_block lengths, table;
};

/* clattn_host_cache_create() without the report. */
clattn_status cla_host_cache_make(struct clattn_host_cache **cache, const struct clattn_host_cache_params *params,
                                  struct cla_error *error);

/* Makes room for all pages that have been taken, in K and V of a layer. */
clattn_status cla_cache_layer_grow(struct clattn_host_cache *cache, int64_t layer, struct cla_error *error);

/* Takes pages for keys `from` to `to` - 1 of a sequence. One that is shared is copied, in all layers. */
clattn_status cla_cache_reserve(struct clattn_host_cache *cache, int64_t sequence, int64_t from, int64_t to,
                                struct cla_error *error);

/* Gives back what was reserved beyond the keys that are there. */
void cla_cache_trim(struct clattn_host_cache *cache);

/* As the device level takes them: pages that are dense. */
struct clattn_tensor cla_cache_tensor(const struct clattn_host_cache *cache, int64_t layer, int which);
struct clattn_kv_scales cla_cache_scales(const struct clattn_host_cache *cache, int64_t layer);

/* The bytes of a page of a layer, all of it. */
size_t cla_cache_page_bytes(const struct clattn_host_cache *cache);

#endif
