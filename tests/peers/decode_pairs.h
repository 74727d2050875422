/* SPDX-License-Identifier: BSD-2-Clause
 *
 * decode_loop.c with -DINTEGERS: O of 4 rows by integers where V is int8, q8_0 or q4_0. A tile's weights, times V's
 * scales, become integers of 16 bits, the largest 32767, of which vpdpwssd multiplies two to a lane. Scores are as in
 * decode_loop.c. The maxima of four rows are found together. */
enum { ROWS = 4, COLUMNS = 4, BLOCKS = D / BLOCK };
#define MOST_WEIGHT 32767.0f

/* Two rows' vectors: lane x has the bytes of both, each as 16 bits. */
INLINE void pair_columns(const enum format format, const uint8_t *v, const int base, const int columns, __m512i *x)
{
    const uint8_t *const next = v + formats[format].row_bytes;
    const __m512i zero = _mm512_setzero_si512();
    if (format == INT8) {
        const __m512i flip = _mm512_set1_epi8((char)0x80);
        UNROLLED
        for (int c = 0; c < columns; c += 4) {
            const __m512i a = _mm512_xor_si512(_mm512_loadu_si512(v + 16 * (base + c)), flip);
            const __m512i b = _mm512_xor_si512(_mm512_loadu_si512(next + 16 * (base + c)), flip);
            const __m512i lo = _mm512_unpacklo_epi8(a, b), hi = _mm512_unpackhi_epi8(a, b);
            x[c] = _mm512_unpacklo_epi8(lo, zero);
            x[c + 1] = _mm512_unpackhi_epi8(lo, zero);
            x[c + 2] = _mm512_unpacklo_epi8(hi, zero);
            x[c + 3] = _mm512_unpackhi_epi8(hi, zero);
        }
        return;
    }
    if (format == Q8_0) {
        UNROLLED
        for (int c = 0; c < columns; c += 2) {
            const __m256i flip = _mm256_set1_epi8((char)0x80);
            const int at = (base + c) / 2 * 34 + 2;
            const __m256i a = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(v + at)), flip);
            const __m256i b = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(next + at)), flip);
            x[c] = _mm512_cvtepu8_epi16(_mm256_unpacklo_epi8(a, b));
            x[c + 1] = _mm512_cvtepu8_epi16(_mm256_unpackhi_epi8(a, b));
        }
        return;
    }
    UNROLLED
    for (int c = 0; c < columns; c += 2) {
        const int at = (base + c) / 2 * 18 + 2;
        const __m128i a = _mm_loadu_si128((const __m128i *)(v + at)), b = _mm_loadu_si128((const __m128i *)(next + at));
        const __m256i both = _mm256_set_m128i(_mm_unpackhi_epi8(a, b), _mm_unpacklo_epi8(a, b));
        const __m512i w = _mm512_cvtepu8_epi16(both);
        x[c] = _mm512_and_si512(w, _mm512_set1_epi16(15));
        x[c + 1] = _mm512_srli_epi16(w, 4);
    }
}

/* Which column lane `lane` of vector c has. */
static int column_of(enum format format, int c, int lane)
{
    if (format == INT8)
        return c / 4 * 64 + lane / 4 * 16 + c % 4 * 4 + lane % 4;
    if (format == Q8_0)
        return c / 2 * 32 + lane / 8 * 16 + c % 2 * 8 + lane % 8;
    return c * 16 + lane;
}

