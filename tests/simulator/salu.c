/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Scalar instructions but for branches, waits and loads. */
#include "floats.h"
#include "lanes.h"
#include "operations.h"
#include <math.h>

#define SCALAR_32(name, carry, expression)                                                                             \
    static void name(struct wave *wave, const struct instruction *i)                                                   \
    {                                                                                                                  \
        const uint32_t a = scalar_of(wave, &i->source[0]), b = scalar_of(wave, &i->source[1]);                         \
        const uint32_t r = (uint32_t)(expression);                                                                     \
        wave->scc = (carry);                                                                                           \
        put_scalar(wave, &i->to, r);                                                                                   \
    }
#define SCALAR_64(name, flag, expression)                                                                              \
    static void name(struct wave *wave, const struct instruction *i)                                                   \
    {                                                                                                                  \
        const uint64_t a = scalar_pair(wave, &i->source[0]), b = scalar_pair(wave, &i->source[1]);                     \
        const uint64_t r = (expression);                                                                               \
        wave->scc = (flag);                                                                                            \
        put_scalar_pair(wave, &i->to, r);                                                                              \
    }
#define KEEP      wave->scc
#define SIGNED(x) ((int32_t)(x))
#define LARGE(x)  ((uint64_t)(x))

static inline bool overflows(int64_t x)
{
    return x != (int32_t)x;
}

static inline uint32_t signed_part(uint32_t x, uint32_t how)
{
    const uint32_t bits = how >> 16 & 127, part = (uint32_t)(SIGNED(x) >> (how & 31));
    return bits == 0    ? 0
           : bits >= 32 ? (uint32_t)(SIGNED(x) >> (how & 31))
                        : (uint32_t)(SIGNED(part << (32 - bits)) >> (32 - bits));
}

static inline uint64_t part_of(uint64_t x, uint32_t how, uint32_t from_mask)
{
    const uint32_t bits = how >> 16 & 127, from = how & from_mask;
    return bits >= 64 ? x >> from : x >> from & ((1ull << bits) - 1);
}

static inline uint32_t reversed(uint32_t x)
{
    uint32_t r = 0;
    for (int bit = 0; bit < 32; bit++)
        r |= (x >> bit & 1) << (31 - bit);
    return r;
}

SCALAR_32(add, LARGE(a) + b > UINT32_MAX, a + b)
SCALAR_32(add_signed, overflows((int64_t)SIGNED(a) + SIGNED(b)), a + b)
SCALAR_32(add_carry, LARGE(a) + b + wave->scc > UINT32_MAX, a + b + wave->scc)
SCALAR_32(subtract, b > a, a - b)
SCALAR_32(subtract_signed, overflows((int64_t)SIGNED(a) - SIGNED(b)), a - b)
SCALAR_32(subtract_borrow, LARGE(b) + wave->scc > a, a - b - wave->scc)
SCALAR_32(multiply, KEEP, a *b)
SCALAR_32(multiply_high, KEEP, LARGE(a) * b >> 32)
SCALAR_32(multiply_high_signed, KEEP, (int64_t)SIGNED(a) * SIGNED(b) >> 32)
SCALAR_32(minimum, a < b, a < b ? a : b)
SCALAR_32(maximum, a > b, a > b ? a : b)
SCALAR_32(minimum_signed, SIGNED(a) < SIGNED(b), SIGNED(a) < SIGNED(b) ? a : b)
SCALAR_32(maximum_signed, SIGNED(a) > SIGNED(b), SIGNED(a) > SIGNED(b) ? a : b)
SCALAR_32(and, r != 0, a &b)
SCALAR_32(or, r != 0, a | b)
SCALAR_32(xor, r != 0, a ^ b)
SCALAR_32(and_not, r != 0, a & ~b)
SCALAR_32(or_not, r != 0, a | ~b)
SCALAR_32(nand, r != 0, ~(a &b))
SCALAR_32(nor, r != 0, ~(a | b))
SCALAR_32(xnor, r != 0, ~(a ^ b))
SCALAR_32(shift_left, r != 0, a << (b & 31))
SCALAR_32(shift_right, r != 0, a >> (b & 31))
SCALAR_32(shift_signed, r != 0, SIGNED(a) >> (b & 31))
SCALAR_32(shift_1_add, LARGE(a) * 2 + b > UINT32_MAX, (a << 1) + b)
SCALAR_32(shift_2_add, LARGE(a) * 4 + b > UINT32_MAX, (a << 2) + b)
SCALAR_32(shift_3_add, LARGE(a) * 8 + b > UINT32_MAX, (a << 3) + b)
SCALAR_32(shift_4_add, LARGE(a) * 16 + b > UINT32_MAX, (a << 4) + b)
SCALAR_32(bit_field_mask, KEEP, ((1u << (a & 31)) - 1) << (b & 31))
SCALAR_32(field, r != 0, part_of(a, b, 31))
SCALAR_32(signed_field, r != 0, signed_part(a, b))
SCALAR_32(pack_low, KEEP, (a & 0xffff) | b << 16)
SCALAR_32(pack_low_high, KEEP, (a & 0xffff) | (b & 0xffff0000))
SCALAR_32(pack_high, KEEP, a >> 16 | (b & 0xffff0000))
SCALAR_32(choose, KEEP, wave->scc ? a : b)
SCALAR_32(float_add, KEEP, as_bits(as_float(a) + as_float(b)))
SCALAR_32(float_subtract, KEEP, as_bits(as_float(a) - as_float(b)))
SCALAR_32(float_larger, KEEP, larger(a, b))
SCALAR_32(float_smaller, KEEP, smaller(a, b))
SCALAR_32(float_multiply, KEEP, as_bits(as_float(a) * as_float(b)))

