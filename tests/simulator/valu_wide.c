/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Vector instructions with carries, on 64 bits, and on two floats (CDNA) or two 16-bit integers at once. */
#include "valu.h"

static void pair_of(const struct wave *wave, const struct source *source, uint64_t *values)
{
    uint32_t room[2][MOST_LANES];
    const uint32_t *low = lanes_of(wave, source, 0, room[0]), *high = lanes_of(wave, source, 1, room[1]);
    for (int l = 0; l < LANES(wave); l++)
        values[l] = low[l] | (uint64_t)high[l] << 32;
}

static void put_pair(struct wave *wave, const struct instruction *i, const uint64_t *values)
{
    uint32_t words[2][MOST_LANES];
    for (int l = 0; l < LANES(wave); l++) {
        words[0][l] = (uint32_t)values[l];
        words[1][l] = (uint32_t)(values[l] >> 32);
    }
    put_lanes(wave, i, 0, words[0]);
    put_lanes(wave, i, 1, words[1]);
}

/* a + b or a - b, with the carry that came in; the carry goes out. */
static void with_carry(struct wave *wave, const struct instruction *i, int a_number, bool subtracts)
{
    uint32_t room[2][MOST_LANES], result[MOST_LANES];
    const uint32_t *a = lanes_of(wave, &i->source[a_number], 0, room[0]);
    const uint32_t *b = lanes_of(wave, &i->source[1 - a_number], 0, room[1]);
    const uint64_t in = i->sources > 2 ? mask_of(wave, &i->source[2]) : 0;
    uint64_t out = 0;
    for (int l = 0; l < LANES(wave); l++) {
        const uint64_t second = (uint64_t)b[l] + (in >> l & 1);
        const uint64_t sum = subtracts ? (uint64_t)a[l] - second : a[l] + second;
        result[l] = (uint32_t)sum;
        out |= (sum >> 32 & 1) << l;
    }
    put_lanes(wave, i, 0, result);
    put_mask(wave, &i->to_mask, out & wave->exec);
}

static void add_carry(struct wave *wave, const struct instruction *i)
{
    with_carry(wave, i, 0, false);
}

static void subtract_carry(struct wave *wave, const struct instruction *i)
{
    with_carry(wave, i, 0, true);
}

static void subtract_carry_reversed(struct wave *wave, const struct instruction *i)
{
    with_carry(wave, i, 1, true);
}

static void multiply_add(struct wave *wave, const struct instruction *i)
{
    uint32_t room[2][MOST_LANES];
    uint64_t c[MOST_LANES], out = 0;
    const uint32_t *a = lanes_of(wave, &i->source[0], 0, room[0]), *b = lanes_of(wave, &i->source[1], 0, room[1]);
    pair_of(wave, &i->source[2], c);
    for (int l = 0; l < LANES(wave); l++) {
        const uint64_t product = (uint64_t)a[l] * b[l];
        c[l] += product;
        out |= (uint64_t)(c[l] < product) << l;
    }
    put_pair(wave, i, c);
    put_mask(wave, &i->to_mask, out & wave->exec);
}

#define SHIFT(name, expression)                                                                                        \
    static void name(struct wave *wave, const struct instruction *i)                                                   \
    {                                                                                                                  \
        uint32_t room[MOST_LANES];                                                                                     \
        uint64_t x[MOST_LANES];                                                                                        \
        const uint32_t *a = lanes_of(wave, &i->source[0], 0, room);                                                    \
        pair_of(wave, &i->source[1], x);                                                                               \
        for (int l = 0; l < LANES(wave); l++) {                                                                        \
            const uint32_t by = a[l] & 63;                                                                             \
            x[l] = (expression);                                                                                       \
        }                                                                                                              \
        put_pair(wave, i, x);                                                                                          \
    }
SHIFT(shift_left, x[l] << by)
SHIFT(shift_right, x[l] >> by)
SHIFT(shift_signed, (uint64_t)((int64_t)x[l] >> by))

