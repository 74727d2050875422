/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Bits are taken one by one, integers as wider ones, floats as ones of more digits: otherwise than the simulator has
 * it. What is to be looked up is what AMD's ISA documents ("RDNA3 Instruction Set Architecture" and those of CDNA 3 and
 * RDNA 4) give beside each instruction. */
#include "definitions.h"
#include <float.h>
#include <math.h>
#include <string.h>

typedef unsigned __int128 wide;
typedef __int128 wide_signed;

static uint32_t bits_of(__float128 x)
{
    const float single = (float)x;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    return bits;
}

static double half_of(uint64_t x)
{
    return (double)definition_float(definition_of_half((uint32_t)x & 0xffff, 0, 0));
}

static wide power(unsigned exponent)
{
    return (wide)1 << exponent;
}

static wide_signed with_sign(uint64_t x, unsigned bits)
{
    const wide part = (wide)x % power(bits);
    return (wide_signed)part - (part / power(bits - 1) ? (wide_signed)power(bits) : 0);
}

static wide_signed floored(wide_signed x, unsigned by)
{
    const wide_signed divisor = (wide_signed)power(by), rest = ((x % divisor) + divisor) % divisor;
    return (x - rest) / divisor;
}

/* By a table of truth: bit 2 * (bit of a) + (bit of b). */
static uint64_t logic(uint64_t a, uint64_t b, unsigned table)
{
    uint64_t x = 0;
    for (unsigned n = 0; n < 32; n++)
        x += (uint64_t)(table >> (2 * (a >> n & 1) + (b >> n & 1)) & 1) << n;
    return x;
}

enum { OR = 14, XOR = 6, AND = 8, XNOR = 9 };

static uint64_t leading(uint64_t x)
{
    for (unsigned n = 0; n < 32; n++)
        if (x / (uint64_t)power(31 - n))
            return n;
    return UINT32_MAX;
}

static uint64_t trailing(uint64_t x)
{
    for (unsigned n = 0; n < 32; n++)
        if (x % (uint64_t)power(n + 1))
            return n;
    return UINT32_MAX;
}

static wide_signed most_of(wide_signed a, wide_signed b, wide_signed c)
{
    const wide_signed values[] = {a, b, c};
    int found = 0;
    for (int n = 1; n < 3; n++)
        found = values[n] - values[found] > 0 ? n : found;
    return values[found];
}

static wide_signed least_of(wide_signed a, wide_signed b, wide_signed c)
{
    return -most_of(-a, -b, -c);
}

/* Of floats a number that orders them, -0 below 0. */
static int64_t place_of(uint64_t x)
{
    const int64_t size = (int64_t)(x % power(31));
    return x >> 31 & 1 ? -size - 1 : size;
}

enum { LEAST, MOST };

/* Of two, of which a NaN is none; with `ieee` a signalling NaN makes a NaN. */
static uint64_t chosen(uint64_t a, uint64_t b, int which, bool ieee)
{
    const bool a_none = isnan(definition_float((uint32_t)a)), b_none = isnan(definition_float((uint32_t)b));
    if (ieee && ((a_none && !(a & 0x400000)) || (b_none && !(b & 0x400000))))
        return 0x7fc00000;
    if (a_none || b_none)
        return a_none ? b : a;
    return (place_of(a) > place_of(b)) == (which == MOST) ? a : b;
}

/* As the documents have it: what is left is the larger of those that are not the largest. */
static uint64_t median(uint64_t a, uint64_t b, uint64_t c, bool ieee)
{
    const float x = definition_float((uint32_t)a), y = definition_float((uint32_t)b), z = definition_float((uint32_t)c);
    if (isnan(x) || isnan(y) || isnan(z))
        return chosen(chosen(a, b, LEAST, ieee), c, LEAST, ieee);
    return x >= y && x >= z ? chosen(b, c, MOST, ieee) : y >= z ? chosen(a, c, MOST, ieee) : chosen(a, b, MOST, ieee);
}

static double normal(double x)
{
    return fabs(x) < (double)FLT_MIN ? copysign(0, x) : x;
}

/* A float of the fraction's sign and digits between 1/2 and 1, and the power of two that is left. */
static uint64_t fraction_of(double x)
{
    double size = fabs(x);
    if (!isfinite(x) || x == 0)
        return bits_of(x);
    for (; size >= 1; size /= 2)
        ;
    for (; size < 0.5; size *= 2)
        ;
    return bits_of(copysign(size, x));
}

