/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/host_score.h"
#include "attention/score.h"
#include "plan/checked.h"
#include <string.h>

/* The struct that has a tensor, which may be NULL, and its array. */
static const char *struct_of(const struct cla_feature_tensor *row, const struct clattn_host_score_args *args)
{
    return row->home == CLA_IN_SCALES ? (const char *)args->kv_scales : (const char *)args;
}

static const void *array_of(const struct cla_feature_tensor *row, const struct clattn_host_score_args *args)
{
    const char *const from = struct_of(row, args);
    const void *array = NULL;
    if (from)
        memcpy(&array, from + row->array, sizeof array);
    return array;
}

static struct clattn_score_args without_tensors(const struct cla_host_job *job,
                                                const struct clattn_host_score_args *args)
{
    struct clattn_score_args score = {.more = &job->room->more,
                                      .kv_scales = args->kv_scales ? &job->room->scales : NULL};
    *job->room = (struct cla_score_room){0};
    cla_feature_give_numbers(args, &score);
    return score;
}

struct clattn_score_args cla_host_score_arrays(const struct cla_host_job *job,
                                               const struct clattn_host_score_args *args)
{
    struct clattn_score_args score = without_tensors(job, args);
    const struct cla_feature *of;
    const struct cla_feature_tensor *row = NULL;
    for (int i = 0; (row = cla_feature_tensor_after(row, &of)); i++) {
        const char *from = struct_of(row, args);
        if (from)
            cla_feature_give(
                row, cla_host_array(array_of(row, args), row->layout ? (const void *)(from + row->layout) : NULL),
                &score);
    }
    return score;
}

struct clattn_score_args cla_host_score_device(const struct cla_host_job *job,
                                               const struct clattn_host_score_args *args)
{
    struct clattn_score_args score = without_tensors(job, args);
    const struct cla_feature *of;
    const struct cla_feature_tensor *row = NULL;
    for (int i = 0; (row = cla_feature_tensor_after(row, &of)); i++)
        cla_feature_give(row, cla_host_tensor_of(job, CLA_SCORE + i), &score);
    return score;
}

struct clattn_backward_args cla_host_backward_arguments(const struct cla_host_job *job)
{
    const struct clattn_host_backward_args *given = job->args;
    const struct cla_device_block *workspace = &job->host->blocks[CLA_WORKSPACE];
    return (struct clattn_backward_args){.shape = job->call.shape,
                                         .q = cla_host_tensor_of(job, CLA_Q),
                                         .k = cla_host_tensor_of(job, CLA_K),
                                         .v = cla_host_tensor_of(job, CLA_V),
                                         .o = cla_host_tensor_of(job, CLA_O),
                                         .d_o = cla_host_tensor_of(job, CLA_D_O),
                                         .lse = cla_host_tensor_of(job, CLA_LSE),
                                         .m = cla_host_tensor_of(job, CLA_M),
                                         .l = cla_host_tensor_of(job, CLA_L),
                                         .d_q = cla_host_tensor_of(job, CLA_D_Q),
                                         .d_k = cla_host_tensor_of(job, CLA_D_K),
                                         .d_v = cla_host_tensor_of(job, CLA_D_V),
                                         .d_bias = cla_host_tensor_of(job, CLA_BIAS_GRAD),
                                         .d_sinks = cla_host_tensor_of(job, CLA_SINKS_GRAD),
                                         .score = cla_host_score_device(job, &given->score),
                                         .workspace = workspace->buffer,
                                         .workspace_bytes = workspace->bytes};
}

/* What a tensor's numbers count: how many there are at most, by the shape's member of that name, and together. */
struct counted {
    const char *name;
    int64_t most, total;
};

static struct counted counted_by(const struct cla_feature_tensor *row, const struct clattn_shape *shape,
                                 const struct clattn_host_score_args *args)
{
    if (row->counts == CLA_COUNTS_ROWS)
        return (struct counted){"n_q", shape->n_q, args->total_q};
    return (struct counted){"n_kv", shape->n_kv, args->total_kv};
}

