/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/score.h"
#include <stdlib.h>
#include <string.h>

/* One array: no strides but its own, so its bytes are all there is to guard. `bare`: it is handed over without an
 * offset. */
struct item {
    const char *name;
    const void *data; /* NULL: there is none */
    size_t count, element;
    bool bare;
};

static size_t count_of(const int64_t sizes[4])
{
    return (size_t)(sizes[0] * sizes[1] * sizes[2] * sizes[3]);
}

static void list(const struct clattn_problem *problem, const struct score_arrays *arrays, const void *bias,
                 struct item items[SCORE_BUFFERS])
{
    const size_t batch = (size_t)arrays->batch, element = (size_t)clattn_dtype_size(problem->dtype);
    const struct item all[SCORE_BUFFERS] = {
        [SCORE_ALIBI] = {"alibi", arrays->alibi, count_of(arrays->row_sizes), 4, false},
        [SCORE_BIAS] = {"bias", bias, count_of(arrays->pair_sizes), element, false},
        [SCORE_MASK] = {"mask", arrays->mask, count_of(arrays->pair_sizes), 1, false},
        [SCORE_BLOCKS] = {"block_mask", arrays->block_offsets ? NULL : arrays->block_mask,
                          count_of(arrays->block_sizes), 1, false},
        [SCORE_OFFSETS] = {"block_offsets", arrays->block_offsets, count_of(arrays->offset_sizes), 4, false},
        [SCORE_COLUMNS] = {"block_columns", arrays->block_columns, (size_t)arrays->block_count, 4, true},
        [SCORE_LENGTHS] = {"key_lengths", arrays->key_lengths, batch, 4, false},
        [SCORE_CU_Q] = {"cu_seqlens_q", arrays->cu_q, batch + 1, 4, false},
        [SCORE_CU_KV] = {"cu_seqlens_kv", arrays->cu_kv, batch + 1, 4, false},
        [SCORE_SINKS] = {"sinks", arrays->sinks, (size_t)arrays->heads, 4, false},
        [SCORE_DATA] = {"data", arrays->data, SCORE_MOST_DATA, 4, true},
        [SCORE_RNG_STATE] = {"rng_state", problem->rng_state ? arrays->rng_state : NULL, 2, 8, false}};
    memcpy(items, all, sizeof all);
}

static bool put(struct guarded *memory, const struct item *item, const struct test_device *device)
{
    const size_t at = item->bare ? 0 : GUARD_BYTES, bytes = item->count * item->element;
    if (!guard_make(memory, bytes))
        return false;
    memcpy(memory->before + at, item->data, bytes);
    return guard_upload(memory, device);
}

/* The bias in the problem's type. */
static void *store_bias(const struct clattn_problem *problem, const struct score_arrays *arrays)
{
    const struct clattn_layout dense = {0};
    void *bias = arrays->bias ? calloc(count_of(arrays->pair_sizes) + 1, sizeof(float)) : NULL;
    if (bias)
        reference_scatter(problem->dtype, arrays->pair_sizes, &dense, arrays->bias, bias);
    return bias;
}

bool score_stage_make(const struct test_device *device, const struct clattn_problem *problem,
                      const struct score_arrays *arrays, struct score_stage *stage)
{
    struct item items[SCORE_BUFFERS];
    void *bias = store_bias(problem, arrays);
    *stage = (struct score_stage){0};
    list(problem, arrays, bias, items);
    bool made = bias || !arrays->bias;
    for (int i = 0; i < SCORE_BUFFERS && made; i++)
        made = !items[i].data || put(&stage->memory[i], &items[i], device);
    free(bias);
    return made;
}

bool score_stage_intact(const struct test_device *device, struct score_stage *stage)
{
    bool intact = true;
    for (int i = 0; i < SCORE_BUFFERS; i++)
        if (stage->memory[i].buffer)
            intact = guard_download(&stage->memory[i], device) &&
                     guard_intact(&stage->memory[i], "an array of the score's") && intact;
    return intact;
}

void score_stage_free(struct score_stage *stage)
{
    for (int i = 0; i < SCORE_BUFFERS; i++)
        guard_free(&stage->memory[i]);
}

static struct clattn_tensor tensor(const struct score_stage *stage, int which, struct clattn_layout layout,
                                   size_t element)
{
    if (!stage->memory[which].buffer)
        return (struct clattn_tensor){0};
    layout.offset = (int64_t)(GUARD_BYTES / element);
    return (struct clattn_tensor){stage->memory[which].buffer, layout};
}

