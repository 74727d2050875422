/* SPDX-License-Identifier: BSD-2-Clause */
#include "ggml.h"
#include "own.h"
#include "plan/half.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- types */

static void half_to_float(const void *from, float *to, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = cla_half_to_float(((const uint16_t *)from)[i]);
}

static void bf16_to_float(const void *from, float *to, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = cla_bf16_to_float(((const uint16_t *)from)[i]);
}

static float half_at(const unsigned char *at)
{
    uint16_t bits;
    memcpy(&bits, at, sizeof bits);
    return cla_half_to_float(bits);
}

static void put_half(unsigned char *at, float value)
{
    const uint16_t bits = cla_half_from_float(value);
    memcpy(at, &bits, sizeof bits);
}

enum { BLOCK = 32 };

/* d, then 32 bytes. */
static void q8_0_to_float(const void *from, float *to, int64_t count)
{
    const unsigned char *at = from;
    for (int64_t i = 0; i < count; i++)
        to[i] = half_at(at + i / BLOCK * 34) * (float)(signed char)at[i / BLOCK * 34 + 2 + i % BLOCK];
}

static void q8_0_from_float(const float *from, unsigned char *to)
{
    float most = 0;
    for (int i = 0; i < BLOCK; i++)
        most = fmaxf(most, fabsf(from[i]));
    put_half(to, most / 127);
    for (int i = 0; i < BLOCK; i++)
        to[2 + i] = (unsigned char)(signed char)(most > 0 ? roundf(from[i] * 127 / most) : 0);
}

/* Halves of bytes: element i the lower one of byte i, element i + 16 the upper. */
static int nibble(const unsigned char *at, int i)
{
    return at[i % 16] >> (i < 16 ? 0 : 4) & 15;
}

static void put_nibble(unsigned char *at, int i, int value)
{
    at[i % 16] = (unsigned char)(i < 16 ? value : at[i % 16] | value << 4);
}

/* d, then 16 bytes: (x - 8) d. */
static void q4_0_to_float(const void *from, float *to, int64_t count)
{
    const unsigned char *at = from;
    for (int64_t i = 0; i < count; i++)
        to[i] = half_at(at + i / BLOCK * 18) * (float)(nibble(at + i / BLOCK * 18 + 2, (int)(i % BLOCK)) - 8);
}

static void q4_0_from_float(const float *from, unsigned char *to)
{
    put_half(to, 0.125f);
    for (int i = 0; i < BLOCK; i++)
        put_nibble(to + 2, i, (int)fminf(15, roundf(from[i] * 8) + 8));
}

/* d and m, then 16 bytes: x d + m. clattn has it not. */
static void q4_1_to_float(const void *from, float *to, int64_t count)
{
    const unsigned char *at = from;
    for (int64_t i = 0; i < count; i++) {
        const unsigned char *block = at + i / BLOCK * 20;
        to[i] = half_at(block) * (float)nibble(block + 4, (int)(i % BLOCK)) + half_at(block + 2);
    }
}

static void q4_1_from_float(const float *from, unsigned char *to)
{
    put_half(to, 0.125f);
    put_half(to + 2, -1);
    for (int i = 0; i < BLOCK; i++)
        put_nibble(to + 4, i, (int)fminf(15, roundf((from[i] + 1) * 8)));
}

static void f32_from_float(const float *from, unsigned char *to)
{
    memcpy(to, from, sizeof *from);
}

static void half_from_float(const float *from, unsigned char *to)
{
    put_half(to, *from);
}

static void bf16_from_float(const float *from, unsigned char *to)
{
    const uint16_t bits = cla_bf16_from_float(*from);
    memcpy(to, &bits, sizeof bits);
}

static const struct type {
    const char *name;
    size_t bytes;
    int64_t elements;
    struct ggml_type_traits traits;
    void (*from_float)(const float *from, unsigned char *to); /* one block */
} types[GGML_TYPE_COUNT] = {
    [GGML_TYPE_F32] = {"f32", 4, 1, {NULL}, f32_from_float},
    [GGML_TYPE_F16] = {"f16", 2, 1, {half_to_float}, half_from_float},
    [GGML_TYPE_BF16] = {"bf16", 2, 1, {bf16_to_float}, bf16_from_float},
    [GGML_TYPE_Q8_0] = {"q8_0", 34, BLOCK, {q8_0_to_float}, q8_0_from_float},
    [GGML_TYPE_Q4_0] = {"q4_0", 18, BLOCK, {q4_0_to_float}, q4_0_from_float},
    [GGML_TYPE_Q4_1] = {"q4_1", 20, BLOCK, {q4_1_to_float}, q4_1_from_float},
};

const char *ggml_type_name(enum ggml_type type)
{
    return types[type].name;
}

size_t ggml_type_size(enum ggml_type type)
{
    return types[type].bytes;
}

int64_t ggml_blck_size(enum ggml_type type)
{
    return types[type].elements;
}

size_t ggml_row_size(enum ggml_type type, int64_t count)
{
    return (size_t)(count / types[type].elements) * types[type].bytes;
}

const struct ggml_type_traits *ggml_get_type_traits(enum ggml_type type)
{
    return &types[type].traits;
}

size_t ggml_quantize_chunk(enum ggml_type type, const float *from, void *to, int64_t start, int64_t rows, int64_t count,
                           const float *weights)
{
    (void)weights;
    for (int64_t i = 0; i < rows * count; i += types[type].elements)
        types[type].from_float(from + start + i, (unsigned char *)to + ggml_row_size(type, start + i));
    return (size_t)rows * ggml_row_size(type, count);
}