static clattn_status check_lengths(const char *name, const int32_t *lengths, int64_t batch, struct counted counted,
                                   struct cla_error *error)
{
    for (int64_t b = 0; b < batch; b++)
        if (lengths[b] < 0 || lengths[b] > counted.most)
            return cla_fail(error, CLATTN_INVALID_SHAPE, "score.%s[%lld] is %d: it is from 0 to %s, %lld", name,
                            (long long)b, (int)lengths[b], counted.name, (long long)counted.most);
    return CLATTN_SUCCESS;
}

static clattn_status check_sequences(const char *name, const int32_t *cu, int64_t batch, struct counted counted,
                                     struct cla_error *error)
{
    if (cu[0] != 0)
        return cla_fail(error, CLATTN_INVALID_SHAPE, "score.%s[0] is %d: the first sequence starts at 0", name,
                        (int)cu[0]);
    for (int64_t b = 0; b < batch; b++) {
        const int64_t length = (int64_t)cu[b + 1] - cu[b];
        if (length < 0 || length > counted.most)
            return cla_fail(error, CLATTN_INVALID_SHAPE,
                            "score.%s[%lld] is %d after %d: a sequence has from 0 to %lld (the shape's length)", name,
                            (long long)(b + 1), (int)cu[b + 1], (int)cu[b], (long long)counted.most);
    }
    if (cu[batch] != counted.total)
        return cla_fail(error, CLATTN_INVALID_SHAPE, "score.%s[%lld] is %d: the last sequence ends at the total, %lld",
                        name, (long long)batch, (int)cu[batch], (long long)counted.total);
    return CLATTN_SUCCESS;
}

static clattn_status check_row_of_blocks(const int32_t *offsets, int64_t row, const struct clattn_host_score_args *args,
                                         int64_t columns, struct cla_error *error)
{
    const int32_t begin = offsets[row], end = offsets[row + 1];
    if (begin < 0 || end < begin || end > args->block_count)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "score.block_offsets goes from %d to %d in row %lld of a head: it counts from 0 to "
                        "block_count, %lld, and does not fall",
                        (int)begin, (int)end, (long long)row, (long long)args->block_count);
    for (int32_t i = begin; i < end; i++)
        if (args->block_columns[i] < 0 || args->block_columns[i] >= columns)
            return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                            "score.block_columns[%d] is %d: the blocks of keys are numbered from 0 to %lld", (int)i,
                            (int)args->block_columns[i], (long long)(columns - 1));
    return CLATTN_SUCCESS;
}

static clattn_status check_blocks(const struct cla_host_job *job, const struct clattn_host_score_args *args,
                                  struct cla_error *error)
{
    const struct cla_operand *operand = &job->call.operands[CLA_BLOCK_OFFSETS];
    const struct cla_layout *layout = &operand->layout;
    const int64_t batch = layout->batch ? operand->sizes.batch : 1, heads = layout->head ? operand->sizes.heads : 1;
    clattn_status status = CLATTN_SUCCESS;
    for (int64_t b = 0; b < batch; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t row = 0; row + 1 < operand->sizes.rows && !status; row++)
                status =
                    check_row_of_blocks(args->block_offsets + layout->offset + b * layout->batch + h * layout->head,
                                        row, args, job->call.operands[CLA_BLOCK_MASK].sizes.columns, error);
    return status;
}

/* Keys of batch element b. */
static int64_t keys_of(const struct clattn_host_score_args *args, const struct clattn_shape *shape, int64_t b)
{
    return args->key_lengths ? args->key_lengths[b] : shape->n_kv;
}

static clattn_status check_page_offsets(const struct clattn_host_score_args *args, const struct clattn_shape *shape,
                                        struct cla_error *error)
{
    for (int64_t b = 0; b < shape->batch; b++) {
        const int32_t begin = args->page_offsets[b], end = args->page_offsets[b + 1];
        if (begin < 0 || end < begin || end > args->page_count)
            return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                            "score.page_offsets goes from %d to %d at batch element %lld: it counts from 0 to "
                            "page_count, %lld, and does not fall",
                            (int)begin, (int)end, (long long)b, (long long)args->page_count);
    }
    return CLATTN_SUCCESS;
}

