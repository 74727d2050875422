/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Vector instructions on 32-bit and 16-bit integers and bits. */
#include "valu.h"

static inline uint32_t reversed(uint32_t x)
{
    x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
    x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
    x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(x);
}

static inline uint32_t field(uint32_t x, uint32_t from, uint32_t bits)
{
    return (x >> (from & 31)) & ((1u << (bits & 31)) - 1);
}

/* Behind the last bit there are more of the sign. */
static inline uint32_t signed_field(uint32_t x, uint32_t from, uint32_t bits)
{
    const uint32_t part = field((uint32_t)((int32_t)x >> (from & 31)), 0, bits),
                   sign = (bits & 31) ? 1u << ((bits & 31) - 1) : 0;
    return (part ^ sign) - sign;
}

/* Byte n of the result is the byte of both words that the selector's byte n numbers: the second source's are the first
 * four; 12 is 0, beyond are all ones. */
static inline uint32_t permuted(uint32_t a, uint32_t b, uint32_t selector)
{
    const uint64_t both = (uint64_t)a << 32 | b;
    uint32_t result = 0;
    for (int n = 0; n < 4; n++) {
        const uint32_t which = selector >> 8 * n & 255;
        const uint32_t signs = which < 12 ? (uint32_t)(both >> (16 * (which & 3) + 15) & 1) * 255 : 0;
        const uint32_t byte = which < 8     ? (uint32_t)(both >> 8 * which) & 255
                              : which < 12  ? signs
                              : which == 12 ? 0
                                            : 255;
        result |= byte << 8 * n;
    }
    return result;
}

#define SA     ((int32_t)A)
#define SB     ((int32_t)B)
#define SC     ((int32_t)C)
#define U24(x) ((x)&0xffffff)
#define I24(x) ((int32_t)((x) << 8) >> 8)

