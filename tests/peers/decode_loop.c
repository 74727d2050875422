/* SPDX-License-Identifier: BSD-2-Clause
 *
 * How fast a processor with 512-bit vectors decodes by hand: what decode_cpu computes, in C with intrinsics, without
 * any feature, one head of keys and values after the other, in one thread. Beside each figure stand a read of the same
 * bytes and the multiply-adds alone, which say what a bar that is a share of the read's speed fails by.
 *
 *     clang-19 -O3 -march=native -o decode_loop tests/peers/decode_loop.c -lm && ./decode_loop [TURNS [KEYS [HEADS]]]
 *
 * d is 128. One line a format and number of packed rows (heads that share keys times rows): ns a key of K and V, of
 * processor time, the least of TURNS; the share of the read; that of the multiply-adds' peak; and the largest
 * difference to what double makes of the same bytes. -DINTEGERS: O of 4 rows by integers (decode_pairs.h). (clang 14
 * does not unroll the loops: 2.7 times as long.) */
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { D = 128, W = 16, C = D / W, PANEL = 8, MOST_ROWS = 32, BLOCK = 32 };
#ifndef TILE
#define TILE 32 /* keys; a multiple of W */
#endif
enum format { FP16, INT8, Q8_0, Q4_0, FORMATS };
static const struct {
    const char *name;
    int row_bytes;
} formats[FORMATS] = {{"fp16", 2 * D}, {"int8", D}, {"q8_0", D / BLOCK * 34}, {"q4_0", D / BLOCK * 18}};

#define INLINE   static inline __attribute__((always_inline))
#define UNROLLED _Pragma("GCC unroll 32")

/* Scales of the blocks of a row: made at once, and broadcast from memory, which takes nothing of the vector units. */
INLINE void block_scales(float *scales, const uint8_t *row, const int bytes)
{
    uint64_t bits = 0;
    UNROLLED
    for (int b = 0; b < D / BLOCK; ++b) {
        uint16_t half;
        memcpy(&half, row + b * bytes, sizeof(half));
        bits |= (uint64_t)half << 16 * b;
    }
    _mm_storeu_ps(scales, _mm_cvtph_ps(_mm_cvtsi64_si128((long long)bits)));
}

/* Vector c of a row. */
INLINE __m512 get(const enum format format, const uint8_t *row, const float *scales, const int c)
{
    if (format == FP16)
        return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(row + 32 * c)));
    if (format == INT8)
        return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(row + 16 * c))));
    const __m512 scale = _mm512_set1_ps(scales[c / 2]);
    if (format == Q8_0) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(row + c / 2 * 34 + 2 + c % 2 * 16));
        return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)), scale);
    }
    const __m512 table = _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
    const __m512i pairs = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(row + c / 2 * 18 + 2)));
    return _mm512_permutexvar_ps(c % 2 ? _mm512_srli_epi32(pairs, 4) : pairs, _mm512_mul_ps(table, scale));
}

INLINE void scales_of(float *scales, const enum format format, const uint8_t *row)
{
    if (format == Q8_0)
        block_scales(scales, row, 34);
    if (format == Q4_0)
        block_scales(scales, row, 18);
}

/* Sums of lanes of pairs and fours of vectors, whose lanes follow each other in the end. */
INLINE __m512 sum_two(__m512 a, __m512 b)
{
    return _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
}

INLINE __m512 sum_four(__m512 a, __m512 b)
{
    const __m512d x = _mm512_castps_pd(a), y = _mm512_castps_pd(b);
    return _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)), _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
}

/* Four keys whose sums of lanes are in the four quarters each; of 16 keys, key u in lane u. */
INLINE __m512 sum_quarters(const __m512 *fours)
{
    const __m512 a =
        _mm512_add_ps(_mm512_shuffle_f32x4(fours[0], fours[1], 0x88), _mm512_shuffle_f32x4(fours[0], fours[1], 0xdd));
    const __m512 b =
        _mm512_add_ps(_mm512_shuffle_f32x4(fours[2], fours[3], 0x88), _mm512_shuffle_f32x4(fours[2], fours[3], 0xdd));
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}

