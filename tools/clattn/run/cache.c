/* SPDX-License-Identifier: BSD-2-Clause */
#define _XOPEN_SOURCE 700
#include "run/cache.h"
#include "json_out.h"
#include "options/names.h"
#include <clattn/host_cache.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

int run_cache_create(struct run *run, struct failure *failure)
{
    const struct arrays *arrays = &run->arrays;
    if (arrays->shape.n_q != arrays->shape.n_kv)
        return fail(failure, STATUS_FILE,
                    "%s has %" PRId64 " rows, %s %" PRId64 " keys: with --cache they are as many, which are new",
                    run->values->inputs[ARRAYS_Q], arrays->shape.n_q, run->values->inputs[ARRAYS_K],
                    arrays->shape.n_kv);
    const int status = output_create(run->values->cache, &run->cache, failure);
    if (!status && !run->cache.temporary)
        return fail(failure, STATUS_FILE, "%s: a cache is a regular file", run->values->cache);
    return status;
}

/* One that is not there yet has no keys. */
static clattn_status load(const struct run *run, clattn_host_cache *cache)
{
    struct stat there;
    return stat(run->values->cache, &there) && errno == ENOENT ? CLATTN_SUCCESS
                                                               : clattn_host_cache_load(cache, run->values->cache);
}

static clattn_status append(struct run *run, clattn_host_cache *cache)
{
    struct clattn_host_kv_scales none;
    struct clattn_host_cache_args args = {.shape = run->arrays.shape,
                                          .q = run->inputs[ARRAYS_Q].data,
                                          .k = run->inputs[ARRAYS_K].data,
                                          .v = run->inputs[ARRAYS_V].data,
                                          .o = run->results[RUN_O],
                                          .lse = run->results[RUN_LSE],
                                          .q_layout = run->arrays.q,
                                          .k_layout = run->arrays.k,
                                          .v_layout = run->arrays.v,
                                          .o_layout = run->arrays.o};
    args.shape.n_kv = 0;
    args.score = run_score_args(run, false, &none);
    args.score.kv_scales = NULL;
    return clattn_host_cache_forward(cache, &args);
}

static clattn_status describe_cache(struct run *run, const clattn_host_cache *cache)
{
    struct clattn_host_cache_info info;
    const clattn_status status = clattn_host_cache_get_info(cache, &info);
    run->info.device_bytes = status ? 0 : info.device_bytes;
    return status ? status : clattn_host_cache_length(cache, 0, 0, &run->cache_keys);
}

int run_cache_compute(struct run *run, struct failure *failure)
{
    struct clattn_problem problem = run_problem(run, CLATTN_FORWARD);
    const struct clattn_host_cache_params params = {.context = run->shared->session.clattn,
                                                    .queue = run->shared->session.queue,
                                                    .problem = &problem,
                                                    .sequences = run->arrays.shape.batch,
                                                    .kv_heads = run->arrays.shape.kv_heads};
    clattn_host_cache *cache = NULL;
    const char *what = "the cache";
    problem.expected_n_kv = 0; /* the file's keys are not counted yet */
    clattn_status code = clattn_host_cache_create(&cache, &params);
    if (!code)
        code = load(run, cache);
    if (!code) {
        what = "attention";
        code = append(run, cache);
    }
    if (!code)
        code = describe_cache(run, cache);
    if (!code) {
        what = "the cache";
        code = clattn_host_cache_save(cache, run->cache.temporary);
    }
    clattn_host_cache_destroy(&cache);
    return code ? fail_library(failure, what, code) : STATUS_OK;
}

void run_cache_print_summary(const struct run *run)
{
    const struct clattn_shape *s = &run->arrays.shape;
    char device[256], memory[32];
    session_title(&run->shared->session, device, sizeof device);
    bytes_text(run->info.device_bytes, memory, sizeof memory);
    fprintf(stderr,
            "%s batch %" PRId64 ", heads %" PRId64 "/%" PRId64 ", %" PRId64 " new keys of %" PRId64
            ", d %d/%d on %s, %s of device memory\n",
            clattn_dtype_name(run->arrays.dtype), s->batch, s->heads, s->kv_heads, s->n_q, run->cache_keys,
            run->arrays.d, run->arrays.d_v, device, memory);
}

int run_cache_print_json(const struct run *run, struct failure *failure)
{
    const struct clattn_shape *s = &run->arrays.shape;
    char device[256];
    session_title(&run->shared->session, device, sizeof device);
    json_t *summary = json_pack("{s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:I}", "device", json_text(device),
                                "dtype", clattn_dtype_name(run->arrays.dtype), "batch", (json_int_t)s->batch, "heads",
                                (json_int_t)s->heads, "kv_heads", (json_int_t)s->kv_heads, "n_q", (json_int_t)s->n_q,
                                "cache_keys", (json_int_t)run->cache_keys, "d", run->arrays.d, "d_v", run->arrays.d_v,
                                "device_bytes", (json_int_t)run->info.device_bytes);
    return json_print(summary, NULL, failure);
}
