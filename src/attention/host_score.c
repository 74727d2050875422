/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/host_score.h"
#include "attention/score.h"

static struct clattn_score_args scalars_of(const struct clattn_host_score_args *args)
{
    return (struct clattn_score_args){.window_left = args->window_left,
                                      .window_right = args->window_right,
                                      .softcap = args->softcap,
                                      .block_count = args->block_count,
                                      .total_q = args->total_q,
                                      .total_kv = args->total_kv,
                                      .dropout_p = args->dropout_p,
                                      .dropout_seed = args->dropout_seed,
                                      .dropout_offset = args->dropout_offset};
}

struct clattn_score_args cla_host_score_arrays(const struct clattn_host_score_args *args)
{
    struct clattn_score_args score = scalars_of(args);
    score.alibi = cla_host_array(args->alibi, &args->alibi_layout);
    score.bias = cla_host_array(args->bias, &args->bias_layout);
    score.mask = cla_host_array(args->mask, &args->mask_layout);
    score.block_mask = cla_host_array(args->block_mask, &args->block_mask_layout);
    score.block_offsets = cla_host_array(args->block_offsets, &args->block_offsets_layout);
    score.block_columns = cla_host_array(args->block_columns, NULL).buffer;
    score.key_lengths = cla_host_array(args->key_lengths, NULL);
    score.cu_seqlens_q = cla_host_array(args->cu_seqlens_q, NULL);
    score.cu_seqlens_kv = cla_host_array(args->cu_seqlens_kv, NULL);
    score.sinks = cla_host_array(args->sinks, NULL);
    score.data = cla_host_array(args->data, NULL).buffer;
    return score;
}

struct clattn_score_args cla_host_score_device(const struct cla_host_job *job,
                                               const struct clattn_host_score_args *args)
{
    struct clattn_score_args score = scalars_of(args);
    score.alibi = cla_host_tensor_of(job, CLA_ALIBI);
    score.bias = cla_host_tensor_of(job, CLA_BIAS);
    score.mask = cla_host_tensor_of(job, CLA_MASK);
    score.block_mask = cla_host_tensor_of(job, CLA_BLOCK_MASK);
    score.block_offsets = cla_host_tensor_of(job, CLA_BLOCK_OFFSETS);
    score.block_columns = cla_host_tensor_of(job, CLA_BLOCK_COLUMNS).buffer;
    score.key_lengths = cla_host_tensor_of(job, CLA_KEY_LENGTHS);
    score.cu_seqlens_q = cla_host_tensor_of(job, CLA_CU_Q);
    score.cu_seqlens_kv = cla_host_tensor_of(job, CLA_CU_KV);
    score.sinks = cla_host_tensor_of(job, CLA_SINKS);
    score.data = cla_host_tensor_of(job, CLA_DATA).buffer;
    return score;
}

static clattn_status check_lengths(const int32_t *lengths, const struct clattn_shape *shape, struct cla_error *error)
{
    for (int64_t b = 0; b < shape->batch; b++)
        if (lengths[b] < 0 || lengths[b] > shape->n_kv)
            return cla_fail(error, CLATTN_INVALID_SHAPE, "score.key_lengths[%lld] is %d: it is from 0 to n_kv, %lld",
                            (long long)b, (int)lengths[b], (long long)shape->n_kv);
    return CLATTN_SUCCESS;
}

static clattn_status check_sequences(const char *name, const int32_t *cu, int64_t batch, int64_t total, int64_t longest,
                                     struct cla_error *error)
{
    if (cu[0] != 0)
        return cla_fail(error, CLATTN_INVALID_SHAPE, "score.%s[0] is %d: the first sequence starts at 0", name,
                        (int)cu[0]);
    for (int64_t b = 0; b < batch; b++) {
        const int64_t length = (int64_t)cu[b + 1] - cu[b];
        if (length < 0 || length > longest)
            return cla_fail(error, CLATTN_INVALID_SHAPE,
                            "score.%s[%lld] is %d after %d: a sequence has from 0 to %lld (the shape's length)", name,
                            (long long)(b + 1), (int)cu[b + 1], (int)cu[b], (long long)longest);
    }
    if (cu[batch] != total)
        return cla_fail(error, CLATTN_INVALID_SHAPE, "score.%s[%lld] is %d: the last sequence ends at the total, %lld",
                        name, (long long)batch, (int)cu[batch], (long long)total);
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

clattn_status cla_host_score_check(struct cla_host_job *job, const struct clattn_host_score_args *args,
                                   struct cla_error *error)
{
    const struct clattn_shape *shape = &job->call.shape;
    clattn_status status = measure_data(job, args, error);
    if (!status && args->key_lengths)
        status = check_lengths(args->key_lengths, shape, error);
    if (!status && args->cu_seqlens_q)
        status = check_sequences("cu_seqlens_q", args->cu_seqlens_q, shape->batch, args->total_q, shape->n_q, error);
    if (!status && args->cu_seqlens_kv)
        status =
            check_sequences("cu_seqlens_kv", args->cu_seqlens_kv, shape->batch, args->total_kv, shape->n_kv, error);
    if (!status && args->block_offsets)
        status = check_blocks(job, args, error);
    return status;
}
