/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Bits are taken one by one, numbers as wider ones or as floating-point ones of twice the digits: otherwise than salu.c
 * has it. */
#include "definitions.h"
#include <math.h>
#include <string.h>

typedef __int128 wide;

static wide of_signed(uint64_t x)
{
    return (wide)(uint32_t)x - ((x >> 31 & 1) ? (wide)1 << 32 : 0);
}

static double of_float(uint64_t x)
{
    return (double)definition_float((uint32_t)x);
}

static uint64_t bits_of(double x)
{
    const float single = (float)x;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    return bits;
}

static uint64_t bits_of_wide(__float128 x)
{
    const float single = (float)x;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    return bits;
}

static struct outcome kept(wide value)
{
    return (struct outcome){(uint64_t)value, KEEPS_FLAG};
}

static struct outcome flagged(wide value, bool flag)
{
    return (struct outcome){(uint64_t)value, flag};
}

/* What is not 0, of so many bits, sets the flag. */
static struct outcome noted(wide value, int bits)
{
    const uint64_t result = (uint64_t)value & (bits == 64 ? UINT64_MAX : UINT32_MAX);
    return (struct outcome){result, result != 0};
}

static bool holds_signed(wide x)
{
    return x >= -((wide)1 << 31) && x < (wide)1 << 31;
}

/* By a table of truth: bit 2 * (bit of a) + (bit of b). */
static struct outcome logic(uint64_t a, uint64_t b, int table, int bits)
{
    wide result = 0;
    for (int n = 0; n < bits; n++)
        result += (wide)(table >> (2 * (a >> n & 1) + (b >> n & 1)) & 1) << n;
    return noted(result, bits);
}

static wide power(int exponent)
{
    return (wide)1 << exponent;
}

static int leading(uint64_t x, int bits)
{
    int zeros = 0;
    while (zeros < bits && x < (uint64_t)power(bits - 1 - zeros))
        zeros++;
    return zeros == bits ? -1 : zeros;
}

static int trailing(uint64_t x, int bits)
{
    int zeros = 0;
    while (zeros < bits && x % (uint64_t)power(zeros < 63 ? zeros + 1 : 63) == 0 && !(zeros == 63 && x))
        zeros++;
    return zeros == bits ? -1 : zeros;
}

static int ones(uint64_t x)
{
    int count = 0;
    for (; x; x /= 2)
        count += x % 2;
    return count;
}

static wide floor_shift(wide x, int by)
{
    const wide divisor = power(by), remainder = ((x % divisor) + divisor) % divisor;
    return (x - remainder) / divisor;
}

static wide field_of(wide x, uint64_t how, int from_mask, bool with_sign)
{
    const int bits = (int)(how >> 16 & 127), from = (int)how & from_mask;
    const wide part = floor_shift(x, from) & (bits > 63 ? (wide)UINT64_MAX : power(bits) - 1);
    return with_sign && bits && bits < 32 && (part >> (bits - 1) & 1) ? part - power(bits) : part;
}

static double clamped(double x, double least, double most)
{
    return isnan(x) ? 0 : trunc(x) < least ? least : trunc(x) > most ? most : trunc(x);
}

#define DEFINE(name, expression)                                                                                       \
    static struct outcome name(uint64_t a, uint64_t b, bool flag)                                                      \
    {                                                                                                                  \
        (void)b;                                                                                                       \
        (void)flag;                                                                                                    \
        return expression;                                                                                             \
    }
