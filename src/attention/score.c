/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/score.h"
#include "plan/checked.h"
#include "plan/features/feature_check.h"
#include "plan/types.h"
#include <string.h>

static int64_t block_rows(const struct clattn_problem *problem, const struct clattn_shape *shape)
{
    return cla_ceil_div(shape->n_q, problem->block_q);
}

static int64_t block_columns(const struct clattn_problem *problem, const struct clattn_shape *shape)
{
    return cla_ceil_div(shape->n_kv, problem->block_kv);
}

static int element_bytes(const struct cla_call *call, enum cla_element element)
{
    switch (element) {
    case CLA_BYTE:
        return 1;
    case CLA_AS_BIAS:
        return cla_size_of(call->problem, CLA_BIAS);
    case CLA_WORD:
        return 8;
    case CLA_FLOAT:
    case CLA_INT:
        break;
    }
    return 4;
}

struct cla_sizes cla_pages_sizes(const struct cla_call *call, int64_t keys)
{
    if (call->page_count >= 0)
        return (struct cla_sizes){1, 1, call->page_count, 1};
    return (struct cla_sizes){call->shape.batch, 1, cla_ceil_div(keys, call->problem->page_keys), 1};
}

/* Those of K or V, with groups of elements in the place of elements. */
static struct cla_sizes scale_sizes(const struct cla_call *call, int keys)
{
    struct cla_sizes sizes = call->operands[keys].sizes;
    const int64_t columns = keys == CLA_K ? call->problem->d : call->problem->d_v;
    sizes.columns = cla_ceil_div(columns, cla_scale_group(call->problem, keys));
    return sizes;
}

static struct cla_sizes sizes_of(const struct cla_call *call, const struct cla_feature_tensor *row)
{
    const struct clattn_problem *problem = call->problem;
    const struct clattn_shape *shape = &call->shape;
    struct cla_sizes sizes = {0};
    if (cla_feature_sizes(row, shape, &sizes))
        return sizes;
    switch (row->extent) {
    case CLA_OF_BLOCKS:
        return (struct cla_sizes){shape->batch, shape->heads, block_rows(problem, shape),
                                  block_columns(problem, shape)};
    case CLA_OF_BLOCK_ROWS:
        return (struct cla_sizes){shape->batch, shape->heads, block_rows(problem, shape) + 1, 1};
    case CLA_OF_ROWS:
        if (call->features & CLATTN_VARLEN)
            return (struct cla_sizes){1, shape->heads, call->score.total_q, 1};
        return (struct cla_sizes){shape->batch, shape->heads, shape->n_q, 1};
    case CLA_OF_TREE:
        return (struct cla_sizes){shape->batch, shape->heads, shape->n_q, cla_ceil_div(call->tree_keys, 32)};
    case CLA_OF_PAGES:
        return cla_pages_sizes(call, shape->n_kv);
    case CLA_OF_KEYS:
    case CLA_BESIDE_KEYS:
        return scale_sizes(call, row->keys);
    case CLA_OF_DROPOUT:
        return (struct cla_sizes){1, 1, 2, 1};
    default:
        return sizes;
    }
}

clattn_status cla_score_check(struct cla_call *call, const struct clattn_score_args *args, struct cla_error *error)
{
    const struct cla_feature_call given = {.problem = call->problem,
                                           .features = call->features,
                                           .shape = call->shape,
                                           .args = args,
                                           .params = &call->score};
    call->tree_keys = args->tree_keys;
    call->pool_pages = args->pool_pages;
    call->page_count = args->page_offsets.buffer ? args->page_count : -1;
    return cla_features_check(&given, error);
}