static uint64_t exponent_of(double x)
{
    return !isfinite(x) || x == 0
               ? 0
               : (uint64_t)llround(log2(fabs(x) / fabs((double)definition_float((uint32_t)fraction_of(x)))));
}

static uint64_t scaled(double x, int32_t by)
{
    return bits_of(by < -600  ? (isinf(x) ? x : x * 0)
                   : by > 600 ? (x == 0 || isnan(x) ? x : copysign(INFINITY, x))
                              : ldexp(x, by));
}

static unsigned field_of(double x)
{
    uint32_t bits;
    const float single = (float)x;
    memcpy(&bits, &single, sizeof bits);
    return bits / 0x800000 % 256;
}

static uint64_t fixed(double quotient, double below, double above)
{
    const double sign = signbit(below) == signbit(above) ? 1 : -1;
    if (isnan(below) || isnan(above) || (below == 0 && above == 0) || (isinf(below) && isinf(above)))
        return 0x7fc00000;
    const bool vanishes = isinf(below) || above == 0 || (int)field_of(above) < (int)field_of(below) - 150;
    const double size = isnan(quotient) ? INFINITY : fabs(quotient);
    return bits_of(sign * (below == 0 || isinf(above) ? INFINITY : vanishes ? 0 : size));
}

/* Scaled by 2^64 or 2^-64, or as it is; and whether the quotient is to be scaled back. */
static struct made divided(uint64_t a, double below, double above)
{
    const double x = (double)definition_float((uint32_t)a), quotient = fabs(above / below), other = fabs(1 / below);
    const double least = (double)FLT_MIN, tiny = ldexp(1, -150);
    const int apart = (int)field_of(above) - (int)field_of(below);
    const bool small_quotient =
        quotient > tiny && (double)(float)quotient<least, small_other = other> 0 && other < least;
    const bool is_below = x == below, is_above = x == above;
    if (below == 0 || above == 0)
        return (struct made){0x7fc00000, false};
    if (apart >= 96)
        return (struct made){is_below ? bits_of(ldexp(x, 64)) : a, true};
    if (fabs(below) < least)
        return (struct made){bits_of(ldexp(x, 64)), false};
    if (small_other)
        return (struct made){is_below || !small_quotient ? bits_of(ldexp(x, -64)) : a, small_quotient};
    if (small_quotient)
        return (struct made){is_above ? bits_of(ldexp(x, 64)) : a, true};
    return (struct made){field_of(above) <= 23 ? bits_of(ldexp(x, 64)) : a, false};
}

static uint64_t times_added(double a, double b, double c)
{
    return bits_of(definition_fused(a, b, c));
}

#define DEFINE(name, expression)                                                                                       \
    static struct made name(struct given of)                                                                           \
    {                                                                                                                  \
        (void)of;                                                                                                      \
        return (struct made){(uint64_t)(expression), false};                                                           \
    }
#define FLAGGED(name, expression, bit)                                                                                 \
    static struct made name(struct given of)                                                                           \
    {                                                                                                                  \
        return (struct made){(uint64_t)(expression), bit};                                                             \
    }
#define A     (of.a % power(32))
#define B     (of.b % power(32))
#define C     (of.c % power(32))
#define OLD   (of.old % power(32))
#define SA    with_sign(of.a, 32)
#define SB    with_sign(of.b, 32)
#define SC    with_sign(of.c, 32)
#define SHORT (power(16))
#define DAY   (power(24)) /* of 24 bits */
#define F(x)  ((double)definition_float((uint32_t)(x)))
#define FA    F(of.a)
#define FB    F(of.b)
#define FC    F(of.c)
#define PI    ((double)3.14159274101257324f)

DEFINE(and, logic(of.a, of.b, AND))
DEFINE(or, logic(of.a, of.b, OR))
DEFINE(xor, logic(of.a, of.b, XOR))
DEFINE(xnor, logic(of.a, of.b, XNOR))
DEFINE(or_3, logic(logic(of.a, of.b, OR), of.c, OR))
DEFINE(xor_add, logic(of.a, of.b, XOR) + C)
DEFINE(add, A + B)
DEFINE(subtract, power(32) + A - B)
DEFINE(subtract_reversed, power(32) + B - A)
DEFINE(maximum, most_of((wide_signed)A, (wide_signed)B, 0))
DEFINE(minimum, least_of((wide_signed)A, (wide_signed)B, UINT32_MAX))
DEFINE(maximum_3, most_of((wide_signed)A, (wide_signed)B, (wide_signed)C))
DEFINE(minimum_3, least_of((wide_signed)A, (wide_signed)B, (wide_signed)C))
DEFINE(maximum_3_signed, most_of(SA, SB, SC))
DEFINE(minimum_3_signed, least_of(SA, SB, SC))
DEFINE(median_3, A + B + C - (wide)most_of((wide_signed)A, (wide_signed)B, (wide_signed)C) -
                     (wide)least_of((wide_signed)A, (wide_signed)B, (wide_signed)C))
