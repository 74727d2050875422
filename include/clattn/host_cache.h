/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_HOST_CACHE_H
#define CLATTN_HOST_CACHE_H

#include <clattn/host.h>

CLATTN_BEGIN_DECLS

/* A cache of keys for programs whose own arrays are in the host's memory: K and V of a model's layers stay on the
 * device, and a step copies what is new alone. Sequences are numbered; each has a length of its own, in each layer.
 *
 *     clattn_host_cache_append     new rows of K and V go behind what the sequences have
 *     clattn_host_cache_forward    the same, then attention of new rows of Q over all their keys
 *     clattn_host_cache_truncate   a sequence forgets its last keys
 *     clattn_host_cache_fork       a sequence begins with the first keys of another
 *
 * Keys lie in pages, which sequences share after a fork: only where one of them appends to a page that is not full is
 * that page copied.
 *
 * Row i of n_q new ones is aligned as everywhere with CLATTN_CAUSAL_BOTTOM_RIGHT: the last row meets the last key. So
 * with a causal mask the rows of a prompt, of a chunk of one and of a step of decoding see what they may.
 *
 * Threads: one call at a time on one cache; different ones, also of the same context, at the same time. A call returns
 * when the device is done. On an error outputs are untouched, and the cache holds what it held. */
typedef struct clattn_host_cache clattn_host_cache;

struct clattn_host_cache_params {
    clattn_context *context; /* must outlive the cache */
    cl_command_queue queue;  /* as in struct clattn_host_params */

    /* What attention is computed. Arrays of Q, K, V and O are of its dtype (O of o_type); k_type and v_type say how
     * the cache stores K and V, in a format too, whose scales are the cache's (clattn/append.h). pass is
     * CLATTN_FORWARD. Pages and key lengths are the cache's: features has neither, nor CLATTN_DROPOUT,
     * CLATTN_ROW_SHIFTS or CLATTN_QUERY_LENGTHS, and causal is not CLATTN_CAUSAL_TOP_LEFT. page_keys may be set: keys
     * of a page, 0 is 64. */
    const struct clattn_problem *problem;

    int64_t layers;     /* 0: 1 */
    int64_t sequences;  /* 0: 1; they are numbered from 0 on, and empty at first */
    int64_t kv_heads;   /* from 1 on */
    uint64_t max_bytes; /* of device memory for K and V of all layers; 0: what the device has */

    /* As in struct clattn_append_params and struct clattn_append_args: K is rotated as it is appended, and Q before it
     * is used. The tables are arrays [rope_rows, rotary_d / 2], which are copied; a sequence is not longer than they
     * are. */
    int64_t rotary_d, interleaved;
    const float *rope_cos, *rope_sin;
    int64_t rope_rows;

    uint64_t reserved[32]; /* 0: clattn/version.h */
};

/* Compiles what a cache needs. *cache is set on success alone. Errors: CLATTN_INVALID_ARGUMENT, those of
 * clattn_plan_create. */
CLATTN_API clattn_status clattn_host_cache_create(clattn_host_cache **cache,
                                                  const struct clattn_host_cache_params *params);

/* Sets *cache to NULL; accepts NULL and a handle that is NULL. */
CLATTN_API void clattn_host_cache_destroy(clattn_host_cache **cache);

/* The arrays of one step of one layer. Batch element b is sequence sequences[b] (NULL: b), each at most once.
 *
 *     q, o   [batch, heads, n_q, d], [batch, heads, n_q, d_v]         with CLATTN_VARLEN [heads, total_q, ...]
 *     k, v   [batch, kv_heads, n_q, d], [batch, kv_heads, n_q, d_v]   and [kv_heads, total_q, ...]
 *
 * shape.n_kv is 0, and shape.kv_heads 0 or the cache's: the keys are those of the cache. Of tensors of pairs (a bias, a
 * mask) n_kv is the length of the longest sequence of the call, what is appended counted in. score.key_lengths, pages
 * and what belongs to them are NULL. With CLATTN_VARLEN sequences may have different numbers of new rows: a prompt
 * beside steps of decoding. */
