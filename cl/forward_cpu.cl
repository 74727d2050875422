/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Forward attention for a CPU: one work-item per query block, explicit vectors, no barriers.
 *
 * Vectors run over query rows, never over keys or channels. Both products are then rank-1 updates of a register tile,
 *     S^T[key][row]     += K[key][x] * Q^T[x][row]
 *     O^T[channel][row] += V[key][channel] * P^T[key][row]
 * with the left factor broadcast from a row-major tile. So K is never transposed (Q is, once), a row's maximum and
 * sum are lane-wise (no shuffles), and a head dimension that is no multiple of the vector width costs nothing extra.
 *
 * Baked constants, besides those of types.clh and score.clh (all required)
 *   CLATTN_D, CLATTN_D_V        1..512: head dimensions of Q and K, and of V and O.
 *   CLATTN_VECTOR_WIDTH         4, 8 or 16: lanes of a vector, the device's native float width.
 *   CLATTN_ROW_VECTORS          1..4: vectors of query rows in the register tile; a panel is VECTOR_WIDTH times as many
 *                               rows.
 *   CLATTN_MICRO                1..16: keys (channels, for O) in the register tile. MICRO * ROW_VECTORS accumulators
 *                               should be at least 8 and leave a few registers free: 8 x 2 of 32, 6 x 2 of 16.
 *   CLATTN_B_R                  a multiple of VECTOR_WIDTH * ROW_VECTORS: query rows of the block. K and V are read and
 *                               converted once per block.
 *   CLATTN_B_C                  a multiple of MICRO, at least VECTOR_WIDTH: keys of a tile.
 *
 * NDRange: batch * heads * ceil(n_q / B_R) work-groups of one work-item. The private arrays take
 *     4 * ((B_R + B_C) * (d' + d_v') + B_C * VECTOR_WIDTH * ROW_VECTORS + 2 * B_R)
 * bytes of a thread's stack, whatever the storage type; d' and d_v' are K_STRIDE and V_STRIDE below. No local memory.
 */
#if !defined(CLATTN_D) || CLATTN_D < 1 || CLATTN_D > 512
#error "CLATTN_D must be in 1..512"
#endif
#if !defined(CLATTN_D_V) || CLATTN_D_V < 1 || CLATTN_D_V > 512
#error "CLATTN_D_V must be in 1..512"
#endif
#if !defined(CLATTN_VECTOR_WIDTH) ||                                                                           \
    !(CLATTN_VECTOR_WIDTH == 4 || CLATTN_VECTOR_WIDTH == 8 || CLATTN_VECTOR_WIDTH == 16)
#error "CLATTN_VECTOR_WIDTH must be 4, 8 or 16"
#endif
#if !defined(CLATTN_ROW_VECTORS) || CLATTN_ROW_VECTORS < 1 || CLATTN_ROW_VECTORS > 4
#error "CLATTN_ROW_VECTORS must be in 1..4"
#endif
#if !defined(CLATTN_MICRO) || CLATTN_MICRO < 1 || CLATTN_MICRO > 16
#error "CLATTN_MICRO must be in 1..16"
#endif
#if !defined(CLATTN_B_R) || CLATTN_B_R < 1 || CLATTN_B_R % (CLATTN_VECTOR_WIDTH * CLATTN_ROW_VECTORS)
#error "CLATTN_B_R must be a multiple of CLATTN_VECTOR_WIDTH * CLATTN_ROW_VECTORS"
#endif
#if !defined(CLATTN_B_C) || CLATTN_B_C < CLATTN_VECTOR_WIDTH || CLATTN_B_C % CLATTN_MICRO
#error "CLATTN_B_C must be a multiple of CLATTN_MICRO and at least CLATTN_VECTOR_WIDTH"
#endif

#define W CLATTN_VECTOR_WIDTH
#define RV CLATTN_ROW_VECTORS
#define MICRO CLATTN_MICRO
#define PANEL (W * RV)
#define PANELS (CLATTN_B_R / PANEL)
#define ROUND_UP(x, y) (((x) + (y) - 1) / (y) * (y))
/* Row strides of the K and V tiles: whole vectors for the transpositions, and whole register tiles of channels. */
#define K_STRIDE ROUND_UP(CLATTN_D, W)
#define V_STRIDE ROUND_UP(ROUND_UP(CLATTN_D_V, MICRO), W)