#define A  ((wide)a)
#define B  ((wide)b)
#define SA of_signed(a)
#define SB of_signed(b)
#define FA of_float(a)
#define FB of_float(b)
DEFINE(add, flagged(A + B, A + B >= power(32)))
DEFINE(add_signed, flagged(SA + SB, !holds_signed(SA + SB)))
DEFINE(add_carry, flagged(A + B + flag, A + B + flag >= power(32)))
DEFINE(subtract, flagged(A - B, A - B < 0))
DEFINE(subtract_signed, flagged(SA - SB, !holds_signed(SA - SB)))
DEFINE(subtract_borrow, flagged(A - B - flag, A - B - flag < 0))
DEFINE(multiply, kept(SA *SB))
DEFINE(multiply_high, kept(A *B / power(32)))
DEFINE(multiply_high_signed, kept(floor_shift(SA *SB, 32)))
DEFINE(minimum, flagged(A - B < 0 ? A : B, B - A > 0))
DEFINE(maximum, flagged(A - B > 0 ? A : B, B - A < 0))
DEFINE(minimum_signed, flagged(SA - SB < 0 ? SA : SB, SB - SA > 0))
DEFINE(maximum_signed, flagged(SA - SB > 0 ? SA : SB, SB - SA < 0))
DEFINE(and_32, logic(a, b, 8, 32))
DEFINE(or_32, logic(a, b, 14, 32))
DEFINE(xor_32, logic(a, b, 6, 32))
DEFINE(and_not_32, logic(a, b, 4, 32))
DEFINE(or_not_32, logic(a, b, 13, 32))
DEFINE(nand_32, logic(a, b, 7, 32))
DEFINE(nor_32, logic(a, b, 1, 32))
DEFINE(xnor_32, logic(a, b, 9, 32))
DEFINE(not_32, logic(a, a, 1, 32))
DEFINE(and_64, logic(a, b, 8, 64))
DEFINE(or_64, logic(a, b, 14, 64))
DEFINE(xor_64, logic(a, b, 6, 64))
DEFINE(and_not_64, logic(a, b, 4, 64))
DEFINE(or_not_64, logic(a, b, 13, 64))
DEFINE(nand_64, logic(a, b, 7, 64))
DEFINE(nor_64, logic(a, b, 1, 64))
DEFINE(xnor_64, logic(a, b, 9, 64))
DEFINE(not_64, logic(a, a, 1, 64))
DEFINE(shift_left, noted(A *power((int)(b % 32)), 32))
DEFINE(shift_right, noted(A / power((int)(b % 32)), 32))
DEFINE(shift_signed, noted(floor_shift(SA, (int)(b % 32)), 32))
DEFINE(shift_left_64, noted(b % 64 ? (A & (power(64 - (int)(b % 64)) - 1)) * power((int)(b % 64)) : A, 64))
DEFINE(shift_right_64, noted(A / power((int)(b % 64)), 64))
DEFINE(shift_signed_64, noted(floor_shift(A - (a >> 63 ? power(64) : 0), (int)(b % 64)), 64))
DEFINE(shift_1_add, flagged(2 * A + B, 2 * A + B >= power(32)))
DEFINE(shift_2_add, flagged(4 * A + B, 4 * A + B >= power(32)))
DEFINE(shift_3_add, flagged(8 * A + B, 8 * A + B >= power(32)))
DEFINE(shift_4_add, flagged(16 * A + B, 16 * A + B >= power(32)))
DEFINE(mask_of, kept((power((int)(a % 32)) - 1) * power((int)(b % 32))))
DEFINE(field, noted(field_of(A, b, 31, false), 32))
DEFINE(field_signed, noted(field_of(SA, b, 31, true), 32))
DEFINE(field_64, noted(field_of(A, b, 63, false), 64))
DEFINE(pack_low, kept(A % 65536 + B % 65536 * 65536))
DEFINE(pack_low_high, kept(A % 65536 + B / 65536 * 65536))
DEFINE(pack_high, kept(A / 65536 + B / 65536 * 65536))
DEFINE(choose, kept(flag ? A : B))
DEFINE(add_64, kept(A + B))
DEFINE(subtract_64, kept(A - B))
DEFINE(multiply_64, kept((wide)((unsigned __int128)a *b)))
DEFINE(copy, kept(A))
DEFINE(size_of, noted(SA < 0 ? -SA : SA, 32))
DEFINE(extend_16, kept(A % 65536 - (A % 65536 > 32767 ? 65536 : 0)))
DEFINE(extend_8, kept(A % 256 - (A % 256 > 127 ? 256 : 0)))
DEFINE(trailing_32, kept(trailing(a, 32)))
DEFINE(trailing_64, kept(trailing(a, 64)))
DEFINE(leading_32, kept(leading(a, 32)))
DEFINE(leading_64, kept(leading(a, 64)))
DEFINE(count_ones, noted(ones(a), 32))
DEFINE(float_add, kept((wide)bits_of(FA + FB)))
DEFINE(float_subtract, kept((wide)bits_of(FA - FB)))
DEFINE(float_multiply, kept((wide)bits_of(FA *FB)))
DEFINE(float_fused, kept((wide)bits_of_wide(definition_fused(FA, FB, FB))))
DEFINE(float_fused_third, kept((wide)bits_of_wide(definition_fused(FA, FB, (double)3.14159274101257324f))))
DEFINE(float_fused_second, kept((wide)bits_of_wide(definition_fused(FA, (double)3.14159274101257324f, FB))))
DEFINE(float_larger, kept((wide)(isnan(FA) ? b : isnan(FB) || FA - FB > 0 || (a == 0 && FB == 0) ? a : b)))
DEFINE(float_smaller, kept((wide)(isnan(FA) ? b : isnan(FB) || FA - FB < 0 || (a == 1ull << 31 && FB == 0) ? a : b)))
DEFINE(float_towards_0, kept((wide)bits_of(signbit(FA) ? ceil(FA) : floor(FA))))
DEFINE(float_down, kept((wide)bits_of(floor(FA))))
DEFINE(float_up, kept((wide)bits_of(-floor(-FA))))
DEFINE(float_nearest, kept((wide)bits_of(nearbyint(FA))))
DEFINE(of_unsigned, kept((wide)bits_of((double)A)))
DEFINE(of_integer, kept((wide)bits_of((double)SA)))
DEFINE(to_unsigned, kept((wide)clamped(FA, 0, 0x1p32 - 1)))
DEFINE(to_signed, kept((wide)clamped(FA, -0x1p31, 0x1p31 - 1)))
DEFINE(of_half, kept((wide)definition_of_half((uint32_t)A, 0, 0)))
DEFINE(of_high_half, kept((wide)definition_of_half((uint32_t)A >> 16, 0, 0)))
/* of what is no number the first digits stay */
DEFINE(to_half, kept((A & 0x7fffffff) > 0x7f800000 ? (wide)((A >> 16 & 0x8000) | 0x7e00 | (A >> 13 & 0x3ff))
                                                   : (wide)definition_to_half((uint32_t)A, 0, 0)))