INLINE __m512 exp2_of(__m512 x)
{
    x = _mm512_max_ps(x, _mm512_set1_ps(-126.0f));
    const __m512 whole = _mm512_roundscale_ps(x, 0), f = _mm512_sub_ps(x, whole);
    const float factors[] = {0x1.5f3e54p-10f, 0x1.3b2d4cp-7f, 0x1.c6aee8p-5f, 0x1.ebfbdcp-3f, 0x1.62e430p-1f, 1.0f};
    __m512 p = _mm512_set1_ps(0x1.41fbbcp-13f);
    UNROLLED
    for (int i = 0; i < 6; ++i)
        p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(factors[i]));
    return _mm512_scalef_ps(p, whole);
}

/* Asks for the rows of the other operand that are needed next, while those of one are multiplied: rows of which a pass
 * reads a part come too late otherwise. */
INLINE void fetch(const enum format format, const int rows, const uint8_t *from)
{
    UNROLLED
    for (int x = 0; x < rows * formats[format].row_bytes; x += 64)
        _mm_prefetch((const char *)from + x, _MM_HINT_T1);
}

/* Scores of 16 keys with `rows` rows, KEYS at a time. */
INLINE void score(const enum format format, const int rows, const int keys, float *s, const float *q, const uint8_t *k,
                  const uint8_t *next)
{
    __m512 four[PANEL][4], two[PANEL][2];
#pragma GCC unroll 1
    for (int quad = 0; quad < 4; ++quad) {
        UNROLLED
        for (int half = 0; half < 4; half += keys) {
            __m512 sum[4][PANEL];
            float scales[4][4];
            const int at = (quad * 4 + half) * formats[format].row_bytes;
            const uint8_t *const row = k + at;
            if (next)
                fetch(format, keys, next + at);
            UNROLLED
            for (int u = 0; u < keys; ++u) {
                scales_of(scales[u], format, row + u * formats[format].row_bytes);
                UNROLLED
                for (int r = 0; r < rows; ++r)
                    sum[u][r] = _mm512_setzero_ps();
            }
            UNROLLED
            for (int c = 0; c < C; ++c) {
                __m512 x[4];
                UNROLLED
                for (int u = 0; u < keys; ++u)
                    x[u] = get(format, row + u * formats[format].row_bytes, scales[u], c);
                UNROLLED
                for (int r = 0; r < rows; ++r) {
                    const __m512 of = _mm512_load_ps(q + (r * C + c) * W);
                    UNROLLED
                    for (int u = 0; u < keys; ++u)
                        sum[u][r] = _mm512_fmadd_ps(x[u], of, sum[u][r]);
                }
            }
            UNROLLED
            for (int u = 0; u < keys; u += 2) {
                UNROLLED
                for (int r = 0; r < rows; ++r)
                    two[r][(half + u) / 2] = sum_two(sum[u][r], sum[u + 1][r]);
            }
        }
        UNROLLED
        for (int r = 0; r < rows; ++r)
            four[r][quad] = sum_four(two[r][0], two[r][1]);
    }
    UNROLLED
    for (int r = 0; r < rows; ++r)
        _mm512_store_ps(s + r * TILE, sum_quarters(four[r]));
}