TWO(add, A + B)
TWO(subtract, A - B)
TWO(subtract_reversed, B - A)
TWO(and, A &B)
TWO(or, A | B)
TWO(xor, A ^ B)
TWO(xnor, ~(A ^ B))
TWO(shift_left, B << (A & 31))
TWO(shift_right, B >> (A & 31))
TWO(shift_signed, (uint32_t)(SB >> (A & 31)))
TWO(maximum_signed, (uint32_t)(SA > SB ? SA : SB))
TWO(minimum_signed, (uint32_t)(SA < SB ? SA : SB))
TWO(maximum, A > B ? A : B)
TWO(minimum, A < B ? A : B)
TWO(multiply, A *B)
TWO(multiply_high, (uint32_t)((uint64_t)A *B >> 32))
TWO(multiply_high_signed, (uint32_t)((int64_t)SA *SB >> 32))
TWO(multiply_24, U24(A) * U24(B))
TWO(multiply_24_signed, (uint32_t)I24(A) * (uint32_t)I24(B))
TWO(multiply_high_24, (uint32_t)((uint64_t)U24(A) * U24(B) >> 32))
TWO(multiply_high_24_signed, (uint32_t)((int64_t)I24(A) * (int64_t)I24(B) >> 32))
TWO(bit_field_mask, ((1u << (A & 31)) - 1) << (B & 31))
TWO(pack_halves, (A & 0xffff) | B << 16)
TWO(add_16, (A + B) & 0xffff)
TWO(subtract_16, (A - B) & 0xffff)
TWO(multiply_16, A *B & 0xffff)
TWO(shift_left_16, B << (A & 15) & 0xffff)
TWO(shift_right_16, (B & 0xffff) >> (A & 15))
TWO(shift_signed_16, (uint32_t)((int16_t)B >> (A & 15)) & 0xffff)
ONE(copy, A)
ONE(not, ~A)
ONE(reverse, reversed(A))
ONE(leading_zeros, A ? (uint32_t)__builtin_clz(A) : 0xffffffff)
ONE(trailing_zeros, A ? (uint32_t)__builtin_ctz(A) : 0xffffffff)
THREE(multiply_add_16, (A * B + C) & 0xffff)
THREE(add_3, A + B + C)
THREE(shift_add, (A << (B & 31)) + C)
THREE(add_shift, (A + B) << (C & 31))
THREE(shift_or, A << (B & 31) | C)
THREE(and_or, (A & B) | C)
THREE(or_3, A | B | C)
THREE(xor_3, A ^ B ^ C)
THREE(xor_add, (A ^ B) + C)
THREE(field_of, field(A, B, C))
THREE(signed_field_of, signed_field(A, B, C))
THREE(insert_bits, (A & B) | (~A & C))
THREE(multiply_add_24, U24(A) * U24(B) + C)
THREE(multiply_add_24_signed, (uint32_t)I24(A) * (uint32_t)I24(B) + C)
THREE(align_bits, (uint32_t)(((uint64_t)A << 32 | B) >> (C & 31)))
THREE(align_bytes, (uint32_t)(((uint64_t)A << 32 | B) >> 8 * (C & 3)))
THREE(permute_bytes, permuted(A, B, C))
THREE(maximum_3, (A > B ? A : B) > C ? (A > B ? A : B) : C)
THREE(minimum_3, (A < B ? A : B) < C ? (A < B ? A : B) : C)
THREE(maximum_3_signed, (uint32_t)((SA > SB ? SA : SB) > SC ? (SA > SB ? SA : SB) : SC))
THREE(middle_from_below, (A > B ? A : B) < C ? (A > B ? A : B) : C)
THREE(middle_from_above, (A < B ? A : B) > C ? (A < B ? A : B) : C)
THREE(middle_from_below_signed, (uint32_t)((SA > SB ? SA : SB) < SC ? (SA > SB ? SA : SB) : SC))
THREE(middle_from_above_signed, (uint32_t)((SA < SB ? SA : SB) > SC ? (SA < SB ? SA : SB) : SC))
THREE(minimum_3_signed, (uint32_t)((SA < SB ? SA : SB) < SC ? (SA < SB ? SA : SB) : SC))

static inline int32_t middle(int32_t a, int32_t b, int32_t c)
{
    const int32_t low = a < b ? a : b, high = a < b ? b : a;
    return c < low ? low : c > high ? high : c;
}

static inline uint32_t middle_unsigned(uint32_t a, uint32_t b, uint32_t c)
{
    const uint32_t low = a < b ? a : b, high = a < b ? b : a;
    return c < low ? low : c > high ? high : c;
}
THREE(median_3_signed, (uint32_t)middle(SA, SB, SC))
THREE(median_3, middle_unsigned(A, B, C))

static void choose(struct wave *wave, const struct instruction *i)
{
    uint32_t room[2][MOST_LANES], result[MOST_LANES];
    const uint32_t *a = lanes_of(wave, &i->source[0], 0, room[0]), *b = lanes_of(wave, &i->source[1], 0, room[1]);
    const uint64_t mask = mask_of(wave, &i->source[2]);
    for (int l = 0; l < LANES(wave); l++)
        result[l] = mask >> l & 1 ? b[l] : a[l];
    put_lanes(wave, i, 0, result);
}

