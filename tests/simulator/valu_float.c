/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Vector instructions on 32-bit floats. Denormal numbers are kept, as the kernels' mode says; the transcendental
 * instructions take and give 0 in their place. */
#include "floats.h"
#include "valu.h"

/* The middle one: the larger of those that are not the largest, 0 and -0 alike. */
static inline uint32_t middle(uint32_t a, uint32_t b, uint32_t c)
{
    const float most = as_float(larger(larger(a, b), c));
    return most == as_float(a) ? larger(b, c) : most == as_float(b) ? larger(a, c) : larger(a, b);
}

/* Of a NaN the smallest of the three. */
static inline uint32_t middle_number(uint32_t a, uint32_t b, uint32_t c)
{
    return is_nan(a) || is_nan(b) || is_nan(c) ? smaller(smaller(a, b), c) : middle(a, b, c);
}

static inline uint32_t middle_ieee(uint32_t a, uint32_t b, uint32_t c)
{
    return is_nan(a) || is_nan(b) || is_nan(c) ? smaller_ieee(smaller_ieee(a, b), c) : middle(a, b, c);
}

static inline float flushed(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

static inline float mantissa(float x)
{
    int exponent;
    return isfinite(x) ? frexpf(x, &exponent) : x;
}

static inline int exponent_of(float x)
{
    int exponent = 0;
    if (isfinite(x))
        frexpf(x, &exponent);
    return exponent;
}

TWO(add, as_bits(FA + FB))
TWO(subtract, as_bits(FA - FB))
TWO(subtract_reversed, as_bits(FB - FA))
TWO(multiply, as_bits(FA *FB))
TWO(maximum, larger_ieee(A, B))
TWO(minimum, smaller_ieee(A, B))
TWO(maximum_number, larger(A, B))
TWO(minimum_number, smaller(A, B))
THREE(fused, as_bits(fmaf(FA, FB, FC)))
/* The product is rounded, and what is denormal is 0: LLVM's FMAD, which has the same value. */
THREE(multiply_add, as_bits(flushed(flushed(flushed(FA) * flushed(FB)) + flushed(FC))))
THREE(maximum_3, larger_ieee(larger_ieee(A, B), C))
THREE(minimum_3, smaller_ieee(smaller_ieee(A, B), C))
THREE(middle_from_below, smaller_ieee(larger_ieee(A, B), C))
THREE(middle_from_above, larger_ieee(smaller_ieee(A, B), C))
THREE(median_3, middle_ieee(A, B, C))
THREE(maximum_number_3, larger(larger(A, B), C))
THREE(minimum_number_3, smaller(smaller(A, B), C))
THREE(number_from_below, smaller(larger(A, B), C))
THREE(number_from_above, larger(smaller(A, B), C))
THREE(median_number_3, middle_number(A, B, C))
ONE(power, as_bits(flushed(exp2f(flushed(FA)))))
ONE(logarithm, as_bits(log2f(flushed(FA))))
ONE(reciprocal, as_bits(flushed(1 / flushed(FA))))
ONE(square_root, as_bits(sqrtf(flushed(FA))))
ONE(reciprocal_root, as_bits(1 / sqrtf(flushed(FA))))
/* RDNA 4: of a scalar register. */
#define OF_SCALAR(name, expression)                                                                                    \
    static void name(struct wave *wave, const struct instruction *i)                                                   \
    {                                                                                                                  \
        const float x = as_float(scalar_of(wave, &i->source[0]));                                                      \
        put_scalar(wave, &i->to, as_bits(expression));                                                                 \
    }
OF_SCALAR(scalar_power, flushed(exp2f(flushed(x))))
OF_SCALAR(scalar_logarithm, log2f(flushed(x)))
OF_SCALAR(scalar_reciprocal, flushed(1 / flushed(x)))
OF_SCALAR(scalar_root, sqrtf(flushed(x)))
OF_SCALAR(scalar_reciprocal_root, 1 / sqrtf(flushed(x)))
ONE(nearest, as_bits(rintf(FA)))
ONE(down, as_bits(floorf(FA)))
ONE(up, as_bits(ceilf(FA)))
ONE(towards_zero, as_bits(truncf(FA)))
ONE(fraction, as_bits(mantissa(FA)))
ONE(exponent, (uint32_t)exponent_of(FA))
TWO(scale_by, as_bits(ldexpf(FA, (int)B)))

static inline bool is_denormal(float x)
{
    return x != 0 && fabsf(x) < 0x1p-126f;
}

static inline int biased_exponent(float x)
{
    return (int)(as_bits(x) >> 23 & 255);
}

/* The last steps of a division: what v_div_scale left is undone. */
static inline uint32_t fixed(uint32_t q, uint32_t d, uint32_t n)
{
    const float quotient = as_float(q), below = as_float(d), above = as_float(n);
    const uint32_t sign = (d ^ n) & 0x80000000;
    if (is_nan(n))
        return quiet(n);
    if (is_nan(d))
        return quiet(d);
    if ((below == 0 && above == 0) || (isinf(below) && isinf(above)))
        return 0xffc00000;
    if (below == 0 || isinf(above))
        return sign | 0x7f800000;
    if (isinf(below) || above == 0 || biased_exponent(above) - biased_exponent(below) < -150)
        return sign;
    /* a quotient so large that steps on the way to it were infinite */
    return isnan(quotient) ? sign | 0x7f800000 : (as_bits(quotient) & 0x7fffffff) | sign;
}
THREE(divide_fixup, fixed(A, B, C))

/* a * b + c, times a power of two, rounded once: as a double whose last bit says whether anything was left. */
static float fused_and_scaled(float a, float b, float c, float by)
{
    const double product = (double)a * b, sum = product + c, part = sum - product;
    const double left = (product - (sum - part)) + (c - part);
    uint64_t bits;
    double odd;
    memcpy(&bits, &sum, sizeof bits);
    if (left != 0 && isfinite(sum) && !(bits & 1))
        bits = (left > 0) == (sum > 0) ? bits + 1 : bits - 1;
    memcpy(&odd, &bits, sizeof odd);
    return (float)(odd * by);
}

static void divide_fmas(struct wave *wave, const struct instruction *i)
{
    uint32_t room[3][MOST_LANES], result[MOST_LANES];
    const uint32_t *a = lanes_of(wave, &i->source[0], 0, room[0]), *b = lanes_of(wave, &i->source[1], 0, room[1]),
                   *c = lanes_of(wave, &i->source[2], 0, room[2]);
    const uint64_t scaled = mask_of(wave, &i->source[3]);
    for (int l = 0; l < LANES(wave); l++) {
        const float x = as_float(a[l]), y = as_float(b[l]), z = as_float(c[l]);
        /* whichever way v_div_scale scaled */
        const float undo = fabsf(z) >= 2 ? 0x1p64f : 0x1p-64f;
        result[l] = as_bits(scaled >> l & 1 ? fused_and_scaled(x, y, z, undo) : fmaf(x, y, z));
    }
    put_lanes(wave, i, 0, result);
}

/* Which of the three it scales, and whether v_div_fmas is to undo it, as the ISA documents have it. But where both the
 * reciprocal and the quotient would be denormal they scale the denominator up, which overflows: down it is. */
static uint32_t scaled(uint32_t a, float below, float above, bool *undo)
{
    const bool is_below = as_float(a) == below, is_above = as_float(a) == above;
    const bool reciprocal_denormal = is_denormal(1 / below), quotient_denormal = is_denormal(above / below);
    const uint32_t up = as_bits(ldexpf(as_float(a), 64)), down = as_bits(ldexpf(as_float(a), -64));
    *undo = false;
    if (below == 0 || above == 0)
        return 0xffc00000;
    if (biased_exponent(above) - biased_exponent(below) >= 96) {
        *undo = true;
        return is_below ? up : a;
    }
    if (is_denormal(below))
        return up;
    *undo = quotient_denormal;
    if (reciprocal_denormal)
        return is_below || !quotient_denormal ? down : a;
    if (quotient_denormal)
        return is_above ? up : a;
    return biased_exponent(above) <= 23 ? up : a;
}

static void divide_scale(struct wave *wave, const struct instruction *i)
{
    uint32_t room[3][MOST_LANES], result[MOST_LANES];
    const uint32_t *a = lanes_of(wave, &i->source[0], 0, room[0]), *b = lanes_of(wave, &i->source[1], 0, room[1]),
                   *c = lanes_of(wave, &i->source[2], 0, room[2]);
    uint64_t mask = 0;
    for (int l = 0; l < LANES(wave); l++) {
        bool undo;
        result[l] = scaled(a[l], as_float(b[l]), as_float(c[l]), &undo);
        mask |= (uint64_t)undo << l;
    }
    put_lanes(wave, i, 0, result);
    put_mask(wave, &i->to_mask, mask & wave->exec);
}

const struct operation float_operations[] = {
    {"add_f32", add, "vff"},
    {"sub_f32", subtract, "vff"},
    {"subrev_f32", subtract_reversed, "vff"},
    {"mul_f32", multiply, "vff"},
    {"max_f32", maximum, "vff"},
    {"min_f32", minimum, "vff"},
    {"max_num_f32", maximum_number, "vff"},
    {"min_num_f32", minimum_number, "vff"},
    {"fma_f32", fused, "vfff"},
    {"mad_f32", multiply_add, "vfff"},
    {"fmaak_f32", fused, "vfff"},
    {"fmamk_f32", fused, "vfff"},
    {"fmac_f32", fused, "vff+"},
    {"max3_f32", maximum_3, "vfff"},
    {"min3_f32", minimum_3, "vfff"},
    {"maxmin_f32", middle_from_below, "vfff"},
    {"minmax_f32", middle_from_above, "vfff"},
    {"maxmin_num_f32", number_from_below, "vfff"},
    {"minmax_num_f32", number_from_above, "vfff"},
    {"max3_num_f32", maximum_number_3, "vfff"},
    {"min3_num_f32", minimum_number_3, "vfff"},
    {"med3_f32", median_3, "vfff"},
    {"med3_num_f32", median_number_3, "vfff"},
    {"exp_f32", power, "vf"},
    {"log_f32", logarithm, "vf"},
    {"rcp_f32", reciprocal, "vf"},
    {"rcp_iflag_f32", reciprocal, "vf"},
    {"s_exp_f32", scalar_power, "Ss"},
    {"s_log_f32", scalar_logarithm, "Ss"},
    {"s_rcp_f32", scalar_reciprocal, "Ss"},
    {"s_sqrt_f32", scalar_root, "Ss"},
    {"s_rsq_f32", scalar_reciprocal_root, "Ss"},
    {"sqrt_f32", square_root, "vf"},
    {"rsq_f32", reciprocal_root, "vf"},
    {"rndne_f32", nearest, "vf"},
    {"floor_f32", down, "vf"},
    {"ceil_f32", up, "vf"},
    {"trunc_f32", towards_zero, "vf"},
    {"frexp_mant_f32", fraction, "vf"},
    {"frexp_exp_i32_f32", exponent, "vf"},
    {"ldexp_f32", scale_by, "vfu"},
    {"div_fixup_f32", divide_fixup, "vfff"},
    {"div_fmas_f32", divide_fmas, "vfff%"},
    {"div_scale_f32", divide_scale, "vMfff"},
    {NULL, NULL, NULL},
};