struct clattn_score_args score_args(const struct clattn_problem *problem, const struct score_case *score,
                                    const struct score_arrays *arrays, const struct score_stage *stage)
{
    const struct clattn_layout dense = {0};
    const size_t element = (size_t)clattn_dtype_size(problem->dtype);
    struct clattn_score_args args = {.alibi = tensor(stage, SCORE_ALIBI, arrays->row_at, 4),
                                     .bias = tensor(stage, SCORE_BIAS, arrays->pair_at, element),
                                     .mask = tensor(stage, SCORE_MASK, arrays->pair_at, 1),
                                     .block_mask = tensor(stage, SCORE_BLOCKS, arrays->block_at, 1),
                                     .block_offsets = tensor(stage, SCORE_OFFSETS, arrays->offset_at, 4),
                                     .block_columns = stage->memory[SCORE_COLUMNS].buffer,
                                     .block_count = arrays->block_count,
                                     .key_lengths = tensor(stage, SCORE_LENGTHS, dense, 4),
                                     .cu_seqlens_q = tensor(stage, SCORE_CU_Q, dense, 4),
                                     .cu_seqlens_kv = tensor(stage, SCORE_CU_KV, dense, 4),
                                     .total_q = arrays->total_q,
                                     .total_kv = arrays->total_kv,
                                     .sinks = tensor(stage, SCORE_SINKS, dense, 4),
                                     .data = stage->memory[SCORE_DATA].buffer};
    if (problem->features & CLATTN_WINDOW) {
        args.window_left = score->window_left;
        args.window_right = score->window_right;
    }
    if (problem->features & CLATTN_SOFTCAP)
        args.softcap = score->softcap;
    if (problem->features & CLATTN_DROPOUT) {
        args.dropout_p = score->dropout_p;
        args.dropout_seed = score->dropout_seed;
        args.dropout_offset = score->dropout_offset;
    }
    if (problem->rng_state) {
        args.dropout_seed = 0;
        args.dropout_offset = SCORE_LATER;
        args.rng_state = stage->memory[SCORE_RNG_STATE].buffer;
        args.rng_state_offset = args.rng_state ? GUARD_BYTES / 8 : 0;
    }
    return args;
}

struct clattn_host_score_args score_host_args(const struct clattn_problem *problem, const struct score_case *score,
                                              const struct score_arrays *arrays, void **bias)
{
    const struct clattn_layout none = {0};
    const struct score_stage no_buffers = {0};
    const struct clattn_score_args values = score_args(problem, score, arrays, &no_buffers);
    *bias = store_bias(problem, arrays);
    return (struct clattn_host_score_args){.window_left = values.window_left,
                                           .window_right = values.window_right,
                                           .softcap = values.softcap,
                                           .alibi = arrays->alibi,
                                           .alibi_layout = arrays->alibi ? arrays->row_at : none,
                                           .bias = *bias,
                                           .bias_layout = *bias ? arrays->pair_at : none,
                                           .mask = arrays->mask,
                                           .mask_layout = arrays->mask ? arrays->pair_at : none,
                                           .block_mask = arrays->block_offsets ? NULL : arrays->block_mask,
                                           .block_mask_layout =
                                               arrays->block_mask && !arrays->block_offsets ? arrays->block_at : none,
                                           .block_offsets = arrays->block_offsets,
                                           .block_offsets_layout = arrays->block_offsets ? arrays->offset_at : none,
                                           .block_columns = arrays->block_columns,
                                           .block_count = arrays->block_count,
                                           .key_lengths = arrays->key_lengths,
                                           .cu_seqlens_q = arrays->cu_q,
                                           .cu_seqlens_kv = arrays->cu_kv,
                                           .total_q = arrays->total_q,
                                           .total_kv = arrays->total_kv,
                                           .sinks = arrays->sinks,
                                           .dropout_p = values.dropout_p,
                                           .dropout_seed = values.dropout_seed,
                                           .dropout_offset = values.dropout_offset,
                                           .rng_state = problem->rng_state ? arrays->rng_state : NULL,
                                           .data = arrays->data,
                                           .data_count = arrays->data ? SCORE_MOST_DATA : 0};
}