/* A tile joins `COLUMNS` vectors of O. unit is what 1 stands for, excess what the sum has too much. */
INLINE void output_pairs(const enum format format, const int base, float *o, const int32_t *weights, const int row_step,
                         const int key_step, const float *unit, const int32_t *excess, const float *alpha,
                         const uint8_t *v, const uint8_t *next)
{
    __m512i sum[PANEL][8];
    UNROLLED
    for (int i = 0; i < ROWS * COLUMNS; ++i)
        sum[i / COLUMNS][i % COLUMNS] = _mm512_setzero_si512();
    const int groups = format == INT8 ? 1 : BLOCKS;
#pragma GCC unroll 1
    for (int j = 0; j < TILE; j += 2, v += 2 * formats[format].row_bytes, weights += key_step) {
        if (next)
            fetch(format, 2, next + j * formats[format].row_bytes);
        __m512i x[8];
        pair_columns(format, v, base, COLUMNS, x);
        UNROLLED
        for (int r = 0; r < ROWS; ++r) {
            UNROLLED
            for (int c = 0; c < COLUMNS; ++c) {
                const int group = groups == 1 ? 0 : (base + c) / 2;
                sum[r][c] =
                    _mm512_dpwssd_epi32(sum[r][c], x[c], _mm512_set1_epi32(weights[group * ROWS + r * row_step]));
            }
        }
    }
    UNROLLED
    for (int r = 0; r < ROWS; ++r) {
        UNROLLED
        for (int c = 0; c < COLUMNS; ++c) {
            const int group = groups == 1 ? 0 : (base + c) / 2;
            float *const at = o + (r * C + base + c) * W;
            const __m512 is =
                _mm512_cvtepi32_ps(_mm512_sub_epi32(sum[r][c], _mm512_set1_epi32(excess[group * ROWS + r])));
            const __m512 old = _mm512_mul_ps(_mm512_load_ps(at), _mm512_set1_ps(alpha[r]));
            _mm512_store_ps(at, _mm512_fmadd_ps(is, _mm512_set1_ps(unit[group * ROWS + r]), old));
        }
    }
}

/* Of blocks: weights s[row][key] times V's scales to integers, as vectors [block][row]. */
INLINE void whole_weights(const enum format format, const float *s, int32_t *weights, float *unit, int32_t *excess,
                          const uint8_t *v)
{
    /* [key][row], then each vector [group][row] */
    _Alignas(64) float turned[TILE * 4], scaled[TILE * 16];
    const int bytes = format == Q8_0 ? 34 : 18;
    UNROLLED
    for (int t = 0; t < TILE / W; ++t) {
        const __m512 a = _mm512_load_ps(s + t * W), b = _mm512_load_ps(s + TILE + t * W);
        const __m512 c = _mm512_load_ps(s + 2 * TILE + t * W), d = _mm512_load_ps(s + 3 * TILE + t * W);
        const __m512d ab = _mm512_castps_pd(_mm512_unpacklo_ps(a, b)), cd = _mm512_castps_pd(_mm512_unpacklo_ps(c, d));
        const __m512d AB = _mm512_castps_pd(_mm512_unpackhi_ps(a, b)), CD = _mm512_castps_pd(_mm512_unpackhi_ps(c, d));
        const __m512 k[4] = {_mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd)), _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd)),
                             _mm512_castpd_ps(_mm512_unpacklo_pd(AB, CD)),
                             _mm512_castpd_ps(_mm512_unpackhi_pd(AB, CD))};
        UNROLLED
        for (int u = 0; u < 4; ++u) { /* key 4 q + u */
            _mm_store_ps(turned + (t * W + u) * 4, _mm512_extractf32x4_ps(k[u], 0));
            _mm_store_ps(turned + (t * W + 4 + u) * 4, _mm512_extractf32x4_ps(k[u], 1));
            _mm_store_ps(turned + (t * W + 8 + u) * 4, _mm512_extractf32x4_ps(k[u], 2));
            _mm_store_ps(turned + (t * W + 12 + u) * 4, _mm512_extractf32x4_ps(k[u], 3));
        }
    }
    const __m512i spread = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    __m512 most = _mm512_set1_ps(1e-30f);
    for (int j = 0; j < TILE; ++j) {
        uint64_t bits = 0;
        UNROLLED
        for (int b = 0; b < D / BLOCK; ++b) {
            uint16_t half;
            memcpy(&half, v + j * formats[format].row_bytes + b * bytes, sizeof(half));
            bits |= (uint64_t)half << 16 * b;
        }
        const __m128 scales = _mm_cvtph_ps(_mm_cvtsi64_si128((long long)bits));
        const __m512 p = _mm512_broadcast_f32x4(_mm_load_ps(turned + 4 * j));
        const __m512 is = _mm512_mul_ps(p, _mm512_permutexvar_ps(spread, _mm512_castps128_ps512(scales)));
        most = _mm512_max_ps(most, _mm512_abs_ps(is));
        _mm512_store_ps(scaled + 16 * j, is);
    }
    _mm512_storeu_ps(unit, _mm512_mul_ps(most, _mm512_set1_ps(1 / MOST_WEIGHT)));
    const __m512 to = _mm512_div_ps(_mm512_set1_ps(MOST_WEIGHT), most);
    __m512i sum = _mm512_setzero_si512();
    for (int j = 0; j < TILE; j += 2) {
        const __m512i a = _mm512_cvtps_epi32(_mm512_mul_ps(to, _mm512_load_ps(scaled + 16 * j)));
        const __m512i b = _mm512_cvtps_epi32(_mm512_mul_ps(to, _mm512_load_ps(scaled + 16 * j + 16)));
        const __m512i both = _mm512_mask_mov_epi16(_mm512_slli_epi32(b, 16), 0x55555555, a);
        sum = _mm512_dpwssd_epi32(sum, both, _mm512_set1_epi16(1));
        _mm512_store_si512(weights + 8 * j, both);
    }
    _mm512_storeu_si512(excess, _mm512_mullo_epi32(sum, _mm512_set1_epi32(format == Q8_0 ? 128 : 8)));
}

