/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/host_cache.h"
#include "attention/forward.h"
#include "attention/host_score.h"
#include "attention/plan_few.h"
#include "attention/score.h"
#include "device/report.h"
#include "plan/checked.h"
#include "plan/reserved.h"
#include "plan/types.h"
#include <stdlib.h>
#include <string.h>

/* A call under way. */
struct step {
    struct clattn_host_cache *cache;
    const struct clattn_host_cache_args *given;
    struct clattn_host_score_args score; /* the caller's, and what the cache adds */
    struct clattn_shape shape;           /* n_kv: the longest sequence, with what is appended */
    bool appends, attends;
};

static int64_t sequence_of(const struct step *step, int64_t b)
{
    return step->given->sequences ? step->given->sequences[b] : b;
}

/* New rows of batch element b; of arrays that are yet to be checked anything. */
static int64_t rows_of(const struct step *step, int64_t b)
{
    const int32_t *cu = step->given->score.cu_seqlens_q;
    return cu ? (int64_t)cu[b + 1] - cu[b] : step->shape.n_q;
}

static clattn_status check_own_fields(const struct step *step, struct cla_error *error)
{
    const struct clattn_host_cache_args *given = step->given;
    const struct clattn_host_score_args *score = &given->score;
    if (given->shape.n_kv || (given->shape.kv_heads && given->shape.kv_heads != step->cache->kv_heads))
        return cla_fail(error, CLATTN_INVALID_SHAPE,
                        "shape.n_kv is %lld and shape.kv_heads %lld: keys are those of the cache, so n_kv is 0, and "
                        "kv_heads 0 or %lld",
                        (long long)given->shape.n_kv, (long long)given->shape.kv_heads,
                        (long long)step->cache->kv_heads);
    if (score->key_lengths || score->pages || score->page_offsets || score->pool_pages || score->page_count ||
        score->cu_seqlens_kv || score->total_kv || score->kv_scales)
        return cla_fail(
            error, CLATTN_INVALID_ARGUMENT,
            "score has key_lengths, pages or what belongs to them, cu_seqlens_kv or kv_scales: they are the "
            "cache's own, and must be zero");
    if (given->layer < 0 || given->layer >= step->cache->pages.layers)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "layer is %lld: layers are numbered from 0 to %lld",
                        (long long)given->layer, (long long)(step->cache->pages.layers - 1));
    if (!given->k != !given->v || (step->appends && !given->k))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "k is %p and v %p: new rows are of both", given->k, given->v);
    if (!step->attends && (given->q || given->o || given->lse))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "q is %p, o %p and lse %p: clattn_host_cache_append computes nothing, so they must be NULL",
                        given->q, given->o, (const void *)given->lse);
    return CLATTN_SUCCESS;
}

static clattn_status check_sequence_numbers(const struct step *step, struct cla_error *error)
{
    const int64_t batch = step->shape.batch, sequences = step->cache->pages.sequences;
    clattn_status status = CLATTN_SUCCESS;
    if (batch < 0 || batch > sequences)
        return cla_fail(error, CLATTN_INVALID_SHAPE, "shape.batch is %lld: the cache has %lld sequences",
                        (long long)batch, (long long)sequences);
    bool *seen = calloc((size_t)sequences, sizeof *seen);
    if (!seen)
        return cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory to count %lld sequences", (long long)sequences);
    for (int64_t b = 0; b < batch && !status; b++) {
        const int64_t number = sequence_of(step, b);
        if (number < 0 || number >= sequences || seen[number])
            status = cla_fail(error, CLATTN_INVALID_ARGUMENT,
                              "sequences[%lld] is %lld: sequences are numbered from 0 to %lld, and each comes once",
                              (long long)b, (long long)number, (long long)(sequences - 1));
        else
            seen[number] = true;
    }
    free(seen);
    return status;
}

