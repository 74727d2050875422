/* SPDX-License-Identifier: BSD-2-Clause */
#include "reference/formats.h"
#include "plan/half.h"
#include <math.h>
#include <string.h>

enum { BLOCK = 32 };

/* Elements that lie together, the bytes that they take, and whether their scales lie apart. */
struct description {
    int block, bytes;
    bool scaled;
};

static const struct description *described(int type)
{
    static const struct description descriptions[] = {
        [CLATTN_AS_INT8] = {1, 1, true},       [CLATTN_AS_INT4] = {2, 1, true},
        [CLATTN_AS_FP8_E4M3] = {1, 1, true},   [CLATTN_AS_FP8_E5M2] = {1, 1, true},
        [CLATTN_AS_Q8_0] = {BLOCK, 34, false}, [CLATTN_AS_Q4_0] = {BLOCK, 18, false}};
    return &descriptions[type];
}

size_t formats_row_bytes(int type, int64_t columns)
{
    const struct description *of = described(type);
    return (size_t)((columns + of->block - 1) / of->block * of->bytes);
}

int64_t formats_groups(const struct formats_way *way)
{
    const int64_t group = way->group ? way->group : way->columns;
    return described(way->type)->scaled ? (way->columns + group - 1) / group : 0;
}

static float half_at(const uint8_t *at)
{
    return cla_half_to_float((uint16_t)(at[0] | at[1] << 8));
}

static void put_half(float value, uint8_t *at)
{
    const uint16_t bits = cla_half_from_float(value);
    at[0] = (uint8_t)bits;
    at[1] = (uint8_t)(bits >> 8);
}

/* A number of one sign bit, four of exponent with bias 7, three of fraction; or five with bias 15 and two. */
static float small_float(uint8_t bits, int fraction_bits, int bias)
{
    const int fraction = bits & ((1 << fraction_bits) - 1), exponent = (bits & 0x7f) >> fraction_bits;
    const float one = exponent ? (float)(1 << fraction_bits) : 0.0f;
    const float value = ldexpf(one + (float)fraction, (exponent ? exponent : 1) - bias - fraction_bits);
    return bits & 0x80 ? -value : value;
}

static float fp8(int type, uint8_t bits)
{
    if (type == CLATTN_AS_FP8_E4M3)
        return (bits & 0x7f) == 0x7f ? NAN : small_float(bits, 3, 7);
    if ((bits & 0x7c) != 0x7c)
        return small_float(bits, 2, 15);
    return bits & 3 ? NAN : bits & 0x80 ? -INFINITY : INFINITY;
}

float formats_stored(int type, const uint8_t *row, int64_t x)
{
    const uint8_t *block = row + formats_row_bytes(type, x / BLOCK * BLOCK);
    const int e = (int)(x % BLOCK);
    switch (type) {
    case CLATTN_AS_INT8:
        return (float)(int8_t)row[x];
    case CLATTN_AS_INT4: {
        const int nibble = x % 2 ? row[x / 2] >> 4 : row[x / 2] & 15;
        return (float)(nibble < 8 ? nibble : nibble - 16);
    }
    case CLATTN_AS_Q8_0:
        return half_at(block) * (float)(int8_t)block[2 + e];
    case CLATTN_AS_Q4_0:
        return half_at(block) * (float)((e < 16 ? block[2 + e] & 15 : block[2 + e - 16] >> 4) - 8);
    default:
        return fp8(type, row[x]);
    }
}

/* The bits of the nearest number, of two the even one; of those beyond the largest this. */
static uint8_t nearest_fp8(int type, float value)
{
    const uint8_t sign = signbit(value) ? 0x80 : 0, most = type == CLATTN_AS_FP8_E4M3 ? 0x7e : 0x7b;
    uint8_t best = 0;
    for (uint8_t bits = 1; bits <= most; bits++) {
        const float old = fabsf(fabsf(value) - fp8(type, best)), new = fabsf(fabsf(value) - fp8(type, bits));
        if (new < old || (new == old &&bits % 2 == 0))
            best = bits;
    }
    return (uint8_t)(best | sign);
}