/* `columns` vectors of O of `rows` rows: a tile's sum joins what is there, times alpha. */
INLINE void output(const enum format format, const int rows, const int columns, const int base, float *o,
                   const float *weights, const float *alpha, const uint8_t *v, const uint8_t *next)
{
    __m512 sum[PANEL][8];
    UNROLLED
    for (int i = 0; i < rows * columns; ++i)
        sum[i / columns][i % columns] = _mm512_setzero_ps();
#pragma GCC unroll 1
    for (int j = 0; j < TILE; ++j, v += formats[format].row_bytes) {
        if (next)
            fetch(format, 1, next + j * formats[format].row_bytes);
        float scales[4];
        __m512 x[8];
        scales_of(scales, format, v);
        UNROLLED
        for (int c = 0; c < columns; ++c)
            x[c] = get(format, v, scales, base + c);
        UNROLLED
        for (int r = 0; r < rows; ++r) {
            const __m512 weight = _mm512_set1_ps(weights[r * TILE + j]);
            UNROLLED
            for (int c = 0; c < columns; ++c)
                sum[r][c] = _mm512_fmadd_ps(weight, x[c], sum[r][c]);
        }
    }
    UNROLLED
    for (int r = 0; r < rows; ++r) {
        UNROLLED
        for (int c = 0; c < columns; ++c) {
            float *const at = o + (r * C + base + c) * W;
            _mm512_store_ps(at, _mm512_fmadd_ps(_mm512_load_ps(at), _mm512_set1_ps(alpha[r]), sum[r][c]));
        }
    }
}

/* Scores of a panel of a tile to weights; alpha is what the old O is multiplied by. */
INLINE void soften(const enum format format, const int rows, float *s, float *top, float *sum, float *alpha,
                   const float *k_scales, const float *v_scales)
{
    UNROLLED
    for (int r = 0; r < rows; ++r) {
        __m512 x[TILE / W], most = _mm512_set1_ps(top[r]), added = _mm512_setzero_ps();
        UNROLLED
        for (int t = 0; t < TILE / W; ++t) {
            x[t] = _mm512_load_ps(s + r * TILE + t * W);
            if (format == INT8)
                x[t] = _mm512_mul_ps(x[t], _mm512_loadu_ps(k_scales + t * W));
            most = _mm512_max_ps(most, x[t]);
        }
        const float now = _mm512_reduce_max_ps(most);
        alpha[r] = exp2f(top[r] - now);
        top[r] = now;
        UNROLLED
        for (int t = 0; t < TILE / W; ++t) {
            __m512 weight = exp2_of(_mm512_sub_ps(x[t], _mm512_set1_ps(now)));
            added = _mm512_add_ps(added, weight);
            if (format == INT8)
                weight = _mm512_mul_ps(weight, _mm512_loadu_ps(v_scales + t * W));
            _mm512_store_ps(s + r * TILE + t * W, weight);
        }
        sum[r] = sum[r] * alpha[r] + _mm512_reduce_add_ps(added);
    }
}

/* One head of keys, all rows. Panels of 4 rows: 4 keys, then 4 columns of O; of 8: 2 keys, then 2 columns. */
INLINE void decode(const enum format format, const int rows, const int panel, float *o, const float *q,
                   const uint8_t *k, const uint8_t *v, const float *k_scales, const float *v_scales, int n)
{
    _Alignas(64) float s[MOST_ROWS * TILE], top[MOST_ROWS], sum[MOST_ROWS], alpha[MOST_ROWS];
    const int bytes = formats[format].row_bytes, columns = panel > 4 ? 2 : 4;
    memset(o, 0, sizeof(float) * (size_t)(rows * D));
    for (int r = 0; r < rows; ++r) {
        top[r] = -INFINITY;
        sum[r] = 0;
    }
    for (int j = 0; j < n; j += TILE) {
        for (int r = 0; r < rows; r += panel) {
#pragma GCC unroll 1
            for (int t = 0; t < TILE; t += W)
                score(format, panel, panel > 4 ? 2 : 4, s + r * TILE + t, q + r * D, k + (long)(j + t) * bytes,
                      r ? NULL : v + (long)(j + t) * bytes);
            soften(format, panel, s + r * TILE, top + r, sum + r, alpha + r, k_scales + j, v_scales + j);
        }
        for (int r = 0; r < rows; r += panel) {
            UNROLLED
            for (int base = 0; base < C; base += columns)
                output(format, panel, columns, base, o + r * D, s + r * TILE, alpha + r, v + (long)j * bytes,
                       r || base ? NULL : k + (long)(j + TILE) * bytes);
        }
    }
    for (int i = 0; i < rows * D; ++i)
        o[i] /= sum[i / D];
}