struct clattn_host_cache_args {
    struct clattn_shape shape;
    int64_t layer;
    const int64_t *sequences;
    const void *q, *k, *v;
    void *o;
    float *lse; /* NULL, or dense [batch, heads, n_q] */
    struct clattn_layout q_layout, k_layout, v_layout, o_layout;
    struct clattn_host_score_args score;

    uint64_t reserved[64]; /* 0: clattn/version.h */
};

/* Appends k and v; q, o and lse are NULL. Errors: CLATTN_INVALID_ARGUMENT, CLATTN_INVALID_SHAPE, CLATTN_INVALID_LAYOUT,
 * CLATTN_TOO_LARGE (max_bytes, or the tables of the rotation), OpenCL's own. */
CLATTN_API clattn_status clattn_host_cache_append(clattn_host_cache *cache, const struct clattn_host_cache_args *args);

/* Appends k and v, unless both are NULL, and computes o. The same errors. */
CLATTN_API clattn_status clattn_host_cache_forward(clattn_host_cache *cache, const struct clattn_host_cache_args *args);

/* Keys from `length` on are forgotten, in all layers; a longer length changes nothing. Errors:
 * CLATTN_INVALID_ARGUMENT. */
CLATTN_API clattn_status clattn_host_cache_truncate(clattn_host_cache *cache, int64_t sequence, int64_t length);

/* Sequence `to` becomes the first `length` keys of sequence `from` (in layers that have fewer, these); what it was is
 * forgotten. Copies nothing. Errors: CLATTN_INVALID_ARGUMENT, CL_OUT_OF_HOST_MEMORY. */
CLATTN_API clattn_status clattn_host_cache_fork(clattn_host_cache *cache, int64_t from, int64_t to, int64_t length);

/* How many keys a sequence has in a layer. Errors: CLATTN_INVALID_ARGUMENT. */
CLATTN_API clattn_status clattn_host_cache_length(const clattn_host_cache *cache, int64_t layer, int64_t sequence,
                                                  int64_t *length);

/* Writes all sequences to a file, which then is there as a whole or not at all; a file of that name is replaced. Pages
 * that are shared are written once. Errors: CLATTN_INVALID_ARGUMENT, CLATTN_FILE_FAILED, CL_OUT_OF_HOST_MEMORY (the
 * file is made in memory), OpenCL's own. */
CLATTN_API clattn_status clattn_host_cache_save(const clattn_host_cache *cache, const char *path);

/* What the cache held becomes what such a file holds. The file has to be of a cache with the same layers, kv_heads, d,
 * d_v, types, page_keys, rotary_d and interleaved, and of no more sequences. What it says is checked, and it carries a
 * checksum (XXH3), so that one that is cut, damaged or made to harm is refused; that the keys are of the same model and
 * rotated by the same tables, it cannot tell. While it is read, device memory holds both caches. Errors:
 * CLATTN_INVALID_ARGUMENT, CLATTN_FILE_FAILED, CLATTN_FILE_DAMAGED, CLATTN_TOO_LARGE, CL_OUT_OF_HOST_MEMORY, OpenCL's
 * own. */
CLATTN_API clattn_status clattn_host_cache_load(clattn_host_cache *cache, const char *path);

struct clattn_host_cache_info {
    int64_t page_keys;
    int64_t pages;         /* that hold keys; one that is shared counts once */
    uint64_t cache_bytes;  /* device memory of K and V, with room for more pages */
    uint64_t device_bytes; /* all device memory of the cache */
    uint64_t reserved[16]; /* 0: clattn/version.h */
};

/* Errors: CLATTN_INVALID_ARGUMENT. */
CLATTN_API clattn_status clattn_host_cache_get_info(const clattn_host_cache *cache,
                                                    struct clattn_host_cache_info *info);

CLATTN_END_DECLS

#endif