/* The length of each sequence after the call, and the longest one. */
static clattn_status take_lengths(struct step *step, struct cla_error *error)
{
    struct clattn_host_cache *cache = step->cache;
    const int64_t batch = step->shape.batch, limit = cache->rope_rows ? cache->rope_rows : CLA_MAX_LENGTH;
    const clattn_status status = cla_host_block_grow(&cache->lengths, (size_t)(batch + 1) * sizeof(int32_t), error);
    int32_t *lengths = cache->lengths.data;
    if (status)
        return status;
    for (int64_t b = 0; b < batch; b++) {
        const int64_t now = *cla_cache_length(&cache->pages, step->given->layer, sequence_of(step, b));
        const int64_t rows = step->appends ? rows_of(step, b) : 0, then = rows < 0 ? now : now + rows;
        if (then > limit)
            return cla_fail(error, CLATTN_TOO_LARGE, "sequence %lld is to have %lld keys: %s to %lld",
                            (long long)sequence_of(step, b), (long long)then,
                            cache->rope_rows ? "the tables of the rotation go" : "lengths go", (long long)limit);
        lengths[b] = (int32_t)then;
        step->shape.n_kv = then > step->shape.n_kv ? then : step->shape.n_kv;
    }
    step->score.key_lengths = lengths;
    return CLATTN_SUCCESS;
}

static int64_t table_width(const struct step *step)
{
    return cla_ceil_div(step->shape.n_kv, step->cache->pages.page_keys);
}

/* Zeros, until the checks are done and pages are there. */
static clattn_status take_table(struct step *step, struct cla_error *error)
{
    struct clattn_host_cache *cache = step->cache;
    const size_t bytes = (size_t)(step->shape.batch * table_width(step)) * sizeof(int32_t);
    const clattn_status status = cla_host_block_grow(&cache->table, bytes + sizeof(int32_t), error);
    if (status)
        return status;
    memset(cache->table.data, 0, bytes);
    step->score.pages = cache->table.data;
    step->score.pool_pages = INT32_MAX;
    return CLATTN_SUCCESS;
}

static void fill_table(struct step *step)
{
    const struct clattn_host_cache *cache = step->cache;
    const int64_t width = table_width(step);
    const int32_t *lengths = cache->lengths.data;
    int32_t *table = cache->table.data;
    for (int64_t b = 0; b < step->shape.batch; b++) {
        const int64_t held = cla_ceil_div(lengths[b], cache->pages.page_keys);
        for (int64_t i = 0; i < held; i++)
            table[b * width + i] = cache->pages.lists[sequence_of(step, b)].numbers[i];
    }
    step->score.pool_pages = cache->layers[step->given->layer].pages;
}

/* --- the job: what is copied */

static void set_new_sizes(const struct step *step, struct cla_call *call)
{
    const struct cla_sizes q = call->operands[CLA_Q].sizes;
    const int bytes = clattn_dtype_size(step->cache->appender->new_type);
    for (int i = CLA_CACHE_K; i <= CLA_CACHE_V; i++) {
        struct cla_operand *operand = &call->operands[i == CLA_CACHE_K ? CLA_NEW_K : CLA_NEW_V];
        operand->sizes = q;
        operand->sizes.heads = step->cache->kv_heads;
        operand->sizes.columns = i == CLA_CACHE_K ? call->problem->d : call->problem->d_v;
        operand->element_bytes = bytes;
    }
}

static clattn_status place_arrays(const struct step *step, struct cla_call *call, struct cla_error *error)
{
    const struct clattn_host_cache_args *given = step->given;
    const struct {
        bool there;
        int which, how;
        const void *array;
        const struct clattn_layout *layout;
    } arrays[] = {{step->appends, CLA_NEW_K, CLA_INPUT, given->k, &given->k_layout},
                  {step->appends, CLA_NEW_V, CLA_INPUT, given->v, &given->v_layout},
                  {step->attends, CLA_Q, CLA_INPUT, given->q, &given->q_layout},
                  {step->attends, CLA_O, CLA_OUTPUT, given->o, &given->o_layout},
                  {step->attends, CLA_LSE, CLA_OUTPUT | CLA_OPTIONAL, given->lse, NULL}};
    clattn_status status = CLATTN_SUCCESS;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays && !status; i++) {
        const struct clattn_tensor tensor = cla_host_array(arrays[i].array, arrays[i].layout);
        if (arrays[i].there)
            status = cla_call_place(call, arrays[i].which, &tensor, arrays[i].how, error);
    }
    return status;
}

