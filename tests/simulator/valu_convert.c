/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Vector conversions, and multiply-adds of mixed precision. */
#include "valu.h"

static inline uint32_t to_unsigned(float x)
{
    return !(x > 0) ? 0 : x >= 0x1p32f ? 0xffffffff : (uint32_t)x; /* a NaN is 0 */
}

static inline uint32_t to_signed(float x)
{
    if (x != x)
        return 0;
    return x >= 0x1p31f ? 0x7fffffff : x <= -0x1p31f ? 0x80000000 : (uint32_t)(int32_t)x;
}

ONE(signed_of_float, to_signed(FA))
ONE(unsigned_of_float, to_unsigned(FA))
ONE(float_of_signed, as_bits((float)(int32_t)A))
ONE(float_of_unsigned, as_bits((float)A))
ONE(float_of_half, as_bits(half_to_float(A)))
ONE(half_of_float, float_to_half(FA))
ONE(float_of_byte_0, as_bits((float)(A & 255)))
ONE(float_of_byte_1, as_bits((float)(A >> 8 & 255)))
ONE(float_of_byte_2, as_bits((float)(A >> 16 & 255)))
ONE(float_of_byte_3, as_bits((float)(A >> 24)))

/* A source as the op_sel bits say: op_sel_hi of it is whether it is a half, op_sel which half of the register. */
static void mixed_source(const struct wave *wave, const struct instruction *i, int n, float *values)
{
    uint32_t room[MOST_LANES];
    struct source source = i->source[n];
    const bool is_half = i->op_sel_hi >> n & 1, upper = i->op_sel >> n & 1, negated = source.negate != 0,
               absolute = source.absolute != 0;
    if (!is_half) {
        const uint32_t *x = lanes_of(wave, &source, 0, room);
        for (int l = 0; l < LANES(wave); l++)
            values[l] = as_float(x[l]);
        return;
    }
    source.negate = source.absolute = 0;
    const uint32_t *x = lanes_of(wave, &source, 0, room);
    for (int l = 0; l < LANES(wave); l++) {
        const float value = half_to_float(upper ? x[l] >> 16 : x[l]), size = absolute ? fabsf(value) : value;
        values[l] = negated ? -size : size;
    }
}

/* To a float, or to the lower or upper half of a register whose other half stays. */
static void mix(struct wave *wave, const struct instruction *i, bool to_half)
{
    float a[MOST_LANES], b[MOST_LANES], c[MOST_LANES];
    uint32_t result[MOST_LANES];
    mixed_source(wave, i, 0, a);
    mixed_source(wave, i, 1, b);
    mixed_source(wave, i, 2, c);
    const uint32_t *old = wave->v[i->to.first];
    for (int l = 0; l < LANES(wave); l++) {
        const float x = fmaf(a[l], b[l], c[l]);
        result[l] = !to_half  ? as_bits(x)
                    : i->high ? (old[l] & 0xffff) | float_to_half(x) << 16
                              : (old[l] & 0xffff0000) | float_to_half(x);
    }
    put_lanes(wave, i, 0, result);
}

static void mix_float(struct wave *wave, const struct instruction *i)
{
    mix(wave, i, false);
}

static void mix_half(struct wave *wave, const struct instruction *i)
{
    mix(wave, i, true);
}

const struct operation conversion_operations[] = {
    {"cvt_i32_f32", signed_of_float, "vf"},    {"cvt_u32_f32", unsigned_of_float, "vf"},
    {"cvt_f32_i32", float_of_signed, "vu"},    {"cvt_f32_u32", float_of_unsigned, "vu"},
    {"cvt_f32_f16", float_of_half, "vh"},      {"cvt_f16_f32", half_of_float, "vf"},
    {"cvt_f32_ubyte0", float_of_byte_0, "vu"}, {"cvt_f32_ubyte1", float_of_byte_1, "vu"},
    {"cvt_f32_ubyte2", float_of_byte_2, "vu"}, {"cvt_f32_ubyte3", float_of_byte_3, "vu"},
    {"fma_mix_f32", mix_float, "vfff"},        {"fma_mixlo_f16", mix_half, "vfff"},
    {"fma_mixhi_f16", mix_half, "vfff"},       {NULL, NULL, NULL},
};
