/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Products of matrices by a wave: WMMA (RDNA 3, RDNA 4) and MFMA (CDNA 2, CDNA 3). Where elements lie in the lanes'
 * registers is what AMD's matrix instruction calculator says (github.com/ROCm/amd_matrix_instruction_calculator). Sums
 * are in double precision, rounded once: the hardware's own order of rounding is not published. */
#include "lanes.h"
#include "operations.h"

enum { MOST_SIDE = 32, MOST_DEPTH = 16 };

/* The products' sizes, elements that a lane holds of an operand and of the sums, and lanes that hold a row's k side by
 * side. */
struct shape {
    int side, depth, own, sums;
};

struct product {
    float left[MOST_SIDE][MOST_DEPTH], right[MOST_SIDE][MOST_DEPTH]; /* both by their own row or column, then k */
};

static float element(const uint32_t *const *words, int lane, int e, bool bfloat)
{
    const uint32_t half = words[e / 2][lane] >> 16 * (e % 2) & 0xffff;
    return bfloat ? as_float(half << 16) : half_to_float(half);
}

/* One operand's elements, by row (of the left one) or column and k. On RDNA 3 the lanes from 16 on repeat the others,
 * which the hardware relies on. */
static void gather(struct wave *wave, const struct instruction *i, int n, const struct shape *shape,
                   float to[MOST_SIDE][MOST_DEPTH])
{
    uint32_t room[MOST_DEPTH / 2][MOST_LANES];
    const uint32_t *words[MOST_DEPTH / 2];
    const bool bfloat = i->target;
    for (int word = 0; word < shape->own / 2; word++)
        words[word] = lanes_of(wave, &i->source[n], word, room[word]);
    for (int lane = 0; lane < wave->lanes; lane++) {
        const int row = lane % shape->side, first = shape->own * (lane / shape->side) % shape->depth;
        for (int e = 0; e < shape->own; e++) {
            const float x = element(words, lane, e, bfloat);
            float *place = &to[row][first + e];
            if (shape->own == shape->depth && lane >= shape->side && as_bits(*place) != as_bits(x))
                fault(wave, i, "lane %d does not repeat the operand of lane %d", lane, lane - shape->side);
            *place = x;
        }
    }
}

/* The row of a lane's sum e; its column is the lane's. */
static int row_of(const struct wave *wave, const struct shape *shape, int lane, int e)
{
    const int part = lane / shape->side;
    if (shape->own == shape->depth)
        return 2 * e + part; /* RDNA 3 */
    const int together = wave->lanes == MOST_LANES ? 4 : 8, parts = wave->lanes / shape->side;
    return together * parts * (e / together) + together * part + e % together;
}

static void multiply(struct wave *wave, const struct instruction *i, const struct shape *shape)
{
    struct product product;
    uint32_t room[MOST_LANES], result[MOST_LANES];
    if (wave->exec != (wave->lanes == MOST_LANES ? UINT64_MAX : UINT32_MAX))
        fault(wave, i, "a matrix instruction with lanes off");
    if (i->neg_lo || i->neg_hi || i->clamp)
        fault(wave, i, "a matrix instruction with modifiers");
    gather(wave, i, 0, shape, product.left);
    gather(wave, i, 1, shape, product.right);
    uint32_t sums[MOST_SIDE * MOST_SIDE / MOST_LANES][MOST_LANES];
    for (int e = 0; e < shape->sums; e++) {
        const uint32_t *c = lanes_of(wave, &i->source[2], i->source[2].place == CONSTANT ? 0 : e, room);
        for (int lane = 0; lane < wave->lanes; lane++) {
            const float *a = product.left[row_of(wave, shape, lane, e)], *b = product.right[lane % shape->side];
            double sum = as_float(c[lane]);
            for (int k = 0; k < shape->depth; k++)
                sum += (double)a[k] * b[k];
            result[lane] = as_bits((float)sum);
        }
        memcpy(sums[e], result, sizeof result);
    }
    for (int e = 0; e < shape->sums; e++)
        put_lanes(wave, i, e, sums[e]);
}

static void wmma(struct wave *wave, const struct instruction *i)
{
    static const struct shape rdna3 = {16, 16, 16, 8}, rdna4 = {16, 16, 8, 8};
    multiply(wave, i, wave->group->launch->program->chip->generation == RDNA3 ? &rdna3 : &rdna4);
}

static void mfma_16(struct wave *wave, const struct instruction *i)
{
    static const struct shape shape = {16, 16, 4, 4};
    multiply(wave, i, &shape);
}

static void mfma_32(struct wave *wave, const struct instruction *i)
{
    static const struct shape shape = {32, 8, 4, 16};
    multiply(wave, i, &shape);
}

/* What decode.c puts into `target`: whether elements are bf16. */
const struct operation matrix_operations[] = {
    {"wmma_f32_16x16x16_f16", wmma, "rrrr"},
    {"wmma_f32_16x16x16_bf16", wmma, "rrrr"},
    {"mfma_f32_16x16x16f16", mfma_16, "rrrr"},
    {"mfma_f32_16x16x16_f16", mfma_16, "rrrr"},
    {"mfma_f32_16x16x16bf16_1k", mfma_16, "rrrr"},
    {"mfma_f32_16x16x16_bf16", mfma_16, "rrrr"},
    {"mfma_f32_32x32x8f16", mfma_32, "rrrr"},
    {"mfma_f32_32x32x8_f16", mfma_32, "rrrr"},
    {"mfma_f32_32x32x8bf16_1k", mfma_32, "rrrr"},
    {"mfma_f32_32x32x8_bf16", mfma_32, "rrrr"},
    {NULL, NULL, NULL},
};