/* Everything that can be known to be wrong before the device is asked to do anything. */
static clattn_status check_step(struct step *step, struct cla_host_job *job, struct cla_error *error)
{
    const struct clattn_host_cache *cache = step->cache;
    clattn_status status = cla_check_reserved(&cla_struct_host_cache_args, "args", step->given, error);
    if (!status)
        status = check_own_fields(step, error);
    if (!status)
        status = check_sequence_numbers(step, error);
    if (!status)
        status = take_lengths(step, error);
    if (!status)
        status = take_table(step, error);
    if (status)
        return status;
    const struct clattn_score_args arrays = cla_host_score_arrays(job, &step->score);
    /* Scales are with K and V. */
    status = cla_call_begin(&job->call, &cache->problem, cache->features & ~CLA_FEATURE_SCALES, CLA_ARRAYS,
                            &step->shape, &arrays, error);
    if (status)
        return status;
    set_new_sizes(step, &job->call);
    status = place_arrays(step, &job->call, error);
    if (!status)
        status = cla_score_place(&job->call, &arrays, error);
    if (!status)
        status = cla_host_score_check(job, &step->score, error);
    return status ? status : cla_host_measure(job, error);
}

static clattn_status add_step_bytes(const struct step *step, struct cla_host_job *job, struct cla_error *error)
{
    struct cla_recipe recipe;
    if (!step->attends || job->call.empty)
        return CLATTN_SUCCESS;
    clattn_status status = cla_plan_for(job->plan, &job->call.shape, false, &job->plan, error);
    if (!status)
        status = cla_recipe_make(job->plan, &job->call.shape, NULL, 0, &recipe, error);
    if (!status)
        job->call.workspace_bytes += recipe.end_byte;
    return status;
}

static clattn_status reserve_pages(const struct step *step, struct cla_error *error)
{
    struct clattn_host_cache *cache = step->cache;
    const int32_t *lengths = cache->lengths.data;
    clattn_status status = CLATTN_SUCCESS;
    for (int64_t b = 0; b < step->shape.batch && !status && step->appends; b++) {
        const int64_t sequence = sequence_of(step, b);
        status = cla_cache_reserve(cache, sequence, *cla_cache_length(&cache->pages, step->given->layer, sequence),
                                   lengths[b], error);
    }
    return status ? status : cla_cache_layer_grow(cache, step->given->layer, error);
}

/* --- the work */

/* New rows go to their pages; Q is rotated where it lies. */
static clattn_status append_rows(const struct step *step, struct cla_host_job *job,
                                 const struct clattn_score_args *score, cl_uint wait_count, const cl_event *waits,
                                 cl_event *appended, struct cla_error *error)
{
    const struct clattn_host_cache *cache = step->cache;
    const bool rotates = step->attends && cache->appender->rotary_d;
    struct clattn_append_args args = {.shape = job->call.shape,
                                      .rope_cos.buffer = cache->cosines.buffer,
                                      .rope_sin.buffer = cache->sines.buffer,
                                      .rope_rows = cache->rope_rows,
                                      .score = *score,
                                      .first_event = &job->started};
    if (step->appends) {
        args.k_new = cla_host_tensor_of(job, CLA_NEW_K);
        args.v_new = cla_host_tensor_of(job, CLA_NEW_V);
        args.k = cla_cache_tensor(cache, step->given->layer, CLA_CACHE_K);
        args.v = cla_cache_tensor(cache, step->given->layer, CLA_CACHE_V);
    }
    if (rotates)
        args.q = args.q_rotated = cla_host_tensor_of(job, CLA_Q);
    struct cla_dispatch to = cla_to_queue(cache->host->queue, wait_count, waits, appended);
    to.own = true;
    return cla_append_dispatch(cache->appender, &args, &to, error);
}