ggml_fp16_t ggml_fp32_to_fp16(float value)
{
    return cla_half_from_float(value);
}

/* --- tensors */

struct ggml_context {
    char *memory;
    size_t used, bytes;
};

struct ggml_context *ggml_init(struct ggml_init_params params)
{
    struct ggml_context *arena = calloc(1, sizeof *arena);
    if (arena) {
        arena->memory = calloc(1, params.mem_size);
        arena->bytes = params.mem_size;
    }
    return arena;
}

void ggml_free(struct ggml_context *arena)
{
    free(arena->memory);
    free(arena);
}

static void *take(struct ggml_context *arena, size_t bytes)
{
    void *const taken = arena->memory + arena->used;
    arena->used += (bytes + 63) / 64 * 64;
    if (arena->memory && arena->used <= arena->bytes)
        return taken;
    fprintf(stderr, "the arena is full\n");
    exit(1);
}

static struct ggml_tensor *new_tensor(struct ggml_context *arena, enum ggml_type type, const int64_t ne[4])
{
    struct ggml_tensor *tensor = take(arena, sizeof *tensor);
    tensor->type = type;
    memcpy(tensor->ne, ne, sizeof tensor->ne);
    tensor->nb[0] = types[type].bytes;
    tensor->nb[1] = ggml_row_size(type, ne[0]);
    tensor->nb[2] = tensor->nb[1] * (size_t)ne[1];
    tensor->nb[3] = tensor->nb[2] * (size_t)ne[2];
    return tensor;
}

struct ggml_tensor *ggml_new_tensor_4d(struct ggml_context *arena, enum ggml_type type, int64_t n0, int64_t n1,
                                       int64_t n2, int64_t n3)
{
    struct ggml_tensor *tensor = new_tensor(arena, type, (const int64_t[4]){n0, n1, n2, n3});
    tensor->data = take(arena, tensor->nb[3] * (size_t)n3);
    return tensor;
}

struct ggml_tensor *ggml_new_tensor_1d(struct ggml_context *arena, enum ggml_type type, int64_t n0)
{
    return ggml_new_tensor_4d(arena, type, n0, 1, 1, 1);
}

struct ggml_tensor *ggml_view_4d(struct ggml_context *arena, struct ggml_tensor *of, int64_t n0, int64_t n1, int64_t n2,
                                 int64_t n3, size_t nb1, size_t nb2, size_t nb3, size_t offset)
{
    struct ggml_tensor *view = new_tensor(arena, of->type, (const int64_t[4]){n0, n1, n2, n3});
    view->op = GGML_OP_VIEW;
    view->nb[1] = nb1;
    view->nb[2] = nb2;
    view->nb[3] = nb3;
    view->view_src = of->view_src ? of->view_src : of;
    view->view_offs = of->view_offs + offset;
    view->data = (char *)of->data + offset;
    return view;
}

struct ggml_tensor *ggml_permute(struct ggml_context *arena, struct ggml_tensor *of, int to0, int to1, int to2, int to3)
{
    const int to[4] = {to0, to1, to2, to3};
    struct ggml_tensor *view =
        ggml_view_4d(arena, of, of->ne[0], of->ne[1], of->ne[2], of->ne[3], of->nb[1], of->nb[2], of->nb[3], 0);
    view->op = GGML_OP_PERMUTE;
    for (int i = 0; i < 4; i++) {
        view->ne[to[i]] = of->ne[i];
        view->nb[to[i]] = of->nb[i];
    }
    return view;
}

struct ggml_tensor *ggml_flash_attn_ext(struct ggml_context *arena, struct ggml_tensor *q, struct ggml_tensor *k,
                                        struct ggml_tensor *v, struct ggml_tensor *mask, float scale, float max_bias,
                                        float logit_softcap)
{
    struct ggml_tensor *node = ggml_new_tensor_4d(arena, GGML_TYPE_F32, v->ne[0], q->ne[2], q->ne[1], q->ne[3]);
    const float numbers[] = {scale, max_bias, logit_softcap};
    node->op = GGML_OP_FLASH_ATTN_EXT;
    memcpy(node->op_params, numbers, sizeof numbers);
    node->src[0] = q;
    node->src[1] = k;
    node->src[2] = v;
    node->src[3] = mask;
    return node;
}

void ggml_flash_attn_ext_add_sinks(struct ggml_tensor *node, struct ggml_tensor *sinks)
{
    node->src[4] = sinks;
}

size_t ggml_nbytes(const struct ggml_tensor *tensor)
{
    size_t bytes = ggml_row_size(tensor->type, tensor->ne[0]);
    for (int i = 1; i < 4; i++)
        bytes += (size_t)(tensor->ne[i] - 1) * tensor->nb[i];
    return ggml_nelements(tensor) ? bytes : 0;
}

int64_t ggml_nrows(const struct ggml_tensor *tensor)
{
    return tensor->ne[1] * tensor->ne[2] * tensor->ne[3];
}

int64_t ggml_nelements(const struct ggml_tensor *tensor)
{
    return tensor->ne[0] * ggml_nrows(tensor);
}

bool own_result(struct ggml_context *arena, struct ggml_tensor *node)
{
    (void)arena;
    (void)node;
    return false;
}