SCALAR_64(and_64, r != 0, a &b)
SCALAR_64(or_64, r != 0, a | b)
SCALAR_64(xor_64, r != 0, a ^ b)
SCALAR_64(and_not_64, r != 0, a & ~b)
SCALAR_64(or_not_64, r != 0, a | ~b)
SCALAR_64(nand_64, r != 0, ~(a &b))
SCALAR_64(nor_64, r != 0, ~(a | b))
SCALAR_64(xnor_64, r != 0, ~(a ^ b))
SCALAR_64(choose_64, KEEP, wave->scc ? a : b)
SCALAR_64(add_64, KEEP, a + b)
SCALAR_64(subtract_64, KEEP, a - b)
SCALAR_64(multiply_64, KEEP, a *b)
SCALAR_64(shift_left_64, r != 0, a << (b & 63))
SCALAR_64(shift_right_64, r != 0, a >> (b & 63))
SCALAR_64(shift_signed_64, r != 0, (uint64_t)((int64_t)a >> (b & 63)))
SCALAR_64(field_64, r != 0, part_of(a, (uint32_t)b, 63))

#define SCALAR_1(name, flag, expression)                                                                               \
    static void name(struct wave *wave, const struct instruction *i)                                                   \
    {                                                                                                                  \
        const uint32_t a = scalar_of(wave, &i->source[0]);                                                             \
        const uint32_t r = (uint32_t)(expression);                                                                     \
        wave->scc = (flag);                                                                                            \
        put_scalar(wave, &i->to, r);                                                                                   \
    }