/* Whether each page that holds a key is there. */
static clattn_status check_pages(const struct cla_host_job *job, const struct clattn_host_score_args *args,
                                 struct cla_error *error)
{
    const struct clattn_shape *shape = &job->call.shape;
    const struct cla_layout *layout = &job->call.operands[CLA_PAGES].layout;
    const bool csr = args->page_offsets;
    const clattn_status status = csr ? check_page_offsets(args, shape, error) : CLATTN_SUCCESS;
    for (int64_t b = 0; b < shape->batch && !status; b++) {
        const int64_t needed = cla_ceil_div(keys_of(args, shape, b), job->call.problem->page_keys);
        const int32_t *pages = args->pages + layout->offset + (csr ? args->page_offsets[b] : b * layout->batch);
        if (csr && args->page_offsets[b + 1] - args->page_offsets[b] < needed)
            return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                            "score.page_offsets gives batch element %lld %d pages: its %lld keys take %lld of %lld",
                            (long long)b, (int)(args->page_offsets[b + 1] - args->page_offsets[b]),
                            (long long)keys_of(args, shape, b), (long long)needed,
                            (long long)job->call.problem->page_keys);
        for (int64_t i = 0; i < needed; i++)
            if (pages[i] < 0 || pages[i] >= args->pool_pages)
                return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                                "score.pages has %d as page %lld of batch element %lld: pages are numbered from 0 to "
                                "pool_pages - 1, %lld",
                                (int)pages[i], (long long)i, (long long)b, (long long)(args->pool_pages - 1));
    }
    return status;
}

/* The user's functions may read any of it, so all of it is copied. */
static clattn_status measure_data(struct cla_host_job *job, const struct clattn_host_score_args *args,
                                  struct cla_error *error)
{
    struct cla_operand *operand = &job->call.operands[CLA_DATA];
    if (args->data_count < 0 || !args->data != !args->data_count)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "score.data_count is %lld with data %p: it counts data's floats", (long long)args->data_count,
                        (const void *)args->data);
    if (args->data_count > INT64_MAX / 64)
        return cla_fail(error, CLATTN_TOO_LARGE, "score.data_count is %lld: it is at most %lld",
                        (long long)args->data_count, (long long)(INT64_MAX / 64));
    operand->sizes = (struct cla_sizes){1, 1, 1, args->data_count};
    operand->layout = (struct cla_layout){.column = 1};
    operand->end = args->data_count;
    operand->element_bytes = sizeof(float);
    return CLATTN_SUCCESS;
}

/* What an array holds, where that says how many rows, keys, blocks or pages there are. */
static clattn_status check_contents(const struct cla_host_job *job, const struct clattn_host_score_args *args,
                                    const struct cla_feature_tensor *row, const void *array, struct cla_error *error)
{
    const struct clattn_shape *shape = &job->call.shape;
    if (row->counts && row->extent == CLA_OF_BATCH)
        return check_lengths(row->name, array, shape->batch, counted_by(row, shape, args), error);
    if (row->counts && row->extent == CLA_OF_SEQUENCES)
        return check_sequences(row->name, array, shape->batch, counted_by(row, shape, args), error);
    if (row->extent == CLA_OF_BLOCK_ROWS)
        return check_blocks(job, args, error);
    return row->extent == CLA_OF_PAGES ? check_pages(job, args, error) : CLATTN_SUCCESS;
}

clattn_status cla_host_score_check(struct cla_host_job *job, const struct clattn_host_score_args *args,
                                   struct cla_error *error)
{
    clattn_status status = measure_data(job, args, error);
    const struct cla_feature *of;
    const struct cla_feature_tensor *row = NULL;
    for (int i = 0; (row = cla_feature_tensor_after(row, &of)) && !status; i++) {
        const void *array = array_of(row, args);
        if (array)
            status = check_contents(job, args, row, array, error);
    }
    return status;
}
