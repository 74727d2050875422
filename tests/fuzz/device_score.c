/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuzz/device_call.h"

static int64_t roll(const struct call *call, int64_t below)
{
    return dice(call->dice, below);
}

static int64_t blocks(int64_t length, int of)
{
    return (length + of - 1) / of;
}

static void window(struct call *call, struct clattn_score_args *score)
{
    score->window_left = roll(call, 40) - 1;
    score->window_right = roll(call, 40) - 1;
    CALL_SPOIL(call, score->window_left);
    CALL_SPOIL(call, score->window_right);
}

static struct clattn_tensor pairs(struct call *call, const char *name, int unit, enum memory_role role)
{
    const struct clattn_shape *sizes = &call->sizes;
    return call_tensor(
        call, &(struct call_tensor){name, {sizes->batch, sizes->heads, sizes->n_q, sizes->n_kv}, unit, role, false});
}

/* As bytes, or as compressed rows whose offsets and columns are anything. */
static void block_mask(struct call *call, struct clattn_score_args *score)
{
    const struct clattn_shape *sizes = &call->sizes;
    const int64_t rows = blocks(sizes->n_q, call->problem->block_q),
                  keys = blocks(sizes->n_kv, call->problem->block_kv);
    if (roll(call, 2)) {
        const struct call_tensor what = {
            "block_mask", {sizes->batch, sizes->heads, rows, keys}, 1, MEMORY_INDEX, false};
        score->block_mask = call_tensor(call, &what);
        return;
    }
    score->block_offsets = call_list(call, "block_offsets", sizes->batch * sizes->heads * (rows + 1), MEMORY_INDEX);
    score->block_count = 1 + roll(call, 30);
    score->block_columns = call_list(call, "block_columns", score->block_count, MEMORY_INDEX).buffer;
    CALL_SPOIL(call, score->block_count);
}

static void packed(struct call *call, struct clattn_score_args *score)
{
    score->cu_seqlens_q = call_list(call, "cu_seqlens_q", call->sizes.batch + 1, MEMORY_INDEX);
    score->total_q = call->rows;
    CALL_SPOIL(call, score->total_q);
    if (call->problem->features & CLATTN_PAGES)
        return;
    score->cu_seqlens_kv = call_list(call, "cu_seqlens_kv", call->sizes.batch + 1, MEMORY_INDEX);
    score->total_kv = call->total_keys;
    CALL_SPOIL(call, score->total_kv);
}

static void dropout(struct call *call, struct clattn_score_args *score)
{
    score->dropout_p = (float)roll(call, 1000) / 1000;
    score->dropout_seed = dice_roll(call->dice);
    score->dropout_offset = (uint32_t)dice_roll(call->dice);
    if (!roll(call, 60)) {
        score->dropout_p = 1;
        call->spoilt++;
    }
}

/* Numbers of each batch element, without a layout. */
static cl_mem each(struct call *call, const char *name, int64_t *offset)
{
    *offset = roll(call, 3) ? 0 : roll(call, 9);
    cl_mem buffer = call_list(call, name, *offset + call->sizes.batch, MEMORY_INDEX).buffer;
    CALL_SPOIL(call, *offset);
    return buffer;
}

static void tree_mask(struct call *call, struct clattn_score_args *score)
{
    const struct clattn_shape *sizes = &call->sizes;
    score->tree_keys = 1 + roll(call, 80);
    const struct call_tensor what = {"tree_mask",
                                     {sizes->batch, sizes->heads, sizes->n_q, (score->tree_keys + 31) / 32},
                                     4,
                                     MEMORY_INDEX,
                                     .vector = false};
    score->tree_mask = call_tensor(call, &what);
    CALL_SPOIL(call, score->tree_keys);
}

static void softcap(struct call *call, struct clattn_score_args *score)
{
    score->softcap = 5;
    if (!roll(call, 60)) {
        score->softcap = -1;
        call->spoilt++;
    }
}

static int bias_unit(const struct clattn_problem *problem)
{
    static const int units[] = {[CLATTN_AS_FP32] = 4, [CLATTN_AS_FP16] = 2, [CLATTN_AS_BF16] = 2};
    return problem->bias_type ? units[problem->bias_type] : clattn_dtype_size(problem->dtype);
}

struct clattn_score_args call_score(struct call *call)
{
    const unsigned features = call->problem->features;
    const struct clattn_shape *sizes = &call->sizes;
    struct clattn_score_args score = {0};
    if (features & CLATTN_WINDOW)
        window(call, &score);
    if (features & CLATTN_SOFTCAP)
        softcap(call, &score);
    if (features & CLATTN_ALIBI)
        score.alibi = call_list(call, "alibi", sizes->batch * sizes->heads, MEMORY_INPUT);
    if (features & CLATTN_BIAS)
        score.bias = pairs(call, "bias", bias_unit(call->problem), MEMORY_INPUT);
    if (features & CLATTN_MASK)
        score.mask = pairs(call, "mask", 1, MEMORY_INDEX);
    if (features & CLATTN_BLOCK_MASK)
        block_mask(call, &score);
    if (features & CLATTN_KEY_LENGTHS)
        score.key_lengths = call_list(call, "key_lengths", sizes->batch, MEMORY_INDEX);
    if (features & CLATTN_VARLEN)
        packed(call, &score);
    if (features & CLATTN_SINKS)
        score.sinks = call_list(call, "sinks", sizes->heads, MEMORY_INPUT);
    if (features & CLATTN_DROPOUT)
        dropout(call, &score);
    if (features & CLATTN_LSE_GRADIENT)
        score.d_lse = call_vector(call, "d_lse", MEMORY_INPUT);
    if (features & CLATTN_ROW_SHIFTS)
        score.row_shifts = each(call, "row_shifts", &score.row_shifts_offset);
    if (features & CLATTN_QUERY_LENGTHS)
        score.query_lengths = each(call, "query_lengths", &score.query_lengths_offset);
    if (features & CLATTN_TREE_MASK)
        tree_mask(call, &score);
    if (features & CLATTN_PAGES)
        call_pages(call, &score);
    score.kv_scales = call_scales(call);
    return score;
}