DEFINE(multiply_high_signed, floored(SA *SB, 32))
DEFINE(pack, A % SHORT + B % SHORT * SHORT)
DEFINE(add_16, (A + B) % SHORT)
DEFINE(subtract_16, (SHORT + A % SHORT - B % SHORT) % SHORT)
DEFINE(multiply_16, A % SHORT * (B % SHORT) % SHORT)
DEFINE(shift_left_16, B *power(A % 16) % SHORT)
DEFINE(shift_right_16, B % SHORT / power(A % 16))
DEFINE(copy, of.a)
DEFINE(leading_zeros, leading(A))
DEFINE(trailing_zeros, trailing(A))
DEFINE(multiply_add_24, A % DAY * (B % DAY) + C)
DEFINE(multiply_add_24_signed, with_sign(of.a, 24) * with_sign(of.b, 24) + SC)
DEFINE(align_bytes, (A * power(32) + B) / power(8 * (C % 4)))
DEFINE(choose, of.in ? B : A)

DEFINE(number_larger, chosen(A, B, MOST, false))
DEFINE(number_smaller, chosen(A, B, LEAST, false))
DEFINE(number_larger_3, chosen(chosen(A, B, MOST, false), C, MOST, false))
DEFINE(number_smaller_3, chosen(chosen(A, B, LEAST, false), C, LEAST, false))
DEFINE(number_from_below, chosen(chosen(A, B, MOST, false), C, LEAST, false))
DEFINE(number_from_above, chosen(chosen(A, B, LEAST, false), C, MOST, false))
DEFINE(median_number, median(A, B, C, false))
DEFINE(median_ieee, median(A, B, C, true))
DEFINE(fused_old, times_added(FA, FB, F(of.old)))
DEFINE(fused_third, times_added(FA, FB, PI))
DEFINE(fused_second, times_added(FA, PI, FC))
DEFINE(root, bits_of(sqrt(normal(FA))))
DEFINE(reciprocal_root, bits_of(1 / sqrt(normal(FA))))
DEFINE(reciprocal, bits_of(normal((double)(float)(1 / normal(FA)))))
DEFINE(power_of_2, bits_of(normal((double)(float)exp2(normal(FA)))))
DEFINE(logarithm, bits_of(log2(normal(FA))))
DEFINE(up, bits_of(-floor(-FA)))
DEFINE(towards_0, bits_of(signbit(FA) ? -floor(-FA) : floor(FA)))
DEFINE(fraction, fraction_of(FA))
DEFINE(exponent, exponent_of(FA))
DEFINE(scale, scaled(FA, (int32_t)of.b))
DEFINE(fixup, fixed(FA, FB, FC))
FLAGGED(scale_below, divided(of.b, FB, FC).value, divided(of.b, FB, FC).flag)
FLAGGED(scale_above, divided(of.c, FB, FC).value, divided(of.c, FB, FC).flag)

DEFINE(byte_0, bits_of(A % 256))
DEFINE(byte_1, bits_of(A / 256 % 256))
DEFINE(byte_2, bits_of(A / 65536 % 256))
DEFINE(byte_3, bits_of(A / 16777216))
/* Sums of three, rounded to a float and then to a half. */
static uint64_t mixed(double a, double b, double c)
{
    return definition_to_half((uint32_t)times_added(a, b, c), 0, 0);
}
DEFINE(mix_floats, times_added(FA, FB, FC))
DEFINE(mix_halves, times_added(half_of(A / SHORT), half_of(B), -fabs(half_of(C))))
DEFINE(mix_second, times_added(-FA, half_of(B / SHORT), FC))
DEFINE(mix_low, OLD / SHORT * SHORT + mixed(FA, half_of(B), FC))
DEFINE(mix_high, OLD % SHORT + mixed(half_of(A / SHORT), FB, half_of(C)) * SHORT)