SCALAR_1(copy, KEEP, a)
SCALAR_1(not, r != 0, ~a)
SCALAR_1(size_of, r != 0, SIGNED(a) < 0 ? 0 - a : a)
SCALAR_1(reverse, KEEP, reversed(a))
SCALAR_1(extend_16, KEEP, (int16_t)a)
SCALAR_1(extend_8, KEEP, (int8_t)a)
SCALAR_1(trailing_zeros, KEEP, a ? __builtin_ctz(a) : -1)
SCALAR_1(leading_zeros, KEEP, a ? __builtin_clz(a) : -1)
SCALAR_1(count_ones, r != 0, __builtin_popcount(a))
SCALAR_1(float_of_unsigned, KEEP, as_bits((float)a))
SCALAR_1(float_of_signed, KEEP, as_bits((float)SIGNED(a)))
SCALAR_1(float_towards_0, KEEP, as_bits(truncf(as_float(a))))
SCALAR_1(float_down, KEEP, as_bits(floorf(as_float(a))))
SCALAR_1(float_up, KEEP, as_bits(ceilf(as_float(a))))
SCALAR_1(float_nearest, KEEP, as_bits(rintf(as_float(a))))
SCALAR_1(float_of_half, KEEP, as_bits(half_to_float(a)))
SCALAR_1(float_of_high_half, KEEP, as_bits(half_to_float(a >> 16)))
SCALAR_1(half_of_float, KEEP, float_to_half(as_float(a)))
SCALAR_1(unsigned_of_float, KEEP, !(as_float(a) > 0) ? 0 : as_float(a) >= 0x1p32f ? UINT32_MAX : (uint32_t)as_float(a))
SCALAR_1(signed_of_float, KEEP,
         as_float(a) != as_float(a) ? 0
         : as_float(a) >= 0x1p31f   ? INT32_MAX
         : as_float(a) < -0x1p31f   ? INT32_MIN
                                    : (int32_t)as_float(a))

static void copy_64(struct wave *wave, const struct instruction *i)
{
    put_scalar_pair(wave, &i->to, scalar_pair(wave, &i->source[0]));
}

static void not_64(struct wave *wave, const struct instruction *i)
{
    const uint64_t r = ~scalar_pair(wave, &i->source[0]);
    wave->scc = r != 0;
    put_scalar_pair(wave, &i->to, r);
}

static void count_ones_64(struct wave *wave, const struct instruction *i)
{
    const int r = __builtin_popcountll(scalar_pair(wave, &i->source[0]));
    wave->scc = r != 0;
    put_scalar(wave, &i->to, (uint32_t)r);
}

static void trailing_zeros_64(struct wave *wave, const struct instruction *i)
{
    const uint64_t a = scalar_pair(wave, &i->source[0]);
    put_scalar(wave, &i->to, a ? (uint32_t)__builtin_ctzll(a) : UINT32_MAX);
}

static void leading_zeros_64(struct wave *wave, const struct instruction *i)
{
    const uint64_t a = scalar_pair(wave, &i->source[0]);
    put_scalar(wave, &i->to, a ? (uint32_t)__builtin_clzll(a) : UINT32_MAX);
}

static void program_counter(struct wave *wave, const struct instruction *i)
{
    put_scalar_pair(wave, &i->to, wave->group->launch->image + i->address + 4);
}

static void fused(struct wave *wave, const struct instruction *i)
{
    put_scalar(wave, &i->to,
               as_bits(fmaf(as_float(scalar_of(wave, &i->source[0])), as_float(scalar_of(wave, &i->source[1])),
                            as_float(scalar_of(wave, &i->source[2])))));
}

#define TEST(name, expression)                                                                                         \
    static void name(struct wave *wave, const struct instruction *i)                                                   \
    {                                                                                                                  \
        const uint32_t a = scalar_of(wave, &i->source[0]), b = scalar_of(wave, &i->source[1]);                         \
        wave->scc = (expression);                                                                                      \
    }
