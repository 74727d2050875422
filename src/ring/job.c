/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/job.h"
#include "attention/operands.h"
#include "plan/checked.h"
#include "plan/reserved.h"
#include "plan/types.h"
#include <string.h>

enum of { OF_ROWS, OF_KEYS };
enum columns { D, D_V, ONE };

/* The tensors of both passes' arguments, which have the same names. */
struct row {
    int which;
    size_t data, layout; /* within the arguments; layout 0: dense */
    enum of of;
    enum columns columns;
    bool output;
};

#define AT(pass_, member_) offsetof(struct clattn_host_##pass_##_args, member_)
#define BOTH(pass_, which_, member_, of_, columns_, output_)                                                           \
    {                                                                                                                  \
        which_, AT(pass_, member_), AT(pass_, member_##_layout), of_, columns_, output_                                \
    }
#define VECTOR(pass_, which_, member_, output_)                                                                        \
    {                                                                                                                  \
        which_, AT(pass_, member_), 0, OF_ROWS, ONE, output_                                                           \
    }

static const struct row forward_rows[] = {BOTH(forward, CLA_Q, q, OF_ROWS, D, false),
                                          BOTH(forward, CLA_K, k, OF_KEYS, D, false),
                                          BOTH(forward, CLA_V, v, OF_KEYS, D_V, false),
                                          BOTH(forward, CLA_O, o, OF_ROWS, D_V, true),
                                          VECTOR(forward, CLA_LSE, lse, true),
                                          VECTOR(forward, CLA_M, m, true),
                                          VECTOR(forward, CLA_L, l, true)};

static const struct row backward_rows[] = {
    BOTH(backward, CLA_Q, q, OF_ROWS, D, false),
    BOTH(backward, CLA_K, k, OF_KEYS, D, false),
    BOTH(backward, CLA_V, v, OF_KEYS, D_V, false),
    BOTH(backward, CLA_O, o, OF_ROWS, D_V, false),
    VECTOR(backward, CLA_LSE, lse, false),
    VECTOR(backward, CLA_M, m, false),
    VECTOR(backward, CLA_L, l, false),
    BOTH(backward, CLA_D_O, d_o, OF_ROWS, D_V, false),
    BOTH(backward, CLA_D_Q, d_q, OF_ROWS, D, true),
    BOTH(backward, CLA_D_K, d_k, OF_KEYS, D, true),
    BOTH(backward, CLA_D_V, d_v, OF_KEYS, D_V, true),
};

int64_t cla_job_rows(const struct cla_job *job)
{
    return job->meeting.n_q;
}

int64_t cla_job_keys(const struct cla_job *job)
{
    return job->meeting.n_kv;
}

int64_t cla_job_batch(const struct cla_job *job)
{
    return job->problem->features & CLATTN_VARLEN ? 1 : job->shape.batch;
}

/* Rows and keys that arrays hold. */
static int64_t held(const struct cla_job *job, enum of of)
{
    if (job->whole)
        return of == OF_ROWS ? cla_job_rows(job) : cla_job_keys(job);
    return cla_part_count(of == OF_ROWS ? &job->rows : &job->keys);
}

static void take_row(struct cla_job *job, const struct row *row, const char *args)
{
    struct cla_array *array = &job->arrays[row->which];
    const int64_t heads = row->of == OF_ROWS ? job->shape.heads : job->shape.kv_heads;
    const int64_t columns = row->columns == D ? job->problem->d : row->columns == D_V ? job->problem->d_v : 1;
    *array = (struct cla_array){.sizes = {cla_job_batch(job), heads, held(job, row->of), columns},
                                .element_bytes = row->columns == ONE ? 4 : cla_size_of(job->problem, row->which),
                                .rows_each = 1,
                                .output = row->output,
                                .sum = row->which == CLA_D_Q};
    memcpy(&array->data, args + row->data, sizeof array->data);
    if (row->layout)
        memcpy(&array->layout, args + row->layout, sizeof array->layout);
}

static bool size_feature(const struct cla_job *job, const struct cla_feature_tensor *row, struct cla_array *array)
{
    const struct clattn_shape *shape = &job->shape;
    const int64_t batch = shape->batch, heads = shape->heads, rows = held(job, OF_ROWS);
    array->rows_each = 1;
    switch (row->extent) {
    case CLA_OF_PAIRS:
        array->sizes = (struct cla_sizes){batch, heads, rows, shape->n_kv};
        return true;
    case CLA_OF_BLOCKS:
        array->rows_each = job->problem->block_q;
        array->sizes = (struct cla_sizes){batch, heads, cla_ceil_div(rows, job->problem->block_q),
                                          cla_ceil_div(shape->n_kv, job->problem->block_kv)};
        return true;
    case CLA_OF_ROWS:
        array->sizes = (struct cla_sizes){cla_job_batch(job), heads, rows, 1};
        return true;
    case CLA_OF_TREE:
        array->sizes = (struct cla_sizes){batch, heads, rows, cla_ceil_div(job->score->tree_keys, 32)};
        return true;
    default:
        array->rows_each = 0;
        return cla_feature_sizes(row, shape, &array->sizes);
    }
}

static clattn_status take_feature(struct cla_job *job, int number, struct cla_error *error)
{
    const struct cla_feature *of;
    const struct cla_feature_tensor *row = cla_feature_tensor(number, &of);
    struct cla_array *array = &job->arrays[CLA_SCORE + number];
    const void *data = NULL;
    if (row->home != CLA_IN_SCALES)
        memcpy(&data, (const char *)job->score + row->array, sizeof data);
    if (!(job->problem->features & of->bit) || !size_feature(job, row, array)) {
        if (data)
            return cla_fail(error, CLATTN_INVALID_ARGUMENT, "%s is given: it is NULL in a ring%s", row->path,
                            job->problem->features & of->bit ? "" : " without that feature");
        return CLATTN_SUCCESS;
    }
    array->data = data;
    array->element_bytes = row->element == CLA_BYTE      ? 1
                           : row->element == CLA_AS_BIAS ? cla_size_of(job->problem, CLA_BIAS)
                                                         : 4;
    if (row->layout)
        memcpy(&array->layout, (const char *)job->score + row->layout, sizeof array->layout);
    return CLATTN_SUCCESS;
}

clattn_status cla_job_layout(const struct cla_job *job, int which, struct cla_layout *layout, struct cla_error *error)
{
    const struct cla_array *array = &job->arrays[which];
    int64_t end;
    return cla_layout_resolve(cla_operand_name(which), &array->layout, &array->sizes, array->output, layout, &end,
                              error);
}

/* Each array that there must be, and its layout. */
static clattn_status check_arrays(const struct cla_job *job, struct cla_error *error)
{
    clattn_status status = CLATTN_SUCCESS;
    for (int i = 0; i < CLA_OPERANDS && !status; i++) {
        const struct cla_array *array = &job->arrays[i];
        struct cla_layout layout;
        const bool optional = array->output && i != CLA_O;
        const bool empty = !array->sizes.batch || !array->sizes.heads || !array->sizes.rows || !array->sizes.columns;
        if (!array->element_bytes || (!array->data && (empty || optional)))
            continue;
        if (!array->data)
            return cla_fail(error, CLATTN_INVALID_ARGUMENT, "%s is NULL: it must point to an array",
                            cla_operand_name(i));
        status = cla_job_layout(job, i, &layout, error);
    }
    return status;
}

static clattn_status check_lengths(const char *name, const int32_t *lengths, int64_t count, int64_t most,
                                   struct cla_error *error)
{
    for (int64_t b = 0; b < count && lengths; b++)
        if (lengths[b] < 0 || lengths[b] > most)
            return cla_fail(error, CLATTN_INVALID_SHAPE, "score.%s[%lld] is %d: it is from 0 to %lld", name,
                            (long long)b, (int)lengths[b], (long long)most);
    return CLATTN_SUCCESS;
}

static clattn_status check_sequences(const char *name, const int32_t *cu, int64_t batch, int64_t total, int64_t longest,
                                     struct cla_error *error)
{
    for (int64_t b = 0; b <= batch; b++) {
        const int64_t length = b ? (int64_t)cu[b] - cu[b - 1] : cu[0];
        if (length < 0 || length > (b ? longest : 0) || (b == batch && cu[b] != total))
            return cla_fail(error, CLATTN_INVALID_SHAPE,
                            "score.%s[%lld] is %d: it begins with 0, ends with the total, %lld, and no sequence has "
                            "more than %lld",
                            name, (long long)b, (int)cu[b], (long long)total, (long long)longest);
    }
    return CLATTN_SUCCESS;
}

static clattn_status check_score(const struct cla_job *job, struct cla_error *error)
{
    const struct clattn_host_score_args *score = job->score;
    const struct clattn_shape *shape = &job->shape;
    clattn_status status = check_lengths("key_lengths", score->key_lengths, shape->batch, shape->n_kv, error);
    if (!status)
        status = check_lengths("query_lengths", score->query_lengths, shape->batch, shape->n_q, error);
    if (!status && score->cu_seqlens_q)
        status = check_sequences("cu_seqlens_q", score->cu_seqlens_q, shape->batch, score->total_q, shape->n_q, error);
    if (!status && score->cu_seqlens_kv)
        status =
            check_sequences("cu_seqlens_kv", score->cu_seqlens_kv, shape->batch, score->total_kv, shape->n_kv, error);
    return status;
}

/* Dropout draws for rows by sixteens of a sequence's. */
static clattn_status check_dropout(const struct cla_job *job, struct cla_error *error)
{
    enum { ROWS = 16 };
    for (int64_t i = 0; i < CLA_RUNS * job->shape.batch && (job->problem->features & CLATTN_DROPOUT); i++) {
        const int run = (int)(i % CLA_RUNS);
        const struct cla_rows_met met =
            cla_rows_met(&job->meeting, i / CLA_RUNS, job->rows.first[run], job->rows.count[run]);
        if (met.count && met.first % ROWS)
            return cla_fail(error, CLATTN_INVALID_SHAPE,
                            "rows.first[%d] is %lld, row %lld of batch element %lld: with CLATTN_DROPOUT runs begin at "
                            "multiples of %d of its rows",
                            run, (long long)job->rows.first[run], (long long)met.first, (long long)(i / CLA_RUNS),
                            ROWS);
    }
    return CLATTN_SUCCESS;
}

/* Blocks of rows do not cross the ends of runs. */
static clattn_status check_grain(const struct cla_job *job, struct cla_error *error)
{
    const int64_t block = job->problem->block_q;
    for (int i = 0; i < CLA_RUNS && (job->problem->features & CLATTN_BLOCK_MASK); i++) {
        const int64_t first = job->rows.first[i], at = cla_part_at(&job->rows, i);
        if (job->rows.count[i] && (first % block || (!job->whole && at % block)))
            return cla_fail(error, CLATTN_INVALID_SHAPE,
                            "rows.first[%d] is %lld, element %lld of the part: with CLATTN_BLOCK_MASK runs begin at "
                            "multiples of block_q, %lld",
                            i, (long long)first, (long long)at, (long long)block);
    }
    return CLATTN_SUCCESS;
}

static enum clattn_causal corner_of(const struct clattn_problem *problem)
{
    const bool own = (problem->features & CLATTN_WINDOW) && problem->window_corner;
    return own ? (enum clattn_causal)problem->window_corner : problem->causal;
}

static clattn_status begin(struct cla_job *job, const struct clattn_problem *problem, const struct clattn_shape *shape,
                           const struct clattn_host_score_args *score, struct cla_error *error)
{
    const bool packed = problem->features & CLATTN_VARLEN;
    static const struct clattn_host_kv_scales no_scales;
    if (score->kv_scales && memcmp(score->kv_scales, &no_scales, sizeof no_scales) != 0)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "score.kv_scales is given: K and V of a ring have no scales");
    job->problem = problem;
    job->score = score;
    const clattn_status status = cla_shape_resolve(shape, &job->shape, error);
    job->meeting = (struct cla_meeting){.batch = job->shape.batch,
                                        .n_q = packed ? score->total_q : job->shape.n_q,
                                        .n_kv = packed ? score->total_kv : job->shape.n_kv,
                                        .score = score,
                                        .causal = problem->causal,
                                        .corner = corner_of(problem),
                                        .features = problem->features};
    return status;
}