FLAGGED(carry, (A + B) % power(32), A + B >= power(32))
FLAGGED(carry_in, (A + B + of.in) % power(32), A + B + of.in >= power(32))
FLAGGED(borrow, (power(32) + A - B) % power(32), A < B)
FLAGGED(borrow_in, (power(33) + A - B - of.in) % power(32), A < B + of.in)
FLAGGED(borrow_reversed, (power(32) + B - A) % power(32), B < A)
FLAGGED(borrow_in_reversed, (power(33) + B - A - of.in) % power(32), B < A + of.in)
FLAGGED(multiply_add_64, A *B + of.c, A *B + of.c >= power(64))
DEFINE(shift_left_64, of.b *power(A % 64))
DEFINE(shift_right_64, of.b / power(A % 64))
DEFINE(shift_signed_64, floored(with_sign(of.b, 64), A % 64))
DEFINE(shift_add_64, of.a *power(B % 8) + of.c)

#define BOTH(low, high) ((wide)(uint32_t)(low) + (wide)(uint32_t)(high)*power(32))
#define HA              F(of.a / power(32))
#define HB              F(of.b / power(32))
#define HC              F(of.c / power(32))
DEFINE(add_pair, BOTH(bits_of(FA + FB), bits_of(HA + HB)))
DEFINE(subtract_crossed, BOTH(bits_of(HA - FB), bits_of(HA + HB)))
DEFINE(multiply_pair, BOTH(bits_of(FA *FB), bits_of(HA *HB)))
DEFINE(fused_pair, BOTH(times_added(FA, FB, FC), times_added(HA, HB, HC)))
DEFINE(fused_crossed, BOTH(times_added(FA, HB, FC), times_added(FA, -HB, HC)))
DEFINE(copy_crossed, BOTH(of.a / power(32), of.b))
DEFINE(copy_pair, BOTH(of.a, of.b / power(32)))