DEFINE(equal, flagged(0, A - B == 0))
DEFINE(unequal, flagged(0, A - B != 0))
DEFINE(less, flagged(0, A - B < 0))
DEFINE(less_equal, flagged(0, A - B < 1))
DEFINE(greater, flagged(0, B - A < 0))
DEFINE(greater_equal, flagged(0, B - A < 1))
DEFINE(less_signed, flagged(0, SA - SB < 0))
DEFINE(less_equal_signed, flagged(0, SA - SB < 1))
DEFINE(greater_signed, flagged(0, SB - SA < 0))
DEFINE(greater_equal_signed, flagged(0, SB - SA < 1))
DEFINE(bit_is_0, flagged(0, A / power((int)(b % 32)) % 2 == 0))
DEFINE(bit_is_1, flagged(0, A / power((int)(b % 32)) % 2 == 1))
/* Of these a is the bit, b what the result held. */
DEFINE(set_bit_0, kept(B / power((int)(a % 32)) % 2 ? B - power((int)(a % 32)) : B))
DEFINE(set_bit_1, kept(B / power((int)(a % 32)) % 2 ? B : B + power((int)(a % 32))))

static struct outcome reverse(uint64_t a, uint64_t b, bool flag)
{
    wide result = 0;
    (void)b;
    (void)flag;
    for (int n = 0; n < 32; n++, a /= 2)
        result = 2 * result + (wide)(a % 2);
    return kept(result);
}

/* A relation of floats, by whether they can be compared and the sign of the difference. */
#define RELATION(name, expression)                                                                                     \
    static struct outcome name(uint64_t a, uint64_t b, bool flag)                                                      \
    {                                                                                                                  \
        const bool known = !isnan(FA) && !isnan(FB);                                                                   \
        const int sign = !known || FA == FB ? 0 : FA - FB > 0 ? 1 : -1;                                                \
        (void)flag;                                                                                                    \
        (void)sign;                                                                                                    \
        return flagged(0, expression);                                                                                 \
    }
RELATION(float_less, known &&sign < 0)
RELATION(float_not_less, !known || sign >= 0)
RELATION(float_greater, known &&sign > 0)
RELATION(float_not_greater, !known || sign <= 0)
RELATION(float_equal, known &&sign == 0)
RELATION(float_unequal, !known || sign != 0)
RELATION(float_greater_equal, known &&sign >= 0)
RELATION(float_less_equal, known &&sign <= 0)
RELATION(float_ordered, known)
RELATION(float_unordered, !known)
RELATION(float_not_greater_equal, !known || sign < 0)
RELATION(float_not_less_equal, !known || sign > 0)
RELATION(float_apart, known &&sign != 0)
RELATION(float_not_apart, !known || sign == 0)