static clattn_status take(struct cla_job *job, const struct row *rows, size_t count, const void *args, int64_t whole,
                          int64_t kv_chunk, struct cla_error *error)
{
    const struct cla_feature *of;
    if (whole < 0 || whole > 1 || kv_chunk)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "whole is %lld and kv_chunk %lld: they are 0 or 1, and 0",
                        (long long)whole, (long long)kv_chunk);
    job->whole = whole;
    clattn_status status = cla_part_check("rows", &job->rows, cla_job_rows(job), error);
    if (!status)
        status = cla_part_check("keys", &job->keys, cla_job_keys(job), error);
    if (!status)
        status = check_grain(job, error);
    for (size_t i = 0; i < count && !status; i++)
        take_row(job, &rows[i], args);
    for (int i = 0; !status && cla_feature_tensor(i, &of); i++)
        status = take_feature(job, i, error);
    return status;
}

clattn_status cla_job_of_forward(struct cla_job *job, const struct clattn_problem *problem,
                                 const struct clattn_ring_forward_args *args, struct cla_error *error)
{
    *job = (struct cla_job){0};
    if (!args)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "args is NULL: it must point to a struct clattn_ring_forward_args");
    job->rows = args->rows;
    job->keys = args->keys;
    job->progress = args->arrays.progress;
    job->progress_user = args->arrays.progress_user;
    clattn_status status = cla_check_reserved(&cla_struct_ring_forward_args, "args", args, error);
    if (!status)
        status = begin(job, problem, &args->arrays.shape, &args->arrays.score, error);
    if (!status)
        status = take(job, forward_rows, sizeof forward_rows / sizeof *forward_rows, &args->arrays, args->whole,
                      args->arrays.kv_chunk, error);
    if (!status)
        status = check_arrays(job, error);
    if (!status)
        status = check_score(job, error);
    return status ? status : check_dropout(job, error);
}