typedef CLATTN_CONCAT(float, CLATTN_VECTOR_WIDTH) vec;
typedef CLATTN_CONCAT(int, CLATTN_VECTOR_WIDTH) ivec;
#define load_vec CLATTN_CONCAT(clattn_load, CLATTN_VECTOR_WIDTH)
#define store_vec CLATTN_CONCAT(clattn_store, CLATTN_VECTOR_WIDTH)
#define as_ivec CLATTN_CONCAT(as_int, CLATTN_VECTOR_WIDTH)
#define as_vec CLATTN_CONCAT(as_float, CLATTN_VECTOR_WIDTH)

/* 0, 1, ... W - 1 */
CLATTN_INLINE ivec lane_numbers(void)
{
#if CLATTN_VECTOR_WIDTH == 4
    return (ivec)(0, 1, 2, 3);
#elif CLATTN_VECTOR_WIDTH == 8
    return (ivec)(0, 1, 2, 3, 4, 5, 6, 7);
#else
    return (ivec)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#endif
}

/* 2^(x * scale) for x <= 0 <= scale, to 1 ulp: exactly 1 at 0, exactly 0 at -inf and below -126, NaN at NaN. limit is
 * -126 / scale. Adding 1.5 * 2^23 rounds to an integer in the low bits; with 127 on top these are the exponent field of
 * the power. Scaling here, where x is a small difference, and not in Q keeps large logits accurate at no extra cost. */
CLATTN_INLINE vec exp2_scaled(vec x, float scale, float limit)
{
    const float magic = 12582912.0f + 127.0f;
    const vec shifted = x * scale + magic;
    const vec f = x * scale - (shifted - magic);
    vec p = (vec)(0x1.41fbbcp-13f);
    p = p * f + 0x1.5f3e54p-10f;
    p = p * f + 0x1.3b2d4cp-7f;
    p = p * f + 0x1.c6aee8p-5f;
    p = p * f + 0x1.ebfbdcp-3f;
    p = p * f + 0x1.62e430p-1f;
    p = p * f + 1.0f;
    p *= as_vec(as_ivec(shifted) << 23);
    return select(p, (vec)(0.0f), x <= (vec)(limit));
}

CLATTN_INLINE vec max_vec(vec a, vec b)
{
    return select(a, b, b > a);
}

/* shuffle2 is the portable word, but PoCL turns it into three times as many instructions. Oclgrind, a device of native
 * width 1 and so of vectors of 4, reports false uninitialised values or crashes on clang's shuffles, as those of .lo
 * and .even. (OpenCL C 1.2 has no variadic macros.) */
#if CLATTN_VECTOR_WIDTH == 4
#define SHUFFLE(a, b, i, j, k, l) shuffle2(a, b, (uint4)(i, j, k, l))
#elif CLATTN_VECTOR_WIDTH == 8
#ifdef __clang__
#define SHUFFLE(a, b, i, j, k, l, m, n, o, p) __builtin_shufflevector(a, b, i, j, k, l, m, n, o, p)
#else
#define SHUFFLE(a, b, i, j, k, l, m, n, o, p) shuffle2(a, b, (uint8)(i, j, k, l, m, n, o, p))
#endif
#elif defined(__clang__)
#define SHUFFLE(a, b, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x) \
    __builtin_shufflevector(a, b, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x)
#else
#define SHUFFLE(a, b, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x) \
    shuffle2(a, b, (uint16)(i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x))