const struct scalar_definition scalar_definitions[] = {
    {"add_u32 add_co_u32", "s4, s0, s2", add},
    {"add_i32 add_co_i32", "s4, s0, s2", add_signed},
    {"addc_u32 add_co_ci_u32", "s4, s0, s2", add_carry},
    {"sub_u32 sub_co_u32", "s4, s0, s2", subtract},
    {"sub_i32 sub_co_i32", "s4, s0, s2", subtract_signed},
    {"subb_u32 sub_co_ci_u32", "s4, s0, s2", subtract_borrow},
    {"mul_i32", "s4, s0, s2", multiply},
    {"mul_hi_u32", "s4, s0, s2", multiply_high},
    {"mul_hi_i32", "s4, s0, s2", multiply_high_signed},
    {"min_u32", "s4, s0, s2", minimum},
    {"max_u32", "s4, s0, s2", maximum},
    {"min_i32", "s4, s0, s2", minimum_signed},
    {"max_i32", "s4, s0, s2", maximum_signed},
    {"and_b32", "s4, s0, s2", and_32},
    {"or_b32", "s4, s0, s2", or_32},
    {"xor_b32", "s4, s0, s2", xor_32},
    {"andn2_b32 and_not1_b32", "s4, s0, s2", and_not_32},
    {"orn2_b32 or_not1_b32", "s4, s0, s2", or_not_32},
    {"nand_b32", "s4, s0, s2", nand_32},
    {"nor_b32", "s4, s0, s2", nor_32},
    {"xnor_b32", "s4, s0, s2", xnor_32},
    {"lshl_b32", "s4, s0, s2", shift_left},
    {"lshr_b32", "s4, s0, s2", shift_right},
    {"ashr_i32", "s4, s0, s2", shift_signed},
    {"lshl1_add_u32", "s4, s0, s2", shift_1_add},
    {"lshl2_add_u32", "s4, s0, s2", shift_2_add},
    {"lshl3_add_u32", "s4, s0, s2", shift_3_add},
    {"lshl4_add_u32", "s4, s0, s2", shift_4_add},
    {"bfm_b32", "s4, s0, s2", mask_of},
    {"bfe_u32", "s4, s0, s2", field},
    {"bfe_i32", "s4, s0, s2", field_signed},
    {"pack_ll_b32_b16", "s4, s0, s2", pack_low},
    {"pack_lh_b32_b16", "s4, s0, s2", pack_low_high},
    {"pack_hh_b32_b16", "s4, s0, s2", pack_high},
    {"cselect_b32", "s4, s0, s2", choose},
    {"add_f32", "s4, s0, s2", float_add},
    {"sub_f32", "s4, s0, s2", float_subtract},
    {"mul_f32", "s4, s0, s2", float_multiply},
    {"fmac_f32", "s4, s0, s2", float_fused},
    {"fmaak_f32", "s4, s0, s2, 0x40490fdb", float_fused_third},
    {"fmamk_f32", "s4, s0, 0x40490fdb, s2", float_fused_second},
    {"max_num_f32", "s4, s0, s2", float_larger},
    {"min_num_f32", "s4, s0, s2", float_smaller},
    {"and_b64", "s[4:5], s[0:1], s[2:3]", and_64},
    {"or_b64", "s[4:5], s[0:1], s[2:3]", or_64},
    {"xor_b64", "s[4:5], s[0:1], s[2:3]", xor_64},
    {"andn2_b64 and_not1_b64", "s[4:5], s[0:1], s[2:3]", and_not_64},
    {"orn2_b64 or_not1_b64", "s[4:5], s[0:1], s[2:3]", or_not_64},
    {"nand_b64", "s[4:5], s[0:1], s[2:3]", nand_64},
    {"nor_b64", "s[4:5], s[0:1], s[2:3]", nor_64},
    {"xnor_b64", "s[4:5], s[0:1], s[2:3]", xnor_64},
    {"cselect_b64", "s[4:5], s[0:1], s[2:3]", choose},
    {"add_nc_u64", "s[4:5], s[0:1], s[2:3]", add_64},
    {"sub_nc_u64", "s[4:5], s[0:1], s[2:3]", subtract_64},
    {"mul_u64", "s[4:5], s[0:1], s[2:3]", multiply_64},
    {"lshl_b64", "s[4:5], s[0:1], s2", shift_left_64},
    {"lshr_b64", "s[4:5], s[0:1], s2", shift_right_64},
    {"ashr_i64", "s[4:5], s[0:1], s2", shift_signed_64},
    {"bfe_u64", "s[4:5], s[0:1], s2", field_64},
    {"mov_b32", "s4, s0", copy},
    {"not_b32", "s4, s0", not_32},
    {"abs_i32", "s4, s0", size_of},
    {"brev_b32", "s4, s0", reverse},
    {"sext_i32_i16", "s4, s0", extend_16},
    {"sext_i32_i8", "s4, s0", extend_8},
    {"ff1_i32_b32 ctz_i32_b32", "s4, s0", trailing_32},
    {"ff1_i32_b64 ctz_i32_b64", "s4, s[0:1]", trailing_64},
    {"flbit_i32_b32 clz_i32_u32", "s4, s0", leading_32},
    {"flbit_i32_b64 clz_i32_u64", "s4, s[0:1]", leading_64},
    {"bcnt1_i32_b32", "s4, s0", count_ones},
    {"bcnt1_i32_b64", "s4, s[0:1]", count_ones},
    {"cvt_f32_u32", "s4, s0", of_unsigned},
    {"cvt_f32_i32", "s4, s0", of_integer},
    {"cvt_u32_f32", "s4, s0", to_unsigned},
    {"cvt_i32_f32", "s4, s0", to_signed},
    {"cvt_f32_f16", "s4, s0", of_half},
    {"cvt_hi_f32_f16", "s4, s0", of_high_half},
    {"cvt_f16_f32", "s4, s0", to_half},
    {"trunc_f32", "s4, s0", float_towards_0},
    {"floor_f32", "s4, s0", float_down},
    {"ceil_f32", "s4, s0", float_up},
    {"rndne_f32", "s4, s0", float_nearest},
    {"mov_b64", "s[4:5], s[0:1]", copy},
    {"not_b64", "s[4:5], s[0:1]", not_64},
    {"cmp_eq_u32 cmp_eq_i32", "s0, s2", equal},
    {"cmp_lg_u32 cmp_lg_i32", "s0, s2", unequal},
    {"cmp_lt_u32", "s0, s2", less},
    {"cmp_le_u32", "s0, s2", less_equal},
    {"cmp_gt_u32", "s0, s2", greater},
    {"cmp_ge_u32", "s0, s2", greater_equal},
    {"cmp_lt_i32", "s0, s2", less_signed},
    {"cmp_le_i32", "s0, s2", less_equal_signed},
    {"cmp_gt_i32", "s0, s2", greater_signed},
    {"cmp_ge_i32", "s0, s2", greater_equal_signed},
    {"cmp_eq_u64", "s[0:1], s[2:3]", equal},
    {"cmp_lg_u64", "s[0:1], s[2:3]", unequal},
    {"cmp_lt_f32", "s0, s2", float_less},
    {"cmp_nlt_f32", "s0, s2", float_not_less},
    {"cmp_gt_f32", "s0, s2", float_greater},
    {"cmp_ngt_f32", "s0, s2", float_not_greater},
    {"cmp_eq_f32", "s0, s2", float_equal},
    {"cmp_neq_f32", "s0, s2", float_unequal},
    {"cmp_ge_f32", "s0, s2", float_greater_equal},
    {"cmp_le_f32", "s0, s2", float_less_equal},
    {"cmp_o_f32", "s0, s2", float_ordered},
    {"cmp_u_f32", "s0, s2", float_unordered},
    {"cmp_nge_f32", "s0, s2", float_not_greater_equal},
    {"cmp_nle_f32", "s0, s2", float_not_less_equal},
    {"cmp_lg_f32", "s0, s2", float_apart},
    {"cmp_nlg_f32", "s0, s2", float_not_apart},
    {"bitcmp0_b32", "s0, s2", bit_is_0},
    {"bitcmp1_b32", "s0, s2", bit_is_1},
    {"bitset0_b32", "s4, s0", set_bit_0},
    {"bitset1_b32", "s4, s0", set_bit_1},
    {NULL, NULL, NULL},
};

/* With 16 bits of the instruction's own, as a signed number or an unsigned one, and what the result held as a. */
const struct scalar_definition short_definitions[] = {
    {"movk_i32", "i", copy},
    {"addk_i32 addk_co_i32", "i", add_signed},
    {"mulk_i32", "i", multiply},
    {"cmpk_eq_i32", "i", equal},
    {"cmpk_lg_i32", "i", unequal},
    {"cmpk_lt_i32", "i", less_signed},
    {"cmpk_le_i32", "i", less_equal_signed},
    {"cmpk_gt_i32", "i", greater_signed},
    {"cmpk_ge_i32", "i", greater_equal_signed},
    {"cmpk_eq_u32", "u", equal},
    {"cmpk_lg_u32", "u", unequal},
    {"cmpk_lt_u32", "u", less},
    {"cmpk_le_u32", "u", less_equal},
    {"cmpk_gt_u32", "u", greater},
    {"cmpk_ge_u32", "u", greater_equal},
    {NULL, NULL, NULL},
};