#ifdef INTEGERS
#include "decode_pairs.h"
#define BY_INTEGERS(format, rows) ((format) != FP16 && (rows) == ROWS)
#else
#define BY_INTEGERS(format, rows)                         0
#define decode_by_integers(format, o, q, k, v, ks, vs, n) (void)0
#endif

typedef void decode_fn(float *, const float *, const uint8_t *, const uint8_t *, const float *, const float *, int);
#define DECODE(format, rows, panel)                                                                                    \
    static __attribute__((noinline)) void decode_##format##_##rows(                                                    \
        float *o, const float *q, const uint8_t *k, const uint8_t *v, const float *ks, const float *vs, int n)         \
    {                                                                                                                  \
        if (BY_INTEGERS(format, rows))                                                                                 \
            decode_by_integers(format, o, q, k, v, ks, vs, n);                                                         \
        else                                                                                                           \
            decode(format, rows, panel, o, q, k, v, ks, vs, n);                                                        \
    }
#define DECODES(format) DECODE(format, 4, 4) DECODE(format, 8, 8) DECODE(format, 16, 8) DECODE(format, 32, 8)
#define POINTERS(format)                                                                                               \
    {                                                                                                                  \
        decode_##format##_4, decode_##format##_8, decode_##format##_16, decode_##format##_32                           \
    }
DECODES(FP16)
DECODES(INT8)
DECODES(Q8_0)
DECODES(Q4_0)
static decode_fn *const decoders[FORMATS][4] = {POINTERS(FP16), POINTERS(INT8), POINTERS(Q8_0), POINTERS(Q4_0)};

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float sink;

static __attribute__((noinline)) void read_all(const uint8_t *from, size_t bytes)
{
    __m512i sum[8];
    UNROLLED
    for (int i = 0; i < 8; ++i)
        sum[i] = _mm512_setzero_si512();
    for (size_t at = 0; at + 512 <= bytes; at += 512) {
        UNROLLED
        for (int i = 0; i < 8; ++i)
            sum[i] = _mm512_add_epi32(sum[i], _mm512_loadu_si512(from + at + 64 * i));
    }
    UNROLLED
    for (int i = 1; i < 8; ++i)
        sum[0] = _mm512_add_epi32(sum[0], sum[i]);
    sink += (float)_mm512_reduce_add_epi32(sum[0]);
}

static __attribute__((noinline)) void multiply_adds(long count)
{
    __m512 sum[16], x = _mm512_set1_ps(0.999f);
    UNROLLED
    for (int i = 0; i < 16; ++i)
        sum[i] = _mm512_set1_ps((float)i);
    for (long n = 0; n < count; n += 16) {
        UNROLLED
        for (int i = 0; i < 16; ++i)
            __asm__("vfmadd213ps %1, %1, %0" : "+v"(sum[i]) : "v"(x));
    }
    UNROLLED
    for (int i = 1; i < 16; ++i)
        sum[0] = _mm512_add_ps(sum[0], sum[i]);
    sink += _mm512_reduce_add_ps(sum[0]);
}

static double value(enum format format, const uint8_t *row, int x)
{
    if (format == INT8)
        return (int8_t)row[x];
    const int bytes = format == Q8_0 ? 34 : 18;
    const uint8_t *const at = format == FP16 ? row + 2 * x : row + x / BLOCK * bytes;
    uint16_t half;
    memcpy(&half, at, 2);
    const double number = (double)_cvtsh_ss(half);
    if (format == FP16)
        return number;
    const int e = x % BLOCK;
    return number * (format == Q8_0 ? (int8_t)at[2 + e] : (at[2 + e % 16] >> e / 16 * 4 & 15) - 8);
}