#endif
CLATTN_INLINE vec zip_low(vec a, vec b)
{
#if CLATTN_VECTOR_WIDTH == 4
    return SHUFFLE(a, b, 0, 4, 1, 5);
#elif CLATTN_VECTOR_WIDTH == 8
    return SHUFFLE(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
#else
    return SHUFFLE(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
#endif
}

CLATTN_INLINE vec zip_high(vec a, vec b)
{
#if CLATTN_VECTOR_WIDTH == 4
    return SHUFFLE(a, b, 2, 6, 3, 7);
#elif CLATTN_VECTOR_WIDTH == 8
    return SHUFFLE(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#else
    return SHUFFLE(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
#endif
}

/* Transposes W vectors in place: log2(W) rounds of a perfect shuffle of the W * W elements. */
CLATTN_INLINE void transpose(vec *x)
{
    vec y[W];
    #pragma unroll
    for (int round = 1; round < W; round *= 2) {
        #pragma unroll
        for (int i = 0; i < W / 2; ++i) {
            y[2 * i] = zip_low(x[i], x[i + W / 2]);
            y[2 * i + 1] = zip_high(x[i], x[i + W / 2]);
        }
        #pragma unroll
        for (int i = 0; i < W; ++i)
            x[i] = y[i];
    }
}

/* One row of n elements to float, zeros up to the stride. The unit-stride branch is uniform. */
CLATTN_INLINE void load_row(float *out, __global const clattn_storage *in, long column, int n, int stride)
{
    int x = 0;
    if (column == 1) {
        for (; x + W <= n; x += W)
            *(vec *)(out + x) = load_vec(in + x);
    }
    for (; x < n; ++x)
        out[x] = clattn_load(in + x * column);
    for (; x < stride; ++x)
        out[x] = 0.0f;
}

CLATTN_INLINE void zero_row(float *out, int stride)
{
    for (int x = 0; x < stride; x += W)
        *(vec *)(out + x) = (vec)(0.0f);
}

/* MICRO rows of K or V to a float tile. Rows from count on are absent: they become 0, so that nothing leaks. */
CLATTN_INLINE void load_rows(float *tile, __global const clattn_storage *in, long row, long column, int n, int stride,
                             int count)
{
    for (int u = 0; u < MICRO; ++u) {
        if (u < count)
            load_row(tile + u * stride, in + u * row, column, n, stride);
        else
            zero_row(tile + u * stride, stride);
    }
}

/* S^T of MICRO keys and a panel of rows. */
CLATTN_INLINE void score_tile(vec *s, const float *k, const vec *q)
{
    vec acc[MICRO][RV];
    #pragma unroll
    for (int u = 0; u < MICRO; ++u) {
        #pragma unroll
        for (int r = 0; r < RV; ++r)
            acc[u][r] = (vec)(0.0f);
    }
    for (int x = 0; x < CLATTN_D; ++x) {
        #pragma unroll
        for (int u = 0; u < MICRO; ++u) {
            const vec key = (vec)(k[u * K_STRIDE + x]);
            #pragma unroll
            for (int r = 0; r < RV; ++r)
                acc[u][r] = key * q[x * RV + r] + acc[u][r];
        }
    }
    #pragma unroll
    for (int u = 0; u < MICRO; ++u) {
        #pragma unroll
        for (int r = 0; r < RV; ++r)
            s[u * RV + r] = acc[u][r];
    }
}

/* O^T of MICRO channels and a panel of rows: O = O * alpha + V P over count keys. */
CLATTN_INLINE void output_tile(vec *o, const float *v, const vec *p, const vec *alpha, int count)
{
    vec acc[MICRO][RV];
    #pragma unroll
    for (int u = 0; u < MICRO; ++u) {
        #pragma unroll
        for (int r = 0; r < RV; ++r)
            acc[u][r] = o[u * RV + r] * alpha[r];
    }
    for (int j = 0; j < count; ++j) {
        #pragma unroll
        for (int u = 0; u < MICRO; ++u) {
            const vec value = (vec)(v[j * V_STRIDE + u]);
            #pragma unroll
            for (int r = 0; r < RV; ++r)
                acc[u][r] = value * p[j * RV + r] + acc[u][r];
        }
    }
    #pragma unroll
    for (int u = 0; u < MICRO; ++u) {
        #pragma unroll
        for (int r = 0; r < RV; ++r)
            o[u * RV + r] = acc[u][r];
    }
}

#if CLATTN_CAUSAL
/* Whether n floats hold no infinity and no NaN: times 0 these stay what they are not, 0. */
CLATTN_INLINE bool all_finite(const float *x, int n)
{
    vec sum = (vec)(0.0f);
    for (int i = 0; i < n; i += W)
        sum += *(const vec *)(x + i) * 0.0f;
    const float *lanes = (const float *)&sum;
    float total = 0.0f;
    for (int i = 0; i < W; ++i)
        total += lanes[i];
    return total == 0.0f;
}

/* output_tile where V has infinities or NaN that not every row sees: a hidden pair must not enter as 0 * NaN. */
CLATTN_INLINE void output_tile_hidden(vec *o, const float *v, const vec *p, const vec *alpha, int count)
{
    for (int u = 0; u < MICRO; ++u) {
        for (int r = 0; r < RV; ++r) {
            vec acc = o[u * RV + r] * alpha[r];
            for (int j = 0; j < count; ++j) {
                const vec weight = p[j * RV + r];
                acc = select(weight * v[j * V_STRIDE + u] + acc, acc, weight == (vec)(0.0f));
            }
            o[u * RV + r] = acc;
        }
    }
}
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void clattn_forward(
    __global const clattn_storage *q, __global const clattn_storage *k, __global const clattn_storage *v,
    __global clattn_storage *o, __global float *lse, __global float *m, __global float *l,
    const clattn_forward_params p CLATTN_SCORE_PARAMETERS)
{
    vec qt[PANELS * K_STRIDE * RV];
    vec ot[PANELS * V_STRIDE * RV];
    vec st[CLATTN_B_C * RV];
    vec row_max[PANELS * RV], row_sum[PANELS * RV];
    vec k_tile[CLATTN_B_C * K_STRIDE / W], v_tile[CLATTN_B_C * V_STRIDE / W];
    float *kt = (float *)k_tile;
    float *vt = (float *)v_tile;

    /* Work-groups are handed out in runs, large ones first. Heads are outermost and the blocks of a head alternate
     * between the end and the beginning of the sequence, so that under a causal mask every run has its fair share. */
    const int blocks = (p.n_q + CLATTN_B_R - 1) / CLATTN_B_R;
    const int group = (int)get_group_id(0);
    const int bh = group / blocks;
    const int turn = group - bh * blocks; /* not %: beside / it becomes a freeze, which Oclgrind lacks */
    const int block = (turn & 1) ? turn / 2 : blocks - 1 - turn / 2;
    const int b = bh / p.heads;
    const int h = bh - b * p.heads;
    const int kv_head = h / (p.heads / p.kv_heads);
    const clattn_view view = clattn_open(b, h, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
    const int first = block * CLATTN_B_R;
    const int rows = min(CLATTN_B_R, p.n_q - first);
    const int panels = (rows + PANEL - 1) / PANEL;

    q += p.q.offset + b * p.q.batch + h * p.q.head + first * p.q.row;
    k += p.k.offset + b * p.k.batch + kv_head * p.k.head;
    v += p.v.offset + b * p.v.batch + kv_head * p.v.head;
    o += p.o.offset + b * p.o.batch + h * p.o.head + first * p.o.row;

    /* Scores stay Q K^T until they are exponentiated; a negative scale turns Q, so that the maximum is the maximum. */
    const float sign = p.scale < 0.0f ? -1.0f : 1.0f;
    const float scale = fabs(p.scale_log2e);
    const float limit = -126.0f / scale;

    /* Q^T; absent rows are 0. */
    for (int i = 0; i < panels * PANEL; i += W) {
        for (int r = 0; r < W; ++r) {
            if (i + r < rows)
                load_row(kt + r * K_STRIDE, q + (i + r) * p.q.row, p.q.column, CLATTN_D, K_STRIDE);
            else
                zero_row(kt + r * K_STRIDE, K_STRIDE);
        }
        vec *out = qt + i / PANEL * (K_STRIDE * RV) + i % PANEL / W;
        for (int x = 0; x < K_STRIDE; x += W) {
            vec t[W];
            #pragma unroll
            for (int r = 0; r < W; ++r)
                t[r] = *(const vec *)(kt + r * K_STRIDE + x);
            transpose(t);
            #pragma unroll
            for (int r = 0; r < W; ++r)
                out[(x + r) * RV] = t[r] * sign;
        }
    }
    for (int i = 0; i < panels * RV; ++i) {
        row_max[i] = (vec)(-INFINITY);
        row_sum[i] = (vec)(0.0f);
    }
    for (int i = 0; i < panels * V_STRIDE * RV; ++i)
        ot[i] = (vec)(0.0f);

    const int end = clattn_key_end(first + rows - 1, &view);
    for (int j0 = 0; j0 < end; j0 += CLATTN_B_C) {
        const int keys = min(CLATTN_B_C, end - j0);
        int loaded = 0;

        for (int panel = 0; panel < panels; ++panel) {
            const int panel_first = first + panel * PANEL;
            const int panel_last = min(panel_first + PANEL, p.n_q) - 1;
            /* Keys of this tile that any row of the panel sees, in whole register tiles. */
            const int seen = min(clattn_key_end(panel_last, &view) - j0, CLATTN_B_C);
            if (seen <= 0)
                continue;
            const int count = ROUND_UP(seen, MICRO);
            for (int j = 0; j < count; j += MICRO) {
                /* The first panel to need a key fetches it: between two products the loads hide behind arithmetic. */
                if (j >= loaded) {
                    load_rows(kt + j * K_STRIDE, k + (j0 + j) * p.k.row, p.k.row, p.k.column, CLATTN_D, K_STRIDE,
                              keys - j);
                    load_rows(vt + j * V_STRIDE, v + (j0 + j) * p.v.row, p.v.row, p.v.column, CLATTN_D_V, V_STRIDE,
                              keys - j);
                    loaded = j + MICRO;
                }
                score_tile(st + j * RV, kt + j * K_STRIDE, qt + panel * (K_STRIDE * RV));
            }

#if CLATTN_CAUSAL
            bool hidden = false; /* some row must not see some value that is not finite */
#endif
            if (clattn_tile(panel_first, panel_last, j0, j0 + count - 1, &view) == CLATTN_TILE_SOME) {
                /* The lane-wise form of clattn_visible. First keys that do not exist, then those that some row of a
                 * vector must not see: lane i sees the keys before edge + i. */
                for (int j = (p.n_kv - j0) * RV; j < count * RV; ++j)
                    st[j] = (vec)(-INFINITY);
#if CLATTN_CAUSAL
                for (int r = 0; r < RV; ++r) {
                    const int edge = panel_first + r * W + view.shift + 1 - j0;
                    for (int j = max(edge, 0); j < count; ++j)
                        st[j * RV + r] = select((vec)(-INFINITY), st[j * RV + r], lane_numbers() > (ivec)(j - edge));
                }
                const int from = clamp(panel_first + view.shift + 1 - j0, 0, count);
                hidden = !all_finite(vt + from * V_STRIDE, (count - from) * V_STRIDE);
#endif
            }

            vec alpha[RV];
            #pragma unroll
            for (int r = 0; r < RV; ++r) {
                const vec old_max = row_max[panel * RV + r];
                vec new_max = old_max;
                for (int j = 0; j < count; ++j)
                    new_max = max_vec(new_max, st[j * RV + r]);
                /* A row that has seen no key yet keeps -inf, but subtracts 0: -inf - -inf would be NaN. */
                const vec base = select(new_max, (vec)(0.0f), new_max == (vec)(-INFINITY));
                alpha[r] = exp2_scaled(old_max - base, scale, limit);
                vec sum = row_sum[panel * RV + r] * alpha[r];
                for (int j = 0; j < count; ++j) {
                    const vec e = exp2_scaled(st[j * RV + r] - base, scale, limit);
                    st[j * RV + r] = e;
                    sum += e;
                }
                row_max[panel * RV + r] = new_max;
                row_sum[panel * RV + r] = sum;
            }

#if CLATTN_CAUSAL
            if (hidden) {
                for (int x = 0; x < CLATTN_D_V; x += MICRO)
                    output_tile_hidden(ot + (panel * V_STRIDE + x) * RV, vt + x, st, alpha, count);
                continue;
            }
#endif
            for (int x = 0; x < CLATTN_D_V; x += MICRO)
                output_tile(ot + (panel * V_STRIDE + x) * RV, vt + x, st, alpha, count);
        }
    }

    /* O, normalised and transposed back; then the row statistics. */
    for (int i = 0; i < rows; i += W) {
        const vec *in = ot + i / PANEL * (V_STRIDE * RV) + i % PANEL / W;
        const vec sum = row_sum[i / W];
        const vec inverse = select((vec)(1.0f) / sum, (vec)(0.0f), sum == (vec)(0.0f));
        for (int x = 0; x < V_STRIDE; x += W) {
            vec t[W];
            #pragma unroll
            for (int r = 0; r < W; ++r)
                t[r] = in[(x + r) * RV] * inverse;
            transpose(t);
            #pragma unroll
            for (int r = 0; r < W; ++r)
                *(vec *)(vt + r * V_STRIDE + x) = t[r];
        }
        for (int r = 0; r < min(W, rows - i); ++r) {
            __global clattn_storage *out = o + (i + r) * p.o.row;
            int x = 0;
            if (p.o.column == 1) {
                for (; x + W <= CLATTN_D_V; x += W)
                    store_vec(*(const vec *)(vt + r * V_STRIDE + x), out + x);
            }
            for (; x < CLATTN_D_V; ++x)
                clattn_store(vt[r * V_STRIDE + x], out + x * p.o.column);
        }
    }
    const float *maxima = (const float *)row_max;
    const float *sums = (const float *)row_sum;
    for (int i = 0; i < rows; ++i) {
        const float natural = maxima[i] == -INFINITY ? -INFINITY : maxima[i] * fabs(p.scale);
        if (lse)
            lse[p.lse.offset + b * p.lse.batch + h * p.lse.head + (first + i) * p.lse.row] = natural + log(sums[i]);
        if (m)
            m[p.m.offset + b * p.m.batch + h * p.m.head + (first + i) * p.m.row] = natural;
        if (l)
            l[p.l.offset + b * p.l.batch + h * p.l.head + (first + i) * p.l.row] = sums[i];
    }
}
