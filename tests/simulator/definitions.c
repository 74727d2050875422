/* SPDX-License-Identifier: BSD-2-Clause */
#include "definitions.h"
#include "lanes.h"
#include <float.h>
#include <stdio.h>

bool definition_name(const char *names, int n, char *name, size_t size)
{
    for (; n > 0 && names; n--) {
        names = strchr(names, ' ');
        names = names ? names + 1 : NULL;
    }
    if (names)
        snprintf(name, size, "%.*s", (int)strcspn(names, " "), names);
    return names != NULL;
}

float definition_float(uint32_t x)
{
    float y;
    memcpy(&y, &x, sizeof y);
    return y;
}
#define f definition_float

static uint32_t rounded(__float128 x)
{
    return as_bits((float)x);
}

static uint32_t d_add(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    return as_bits((float)((double)f(a) + f(b)));
}
static uint32_t d_sub(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    return as_bits((float)((double)f(a) - f(b)));
}
static uint32_t d_subrev(uint32_t a, uint32_t b, uint32_t c)
{
    return d_sub(b, a, c);
}
static uint32_t d_mul(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    return rounded((__float128)f(a) * f(b));
}
/* What digits the sum has no room for moves it a little, so that it does not lie in the middle between two floats. */
__float128 definition_fused(double a, double b, double c)
{
    const __float128 product = (__float128)a * b, sum = product + c, part = sum - product;
    const __float128 left = (product - (sum - part)) + (c - part), little = (sum < 0 ? -sum : sum) * 0x1p-112;
    return left > 0 ? sum + little : left < 0 ? sum - little : sum;
}
static uint32_t d_fma(uint32_t a, uint32_t b, uint32_t c)
{
    return rounded(definition_fused((double)f(a), (double)f(b), (double)f(c)));
}
static double normal(double x)
{
    return fabs(x) < FLT_MIN ? copysign(0, x) : x;
}
static uint32_t d_mad(uint32_t a, uint32_t b, uint32_t c)
{
    const float product = (float)(normal(f(a)) * normal(f(b)));
    return as_bits((float)normal((float)(normal(product) + normal(f(c)))));
}
/* Not a quiet one, which is none of the two. */
static bool is_signal(uint32_t x)
{
    return isnan(f(x)) && x % 0x800000 < 0x400000;
}
static uint32_t d_max(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    if (is_signal(a) || is_signal(b))
        return 0x7fc00000;
    if (isnan(f(a)) || isnan(f(b)))
        return isnan(f(a)) ? b : a;
    return f(a) > f(b) || (f(a) == f(b) && !signbit(f(a))) ? a : b;
}
static uint32_t d_min(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    if (is_signal(a) || is_signal(b))
        return 0x7fc00000;
    if (isnan(f(a)) || isnan(f(b)))
        return isnan(f(a)) ? b : a;
    return f(a) < f(b) || (f(a) == f(b) && signbit(f(a))) ? a : b;
}
static uint32_t d_max3(uint32_t a, uint32_t b, uint32_t c)
{
    return d_max(d_max(a, b, 0), c, 0);
}
static uint32_t d_min3(uint32_t a, uint32_t b, uint32_t c)
{
    return d_min(d_min(a, b, 0), c, 0);
}
static uint32_t d_maxmin(uint32_t a, uint32_t b, uint32_t c)
{
    return d_min(d_max(a, b, 0), c, 0);
}
static uint32_t d_minmax(uint32_t a, uint32_t b, uint32_t c)
{
    return d_max(d_min(a, b, 0), c, 0);
}
/* The sign bit flipped, unsigned order is that of signed numbers. */
static uint32_t d_umaxmin(uint32_t a, uint32_t b, uint32_t c)
{
    const uint32_t largest = b < a ? a : b;
    return c < largest ? c : largest;
}
static uint32_t d_uminmax(uint32_t a, uint32_t b, uint32_t c)
{
    const uint32_t least = b > a ? a : b;
    return c > least ? c : least;
}
static uint32_t d_imaxmin(uint32_t a, uint32_t b, uint32_t c)
{
    return d_umaxmin(a ^ 1u << 31, b ^ 1u << 31, c ^ 1u << 31) ^ 1u << 31;
}
static uint32_t d_iminmax(uint32_t a, uint32_t b, uint32_t c)
{
    return d_uminmax(a ^ 1u << 31, b ^ 1u << 31, c ^ 1u << 31) ^ 1u << 31;
}
static uint32_t d_iadd(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    return (uint32_t)((uint64_t)a + b);
}
static uint32_t d_isub(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    return a + ~b + 1;
}
static uint32_t d_isubrev(uint32_t a, uint32_t b, uint32_t c)
{
    return d_isub(b, a, c);
}
static uint32_t d_shl(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    return (uint32_t)((uint64_t)b * (1ull << (a % 32)));
}
static uint32_t d_shr(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    return (uint32_t)(b / (1ull << (a % 32)));
}
static uint32_t d_sar(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    return (uint32_t)(int64_t)floor((double)(int32_t)b / (double)(1ull << (a % 32)));
}
static uint32_t d_mad_16(uint32_t a, uint32_t b, uint32_t c)
{
    return (uint32_t)(((uint64_t)(a % 65536) * (b % 65536) + c % 65536) % 65536);
}
static uint32_t d_sar_16(uint32_t a, uint32_t b, uint32_t c)
{
    const double x = (double)((b & 0xffff) ^ 0x8000) - 0x8000;
    (void)c;
    return (uint32_t)(int64_t)floor(x / (double)(1u << a % 16)) & 0xffff;
}
static uint32_t d_imax(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    return (a ^ 1u << 31) > (b ^ 1u << 31) ? a : b;
}
static uint32_t d_imin(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    return (a ^ 1u << 31) < (b ^ 1u << 31) ? a : b;
}
static uint32_t d_mullo(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    uint32_t sum = 0;
    for (int bit = 0; bit < 32; bit++)
        sum += a >> bit & 1 ? b << bit : 0;
    return sum;
}
static uint32_t d_mulhi(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    return (uint32_t)((unsigned __int128)a * b >> 32);
}
static uint32_t d_mul24(uint32_t a, uint32_t b, uint32_t c)
{
    return d_mullo(a << 8 >> 8, b << 8 >> 8, c);
}
static uint32_t d_imul24(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    const int64_t x = (int64_t)(a % (1 << 24)) - (a >> 23 & 1) * (1ll << 24),
                  y = (int64_t)(b % (1 << 24)) - (b >> 23 & 1) * (1ll << 24);
    return (uint32_t)(x * y);
}
static uint32_t d_mulhi24(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    return (uint32_t)((uint64_t)(a % (1 << 24)) * (b % (1 << 24)) / (1ull << 32));
}
static uint32_t d_imulhi24(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    const int64_t x = (int64_t)(a % (1 << 24)) - (a >> 23 & 1) * (1ll << 24),
                  y = (int64_t)(b % (1 << 24)) - (b >> 23 & 1) * (1ll << 24);
    return (uint32_t)(int64_t)floor((double)(x * y) / 4294967296.0);
}
/* What is left of the sum when the largest and the smallest are taken away. */
static uint32_t d_med3(uint32_t a, uint32_t b, uint32_t c)
{
    return a + b + c - d_imax(d_imax(a, b, 0), c, 0) - d_imin(d_imin(a, b, 0), c, 0);
}
static uint32_t d_add3(uint32_t a, uint32_t b, uint32_t c)
{
    return (uint32_t)((uint64_t)a + b + c);
}
static uint32_t d_lshladd(uint32_t a, uint32_t b, uint32_t c)
{
    return d_shl(b, a, 0) + c;
}
static uint32_t d_addlshl(uint32_t a, uint32_t b, uint32_t c)
{
    return d_shl(c, a + b, 0);
}
static uint32_t d_lshlor(uint32_t a, uint32_t b, uint32_t c)
{
    return d_shl(b, a, 0) | c;
}
static uint32_t d_andor(uint32_t a, uint32_t b, uint32_t c)
{
    return ~(~a | ~b) | c;
}
static uint32_t d_xor3(uint32_t a, uint32_t b, uint32_t c)
{
    return (a ^ b) ^ c;
}
static uint32_t d_bfi(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t x = 0;
    for (int bit = 0; bit < 32; bit++)
        x |= ((a >> bit & 1 ? b : c) >> bit & 1) << bit;
    return x;
}
static uint32_t d_bfe(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t x = 0;
    for (uint32_t bit = 0; bit < c % 32 && b % 32 + bit < 32; bit++)
        x |= (a >> (b % 32 + bit) & 1) << bit;
    return x;
}
static uint32_t d_bfei(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t x = 0, at = b % 32;
    for (uint32_t bit = 0; c % 32 && bit < 32; bit++) {
        x |= (a >> at & 1) << bit;
        at += bit + 1 < c % 32 && at < 31;
    }
    return x;
}
static uint32_t d_alignbit(uint32_t a, uint32_t b, uint32_t c)
{
    return c % 32 ? a << (32 - c % 32) | b >> c % 32 : b;
}
static uint32_t d_perm(uint32_t a, uint32_t b, uint32_t c)
{
    uint8_t bytes[8], out[4];
    memcpy(bytes, &b, 4);
    memcpy(bytes + 4, &a, 4);
    for (int n = 0; n < 4; n++) {
        const uint8_t s = (uint8_t)(c >> 8 * n);
        out[n] = s < 8 ? bytes[s] : s < 12 ? (bytes[2 * (s - 8) + 1] & 0x80 ? 255 : 0) : s == 12 ? 0 : 255;
    }
    uint32_t x;
    memcpy(&x, out, 4);
    return x;
}
static uint32_t d_bfm(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    uint32_t x = 0;
    for (uint32_t bit = 0; bit < a % 32; bit++)
        x = x << 1 | 1;
    return d_shl(b, x, 0);
}
static uint32_t d_not(uint32_t a, uint32_t b, uint32_t c)
{
    (void)b;
    (void)c;
    return 0xffffffff - a;
}
static uint32_t d_rev(uint32_t a, uint32_t b, uint32_t c)
{
    (void)b;
    (void)c;
    uint32_t x = 0;
    for (int bit = 0; bit < 32; bit++)
        x = x << 1 | (a >> bit & 1);
    return x;
}
static uint32_t d_i2f(uint32_t a, uint32_t b, uint32_t c)
{
    (void)b;
    (void)c;
    return rounded((int32_t)a);
}
static uint32_t d_u2f(uint32_t a, uint32_t b, uint32_t c)
{
    (void)b;
    (void)c;
    return rounded(a);
}
static uint32_t d_f2i(uint32_t a, uint32_t b, uint32_t c)
{
    (void)b;
    (void)c;
    const double x = isnan(f(a)) ? 0 : trunc((double)f(a));
    return (uint32_t)(int64_t)fmax(fmin(x, 2147483647.0), -2147483648.0);
}
static uint32_t d_f2u(uint32_t a, uint32_t b, uint32_t c)
{
    (void)b;
    (void)c;
    const double x = isnan(f(a)) ? 0 : trunc((double)f(a));
    return (uint32_t)(uint64_t)fmax(fmin(x, 4294967295.0), 0);
}
static uint32_t d_rndne(uint32_t a, uint32_t b, uint32_t c)
{
    (void)b;
    (void)c;
    return as_bits(nearbyintf(f(a)));
}
static uint32_t d_floor(uint32_t a, uint32_t b, uint32_t c)
{
    (void)b;
    (void)c;
    return as_bits((float)floor(f(a)));
}
/* A half by its fields. */
uint32_t definition_of_half(uint32_t a, uint32_t b, uint32_t c)
{
    (void)b;
    (void)c;
    const int exponent = a >> 10 & 31, mantissa = a & 1023;
    const double size = exponent == 31 ? (mantissa ? NAN : INFINITY)
                        : exponent     ? ldexp(1024 + mantissa, exponent - 25)
                                       : ldexp(mantissa, -24);
    return as_bits((float)(a & 0x8000 ? -size : size));
}
/* The nearest half, by trying the neighbours; of two the even one. */
uint32_t definition_to_half(uint32_t a, uint32_t b, uint32_t c)
{
    (void)b;
    (void)c;
    const double x = fabs((double)f(a));
    const uint32_t sign = a >> 31 << 15;
    if (isnan(f(a)))
        return sign | 0x7e00;
    if (x >= 65520)
        return sign | 0x7c00;
    uint32_t low = 0, high = 0x7bff;
    while (low < high) {
        const uint32_t middle = (low + high + 1) / 2;
        if ((double)f(definition_of_half(middle, 0, 0)) <= x)
            low = middle;
        else
            high = middle - 1;
    }
    const double below = f(definition_of_half(low, 0, 0)),
                 above = low == 0x7bff ? 65536 : f(definition_of_half(low + 1, 0, 0));
    const bool up = x - below > above - x || (x - below == above - x && low & 1);
    return sign | (low + up);
}
static uint32_t d_exp2(uint32_t a, uint32_t b, uint32_t c)
{
    (void)b;
    (void)c;
    const float x = (float)exp2(fabsf(f(a)) < 0x1p-126f ? 0.0 : (double)f(a));
    return as_bits(x < 0x1p-126f ? 0 : x);
}
static uint32_t d_log2(uint32_t a, uint32_t b, uint32_t c)
{
    (void)b;
    (void)c;
    return as_bits((float)log2(fabsf(f(a)) < 0x1p-126f ? copysign(0.0, (double)f(a)) : (double)f(a)));
}
static uint32_t d_rcp(uint32_t a, uint32_t b, uint32_t c)
{
    (void)b;
    (void)c;
    const float x = (float)(1.0 / normal((double)f(a)));
    return as_bits(fabsf(x) < 0x1p-126f ? copysignf(0, x) : x);
}