void cla_score_sizes(struct cla_call *call)
{
    struct cla_operand *operands = call->operands;
    const struct cla_feature *of;
    const struct cla_feature_tensor *tensor = NULL;
    const struct clattn_shape *shape = &call->shape;
    operands[CLA_BIAS_GRAD].sizes = (struct cla_sizes){shape->batch, shape->heads, shape->n_q, shape->n_kv};
    operands[CLA_BIAS_GRAD].element_bytes = cla_size_of(call->problem, CLA_BIAS_GRAD);
    operands[CLA_SINKS_GRAD].sizes = (struct cla_sizes){1, shape->heads, 1, 1};
    operands[CLA_SINKS_GRAD].element_bytes = element_bytes(call, CLA_FLOAT);
    for (int i = 0; (tensor = cla_feature_tensor_after(tensor, &of)); i++) {
        if (!(call->features & of->bit))
            continue; /* what block_q is, is known with a block mask alone */
        operands[CLA_SCORE + i].sizes = sizes_of(call, tensor);
        operands[CLA_SCORE + i].element_bytes = element_bytes(call, tensor->element);
    }
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

/* The numbers of a list lie one after the other: the kernels get its offset and no stride. */
static clattn_status check_list(const struct cla_call *call, int which, struct cla_error *error)
{
    const struct cla_operand *operand = &call->operands[which];
    if (operand->end && operand->sizes.batch > 1 && operand->layout.batch != 1)
        return cla_fail(error, CLATTN_INVALID_LAYOUT,
                        "%s.layout.batch is %lld: the numbers lie one after the other, so it is 1 or all strides are 0",
                        cla_operand_name(which), (long long)operand->layout.batch);
    return CLATTN_SUCCESS;
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
        status = cla_call_place_bytes(call, CLA_BLOCK_COLUMNS,
                                      (struct cla_bytes){args->block_columns, args->block_offsets.memory,
                                                         (size_t)args->block_count * sizeof(int32_t)},
                                      false, error);
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

/* What kernels get to know of a layout: its first words, or of a vector of heads those that it needs. */
static void tell_place(struct cla_call *call, int number, const struct cla_feature_tensor *tensor)
{
    const struct cla_layout *layout = &call->operands[CLA_SCORE + number].layout;
    const bool of_head = tensor->extent == CLA_OF_HEAD && !tensor->each, pages = tensor->extent == CLA_OF_PAGES;
    const int64_t words[] = {layout->offset,
                             of_head ? layout->head : layout->batch,
                             pages ? call->pool_pages : layout->head,
                             pages ? call->operands[CLA_PAGES].sizes.rows : layout->row,
                             layout->column,
                             call->tree_keys};
    memcpy((char *)&call->score + cla_feature_tensor_at(number), words, cla_feature_tensor_bytes(number));
    if (tensor->extent != CLA_OF_DROPOUT)
        return;
    call->score.seed_low = (uint32_t)layout->offset;
    call->score.seed_high = (uint32_t)(layout->offset >> 32);
}

static clattn_status place_loose(struct cla_call *call, int which, const struct clattn_tensor *given,
                                 struct cla_error *error)
{
    const struct cla_bytes bytes = {given->buffer, given->memory, given->buffer != NULL};
    const clattn_status status = cla_call_place_bytes(call, which, bytes, false, error);
    call->operands[which].whole = true;
    return status;
}

/* A table of pages that is not compressed has no offsets; and sequences whose keys are in pages are not packed. */
static bool is_left_out(const struct cla_call *call, int which)
{
    return which == CLA_PAGE_OFFSETS || (which == CLA_CU_KV && (call->features & CLATTN_PAGES));
}

/* The numbers of a sequence's pages lie one after the other. */
static clattn_status check_page_rows(const struct cla_call *call, struct cla_error *error)
{
    const struct cla_operand *operand = &call->operands[CLA_PAGES];
    if (operand->end && operand->sizes.rows > 1 && operand->layout.row != 1)
        return cla_fail(error, CLATTN_INVALID_LAYOUT,
                        "score.pages.layout.row is %lld: the numbers of a sequence's pages lie one after the other, so "
                        "it is 1 or all strides are 0",
                        (long long)operand->layout.row);
    return CLATTN_SUCCESS;
}

/* Kernels know the strides of scales alone, which are in the table before their zero points. */
static clattn_status check_beside(const struct cla_call *call, int which, struct cla_error *error)
{
    const struct cla_layout *at = &call->operands[which].layout, *scales = &call->operands[which - 1].layout;
    if (!call->operands[which].end || (at->batch == scales->batch && at->head == scales->head &&
                                       at->row == scales->row && at->column == scales->column))
        return CLATTN_SUCCESS;
    return cla_fail(error, CLATTN_INVALID_LAYOUT,
                    "%s has strides %lld, %lld, %lld, %lld, and its scales %lld, %lld, %lld, %lld: they are the same",
                    cla_operand_name(which), (long long)at->batch, (long long)at->head, (long long)at->row,
                    (long long)at->column, (long long)scales->batch, (long long)scales->head, (long long)scales->row,
                    (long long)scales->column);
}

static clattn_status place_tensor(struct cla_call *call, int number, const struct cla_feature_tensor *tensor,
                                  const struct clattn_score_args *args, struct cla_error *error)
{
    const int which = CLA_SCORE + number, how = call->empty || is_left_out(call, which) ? CLA_OPTIONAL : CLA_INPUT;
    const struct clattn_tensor given = cla_feature_given(tensor, args);
    if (tensor->extent == CLA_LOOSE)
        return place_loose(call, which, &given, error);
    clattn_status status = cla_call_place(call, which, &given, how, error);
    if (!status && (tensor->extent == CLA_OF_BATCH || tensor->extent == CLA_OF_SEQUENCES))
        status = check_list(call, which, error);
    if (!status && tensor->extent == CLA_OF_PAGES)
        status = check_page_rows(call, error);
    if (!status && tensor->extent == CLA_BESIDE_KEYS)
        status = check_beside(call, which, error);
    if (!status)
        tell_place(call, number, tensor);
    return status;
}

/* A block mask is given as bytes, or as compressed rows. */
static bool is_of_csr(int which, const struct clattn_score_args *args)
{
    if (which == CLA_BLOCK_OFFSETS || which == CLA_BLOCK_COLUMNS)
        return true;
    return which == CLA_BLOCK_MASK && args->block_offsets.buffer;
}

clattn_status cla_score_place(struct cla_call *call, const struct clattn_score_args *args, struct cla_error *error)
{
    clattn_status status = CLATTN_SUCCESS;
    const struct cla_feature *of;
    const struct cla_feature_tensor *tensor = NULL;
    for (int i = 0; (tensor = cla_feature_tensor_after(tensor, &of)) && !status; i++)
        if ((call->features & of->bit) && !is_of_csr(CLA_SCORE + i, args))
            status = place_tensor(call, i, tensor, args, error);
    if (!status && (call->features & CLATTN_BLOCK_MASK) && args->block_offsets.buffer)
        status = place_csr(call, args, error);
    /* Kernels that finish rows know nothing of pages, and look at the sequences' keys, of which total_kv is 0. */
    if (is_left_out(call, CLA_CU_KV) && call->source == CLA_BUFFERS)
        call->operands[CLA_CU_KV] = call->operands[CLA_CU_Q];
    return status;
}

cl_uint cla_score_arguments(const struct cla_call *call, unsigned features, bool state, struct cla_argument *arguments)
{
    const struct cla_feature *of;
    const struct cla_feature_tensor *tensor = NULL;
    cl_uint count = 0;
    for (int i = 0; (tensor = cla_feature_tensor_after(tensor, &of)); i++) {
        if (!(features & of->bit) || !cla_feature_tensor_is_argument(i))
            continue;
        const bool expanded = CLA_SCORE + i == CLA_BLOCK_MASK && cla_score_is_csr(call);
        arguments[count++] = cla_operand_argument(&call->operands[expanded ? CLA_WORKSPACE : CLA_SCORE + i]);
    }
    if (features || state)
        arguments[count++] = (struct cla_argument){.size = cla_score_params_bytes(), .value = &call->score};
    return count;
}