static void shift_add(struct wave *wave, const struct instruction *i)
{
    uint32_t room[MOST_LANES];
    uint64_t a[MOST_LANES], c[MOST_LANES];
    pair_of(wave, &i->source[0], a);
    const uint32_t *by = lanes_of(wave, &i->source[1], 0, room);
    pair_of(wave, &i->source[2], c);
    for (int l = 0; l < LANES(wave); l++)
        c[l] += a[l] << (by[l] & 7);
    put_pair(wave, i, c);
}

static void copy(struct wave *wave, const struct instruction *i)
{
    uint64_t x[MOST_LANES];
    pair_of(wave, &i->source[0], x);
    put_pair(wave, i, x);
}

/* A source of one of the two results: its lower or upper register, negated or not. */
static void half_of_pair(const struct wave *wave, const struct instruction *i, int n, bool upper, float *values)
{
    uint32_t room[MOST_LANES];
    const int word = (upper ? i->op_sel_hi : i->op_sel) >> n & 1;
    const bool negated = (upper ? i->neg_hi : i->neg_lo) >> n & 1;
    const uint32_t *x = lanes_of(wave, &i->source[n], word, room);
    for (int l = 0; l < LANES(wave); l++)
        values[l] = negated ? -as_float(x[l]) : as_float(x[l]);
}

#define PACKED(name, count, expression)                                                                                \
    static void name(struct wave *wave, const struct instruction *i)                                                   \
    {                                                                                                                  \
        float a[MOST_LANES], b[MOST_LANES], c[MOST_LANES] = {0};                                                       \
        uint32_t result[2][MOST_LANES];                                                                                \
        for (int word = 0; word < 2; word++) {                                                                         \
            half_of_pair(wave, i, 0, word, a);                                                                         \
            half_of_pair(wave, i, 1, word, b);                                                                         \
            if ((count) > 2)                                                                                           \
                half_of_pair(wave, i, 2, word, c);                                                                     \
            for (int l = 0; l < LANES(wave); l++)                                                                      \
                result[word][l] = as_bits(expression);                                                                 \
        }                                                                                                              \
        put_lanes(wave, i, 0, result[0]);                                                                              \
        put_lanes(wave, i, 1, result[1]);                                                                              \
    }
PACKED(packed_add, 2, a[l] + b[l])
PACKED(packed_multiply, 2, a[l] * b[l])
PACKED(packed_fused, 3, fmaf(a[l], b[l], c[l]))

/* A source's 16 bits for the lower or upper half of the result. */
static uint32_t short_of(const struct instruction *i, int n, bool upper, uint32_t x)
{
    return ((upper ? i->op_sel_hi : i->op_sel) >> n & 1 ? x >> 16 : x) & 0xffff;
}

#define SHORTS(name, expression)                                                                                       \
    static void name(struct wave *wave, const struct instruction *i)                                                   \
    {                                                                                                                  \
        uint32_t room[3][MOST_LANES], result[MOST_LANES];                                                              \
        const uint32_t *a = lanes_of(wave, &i->source[0], 0, room[0]);                                                 \
        const uint32_t *b = lanes_of(wave, &i->source[1], 0, room[1]);                                                 \
        const uint32_t *c = i->sources > 2 ? lanes_of(wave, &i->source[2], 0, room[2]) : a;                            \
        for (int l = 0; l < LANES(wave); l++) {                                                                        \
            result[l] = 0;                                                                                             \
            for (int half = 0; half < 2; half++) {                                                                     \
                const uint32_t A = short_of(i, 0, half, a[l]), B = short_of(i, 1, half, b[l]);                         \
                const uint32_t C = short_of(i, 2, half, c[l]);                                                         \
                (void)C;                                                                                               \
                result[l] |= ((uint32_t)(expression)&0xffff) << 16 * half;                                             \
            }                                                                                                          \
        }                                                                                                              \
        put_lanes(wave, i, 0, result);                                                                                 \
    }