/* Largest lanes of four vectors, in each four lanes. */
INLINE __m512 max_two(__m512 a, __m512 b)
{
    return _mm512_max_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
}
INLINE __m512 rows_max(__m512 a, __m512 b, __m512 c, __m512 d)
{
    const __m512d x = _mm512_castps_pd(max_two(a, b)), y = _mm512_castps_pd(max_two(c, d));
    __m512 m = _mm512_max_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)), _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
    m = _mm512_max_ps(m, _mm512_shuffle_f32x4(m, m, 0x4e));
    return _mm512_max_ps(m, _mm512_shuffle_f32x4(m, m, 0xb1));
}
/* 2^x to 2^-18, as its result is rounded to 16 bits. */
INLINE __m512 exp2_short(__m512 x)
{
    const __m512 magic = _mm512_set1_ps(12582912.0f);
    const float factors[] = {0x1.c9fc46p-5f, 0x1.ec0378p-3f, 0x1.62e12cp-1f, 1.0f};
    x = _mm512_max_ps(x, _mm512_set1_ps(-126.0f));
    const __m512 shifted = _mm512_add_ps(x, magic), f = _mm512_sub_ps(x, _mm512_sub_ps(shifted, magic));
    __m512 p = _mm512_set1_ps(0x1.3a02ccp-7f);
    UNROLLED
    for (int i = 0; i < 4; ++i)
        p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(factors[i]));
    const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(shifted), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), exponent));
}