TEST(equal, a == b)
TEST(unequal, a != b)
TEST(less, a < b)
TEST(less_equal, a <= b)
TEST(greater, a > b)
TEST(greater_equal, a >= b)
TEST(less_signed, SIGNED(a) < SIGNED(b))
TEST(less_equal_signed, SIGNED(a) <= SIGNED(b))
TEST(greater_signed, SIGNED(a) > SIGNED(b))
TEST(greater_equal_signed, SIGNED(a) >= SIGNED(b))
TEST(float_less, as_float(a) < as_float(b))
TEST(float_not_less, !(as_float(a) < as_float(b)))
TEST(float_greater, as_float(a) > as_float(b))
TEST(float_not_greater, !(as_float(a) > as_float(b)))
TEST(float_equal, as_float(a) == as_float(b))
TEST(float_unequal, !(as_float(a) == as_float(b)))
TEST(float_greater_equal, as_float(a) >= as_float(b))
TEST(float_less_equal, as_float(a) <= as_float(b))
TEST(float_ordered, as_float(a) == as_float(a) && as_float(b) == as_float(b))
TEST(float_unordered, as_float(a) != as_float(a) || as_float(b) != as_float(b))
TEST(float_not_greater_equal, !(as_float(a) >= as_float(b)))
TEST(float_not_less_equal, !(as_float(a) <= as_float(b)))
TEST(float_apart, as_float(a) < as_float(b) || as_float(a) > as_float(b))
TEST(float_not_apart, !(as_float(a) < as_float(b) || as_float(a) > as_float(b)))
TEST(bit_is_0, !(a >> (b & 31) & 1))
TEST(bit_is_1, a >> (b & 31) & 1)

static void equal_64(struct wave *wave, const struct instruction *i)
{
    wave->scc = scalar_pair(wave, &i->source[0]) == scalar_pair(wave, &i->source[1]);
}

static void unequal_64(struct wave *wave, const struct instruction *i)
{
    wave->scc = scalar_pair(wave, &i->source[0]) != scalar_pair(wave, &i->source[1]);
}

static void set_bit_0(struct wave *wave, const struct instruction *i)
{
    put_scalar(wave, &i->to, wave->s[i->to.first] & ~(1u << (scalar_of(wave, &i->source[0]) & 31)));
}

static void set_bit_1(struct wave *wave, const struct instruction *i)
{
    put_scalar(wave, &i->to, wave->s[i->to.first] | 1u << (scalar_of(wave, &i->source[0]) & 31));
}

/* The lanes that are on go to the result, and become a function of them and of the source. */
#define SAVE(name, expression)                                                                                         \
    static void name(struct wave *wave, const struct instruction *i)                                                   \
    {                                                                                                                  \
        const uint64_t a = mask_of(wave, &i->source[0]), old = wave->exec;                                             \
        put_mask(wave, &i->to_mask, old);                                                                              \
        set_exec(wave, (expression));                                                                                  \
        wave->scc = wave->exec != 0;                                                                                   \
    }
SAVE(save_and, a &old)
SAVE(save_or, a | old)
SAVE(save_xor, a ^ old)
SAVE(save_and_not, a & ~old)
SAVE(save_or_not, a | ~old)