const struct operation integer_operations[] = {
    {"add_nc_u32", add, "vuu"},
    {"add_u32", add, "vuu"},
    {"sub_nc_u32", subtract, "vuu"},
    {"sub_u32", subtract, "vuu"},
    {"subrev_nc_u32", subtract_reversed, "vuu"},
    {"subrev_u32", subtract_reversed, "vuu"},
    {"and_b32", and, "vuu"},
    {"or_b32", or, "vuu"},
    {"xor_b32", xor, "vuu"},
    {"xnor_b32", xnor, "vuu"},
    {"lshlrev_b32", shift_left, "vuu"},
    {"lshrrev_b32", shift_right, "vuu"},
    {"ashrrev_i32", shift_signed, "vuu"},
    {"max_i32", maximum_signed, "vuu"},
    {"min_i32", minimum_signed, "vuu"},
    {"max_u32", maximum, "vuu"},
    {"min_u32", minimum, "vuu"},
    {"mul_lo_u32", multiply, "vuu"},
    {"mul_hi_u32", multiply_high, "vuu"},
    {"mul_hi_i32", multiply_high_signed, "vuu"},
    {"mul_u32_u24", multiply_24, "vuu"},
    {"mul_i32_i24", multiply_24_signed, "vuu"},
    {"mul_hi_u32_u24", multiply_high_24, "vuu"},
    {"mul_hi_i32_i24", multiply_high_24_signed, "vuu"},
    {"bfm_b32", bit_field_mask, "vuu"},
    {"pack_b32_f16", pack_halves, "vhh"},
    {"add_nc_u16", add_16, "vww"},
    {"sub_nc_u16", subtract_16, "vww"},
    {"add_u16", add_16, "vww"},
    {"sub_u16", subtract_16, "vww"},
    {"mul_lo_u16", multiply_16, "vww"},
    {"lshlrev_b16", shift_left_16, "vww"},
    {"lshrrev_b16", shift_right_16, "vww"},
    {"ashrrev_i16", shift_signed_16, "vww"},
    {"mov_b32", copy, "vf"},
    {"movrels_b32", copy, "vu"}, /* relative.c says of which registers */
    {"movreld_b32", copy, "vu"},
    {"accvgpr_read_b32", copy, "vu"},
    {"accvgpr_write_b32", copy, "vu"},
    {"accvgpr_mov_b32", copy, "vu"},
    {"not_b32", not, "vu"},
    {"bfrev_b32", reverse, "vu"},
    {"ffbh_u32", leading_zeros, "vu"},
    {"clz_i32_u32", leading_zeros, "vu"},
    {"ffbl_b32", trailing_zeros, "vu"},
    {"ctz_i32_b32", trailing_zeros, "vu"},
    {"add3_u32", add_3, "vuuu"},
    {"lshl_add_u32", shift_add, "vuuu"},
    {"add_lshl_u32", add_shift, "vuuu"},
    {"lshl_or_b32", shift_or, "vuuu"},
    {"and_or_b32", and_or, "vuuu"},
    {"or3_b32", or_3, "vuuu"},
    {"xor3_b32", xor_3, "vuuu"},
    {"xad_u32", xor_add, "vuuu"},
    {"bfe_u32", field_of, "vuuu"},
    {"bfe_i32", signed_field_of, "vuuu"},
    {"bfi_b32", insert_bits, "vuuu"},
    {"mad_u32_u24", multiply_add_24, "vuuu"},
    {"mad_i32_i24", multiply_add_24_signed, "vuuu"},
    {"alignbit_b32", align_bits, "vuuu"},
    {"alignbyte_b32", align_bytes, "vuuu"},
    {"perm_b32", permute_bytes, "vuuu"},
    {"max3_u32", maximum_3, "vuuu"},
    {"min3_u32", minimum_3, "vuuu"},
    {"max3_i32", maximum_3_signed, "vuuu"},
    {"min3_i32", minimum_3_signed, "vuuu"},
    {"mad_u16", multiply_add_16, "vwww"},
    {"mad_legacy_u16", multiply_add_16, "vwww"},
    {"maxmin_u32", middle_from_below, "vuuu"},
    {"minmax_u32", middle_from_above, "vuuu"},
    {"maxmin_i32", middle_from_below_signed, "vuuu"},
    {"minmax_i32", middle_from_above_signed, "vuuu"},
    {"med3_i32", median_3_signed, "vuuu"},
    {"med3_u32", median_3, "vuuu"},
    {"cndmask_b32", choose, "vffm"},
    {NULL, NULL, NULL},
};