/* Scores of a tile to weights; of int8 to integers. top has the rows in each four lanes, sum sums of lanes. */
INLINE void soften4(const enum format format, float *s, __m512 *top, __m512 *sum, float *alpha, const float *k_scales,
                    const float *v_scales, float *unit, int32_t *excess, int16_t *words)
{
    __m512 most[4];
    UNROLLED
    for (int r = 0; r < 4; ++r) {
        UNROLLED
        for (int t = 0; t < TILE / W; ++t) {
            __m512 x = _mm512_load_ps(s + r * TILE + t * W);
            if (format == INT8) {
                x = _mm512_mul_ps(x, _mm512_loadu_ps(k_scales + t * W));
                _mm512_store_ps(s + r * TILE + t * W, x);
            }
            most[r] = t ? _mm512_max_ps(most[r], x) : x;
        }
    }
    const __m512 now = _mm512_max_ps(*top, rows_max(most[0], most[1], most[2], most[3]));
    const __m512 factor = exp2_of(_mm512_sub_ps(*top, now));
    *top = now;
    _mm_storeu_ps(alpha, _mm512_castps512_ps128(factor));
#define ROW(r)                                                                                                         \
    {                                                                                                                  \
        const __m512 base = _mm512_permute_ps(now, r * 0x55);                                                          \
        __m512 added = _mm512_mul_ps(sum[r], _mm512_permute_ps(factor, r * 0x55));                                     \
        UNROLLED                                                                                                       \
        for (int t = 0; t < TILE / W; ++t) {                                                                           \
            __m512 weight = exp2_short(_mm512_sub_ps(_mm512_load_ps(s + r * TILE + t * W), base));                     \
            added = _mm512_add_ps(added, weight);                                                                      \
            if (format == INT8)                                                                                        \
                weight = _mm512_mul_ps(weight, _mm512_loadu_ps(v_scales + t * W));                                     \
            _mm512_store_ps(s + r * TILE + t * W, weight);                                                             \
            most[r] = t ? _mm512_max_ps(most[r], weight) : weight;                                                     \
        }                                                                                                              \
        sum[r] = added;                                                                                                \
    }
    ROW(0) ROW(1) ROW(2) ROW(3) if (format != INT8) return;
    const __m512 largest = _mm512_max_ps(_mm512_set1_ps(1e-30f), rows_max(most[0], most[1], most[2], most[3]));
    _mm512_store_ps(unit, _mm512_mul_ps(largest, _mm512_set1_ps(1 / MOST_WEIGHT)));
    const __m512 to = _mm512_div_ps(_mm512_set1_ps(MOST_WEIGHT), largest);
    __m512i all[4];
#define WHOLE(r)                                                                                                       \
    {                                                                                                                  \
        all[r] = _mm512_setzero_si512();                                                                               \
        UNROLLED                                                                                                       \
        for (int t = 0; t < TILE / W; ++t) {                                                                           \
            const __m512i w = _mm512_cvtps_epi32(                                                                      \
                _mm512_mul_ps(_mm512_permute_ps(to, r * 0x55), _mm512_load_ps(s + r * TILE + t * W)));                 \
            all[r] = _mm512_add_epi32(all[r], w);                                                                      \
            _mm256_storeu_si256((__m256i *)(words + r * TILE + t * W), _mm512_cvtepi32_epi16(w));                      \
        }                                                                                                              \
    }
    WHOLE(0)
    WHOLE(1) WHOLE(2) WHOLE(3) UNROLLED for (int r = 0; r < 4; ++r) excess[r] = _mm512_reduce_add_epi32(all[r]) * 128;
}

INLINE void decode_by_integers(const enum format format, float *o, const float *q, const uint8_t *k, const uint8_t *v,
                               const float *k_scales, const float *v_scales, int n)
{
    _Alignas(64) float s[ROWS * TILE], alpha[ROWS], unit[W];
    _Alignas(64) int32_t weights[TILE / 2 * W], excess[W];
    const int bytes = formats[format].row_bytes, by_rows = format == INT8;
    __m512 top = _mm512_set1_ps(-INFINITY), sums[ROWS];
    memset(o, 0, sizeof(float) * ROWS * D);
    for (int r = 0; r < ROWS; ++r)
        sums[r] = _mm512_setzero_ps();
    for (int j = 0; j < n; j += TILE) {
        const uint8_t *const values = v + (long)j * bytes;
#pragma GCC unroll 1
        for (int t = 0; t < TILE; t += W)
            score(format, ROWS, 4, s + t, q, k + (long)(j + t) * bytes, values + (long)t * bytes);
        soften4(format, s, &top, sums, alpha, k_scales + j, v_scales + j, unit, excess, (int16_t *)weights);
        if (!by_rows)
            whole_weights(format, s, weights, unit, excess, values);
        UNROLLED
        for (int base = 0; base < C; base += COLUMNS)
            output_pairs(format, base, o, weights, by_rows ? TILE / 2 : 1, by_rows ? 1 : W, unit, excess, alpha, values,
                         base ? NULL : k + (long)(j + TILE) * bytes);
    }
    for (int r = 0; r < ROWS; ++r) {
        float row[D];
        const float sum = _mm512_reduce_add_ps(sums[r]);
        for (int x = 0; x < D; ++x)
            row[column_of(format, x / W, x % W)] = o[r * D + x] / sum;
        memcpy(o + r * D, row, sizeof(row));
    }
}