/* What an instruction makes of v0, v1, v2 in v3, or in s[20:21] as a mask. */
const struct definition definitions[] = {
    {"v_add_f32_e32 v3, v0, v1", d_add, 2, 0},
    {"v_sub_f32_e32 v3, v0, v1", d_sub, 2, 0},
    {"v_subrev_f32_e32 v3, v0, v1", d_subrev, 2, 0},
    {"v_mul_f32_e32 v3, v0, v1", d_mul, 2, 0},
    {"v_max_f32_e32 v3, v0, v1", d_max, 2, 0},
    {"v_min_f32_e32 v3, v0, v1", d_min, 2, 0},
    {"v_fma_f32 v3, v0, v1, v2", d_fma, 3, 0},
    {"v_mad_f32 v3, v0, v1, v2", d_mad, 3, 0},
    {"v_max3_f32 v3, v0, v1, v2", d_max3, 3, 0},
    {"v_min3_f32 v3, v0, v1, v2", d_min3, 3, 0},
    {"v_maxmin_f32 v3, v0, v1, v2", d_maxmin, 3, 0},
    {"v_minmax_f32 v3, v0, v1, v2", d_minmax, 3, 0},
    {"v_maxmin_u32 v3, v0, v1, v2", d_umaxmin, 3, 0},
    {"v_minmax_u32 v3, v0, v1, v2", d_uminmax, 3, 0},
    {"v_maxmin_i32 v3, v0, v1, v2", d_imaxmin, 3, 0},
    {"v_minmax_i32 v3, v0, v1, v2", d_iminmax, 3, 0},
    {"v_exp_f32_e32 v3, v0", d_exp2, 1, 1},
    {"v_log_f32_e32 v3, v0", d_log2, 1, 1},
    {"v_rcp_f32_e32 v3, v0", d_rcp, 1, 1},
    {"v_rndne_f32_e32 v3, v0", d_rndne, 1, 0},
    {"v_floor_f32_e32 v3, v0", d_floor, 1, 0},
    {"v_cvt_f32_i32_e32 v3, v0", d_i2f, 1, 0},
    {"v_cvt_f32_u32_e32 v3, v0", d_u2f, 1, 0},
    {"v_cvt_i32_f32_e32 v3, v0", d_f2i, 1, 0},
    {"v_cvt_u32_f32_e32 v3, v0", d_f2u, 1, 0},
    {"v_cvt_f32_f16_e32 v3, v0", definition_of_half, 1, 0},
    {"v_cvt_f16_f32_e32 v3, v0", definition_to_half, 1, 0},
    {"v_add_nc_u32_e32 v3, v0, v1", d_iadd, 2, 0},
    {"v_sub_nc_u32_e32 v3, v0, v1", d_isub, 2, 0},
    {"v_subrev_nc_u32_e32 v3, v0, v1", d_isubrev, 2, 0},
    {"v_lshlrev_b32_e32 v3, v0, v1", d_shl, 2, 0},
    {"v_lshrrev_b32_e32 v3, v0, v1", d_shr, 2, 0},
    {"v_ashrrev_i32_e32 v3, v0, v1", d_sar, 2, 0},
    {"v_ashrrev_i16_e32 v3, v0, v1", d_sar_16, 2, 0},
    {"v_mad_u16 v3, v0, v1, v2", d_mad_16, 3, 0},
    {"v_mad_legacy_u16 v3, v0, v1, v2", d_mad_16, 3, 0},
    {"v_max_i32_e32 v3, v0, v1", d_imax, 2, 0},
    {"v_min_i32_e32 v3, v0, v1", d_imin, 2, 0},
    {"v_mul_lo_u32 v3, v0, v1", d_mullo, 2, 0},
    {"v_mul_hi_u32 v3, v0, v1", d_mulhi, 2, 0},
    {"v_mul_u32_u24_e32 v3, v0, v1", d_mul24, 2, 0},
    {"v_mul_i32_i24_e32 v3, v0, v1", d_imul24, 2, 0},
    {"v_mul_hi_u32_u24_e32 v3, v0, v1", d_mulhi24, 2, 0},
    {"v_mul_hi_i32_i24_e32 v3, v0, v1", d_imulhi24, 2, 0},
    {"v_bfm_b32 v3, v0, v1", d_bfm, 2, 0},
    {"v_not_b32_e32 v3, v0", d_not, 1, 0},
    {"v_bfrev_b32_e32 v3, v0", d_rev, 1, 0},
    {"v_add3_u32 v3, v0, v1, v2", d_add3, 3, 0},
    {"v_lshl_add_u32 v3, v0, v1, v2", d_lshladd, 3, 0},
    {"v_add_lshl_u32 v3, v0, v1, v2", d_addlshl, 3, 0},
    {"v_lshl_or_b32 v3, v0, v1, v2", d_lshlor, 3, 0},
    {"v_and_or_b32 v3, v0, v1, v2", d_andor, 3, 0},
    {"v_xor3_b32 v3, v0, v1, v2", d_xor3, 3, 0},
    {"v_med3_i32 v3, v0, v1, v2", d_med3, 3, 0},
    {"v_bfi_b32 v3, v0, v1, v2", d_bfi, 3, 0},
    {"v_bfe_u32 v3, v0, v1, v2", d_bfe, 3, 0},
    {"v_bfe_i32 v3, v0, v1, v2", d_bfei, 3, 0},
    {"v_alignbit_b32 v3, v0, v1, v2", d_alignbit, 3, 0},
    {"v_perm_b32 v3, v0, v1, v2", d_perm, 3, 0},
    {NULL, NULL, 0, 0},
};
