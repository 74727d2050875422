/* SPDX-License-Identifier: BSD-2-Clause */
#include "nodes.h"
#include "judge.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

struct one node_complete(const struct one *one)
{
    struct one whole = *one;
    whole.d = one->d ? one->d : 64;
    whole.d_v = one->d_v ? one->d_v : whole.d;
    whole.heads = one->heads ? one->heads : 4;
    whole.kv_heads = one->kv_heads ? one->kv_heads : 2;
    whole.batch = one->batch ? one->batch : 1;
    return whole;
}

static void fill(struct ggml_tensor *tensor, unsigned *seed)
{
    float row[4096];
    const int64_t rows = ggml_nrows(tensor);
    char *to = tensor->data;
    for (int64_t r = 0; r < rows; r++, to += tensor->nb[1]) {
        judge_draw(row, (size_t)tensor->ne[0], seed);
        if (tensor->type == GGML_TYPE_F32)
            memcpy(to, row, (size_t)tensor->ne[0] * sizeof *row);
        else
            ggml_quantize_chunk(tensor->type, row, to, 0, 1, tensor->ne[0], NULL);
    }
}

/* Causal, bottom-right; rows beyond n_q see nothing. Shares of a position's distance make a bias. */
static void fill_mask(struct ggml_tensor *mask, const struct one *one)
{
    ggml_fp16_t *at = mask->data;
    for (int64_t b = 0; b < mask->ne[2] * mask->ne[3]; b++)
        for (int64_t i = 0; i < mask->ne[1]; i++)
            for (int64_t j = 0; j < mask->ne[0]; j++) {
                const int64_t past = i + one->n_kv - one->n_q - j;
                *at++ = ggml_fp32_to_fp16(past < 0 || i >= one->n_q ? -INFINITY : -(float)((past + b) % 5) / 4.0f);
            }
}

static struct ggml_tensor *keys(struct ggml_context *arena, const struct one *one, enum ggml_type type, int d,
                                int heads, unsigned *seed)
{
    if (!one->cache) {
        struct ggml_tensor *dense = ggml_new_tensor_4d(arena, type, d, one->n_kv, heads, one->batch);
        fill(dense, seed);
        return dense;
    }
    struct ggml_tensor *cache = ggml_new_tensor_4d(arena, type, d * heads, one->n_kv + 19, 1, one->batch);
    fill(cache, seed);
    return ggml_view_4d(arena, cache, d, one->n_kv, heads, one->batch, cache->nb[1], ggml_row_size(type, d),
                        cache->nb[3], 3 * cache->nb[1]);
}

struct ggml_tensor *node_make(struct ggml_context *arena, const struct one *one, unsigned seed)
{
    struct ggml_tensor *q = ggml_new_tensor_4d(arena, GGML_TYPE_F32, one->d, one->heads, one->n_q, one->batch);
    fill(q, &seed);
    q = ggml_permute(arena, q, 0, 2, 1, 3);
    struct ggml_tensor *k = keys(arena, one, one->k_type, one->d, one->kv_heads, &seed), *v, *mask = NULL;
    if (one->v_in_k)
        v = ggml_view_4d(arena, k, one->d_v, one->n_kv, one->kv_heads, one->batch, k->nb[1], k->nb[2], k->nb[3], 0);
    else
        v = keys(arena, one, one->v_type, one->d_v, one->v_one_head ? 1 : one->kv_heads, &seed);
    if (one->mask_rows) {
        mask = ggml_new_tensor_4d(arena, GGML_TYPE_F16, one->n_kv, one->mask_rows, one->mask_heads, one->mask_batch);
        fill_mask(mask, one);
    }
    struct ggml_tensor *node =
        ggml_flash_attn_ext(arena, q, k, v, mask, 1.0f / sqrtf((float)one->d), one->max_bias, one->softcap);
    if (one->sinks) {
        struct ggml_tensor *sinks = ggml_new_tensor_1d(arena, GGML_TYPE_F32, one->heads);
        fill(sinks, &seed);
        ggml_flash_attn_ext_add_sinks(node, sinks);
    }
    return node;
}

void node_describe(const struct one *one)
{
    printf("%-6s %-6s d %3d/%-3d heads %2d/%-2d n %4d x %-4d batch %d", ggml_type_name(one->k_type),
           ggml_type_name(one->v_type), one->d, one->d_v, one->heads, one->v_one_head ? 1 : one->kv_heads, one->n_q,
           one->n_kv, one->batch);
    if (one->mask_rows)
        printf(" mask %dx%dx%d", one->mask_rows, one->mask_heads, one->mask_batch);
    if (one->max_bias > 0)
        printf(" max_bias %g", (double)one->max_bias);
    if (one->softcap != 0)
        printf(" softcap %g", (double)one->softcap);
    printf("%s%s%s", one->sinks ? " sinks" : "", one->cache ? " cache" : "", one->v_in_k ? " v in k" : "");
}