static clattn_status attend_rows(const struct step *step, struct cla_host_job *job,
                                 const struct clattn_score_args *score, cl_uint wait_count, const cl_event *waits,
                                 struct cla_error *error)
{
    const struct clattn_host_cache *cache = step->cache;
    const struct cla_device_block *workspace = &cache->host->blocks[CLA_WORKSPACE];
    const struct clattn_forward_args args = {.shape = job->call.shape,
                                             .q = cla_host_tensor_of(job, CLA_Q),
                                             .k = cla_cache_tensor(cache, step->given->layer, CLA_CACHE_K),
                                             .v = cla_cache_tensor(cache, step->given->layer, CLA_CACHE_V),
                                             .o = cla_host_tensor_of(job, CLA_O),
                                             .lse = cla_host_tensor_of(job, CLA_LSE),
                                             .score = *score,
                                             .workspace = workspace->buffer,
                                             .workspace_bytes = workspace->bytes,
                                             .first_event = job->started ? NULL : &job->started};
    struct cla_dispatch to = cla_to_queue(cache->host->queue, wait_count, waits, &job->computed);
    to.own = true;
    return cla_forward_dispatch(job->plan, &args, &to, error);
}

static clattn_status compute_step(struct cla_host_job *job, cl_uint wait_count, const cl_event *waits,
                                  struct cla_error *error)
{
    const struct step *step = job->args;
    const struct clattn_kv_scales scales = cla_cache_scales(step->cache, step->given->layer);
    struct clattn_score_args score = cla_host_score_device(job, &step->score);
    const bool first = step->appends || step->cache->appender->rotary_d;
    clattn_status status = CLATTN_SUCCESS;
    if (step->cache->features & CLA_FEATURE_SCALES)
        score.kv_scales = &scales;
    if (first && !step->attends)
        return append_rows(step, job, &score, wait_count, waits, &job->computed, error);
    if (first)
        status = append_rows(step, job, &score, wait_count, waits, &job->begun[0], error);
    if (status)
        return status;
    return attend_rows(step, job, &score, first ? 1 : wait_count, first ? job->begun : waits, error);
}

static clattn_status run_step(struct step *step, struct cla_error *error)
{
    struct clattn_host_cache *cache = step->cache;
    struct cla_score_room room;
    struct cla_host_job job = {.host = cache->host, .plan = cache->plan, .splits = 1, .args = step, .room = &room};
    clattn_status status = check_step(step, &job, error);
    if (!status)
        status = add_step_bytes(step, &job, error);
    if (status || job.call.empty)
        return status;
    status = reserve_pages(step, error);
    if (!status) {
        fill_table(step);
        status = cla_host_run(&job, compute_step, error);
    }
    if (!status && step->appends)
        for (int64_t b = 0; b < step->shape.batch; b++)
            *cla_cache_length(&cache->pages, step->given->layer, sequence_of(step, b)) =
                ((const int32_t *)cache->lengths.data)[b];
    cla_cache_trim(cache);
    return status;
}

/* --- the public functions */

static clattn_status report_cache(const struct clattn_host_cache *cache, clattn_status status,
                                  const struct cla_error *error)
{
    return status ? cla_report(cache ? &cache->host->context->log : NULL, error) : CLATTN_SUCCESS;
}

static clattn_status fail_no_cache(struct cla_error *error)
{
    return cla_fail(error, CLATTN_INVALID_ARGUMENT, "cache is NULL: it must be a clattn_host_cache");
}

static clattn_status take_step(struct clattn_host_cache *cache, const struct clattn_host_cache_args *args, bool attends)
{
    struct cla_error error;
    clattn_status status;
    if (!cache)
        status = fail_no_cache(&error);
    else if (!args)
        status =
            cla_fail(&error, CLATTN_INVALID_ARGUMENT, "args is NULL: it must point to a struct clattn_host_cache_args");
    else {
        struct step step = {.cache = cache,
                            .given = args,
                            .score = args->score,
                            .shape = args->shape,
                            .appends = !attends || args->k || args->v,
                            .attends = attends};
        step.shape.kv_heads = cache->kv_heads;
        if (!attends)
            step.shape.heads = cache->kv_heads;
        status = run_step(&step, &error);
    }
    return report_cache(cache, status, &error);
}

