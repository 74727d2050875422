/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/score.h"
#include "plan/checked.h"

static int64_t block_rows(const struct clattn_problem *problem, const struct clattn_shape *shape)
{
    return cla_ceil_div(shape->n_q, problem->block_q);
}

static int64_t block_columns(const struct clattn_problem *problem, const struct clattn_shape *shape)
{
    return cla_ceil_div(shape->n_kv, problem->block_kv);
}

static void set_size(struct cla_call *call, int which, int element_bytes, int64_t batch, int64_t heads, int64_t rows,
                     int64_t columns)
{
    call->operands[which].element_bytes = element_bytes;
    call->operands[which].sizes = (struct cla_sizes){batch, heads, rows, columns};
}

void cla_score_sizes(struct cla_call *call)
{
    const struct clattn_problem *problem = call->problem;
    const struct clattn_shape *shape = &call->shape;
    const int bytes = clattn_dtype_size(problem->dtype);
    set_size(call, CLA_BIAS_GRAD, bytes, shape->batch, shape->heads, shape->n_q, shape->n_kv);
    set_size(call, CLA_SINKS_GRAD, sizeof(float), 1, shape->heads, 1, 1);
    set_size(call, CLA_ALIBI, sizeof(float), shape->batch, shape->heads, 1, 1);
    set_size(call, CLA_BIAS, bytes, shape->batch, shape->heads, shape->n_q, shape->n_kv);
    set_size(call, CLA_MASK, 1, shape->batch, shape->heads, shape->n_q, shape->n_kv);
    set_size(call, CLA_KEY_LENGTHS, sizeof(int32_t), shape->batch, 1, 1, 1);
    set_size(call, CLA_CU_Q, sizeof(int32_t), shape->batch + 1, 1, 1, 1);
    set_size(call, CLA_CU_KV, sizeof(int32_t), shape->batch + 1, 1, 1, 1);
    set_size(call, CLA_SINKS, sizeof(float), 1, shape->heads, 1, 1);
    if (!(call->features & CLATTN_BLOCK_MASK))
        return;
    const int64_t rows = block_rows(problem, shape), columns = block_columns(problem, shape);
    set_size(call, CLA_BLOCK_MASK, 1, shape->batch, shape->heads, rows, columns);
    set_size(call, CLA_BLOCK_OFFSETS, sizeof(int32_t), shape->batch, shape->heads, rows + 1, 1);
}

clattn_status cla_score_workspace(const struct clattn_problem *problem, unsigned features,
                                  const struct clattn_shape *shape, int64_t *bytes, struct cla_error *error)
{
    int64_t blocks = 0;
    if (features & CLATTN_BLOCK_MASK) {
        const int64_t rows = block_rows(problem, shape), columns = block_columns(problem, shape);
        if (!cla_multiply(rows, columns, &blocks) || !cla_multiply(blocks, shape->heads, &blocks) ||
            !cla_multiply(blocks, shape->batch, &blocks))
            return cla_fail(error, CLATTN_TOO_LARGE,
                            "shape: batch %lld x heads %lld x %lld x %lld blocks are more than 64 bits count",
                            (long long)shape->batch, (long long)shape->heads, (long long)rows, (long long)columns);
    }
    *bytes = blocks;
    return CLATTN_SUCCESS;
}

bool cla_score_is_csr(const struct cla_call *call)
{
    return call->operands[CLA_BLOCK_OFFSETS].buffer != NULL;
}

/* A list of numbers: the kernels get its offset and no stride. */
static clattn_status place_list(struct cla_call *call, int which, const struct clattn_tensor *tensor, int64_t *offset,
                                struct cla_error *error)
{
    const clattn_status status = cla_call_place(call, which, tensor, call->empty ? CLA_OPTIONAL : CLA_INPUT, error);
    const struct cla_operand *operand = &call->operands[which];
    if (!status && operand->end && operand->sizes.batch > 1 && operand->layout.batch != 1)
        return cla_fail(error, CLATTN_INVALID_LAYOUT,
                        "%s.layout.batch is %lld: the numbers lie one after the other, so it is 1 or all strides are 0",
                        cla_operand_names[which], (long long)operand->layout.batch);
    *offset = operand->layout.offset;
    return status;
}

/* Of layouts that broadcast over the batch or the heads one copy is made. */
static clattn_status place_csr(struct cla_call *call, const struct clattn_score_args *args, struct cla_error *error)
{
    const struct cla_layout *layout = &call->operands[CLA_BLOCK_OFFSETS].layout;
    struct clattn_shape copies = call->shape;
    int64_t bytes = 0, sum;
    clattn_status status = cla_call_place(call, CLA_BLOCK_OFFSETS, &args->block_offsets, CLA_INPUT, error);
    if (!status && layout->row != 1)
        return cla_fail(error, CLATTN_INVALID_LAYOUT, "score.block_offsets.layout.row is %lld: it must be 1",
                        (long long)layout->row);
    if (!status)
        status = cla_call_place_bytes(call, CLA_BLOCK_COLUMNS, args->block_columns,
                                      (size_t)args->block_count * sizeof(int32_t), false, error);
    if (copies.batch && !layout->batch)
        copies.batch = 1;
    if (copies.heads && !layout->head)
        copies.heads = 1;
    if (!status)
        status = cla_score_workspace(call->problem, call->features, &copies, &bytes, error);
    if (status)
        return status;
    if (!cla_add((int64_t)call->workspace_bytes, bytes, &sum))
        return cla_fail(error, CLATTN_TOO_LARGE, "shape: the workspace is larger than 64 bits count");
    const int64_t columns = block_columns(call->problem, &copies), head = block_rows(call->problem, &copies) * columns;
    call->csr_offset = call->workspace_bytes;
    call->workspace_bytes = (size_t)sum;
    call->score.block_mask = (struct cla_layout){.offset = (int64_t)call->csr_offset,
                                                 .batch = layout->batch ? copies.heads * head : 0,
                                                 .head = layout->head ? head : 0,
                                                 .row = columns,
                                                 .column = 1};
    return CLATTN_SUCCESS;
}