static clattn_status take_sums(struct cla_job *job, const struct clattn_host_backward_args *args,
                               struct cla_error *error)
{
    const struct clattn_layout *layout = &args->d_bias_layout;
    struct cla_array *d_bias = &job->arrays[CLA_BIAS_GRAD], *d_sinks = &job->arrays[CLA_SINKS_GRAD];
    if (args->d_bias && !cla_layout_is_default(layout) && !layout->row && job->shape.n_q > 1)
        return cla_fail(
            error, CLATTN_INVALID_ARGUMENT,
            "d_bias_layout.row is 0: in a ring the gradient of a bias has each row of this rank, and is no sum "
            "over rows");
    if ((args->d_bias && !(job->problem->features & CLATTN_BIAS)) ||
        (args->d_sinks && !(job->problem->features & CLATTN_SINKS)))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "d_bias is %p and d_sinks %p: they are NULL without these features", args->d_bias,
                        (void *)args->d_sinks);
    if (!args->m != !args->l || (!args->m && !args->lse && cla_part_count(&job->rows)))
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "lse is %p, m %p and l %p: m and l are given together, or lse alone", (const void *)args->lse,
                        (const void *)args->m, (const void *)args->l);
    if (args->m)
        job->arrays[CLA_LSE] = (struct cla_array){0};
    else
        job->arrays[CLA_M] = job->arrays[CLA_L] = (struct cla_array){0};
    if (args->d_bias) {
        *d_bias = job->arrays[CLA_BIAS];
        *d_bias = (struct cla_array){.data = args->d_bias,
                                     .layout = *layout,
                                     .sizes = d_bias->sizes,
                                     .rows_each = 1,
                                     .element_bytes = cla_size_of(job->problem, CLA_BIAS_GRAD),
                                     .output = true,
                                     .sum = true};
        if (!cla_layout_is_default(layout)) {
            d_bias->sizes.batch = layout->batch ? d_bias->sizes.batch : 1;
            d_bias->sizes.heads = layout->head ? d_bias->sizes.heads : 1;
        }
    }
    *d_sinks = (struct cla_array){
        .data = args->d_sinks, .sizes = {1, job->shape.heads, 1, 1}, .element_bytes = 4, .output = true};
    return CLATTN_SUCCESS;
}

clattn_status cla_job_of_backward(struct cla_job *job, const struct clattn_problem *problem,
                                  const struct clattn_ring_backward_args *args, struct cla_error *error)
{
    *job = (struct cla_job){0};
    if (!args)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "args is NULL: it must point to a struct clattn_ring_backward_args");
    job->rows = args->rows;
    job->keys = args->keys;
    job->progress = args->arrays.progress;
    job->progress_user = args->arrays.progress_user;
    clattn_status status = cla_check_reserved(&cla_struct_ring_backward_args, "args", args, error);
    if (!status)
        status = begin(job, problem, &args->arrays.shape, &args->arrays.score, error);
    if (!status)
        status = take(job, backward_rows, sizeof backward_rows / sizeof *backward_rows, &args->arrays, args->whole,
                      args->arrays.kv_chunk, error);
    if (!status)
        status = take_sums(job, &args->arrays, error);
    if (!status)
        status = check_arrays(job, error);
    if (!status)
        status = check_score(job, error);
    return status ? status : check_dropout(job, error);
}