const struct operation scalar_operations[] = {
    {"add_u32", add, "Sss"},
    {"add_co_u32", add, "Sss"},
    {"add_i32", add_signed, "Sss"},
    {"add_co_i32", add_signed, "Sss"},
    {"addk_i32", add_signed, "S+s"},
    {"addk_co_i32", add_signed, "S+s"},
    {"addc_u32", add_carry, "Sss"},
    {"add_co_ci_u32", add_carry, "Sss"},
    {"sub_u32", subtract, "Sss"},
    {"sub_co_u32", subtract, "Sss"},
    {"sub_i32", subtract_signed, "Sss"},
    {"sub_co_i32", subtract_signed, "Sss"},
    {"subb_u32", subtract_borrow, "Sss"},
    {"sub_co_ci_u32", subtract_borrow, "Sss"},
    {"mul_i32", multiply, "Sss"},
    {"mulk_i32", multiply, "S+s"},
    {"mul_hi_u32", multiply_high, "Sss"},
    {"mul_hi_i32", multiply_high_signed, "Sss"},
    {"min_u32", minimum, "Sss"},
    {"max_u32", maximum, "Sss"},
    {"min_i32", minimum_signed, "Sss"},
    {"max_i32", maximum_signed, "Sss"},
    {"and_b32", and, "Sss"},
    {"or_b32", or, "Sss"},
    {"xor_b32", xor, "Sss"},
    {"andn2_b32", and_not, "Sss"},
    {"and_not1_b32", and_not, "Sss"},
    {"orn2_b32", or_not, "Sss"},
    {"or_not1_b32", or_not, "Sss"},
    {"nand_b32", nand, "Sss"},
    {"nor_b32", nor, "Sss"},
    {"xnor_b32", xnor, "Sss"},
    {"lshl_b32", shift_left, "Sss"},
    {"lshr_b32", shift_right, "Sss"},
    {"ashr_i32", shift_signed, "Sss"},
    {"lshl1_add_u32", shift_1_add, "Sss"},
    {"lshl2_add_u32", shift_2_add, "Sss"},
    {"lshl3_add_u32", shift_3_add, "Sss"},
    {"lshl4_add_u32", shift_4_add, "Sss"},
    {"bfm_b32", bit_field_mask, "Sss"},
    {"bfe_u32", field, "Sss"},
    {"bfe_i32", signed_field, "Sss"},
    {"pack_ll_b32_b16", pack_low, "Sss"},
    {"pack_lh_b32_b16", pack_low_high, "Sss"},
    {"pack_hh_b32_b16", pack_high, "Sss"},
    {"cselect_b32", choose, "Sss"},
    {"add_f32", float_add, "Sss"},
    {"sub_f32", float_subtract, "Sss"},
    {"mul_f32", float_multiply, "Sss"},
    {"max_num_f32", float_larger, "Sss"},
    {"min_num_f32", float_smaller, "Sss"},
    {"fmac_f32", fused, "Sss+"},
    {"fmaak_f32", fused, "Ssss"},
    {"fmamk_f32", fused, "Ssss"},
    {"and_b64", and_64, "Ddd"},
    {"or_b64", or_64, "Ddd"},
    {"xor_b64", xor_64, "Ddd"},
    {"andn2_b64", and_not_64, "Ddd"},
    {"and_not1_b64", and_not_64, "Ddd"},
    {"orn2_b64", or_not_64, "Ddd"},
    {"or_not1_b64", or_not_64, "Ddd"},
    {"nand_b64", nand_64, "Ddd"},
    {"nor_b64", nor_64, "Ddd"},
    {"xnor_b64", xnor_64, "Ddd"},
    {"cselect_b64", choose_64, "Ddd"},
    {"add_nc_u64", add_64, "Ddd"},
    {"sub_nc_u64", subtract_64, "Ddd"},
    {"mul_u64", multiply_64, "Ddd"},
    {"lshl_b64", shift_left_64, "Dde"},
    {"lshr_b64", shift_right_64, "Dde"},
    {"ashr_i64", shift_signed_64, "Dde"},
    {"bfe_u64", field_64, "Dde"},
    {"mov_b32", copy, "Ss"},
    {"movk_i32", copy, "Ss"},
    {"not_b32", not, "Ss"},
    {"abs_i32", size_of, "Ss"},
    {"brev_b32", reverse, "Ss"},
    {"sext_i32_i16", extend_16, "Ss"},
    {"sext_i32_i8", extend_8, "Ss"},
    {"ff1_i32_b32", trailing_zeros, "Ss"},
    {"ctz_i32_b32", trailing_zeros, "Ss"},
    {"ff1_i32_b64", trailing_zeros_64, "Sd"},
    {"ctz_i32_b64", trailing_zeros_64, "Sd"},
    {"flbit_i32_b32", leading_zeros, "Ss"},
    {"clz_i32_u32", leading_zeros, "Ss"},
    {"flbit_i32_b64", leading_zeros_64, "Sd"},
    {"clz_i32_u64", leading_zeros_64, "Sd"},
    {"bcnt1_i32_b32", count_ones, "Ss"},
    {"bcnt1_i32_b64", count_ones_64, "Sd"},
    {"cvt_f32_u32", float_of_unsigned, "Ss"},
    {"cvt_f32_i32", float_of_signed, "Ss"},
    {"cvt_u32_f32", unsigned_of_float, "Ss"},
    {"cvt_i32_f32", signed_of_float, "Ss"},
    {"cvt_f32_f16", float_of_half, "Ss"},
    {"cvt_hi_f32_f16", float_of_high_half, "Ss"},
    {"cvt_f16_f32", half_of_float, "Ss"},
    {"trunc_f32", float_towards_0, "Ss"},
    {"floor_f32", float_down, "Ss"},
    {"ceil_f32", float_up, "Ss"},
    {"rndne_f32", float_nearest, "Ss"},
    {"mov_b64", copy_64, "Dd"},
    {"not_b64", not_64, "Dd"},
    {"getpc_b64", program_counter, "D"},
    {"cmp_eq_u32", equal, "-ss"},
    {"cmp_eq_i32", equal, "-ss"},
    {"cmp_lg_u32", unequal, "-ss"},
    {"cmp_lg_i32", unequal, "-ss"},
    {"cmp_lt_u32", less, "-ss"},
    {"cmp_le_u32", less_equal, "-ss"},
    {"cmp_gt_u32", greater, "-ss"},
    {"cmp_ge_u32", greater_equal, "-ss"},
    {"cmp_lt_i32", less_signed, "-ss"},
    {"cmp_le_i32", less_equal_signed, "-ss"},
    {"cmp_gt_i32", greater_signed, "-ss"},
    {"cmp_ge_i32", greater_equal_signed, "-ss"},
    {"cmpk_eq_u32", equal, "-ss"},
    {"cmpk_eq_i32", equal, "-ss"},
    {"cmpk_lg_u32", unequal, "-ss"},
    {"cmpk_lg_i32", unequal, "-ss"},
    {"cmpk_lt_u32", less, "-ss"},
    {"cmpk_le_u32", less_equal, "-ss"},
    {"cmpk_gt_u32", greater, "-ss"},
    {"cmpk_ge_u32", greater_equal, "-ss"},
    {"cmpk_lt_i32", less_signed, "-ss"},
    {"cmpk_le_i32", less_equal_signed, "-ss"},
    {"cmpk_gt_i32", greater_signed, "-ss"},
    {"cmpk_ge_i32", greater_equal_signed, "-ss"},
    {"cmp_eq_u64", equal_64, "-dd"},
    {"cmp_lg_u64", unequal_64, "-dd"},
    {"cmp_lt_f32", float_less, "-ss"},
    {"cmp_nlt_f32", float_not_less, "-ss"},
    {"cmp_gt_f32", float_greater, "-ss"},
    {"cmp_ngt_f32", float_not_greater, "-ss"},
    {"cmp_eq_f32", float_equal, "-ss"},
    {"cmp_neq_f32", float_unequal, "-ss"},
    {"cmp_ge_f32", float_greater_equal, "-ss"},
    {"cmp_le_f32", float_less_equal, "-ss"},
    {"cmp_o_f32", float_ordered, "-ss"},
    {"cmp_u_f32", float_unordered, "-ss"},
    {"cmp_nge_f32", float_not_greater_equal, "-ss"},
    {"cmp_nle_f32", float_not_less_equal, "-ss"},
    {"cmp_lg_f32", float_apart, "-ss"},
    {"cmp_nlg_f32", float_not_apart, "-ss"},
    {"bitcmp0_b32", bit_is_0, "-ss"},
    {"bitcmp1_b32", bit_is_1, "-ss"},
    {"bitset0_b32", set_bit_0, "Ss"},
    {"bitset1_b32", set_bit_1, "Ss"},
    {"and_saveexec_b32", save_and, "Mm"},
    {"or_saveexec_b32", save_or, "Mm"},
    {"xor_saveexec_b32", save_xor, "Mm"},
    {"andn2_saveexec_b32", save_and_not, "Mm"},
    {"and_not1_saveexec_b32", save_and_not, "Mm"},
    {"or_not1_saveexec_b32", save_or_not, "Mm"},
    {"and_saveexec_b64", save_and, "Mm"},
    {"or_saveexec_b64", save_or, "Mm"},
    {"xor_saveexec_b64", save_xor, "Mm"},
    {"andn2_saveexec_b64", save_and_not, "Mm"},
    {"orn2_saveexec_b64", save_or_not, "Mm"},
    {NULL, NULL, NULL},
};