clattn_status clattn_host_cache_append(clattn_host_cache *cache, const struct clattn_host_cache_args *args)
{
    return take_step(cache, args, false);
}

clattn_status clattn_host_cache_forward(clattn_host_cache *cache, const struct clattn_host_cache_args *args)
{
    return take_step(cache, args, true);
}

static clattn_status check_sequence(const struct clattn_host_cache *cache, const char *name, int64_t sequence,
                                    struct cla_error *error)
{
    if (!cache)
        return fail_no_cache(error);
    if (sequence >= 0 && sequence < cache->pages.sequences)
        return CLATTN_SUCCESS;
    return cla_fail(error, CLATTN_INVALID_ARGUMENT, "%s is %lld: sequences are numbered from 0 to %lld", name,
                    (long long)sequence, (long long)(cache->pages.sequences - 1));
}

static clattn_status check_length(int64_t length, struct cla_error *error)
{
    if (length >= 0)
        return CLATTN_SUCCESS;
    return cla_fail(error, CLATTN_INVALID_ARGUMENT, "length is %lld: it is from 0 on", (long long)length);
}

clattn_status clattn_host_cache_truncate(clattn_host_cache *cache, int64_t sequence, int64_t length)
{
    struct cla_error error;
    clattn_status status = check_sequence(cache, "sequence", sequence, &error);
    if (!status)
        status = check_length(length, &error);
    if (!status)
        cla_cache_pages_truncate(&cache->pages, sequence, length);
    return report_cache(cache, status, &error);
}

clattn_status clattn_host_cache_fork(clattn_host_cache *cache, int64_t from, int64_t to, int64_t length)
{
    struct cla_error error;
    clattn_status status = check_sequence(cache, "from", from, &error);
    if (!status)
        status = check_sequence(cache, "to", to, &error);
    if (!status && from == to)
        status = cla_fail(&error, CLATTN_INVALID_ARGUMENT,
                          "from and to are both %lld: a fork is of two sequences (clattn_host_cache_truncate shortens "
                          "one)",
                          (long long)from);
    if (!status)
        status = check_length(length, &error);
    if (!status && !cla_cache_pages_fork(&cache->pages, from, to, length))
        status = cla_fail(&error, CL_OUT_OF_HOST_MEMORY, "no host memory for the pages of a sequence");
    return report_cache(cache, status, &error);
}

clattn_status clattn_host_cache_length(const clattn_host_cache *cache, int64_t layer, int64_t sequence, int64_t *length)
{
    struct cla_error error;
    clattn_status status = check_sequence(cache, "sequence", sequence, &error);
    if (!status && (layer < 0 || layer >= cache->pages.layers))
        status = cla_fail(&error, CLATTN_INVALID_ARGUMENT, "layer is %lld: layers are numbered from 0 to %lld",
                          (long long)layer, (long long)(cache->pages.layers - 1));
    if (!status && !length)
        status = cla_fail(&error, CLATTN_INVALID_ARGUMENT, "length is NULL: it must point to the number to be set");
    if (!status)
        *length = *cla_cache_length(&cache->pages, layer, sequence);
    return report_cache(cache, status, &error);
}

clattn_status clattn_host_cache_get_info(const clattn_host_cache *cache, struct clattn_host_cache_info *info)
{
    struct cla_error error;
    if (!cache)
        return report_cache(cache, fail_no_cache(&error), &error);
    if (!info)
        return report_cache(
            cache,
            cla_fail(&error, CLATTN_INVALID_ARGUMENT, "info is NULL: it must point to a struct clattn_host_cache_info"),
            &error);
    *info = (struct clattn_host_cache_info){.page_keys = cache->pages.page_keys, .pages = cache->pages.used};
    for (int64_t i = 0; i < cache->pages.layers; i++)
        for (int which = 0; which < CLA_CACHE_TENSORS; which++)
            info->cache_bytes += cache->layers[i].tensors[which].bytes;
    info->device_bytes = info->cache_bytes + cache->cosines.bytes + cache->sines.bytes;
    for (int i = 0; i < CLA_OPERANDS; i++)
        info->device_bytes += cache->host->blocks[i].bytes;
    return CLATTN_SUCCESS;
}