static clattn_status place_pairs(struct cla_call *call, const struct clattn_score_args *args, struct cla_error *error)
{
    struct cla_score_params *score = &call->score;
    const struct {
        unsigned feature;
        int which;
        const struct clattn_tensor *tensor;
        struct cla_layout *layout;
    } tensors[] = {
        {CLATTN_BIAS, CLA_BIAS, &args->bias, &score->bias},
        {CLATTN_MASK, CLA_MASK, &args->mask, &score->mask},
        {args->block_offsets.buffer ? 0 : CLATTN_BLOCK_MASK, CLA_BLOCK_MASK, &args->block_mask, &score->block_mask}};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        if (!(call->features & tensors[i].feature))
            continue;
        const clattn_status status =
            cla_call_place(call, tensors[i].which, tensors[i].tensor, call->empty ? CLA_OPTIONAL : CLA_INPUT, error);
        if (status)
            return status;
        *tensors[i].layout = call->operands[tensors[i].which].layout;
    }
    return CLATTN_SUCCESS;
}

static clattn_status place_heads(struct cla_call *call, const struct clattn_score_args *args, struct cla_error *error)
{
    const int how = call->empty ? CLA_OPTIONAL : CLA_INPUT;
    struct cla_score_params *score = &call->score;
    clattn_status status = CLATTN_SUCCESS;
    if (call->features & CLATTN_ALIBI) {
        const struct cla_layout *layout = &call->operands[CLA_ALIBI].layout;
        status = cla_call_place(call, CLA_ALIBI, &args->alibi, how, error);
        score->alibi_offset = layout->offset;
        score->alibi_batch = layout->batch;
        score->alibi_head = layout->head;
    }
    if (!status && (call->features & CLATTN_SINKS)) {
        const struct cla_layout *layout = &call->operands[CLA_SINKS].layout;
        status = cla_call_place(call, CLA_SINKS, &args->sinks, how, error);
        score->sinks_offset = layout->offset;
        score->sinks_head = layout->head;
    }
    return status;
}

static void place_data(struct cla_call *call, cl_mem data)
{
    call->operands[CLA_DATA] = (struct cla_operand){
        .buffer = data, .sizes = {1, 1, 1, data != NULL}, .end = data != NULL, .element_bytes = 1, .whole = true};
}

clattn_status cla_score_place(struct cla_call *call, const struct clattn_score_args *args, struct cla_error *error)
{
    struct cla_score_params *score = &call->score;
    const unsigned features = call->features;
    clattn_status status = place_heads(call, args, error);
    if (!status)
        status = place_pairs(call, args, error);
    if (!status && (features & CLATTN_BLOCK_MASK) && args->block_offsets.buffer)
        status = place_csr(call, args, error);
    if (!status && (features & CLATTN_KEY_LENGTHS))
        status = place_list(call, CLA_KEY_LENGTHS, &args->key_lengths, &score->key_lengths_offset, error);
    if (!status && (features & CLATTN_VARLEN))
        status = place_list(call, CLA_CU_Q, &args->cu_seqlens_q, &score->cu_q_offset, error);
    if (!status && (features & CLATTN_VARLEN))
        status = place_list(call, CLA_CU_KV, &args->cu_seqlens_kv, &score->cu_kv_offset, error);
    if (!status && args->data)
        place_data(call, args->data);
    return status;
}

cl_uint cla_score_arguments(const struct cla_call *call, unsigned features, bool state, struct cla_argument *arguments)
{
    const struct {
        unsigned feature;
        int which;
    } buffers[] = {{CLATTN_ALIBI, CLA_ALIBI},
                   {CLATTN_BIAS, CLA_BIAS},
                   {CLATTN_MASK, CLA_MASK},
                   {CLATTN_BLOCK_MASK, cla_score_is_csr(call) ? CLA_WORKSPACE : CLA_BLOCK_MASK},
                   {CLATTN_KEY_LENGTHS, CLA_KEY_LENGTHS},
                   {CLATTN_VARLEN, CLA_CU_Q},
                   {CLATTN_VARLEN, CLA_CU_KV},
                   {CLATTN_SINKS, CLA_SINKS},
                   {CLA_FEATURE_SCORE_MOD | CLA_FEATURE_MASK_MOD, CLA_DATA}};
    cl_uint count = 0;
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) {
        const cl_mem *buffer = &call->operands[buffers[i].which].buffer;
        if (features & buffers[i].feature)
            arguments[count++] = (struct cla_argument){sizeof *buffer, *buffer ? buffer : NULL};
    }
    if (features || state)
        arguments[count++] = (struct cla_argument){sizeof call->score, &call->score};
    return count;
}