#define SIGNED(x) ((int16_t)(x))
SHORTS(shorts_shift_left, B << (A & 15))
SHORTS(shorts_shift_right, B >> (A & 15))
SHORTS(shorts_shift_signed, SIGNED(B) >> (A & 15))
SHORTS(shorts_add, A + B)
SHORTS(shorts_subtract, A - B)
SHORTS(shorts_multiply, A *B)
SHORTS(shorts_multiply_add, A *B + C)
SHORTS(shorts_maximum, A > B ? A : B)
SHORTS(shorts_minimum, A < B ? A : B)
SHORTS(shorts_maximum_signed, SIGNED(A) > SIGNED(B) ? A : B)
SHORTS(shorts_minimum_signed, SIGNED(A) < SIGNED(B) ? A : B)

/* The lower result is a word of the first source, the upper one of the second. */
static void packed_copy(struct wave *wave, const struct instruction *i)
{
    uint32_t room[MOST_LANES], result[2][MOST_LANES];
    for (int word = 0; word < 2; word++) {
        const uint32_t *x = lanes_of(wave, &i->source[word], i->op_sel >> word & 1, room);
        memcpy(result[word], x, sizeof *x * (size_t)LANES(wave));
    }
    put_lanes(wave, i, 0, result[0]);
    put_lanes(wave, i, 1, result[1]);
}

const struct operation wide_operations[] = {
    {"add_co_u32", add_carry, "vMuu"},
    {"add_co_ci_u32", add_carry, "vMuum"},
    {"addc_co_u32", add_carry, "vMuum"},
    {"sub_co_u32", subtract_carry, "vMuu"},
    {"sub_co_ci_u32", subtract_carry, "vMuum"},
    {"subb_co_u32", subtract_carry, "vMuum"},
    {"subrev_co_u32", subtract_carry_reversed, "vMuu"},
    {"subrev_co_ci_u32", subtract_carry_reversed, "vMuum"},
    {"subbrev_co_u32", subtract_carry_reversed, "vMuum"},
    {"mad_u64_u32", multiply_add, "VMuuq"},
    {"mad_co_u64_u32", multiply_add, "VMuuq"},
    {"lshlrev_b64", shift_left, "Vuq"},
    {"lshrrev_b64", shift_right, "Vuq"},
    {"ashrrev_i64", shift_signed, "Vuq"},
    {"lshl_add_u64", shift_add, "Vquq"},
    {"mov_b64", copy, "Vq"},
    {NULL, NULL, NULL},
};

const struct operation packed_operations[] = {
    {"pk_add_f32", packed_add, "Vqq"},
    {"pk_mul_f32", packed_multiply, "Vqq"},
    {"pk_fma_f32", packed_fused, "Vqqq"},
    {"pk_mov_b32", packed_copy, "Vqq"},
    {"pk_lshlrev_b16", shorts_shift_left, "vuu"},
    {"pk_lshrrev_b16", shorts_shift_right, "vuu"},
    {"pk_ashrrev_i16", shorts_shift_signed, "vuu"},
    {"pk_add_u16", shorts_add, "vuu"},
    {"pk_add_i16", shorts_add, "vuu"},
    {"pk_sub_u16", shorts_subtract, "vuu"},
    {"pk_sub_i16", shorts_subtract, "vuu"},
    {"pk_mul_lo_u16", shorts_multiply, "vuu"},
    {"pk_mad_u16", shorts_multiply_add, "vuuu"},
    {"pk_mad_i16", shorts_multiply_add, "vuuu"},
    {"pk_max_u16", shorts_maximum, "vuu"},
    {"pk_min_u16", shorts_minimum, "vuu"},
    {"pk_max_i16", shorts_maximum_signed, "vuu"},
    {"pk_min_i16", shorts_minimum_signed, "vuu"},
    {NULL, NULL, NULL},
};