/* The largest difference of O to what double makes of the same bytes. */
static double error_of(enum format format, const float *o, const float *q, int rows, const uint8_t *k, const uint8_t *v,
                       const float *ks, const float *vs, int n)
{
    double worst = 0, *const p = malloc(sizeof(double) * (size_t)n);
    for (int r = 0; p && r < rows; ++r) {
        double top = -INFINITY, sum = 0;
        for (int j = 0; j < n; ++j) {
            p[j] = 0;
            for (int x = 0; x < D; ++x)
                p[j] += (double)q[r * D + x] * value(format, k + (long)j * formats[format].row_bytes, x);
            p[j] *= format == INT8 ? (double)ks[j] : 1;
            top = fmax(top, p[j]);
        }
        for (int j = 0; j < n; ++j)
            sum += p[j] = exp2(p[j] - top);
        for (int x = 0; x < D; x += 7) {
            double is = 0;
            for (int j = 0; j < n; ++j)
                is += p[j] * value(format, v + (long)j * formats[format].row_bytes, x) *
                      (format == INT8 ? (double)vs[j] : 1);
            worst = fmax(worst, fabs(is / sum - (double)o[r * D + x]));
        }
    }
    free(p);
    return worst;
}

static float uniform(void)
{
    return (float)rand() / (float)RAND_MAX * 2 - 1;
}

static void fill(enum format format, uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; ++i)
        bytes[i] = (uint8_t)(rand() >> 8);
    const size_t step = format == FP16 ? 2 : format == Q8_0 ? 34 : 18;
    for (size_t i = 0; format != INT8 && i + 1 < count; i += step) {
        const uint16_t half = (uint16_t)_cvtss_sh(format == FP16 ? uniform() : 0.01f + 0.005f * uniform(), 0);
        memcpy(bytes + i, &half, 2);
    }
}

int main(int argc, char **argv)
{
    const int turns = argc > 1 ? atoi(argv[1]) : 9, n = (argc > 2 ? atoi(argv[2]) : 16384) / TILE * TILE;
    const int heads = argc > 3 ? atoi(argv[3]) : 8;
    _Alignas(64) static float q[MOST_ROWS * D], o[MOST_ROWS * D];
    for (int f = 0; f < FORMATS; ++f) {
        const size_t head = (size_t)n * (size_t)formats[f].row_bytes, all = head * (size_t)heads;
        uint8_t *const k = aligned_alloc(64, all), *const v = aligned_alloc(64, all);
        float *const ks = malloc(sizeof(float) * (size_t)n), *const vs = malloc(sizeof(float) * (size_t)n);
        if (!k || !v || !ks || !vs)
            return 1;
        fill((enum format)f, k, all);
        fill((enum format)f, v, all);
        for (int j = 0; j < n; ++j) {
            ks[j] = 0.01f + 0.005f * uniform();
            vs[j] = 0.01f + 0.005f * uniform();
        }
        for (int i = 0; i < MOST_ROWS * D; ++i)
            q[i] = 0.1f * uniform();
        for (int size = 0, rows = 4; size < 4; ++size, rows *= 2) {
            double least[3] = {1e9, 1e9, 1e9};
            for (int turn = 0; turn < turns; ++turn) {
                double at[4];
                at[0] = seconds();
                read_all(k, all);
                read_all(v, all);
                at[1] = seconds();
                for (int h = 0; h < heads; ++h)
                    decoders[f][size](o, q, k + head * (size_t)h, v + head * (size_t)h, ks, vs, n);
                at[2] = seconds();
                multiply_adds((long)n * heads * rows * 2 * C);
                at[3] = seconds();
                for (int i = 0; i < 3; ++i)
                    least[i] = fmin(least[i], at[i + 1] - at[i]);
            }
            const double keys = (double)n * heads * 1e-9;
            const uint8_t *const last_k = k + head * (size_t)(heads - 1), *const last_v =
                                                                              v + head * (size_t)(heads - 1);
            printf("%s, %2d rows: %6.1f ns a key; read %5.1f (%.2f); multiply-adds %5.1f (%.2f); off by %.1e\n",
                   formats[f].name, rows, least[1] / keys, least[0] / keys, least[0] / least[1], least[2] / keys,
                   least[2] / least[1], error_of((enum format)f, o, q, rows, last_k, last_v, ks, vs, n));
        }
        free(k), free(v), free(ks), free(vs);
    }
    return sink == 1.5f;
}