/* Of each half of a and b. */
#define SHORTS(name, expression)                                                                                       \
    static uint64_t name##_half(wide a, wide b, wide c)                                                                \
    {                                                                                                                  \
        (void)c;                                                                                                       \
        return (uint64_t)((wide)(expression) % SHORT);                                                                 \
    }                                                                                                                  \
    DEFINE(name, name##_half(A % SHORT, B % SHORT, C % SHORT) +                                                        \
                     name##_half(A / SHORT, B / SHORT, C / SHORT) * (uint64_t)SHORT)
#define S(x) with_sign((uint64_t)(x), 16)
SHORTS(shorts_left, b *power((unsigned)(a % 16)))
SHORTS(shorts_right, b / power((unsigned)(a % 16)))
SHORTS(shorts_signed, floored(S(b), (unsigned)(a % 16)))
SHORTS(shorts_add, a + b)
SHORTS(shorts_subtract, SHORT + a - b)
SHORTS(shorts_multiply, a *b)
SHORTS(shorts_multiply_add, a *b + c)
SHORTS(shorts_most, S(a) - S(b) > 0 ? a : b)
SHORTS(shorts_least, S(b) - S(a) > 0 ? a : b)
SHORTS(shorts_most_unsigned, most_of((wide_signed)a, (wide_signed)b, 0))
SHORTS(shorts_least_unsigned, least_of((wide_signed)a, (wide_signed)b, 65535))
DEFINE(shorts_left_by_low, A % SHORT * power(8) % SHORT + A / SHORT * power(8) % SHORT * SHORT)
DEFINE(shorts_add_crossed, (A / SHORT + B) % SHORT + (A + B) % SHORT * SHORT)

/* What modifiers make of sources and results. */
DEFINE(add_modified, bits_of(fmin(fmax(2 * (double)(float)(FB - fabs(FA)), 0), 1)))
DEFINE(add_halved, bits_of((double)(float)(FA + FB) / 2))
DEFINE(and_part, logic(of.a / 65536 % 65536, (uint64_t)with_sign(of.b / 256, 8), AND))
DEFINE(add_to_part, OLD - OLD / 256 % 256 * 256 + (A + B) % 256 * 256)

const struct vector_definition vector_definitions[] = {
    {"and_b32", "v20, v0, v2", and},
    {"or_b32", "v20, v0, v2", or },
    {"xor_b32", "v20, v0, v2", xor},
    {"xnor_b32", "v20, v0, v2", xnor},
    {"or3_b32", "v20, v0, v2, v4", or_3},
    {"xad_u32", "v20, v0, v2, v4", xor_add},
    {"add_u32", "v20, v0, v2", add},
    {"sub_u32", "v20, v0, v2", subtract},
    {"subrev_u32", "v20, v0, v2", subtract_reversed},
    {"max_u32", "v20, v0, v2", maximum},
    {"min_u32", "v20, v0, v2", minimum},
    {"max3_u32", "v20, v0, v2, v4", maximum_3},
    {"min3_u32", "v20, v0, v2, v4", minimum_3},
    {"max3_i32", "v20, v0, v2, v4", maximum_3_signed},
    {"min3_i32", "v20, v0, v2, v4", minimum_3_signed},
    {"med3_u32", "v20, v0, v2, v4", median_3},
    {"mul_hi_i32", "v20, v0, v2", multiply_high_signed},
    {"pack_b32_f16", "v20, v0, v2", pack},
    {"add_nc_u16 add_u16", "v20, v0, v2", add_16},
    {"sub_nc_u16 sub_u16", "v20, v0, v2", subtract_16},
    {"mul_lo_u16", "v20, v0, v2", multiply_16},
    {"lshlrev_b16", "v20, v0, v2", shift_left_16},
    {"lshrrev_b16", "v20, v0, v2", shift_right_16},
    {"mov_b32", "v20, v0", copy},
    {"accvgpr_read_b32", "v20, a0", copy},
    {"accvgpr_write_b32", "a20, v0", copy},
    {"accvgpr_mov_b32", "a20, a0", copy},
    {"ffbh_u32 clz_i32_u32", "v20, v0", leading_zeros},
    {"ffbl_b32 ctz_i32_b32", "v20, v0", trailing_zeros},
    {"mad_u32_u24", "v20, v0, v2, v4", multiply_add_24},
    {"mad_i32_i24", "v20, v0, v2, v4", multiply_add_24_signed},
    {"alignbyte_b32", "v20, v0, v2, v4", align_bytes},
    {"cndmask_b32", "v20, v0, v2, s[10:11]", choose},
    {"max_num_f32", "v20, v0, v2", number_larger},
    {"min_num_f32", "v20, v0, v2", number_smaller},
    {"max3_num_f32", "v20, v0, v2, v4", number_larger_3},
    {"min3_num_f32", "v20, v0, v2, v4", number_smaller_3},
    {"maxmin_num_f32", "v20, v0, v2, v4", number_from_below},
    {"minmax_num_f32", "v20, v0, v2, v4", number_from_above},
    {"med3_num_f32", "v20, v0, v2, v4", median_number},
    {"med3_f32", "v20, v0, v2, v4", median_ieee},
    {"fmac_f32", "v20, v0, v2", fused_old},
    {"fmaak_f32", "v20, v0, v2, 0x40490fdb", fused_third},
    {"fmamk_f32", "v20, v0, 0x40490fdb, v4", fused_second},
    {"sqrt_f32", "v20, v0", root},
    {"rsq_f32", "v20, v0", reciprocal_root},
    {"rcp_iflag_f32", "v20, v0", reciprocal},
    {"s_exp_f32", "s20, s0", power_of_2},
    {"s_log_f32", "s20, s0", logarithm},
    {"s_rcp_f32", "s20, s0", reciprocal},
    {"s_sqrt_f32", "s20, s0", root},
    {"s_rsq_f32", "s20, s0", reciprocal_root},
    {"ceil_f32", "v20, v0", up},
    {"trunc_f32", "v20, v0", towards_0},
    {"frexp_mant_f32", "v20, v0", fraction},
    {"frexp_exp_i32_f32", "v20, v0", exponent},
    {"ldexp_f32", "v20, v0, v2", scale},
    {"div_fixup_f32", "v20, v0, v2, v4", fixup},
    {"div_scale_f32", "v20, s[12:13], v2, v2, v4", scale_below},
    {"div_scale_f32", "v20, s[12:13], v4, v2, v4", scale_above},
    {"cvt_f32_ubyte0", "v20, v0", byte_0},
    {"cvt_f32_ubyte1", "v20, v0", byte_1},
    {"cvt_f32_ubyte2", "v20, v0", byte_2},
    {"cvt_f32_ubyte3", "v20, v0", byte_3},
    {"fma_mix_f32", "v20, v0, v2, v4", mix_floats},
    {"fma_mix_f32", "v20, v0, v2, -|v4| op_sel:[1,0,0] op_sel_hi:[1,1,1]", mix_halves},
    {"fma_mix_f32", "v20, -v0, v2, v4 op_sel:[0,1,0] op_sel_hi:[0,1,0]", mix_second},
    {"fma_mixlo_f16", "v20, v0, v2, v4 op_sel_hi:[0,1,0]", mix_low},
    {"fma_mixhi_f16", "v20, v0, v2, v4 op_sel:[1,0,0] op_sel_hi:[1,0,1]", mix_high},
    {"add_co_u32", "v20, s[12:13], v0, v2", carry},
    {"add_co_ci_u32 addc_co_u32", "v20, s[12:13], v0, v2, s[10:11]", carry_in},
    {"sub_co_u32", "v20, s[12:13], v0, v2", borrow},
    {"sub_co_ci_u32 subb_co_u32", "v20, s[12:13], v0, v2, s[10:11]", borrow_in},
    {"subrev_co_u32", "v20, s[12:13], v0, v2", borrow_reversed},
    {"subrev_co_ci_u32 subbrev_co_u32", "v20, s[12:13], v0, v2, s[10:11]", borrow_in_reversed},
    {"mad_u64_u32 mad_co_u64_u32", "v[20:21], s[12:13], v0, v2, v[4:5]", multiply_add_64},
    {"lshlrev_b64", "v[20:21], v0, v[2:3]", shift_left_64},
    {"lshrrev_b64", "v[20:21], v0, v[2:3]", shift_right_64},
    {"ashrrev_i64", "v[20:21], v0, v[2:3]", shift_signed_64},
    {"lshl_add_u64", "v[20:21], v[0:1], v2, v[4:5]", shift_add_64},
    {"mov_b64", "v[20:21], v[0:1]", copy},
    {"pk_add_f32", "v[20:21], v[0:1], v[2:3]", add_pair},
    {"pk_add_f32", "v[20:21], v[0:1], v[2:3] op_sel:[1,0] neg_lo:[0,1]", subtract_crossed},
    {"pk_mul_f32", "v[20:21], v[0:1], v[2:3]", multiply_pair},
    {"pk_fma_f32", "v[20:21], v[0:1], v[2:3], v[4:5]", fused_pair},
    {"pk_fma_f32", "v[20:21], v[0:1], v[2:3], v[4:5] op_sel:[0,1,0] op_sel_hi:[0,1,1] neg_hi:[0,1,0]", fused_crossed},
    {"pk_mov_b32", "v[20:21], v[0:1], v[2:3] op_sel:[1,0]", copy_crossed},
    {"pk_mov_b32", "v[20:21], v[0:1], v[2:3] op_sel:[0,1]", copy_pair},
    {"pk_lshlrev_b16", "v20, v0, v2", shorts_left},
    {"pk_lshlrev_b16", "v20, 8, v0 op_sel_hi:[0,1]", shorts_left_by_low},
    {"pk_lshrrev_b16", "v20, v0, v2", shorts_right},
    {"pk_ashrrev_i16", "v20, v0, v2", shorts_signed},
    {"pk_add_u16 pk_add_i16", "v20, v0, v2", shorts_add},
    {"pk_add_u16", "v20, v0, v2 op_sel:[1,0] op_sel_hi:[0,0]", shorts_add_crossed},
    {"pk_sub_u16 pk_sub_i16", "v20, v0, v2", shorts_subtract},
    {"pk_mul_lo_u16", "v20, v0, v2", shorts_multiply},
    {"pk_mad_u16 pk_mad_i16", "v20, v0, v2, v4", shorts_multiply_add},
    {"pk_max_i16", "v20, v0, v2", shorts_most},
    {"pk_min_i16", "v20, v0, v2", shorts_least},
    {"pk_max_u16", "v20, v0, v2", shorts_most_unsigned},
    {"pk_min_u16", "v20, v0, v2", shorts_least_unsigned},
    {"add_f32_e64", "v20, -|v0|, v2 clamp mul:2", add_modified},
    {"add_f32_e64", "v20, v0, v2 div:2", add_halved},
    {"and_b32_sdwa", "v20, v0, sext(v2) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1 src1_sel:BYTE_1", and_part},
    {"add_u32_sdwa", "v20, v0, v2 dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD src1_sel:DWORD",
     add_to_part},
    {NULL, NULL, NULL},
};