static int rounded(float value, int least, int most)
{
    const float nearest = rintf(value);
    return nearest <= (float)least ? least : nearest >= (float)most ? most : (int)nearest;
}

static float finite_or_0(float value)
{
    return isfinite(value) ? value : 0.0f;
}

static void put_nibble(uint8_t *at, bool upper, int value)
{
    *at = (uint8_t)(upper ? (*at & 15) | value << 4 : (*at & 0xf0) | (value & 15));
}

static void store(int type, uint8_t *row, int64_t x, float value)
{
    if (type == CLATTN_AS_INT8)
        row[x] = (uint8_t)rounded(value, -128, 127);
    else if (type == CLATTN_AS_INT4)
        put_nibble(row + x / 2, x % 2, rounded(value, -8, 7) & 15);
    else
        row[x] = nearest_fp8(type, value);
}

static void quantise_group(const struct formats_way *way, const float *values, int64_t first, int64_t end, uint8_t *row,
                           float *scale, float *zero)
{
    static const float reach[] = {
        [CLATTN_AS_INT8] = 127, [CLATTN_AS_INT4] = 7, [CLATTN_AS_FP8_E4M3] = 448, [CLATTN_AS_FP8_E5M2] = 57344};
    float least = 0, most = 0;
    for (int64_t x = first; x < end; x++) {
        least = fminf(least, finite_or_0(values[x]));
        most = fmaxf(most, finite_or_0(values[x]));
    }
    const float whole = way->zeros ? most - least : fmaxf(most, -least);
    *scale = whole > 0 ? whole / (way->zeros ? 2 * reach[way->type] : reach[way->type]) : 1.0f;
    const float middle = way->zeros ? rintf(-(least + most) / 2 / *scale) : 0.0f;
    if (way->zeros)
        *zero = middle;
    for (int64_t x = first; x < end; x++)
        store(way->type, row, x, finite_or_0(values[x]) / *scale + middle);
}

/* ggml's rule: q8_0 reaches 127 on both sides, q4_0 has its -8 where the largest value is. */
static void quantise_block(int type, const float *values, int64_t count, uint8_t *block)
{
    float largest = 0;
    for (int64_t e = 0; e < count; e++)
        if (fabsf(finite_or_0(values[e])) > fabsf(largest))
            largest = values[e];
    put_half(type == CLATTN_AS_Q8_0 ? fabsf(largest) / 127 : largest / -8, block);
    const float scale = half_at(block);
    for (int64_t e = 0; e < BLOCK; e++) {
        const float value = e < count && scale != 0 ? finite_or_0(values[e]) / scale : 0.0f;
        if (type == CLATTN_AS_Q8_0)
            block[2 + e] = (uint8_t)rounded(value, -127, 127);
        else
            put_nibble(block + 2 + e % 16, e >= 16, rounded(value, -8, 7) + 8);
    }
}

void formats_quantise(const struct formats_way *way, const float *values, uint8_t *row, float *scales, float *zeros)
{
    const int64_t groups = formats_groups(way), group = way->group ? way->group : way->columns;
    memset(row, 0, formats_row_bytes(way->type, way->columns));
    for (int64_t g = 0; g < groups; g++) {
        const int64_t end = (g + 1) * group < way->columns ? (g + 1) * group : way->columns;
        quantise_group(way, values, g * group, end, row, scales + g, way->zeros ? zeros + g : NULL);
    }
    for (int64_t x = 0; x < way->columns && !groups; x += BLOCK)
        quantise_block(way->type, values + x, way->columns - x < BLOCK ? way->columns - x : BLOCK,
                       row + formats_row_bytes(way->type, x));
}

void formats_expand(const struct formats_way *way, const uint8_t *row, const float *scales, const float *zeros,
                    float *values)
{
    const int64_t groups = formats_groups(way), group = way->group ? way->group : way->columns;
    for (int64_t x = 0; x < way->columns; x++) {
        const float stored = formats_stored(way->type, row, x), zero = way->zeros ? zeros[x / group] : 0.0f;
        values[x] = groups ? (stored - zero) * scales[x / group] : stored;
    }
}
