/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Backward attention for a CPU: one work-item per block, explicit vectors, no barriers, no atomics. Scores S and
 * weights P = exp(S - LSE) are computed again, tile by tile; with dP = dO V^T (dropout's scale times, and 0 where that
 * took P),
 *     dS = P (dP - delta) S',  dQ = scale dS K,  dK = scale dS^T Q,  dV = P^T dO,  dbias = sum of P (dP - delta) S''
 * where S' and S'' are the derivatives of the modified score by the scaled one and by the bias, and dV's P is without
 * what dropout took.
 *
 * One text for all kernels: a block of one side is stationary, the other side streams past (common/cpu_tiles.clh). Each
 * side has two tensors, one of d columns, whose products are scores, and one of d_v columns, whose products are dP:
 *     kernel 0  stationary Q and dO, lanes are rows; K and V stream
 *               S^T += K Q^T,  dP^T += V dO^T,  dQ^T += K^T dS^T
 *     kernel 1  stationary K and V, lanes are keys; Q and dO stream
 *               S += Q K^T,  dP += dO V^T,  dK^T += Q^T dS,  dV^T += dO^T P
 *     kernel 2  as kernel 1, but a single tile of B_R x B_C; dS itself is the result
 *
 * Baked constants, besides those of types.clh, view.clh, lanes.clh, score.clh and cpu_tiles.clh (all required)
 *   CLATTN_KERNEL    0 clattn_dq; 1 clattn_dk_dv, which loops over the query heads of its key/value head;
 *                    2 clattn_d_bias, which loops over the batch elements and heads that share a bias: those along
 *                    which d_bias has stride 0.
 *   CLATTN_STATE     1: K, V, dK and dV are a chunk of the keys, and dQ and dbias are float and added to.
 *   CLATTN_B_R       a multiple of VECTOR_WIDTH * ROW_VECTORS: rows of a block.
 *   CLATTN_B_C       the same for keys.
 *   CLATTN_STREAM    a multiple of MICRO, at least VECTOR_WIDTH: rows or keys of a streamed tile.
 *
 * NDRange, work-groups of one work-item
 *     0: batch * heads * ceil(n_q / B_R);  1: batch * kv_heads * ceil(n_kv / B_C);
 *     2: bias batch * bias heads * ceil(n_q / B_R) * ceil(n_kv / B_C).
 * Private arrays, in floats, with d' and d_v' as D_STRIDE and D_V_STRIDE, B the stationary block and panel
 * VECTOR_WIDTH * ROW_VECTORS: STREAM (d' + d_v' + 2 panel) + B (d' + d_v') and, by kernel,
 * B d', B (d' + d_v') or B_R B_C. No local memory.
 */
#if !defined(CLATTN_KERNEL) || CLATTN_KERNEL < 0 || CLATTN_KERNEL > 2
#error "CLATTN_KERNEL must be 0, 1 or 2"
#endif
#if !defined(CLATTN_B_R) || CLATTN_B_R < 1 || CLATTN_B_R % (CLATTN_VECTOR_WIDTH * CLATTN_ROW_VECTORS)
#error "CLATTN_B_R must be a multiple of CLATTN_VECTOR_WIDTH * CLATTN_ROW_VECTORS"
#endif
#if !defined(CLATTN_B_C) || CLATTN_B_C < 1 || CLATTN_B_C % (CLATTN_VECTOR_WIDTH * CLATTN_ROW_VECTORS)
#error "CLATTN_B_C must be a multiple of CLATTN_VECTOR_WIDTH * CLATTN_ROW_VECTORS"
#endif
#if !defined(CLATTN_STREAM) || CLATTN_STREAM < CLATTN_VECTOR_WIDTH || CLATTN_STREAM % CLATTN_MICRO
#error "CLATTN_STREAM must be a multiple of CLATTN_MICRO and at least CLATTN_VECTOR_WIDTH"
#endif

#define LANES_ARE_KEYS (CLATTN_KERNEL != 0)

/* What sums over all keys: with CLATTN_STATE those before are there, and in float. */
#if CLATTN_STATE
typedef float clattn_sum;
CLATTN_INLINE void put_row(__global float *sum, long column, const float *in, int n)
{
    for (int x = 0; x < n; ++x)
        sum[x * column] += in[x];
}
#else
typedef clattn_storage clattn_sum;
#define put_row store_row
#endif
#if LANES_ARE_KEYS
#define BLOCK CLATTN_B_C
#else
#define BLOCK CLATTN_B_R
#endif
#define PANELS (BLOCK / PANEL)

/* The streamed tensors of one head: where row (key) 0 of each lies, and the rows (keys) that exist. */
typedef struct {
    __global const clattn_storage *in, *in_v; /* d and d_v columns */
    long row, column, row_v, column_v;
    int count;
#if LANES_ARE_KEYS
    __global const float *lse, *delta;
    long lse_row, delta_row;
#endif
} streamed;

/* The arrays of a work-item; vectors of panel after panel. */
typedef struct {
    vec *block, *block_v; /* stationary, transposed: Q and dO, or K and V */
    float *tile, *tile_v; /* streamed, row-major */
    vec *s, *dp;          /* of one panel: S, then P for dV; dP, then dS */
    vec *out, *out_v;     /* transposed: dQ; or dK and dV */
#if LANES_ARE_KEYS
    float *lse, *delta; /* of the streamed rows */
#if CLATTN_DROPOUT
    uint *kept; /* of these: KEPT_WORDS of 32 keys each, from the 32 that hold the block's first */
#endif
#else
    vec *lse, *delta; /* of the stationary rows */
#endif
} arrays;

#if LANES_ARE_KEYS
#define KEPT_WORDS (BLOCK / 32 + 2) /* a block may begin and end in the midst of 32 */
#else
#define KEPT_WORDS (CLATTN_STREAM / 32 + 2)
#endif

/* What is subtracted from a row's scores: a row without keys has LSE -inf, and weights of 0. */
CLATTN_INLINE float subtrahend(float lse)
{
    return lse == -INFINITY ? INFINITY : lse;
}

CLATTN_INLINE void zero_vectors(vec *x, int n)
{
    for (int i = 0; i < n; ++i)
        x[i] = (vec)(0.0f);
}

/* MICRO rows (keys) of the streamed side, `at` of them into the tile that begins with `first`. */
CLATTN_INLINE void load_streamed(const arrays *a, const streamed *in, int first, int at)
{
    const long row = first + at;
    load_rows(a->tile + at * D_STRIDE, MICRO, in->in + row * in->row, in->row, in->column, CLATTN_D, D_STRIDE, 0,
              in->count - first - at);
    load_rows(a->tile_v + at * D_V_STRIDE, MICRO, in->in_v + row * in->row_v, in->row_v, in->column_v, CLATTN_D_V,
              D_V_STRIDE, 0, in->count - first - at);
}

#if LANES_ARE_KEYS
/* LSE and delta of the tile's rows, and what dropout keeps of them. */
CLATTN_INLINE void load_row_statistics(const arrays *a, const streamed *in, int first, int first_key,
                                       const clattn_view *view)
{
    const int count = min(CLATTN_STREAM, in->count - first);
    for (int t = 0; t < count; ++t) {
        a->lse[t] = subtrahend(in->lse[(first + t) * in->lse_row]);
        a->delta[t] = in->delta[(first + t) * in->delta_row];
    }
#if CLATTN_DROPOUT
    for (int t = 0; t < count; t += W) {
        for (int word = 0; word < KEPT_WORDS; ++word) {
            const uvec kept = kept_keys(lane_numbers() + (first + t), (first_key & ~31) + word * 32, view);
            for (int r = 0; r < min(W, count - t); ++r)
                a->kept[(t + r) * KEPT_WORDS + word] = ((const uint *)&kept)[r];
        }
    }
#endif
}
#endif

/* From S and dP of one vector of pairs to P without what dropout took (*s) and dS (*dp). kept: bits, 0 where dropout
 * took a pair. */
CLATTN_INLINE void differentiate(vec *s, vec *dp, ivec i, ivec j, vec lse, vec delta, uvec kept, float scale, bool some,
                                 const clattn_view *view)
{
    vec score = *s * scale - lse, gradient = *dp;
#if CLATTN_MODIFIES
    vec slope;
#if CLATTN_KERNEL == 2
    score = clattn_modified_grads(*s * scale, i, j, view, 0, &slope) - lse;
#else
    score = clattn_modified_grad(*s * scale, i, j, view, &slope) - lse;
#endif
#endif
    vec weight = exp2_scaled(score, M_LOG2E_F, -126.0f / M_LOG2E_F);
    if (some)
        weight = select(weight, (vec)(0.0f), clattn_hidden(i, j, view));
    vec dropped = weight;
#if CLATTN_DROPOUT
    const ivec taken = kept == (uvec)(0u);
    gradient = select(gradient * view->dropout_scale, (vec)(0.0f), taken);
    dropped = select(weight, (vec)(0.0f), taken);
#endif
    gradient = weight * (gradient - delta);
#if CLATTN_MODIFIES
    gradient *= slope;
#endif
    *s = dropped;
    *dp = select(gradient, (vec)(0.0f), weight == (vec)(0.0f)); /* whatever is not finite behind a hidden pair */
}

/* All pairs of a panel and the streamed rows (keys) first + from .. first + to - 1. lane: the panel's first row (key).
 */
CLATTN_INLINE void differentiate_panel(const arrays *a, int panel, int lane, int first, int from, int to, float scale,
                                       bool some, const clattn_view *view)
{
#if CLATTN_DROPOUT && !LANES_ARE_KEYS
    uvec words[KEPT_WORDS * RV];
    for (int base = (first + from) & ~31; base < first + to; base += 32) {
        for (int r = 0; r < RV; ++r)
            words[((base >> 5) - (first >> 5)) * RV + r] = kept_keys(lane_numbers() + (lane + r * W), base, view);
    }
#endif
    for (int t = from; t < to; ++t) {
        #pragma unroll
        for (int r = 0; r < RV; ++r) {
            const ivec lanes = lane_numbers() + (lane + r * W), other = (ivec)(first + t);
            uvec kept = (uvec)(0u);
#if LANES_ARE_KEYS
#if CLATTN_DROPOUT
            const int key = lane + r * W, block_first = lane - panel * PANEL;
            const int words = t * KEPT_WORDS - (block_first >> 5);
            kept = (uvec)(a->kept[words + (key >> 5)]);
#if CLATTN_STATE /* with chunks a vector may begin in one 32 and end in the next */
            kept = select(kept, (uvec)(a->kept[words + ((key + W - 1) >> 5)]), (lanes >> 5) != (ivec)(key >> 5));
#endif
            kept &= (uvec)(1u) << as_uvec(lanes & (ivec)(31));
#endif
            differentiate(a->s + t * RV + r, a->dp + t * RV + r, other, lanes, (vec)(a->lse[t]), (vec)(a->delta[t]),
                          kept, scale, some, view);
#else
#if CLATTN_DROPOUT
            kept = words[(((first + t) >> 5) - (first >> 5)) * RV + r] & (1u << (uint)((first + t) & 31));
#endif
            differentiate(a->s + t * RV + r, a->dp + t * RV + r, lanes, other, a->lse[panel * RV + r],
                          a->delta[panel * RV + r], kept, scale, some, view);
#endif
        }
    }
}

/* The streamed rows (keys) from first on that lanes `lane` to `last` can see, or be seen by, of those up to most. */
CLATTN_INLINE int range_begin(int lane, const clattn_view *view)
{
#if LANES_ARE_KEYS
    return clattn_row_begin(lane, view);
#else
    return clattn_key_begin(lane, view);
#endif
}

CLATTN_INLINE int range_end(int last, const clattn_view *view)
{
#if LANES_ARE_KEYS
    return clattn_row_end(last, view);
#else
    return clattn_key_end(last, view);
#endif
}

CLATTN_INLINE int tile_kind(int lane, int last, int first, int end, const clattn_view *view)
{
#if LANES_ARE_KEYS
    return clattn_tile(first, end - 1, lane, last, view);
#else
    return clattn_tile(lane, last, first, end - 1, view);
#endif
}

/* Scores and dP of a panel; the first panel to need a streamed row fetches it, so that the loads hide behind
 * arithmetic. */
CLATTN_INLINE int score_panel(const arrays *a, const streamed *in, int panel, int first, int from, int to, int loaded)
{
    for (int t = from / MICRO * MICRO; t < to; t += MICRO) {
        if (t >= loaded) {
            load_streamed(a, in, first, t);
            loaded = t + MICRO;
        }
        score_tile(a->s + t * RV, a->tile + t * D_STRIDE, CLATTN_D, D_STRIDE, a->block + panel * (D_STRIDE * RV));
        score_tile(a->dp + t * RV, a->tile_v + t * D_V_STRIDE, CLATTN_D_V, D_V_STRIDE,
                   a->block_v + panel * (D_V_STRIDE * RV));
    }
    return loaded;
}

/* What the panel's weights and dS add to the outputs. */
CLATTN_INLINE void add_panel(const arrays *a, int panel, int from, int count, bool may_leak)
{
#if CLATTN_KERNEL == 2
    for (int t = 0; t < count; ++t) {
        #pragma unroll
        for (int r = 0; r < RV; ++r)
            a->out[(t * PANELS + panel) * RV + r] += a->dp[(from + t) * RV + r];
    }
#else
    const float *tile = a->tile + from * D_STRIDE;
    if (a->out)
        output_panel(a->out + panel * (D_STRIDE * RV), tile, CLATTN_D, D_STRIDE, a->dp + from * RV, 0, count,
                     may_leak && !all_finite(tile, count * D_STRIDE));
#if CLATTN_KERNEL == 1
    const float *tile_v = a->tile_v + from * D_V_STRIDE;
    if (a->out_v)
        output_panel(a->out_v + panel * (D_V_STRIDE * RV), tile_v, CLATTN_D_V, D_V_STRIDE, a->s + from * RV, 0, count,
                     may_leak && !all_finite(tile_v, count * D_V_STRIDE));
#endif
#endif
}

/* One tile: the streamed rows (keys) first .. end - 1 and a block of `count` lanes from `lane` on. out_first: where
 * a->out begins. */
CLATTN_INLINE void add_tile(const arrays *a, const streamed *in, int lane, int count, int first, int end, int out_first,
                            float scale, const clattn_view *view)
{
    int loaded = 0;
#if LANES_ARE_KEYS
    load_row_statistics(a, in, first, lane, view);
#endif
    for (int panel = 0; panel * PANEL < count; ++panel) {
        const int panel_first = lane + panel * PANEL;
#if LANES_ARE_KEYS && (CLATTN_KEY_LENGTHS || CLATTN_VARLEN || CLATTN_STATE)
        const int panel_last =
            panel_first + PANEL - 1; /* what follows, whose gradients may be stored too, has to be hidden */
#else
        const int panel_last = min(panel_first + PANEL, lane + count) - 1;
#endif
        const int from = max(range_begin(panel_first, view), out_first) - first;
        const int to = min(range_end(panel_last, view), end) - first;
        if (max(from, 0) >= to)
            continue;
        const int seen = max(from, 0), kind = tile_kind(panel_first, panel_last, first + seen, first + to, view);
        if (kind == CLATTN_TILE_SKIP)
            continue;
        const bool some = kind == CLATTN_TILE_SOME;
        loaded = score_panel(a, in, panel, first, seen, to, loaded);
        differentiate_panel(a, panel, panel_first, first, seen, to, scale, some, view);
        arrays at = *a;
#if CLATTN_KERNEL == 2
        at.out += (first + seen - out_first) * (PANELS * RV);
#endif
        add_panel(&at, panel, seen, to - seen, some || CLATTN_ZEROES);
    }
}

/* Which block of which head a group has. Heads are outermost and the blocks of a head alternate between the end and the
 * beginning of the sequence, so that under a causal mask every run of groups has its fair share. */
CLATTN_INLINE int block_of(int group, int blocks, int *head)
{
    *head = group / blocks;
    const int turn = group - *head * blocks; /* not %: beside / it becomes a freeze, which Oclgrind lacks */
    return (turn & 1) ? turn / 2 : blocks - 1 - turn / 2;
}

#if LANES_ARE_KEYS
/* Q and dO of a head as what streams. */
CLATTN_INLINE streamed rows_of(__global const clattn_storage *q, __global const clattn_storage *d_o,
                               __global const float *lse, __global const float *delta, const clattn_backward_params *p,
                               const clattn_view *view)
{
    const streamed in = {.in = q + clattn_at(p->q, view->b, view->h, view->row_base),
                         .in_v = d_o + clattn_at(p->d_o, view->b, view->h, view->row_base),
                         .row = p->q.row,
                         .column = p->q.column,
                         .row_v = p->d_o.row,
                         .column_v = p->d_o.column,
                         .count = view->n_q,
                         .lse = lse + clattn_at(p->lse, view->b, view->h, view->row_base),
                         .delta = delta + clattn_at(p->delta, view->b, view->h, view->row_base),
                         .lse_row = p->lse.row,
                         .delta_row = p->delta.row};
    return in;
}

/* `count` keys from `first` on as the stationary block. */
CLATTN_INLINE void load_keys(const arrays *a, __global const clattn_storage *k, __global const clattn_storage *v,
                             const clattn_backward_params *p, const clattn_view *view, int first, int count)
{
    const int kv_head = view->h / (p->heads / p->kv_heads);
    load_block(a->block, a->tile, k + clattn_at(p->k, view->b, kv_head, view->key_base + first), p->k.row, p->k.column,
               CLATTN_D, D_STRIDE, count, 1.0f);
    load_block(a->block_v, a->tile_v, v + clattn_at(p->v, view->b, kv_head, view->key_base + first), p->v.row,
               p->v.column, CLATTN_D_V, D_V_STRIDE, count, 1.0f);
}
#endif

/* Every kernel's arrays. */
#define DECLARE_ARRAYS(out_vectors, out_v_vectors)                                                                     \
    vec block[PANELS * D_STRIDE * RV], block_v[PANELS * D_V_STRIDE * RV];                                              \
    vec tile[CLATTN_STREAM * D_STRIDE / W], tile_v[CLATTN_STREAM * D_V_STRIDE / W];                                    \
    vec s[CLATTN_STREAM * RV], dp[CLATTN_STREAM * RV];                                                                 \
    vec out[out_vectors], out_v[out_v_vectors];                                                                        \
    arrays a;                                                                                                          \
    a.block = block;                                                                                                   \
    a.block_v = block_v;                                                                                               \
    a.tile = (float *)tile;                                                                                            \
    a.tile_v = (float *)tile_v;                                                                                        \
    a.s = s;                                                                                                           \
    a.dp = dp;                                                                                                         \
    a.out = out;                                                                                                       \
    a.out_v = out_v
#if CLATTN_DROPOUT
#define DECLARE_ROW_ARRAYS                                                                                             \
    float tile_lse[CLATTN_STREAM], tile_delta[CLATTN_STREAM];                                                          \
    uint kept[CLATTN_STREAM * KEPT_WORDS];                                                                             \
    a.lse = tile_lse;                                                                                                  \
    a.delta = tile_delta;                                                                                              \
    a.kept = kept
#else
#define DECLARE_ROW_ARRAYS                                                                                             \
    float tile_lse[CLATTN_STREAM], tile_delta[CLATTN_STREAM];                                                          \
    a.lse = tile_lse;                                                                                                  \
    a.delta = tile_delta
#endif

#if CLATTN_KERNEL == 0
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
clattn_dq(__global const clattn_storage *q, __global const clattn_storage *k, __global const clattn_storage *v,
          __global const clattn_storage *d_o, __global const float *lse, __global const float *delta,
          __global clattn_sum *d_q, const clattn_backward_params p CLATTN_SCORE_PARAMETERS)
{
    int bh;
    const int first = block_of((int)get_group_id(0), (p.n_q + BLOCK - 1) / BLOCK, &bh) * BLOCK;
    const int b = bh / p.heads, h = bh - b * p.heads, kv_head = h / (p.heads / p.kv_heads);
    const clattn_view view = clattn_open(b, h, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
    if (first >= view.n_q)
        return;
    const int count = min(BLOCK, view.n_q - first);
    const long row = view.row_base + first;

    DECLARE_ARRAYS(PANELS * D_STRIDE * RV, 1);
    vec row_lse[PANELS * RV], row_delta[PANELS * RV];
    a.lse = row_lse;
    a.delta = row_delta;
    load_block(block, a.tile, q + clattn_at(p.q, b, h, row), p.q.row, p.q.column, CLATTN_D, D_STRIDE, count, 1.0f);
    load_block(block_v, a.tile_v, d_o + clattn_at(p.d_o, b, h, row), p.d_o.row, p.d_o.column, CLATTN_D_V, D_V_STRIDE,
               count, 1.0f);
    for (int i = 0; i < ROUND_UP(count, PANEL); ++i) {
        ((float *)row_lse)[i] = i < count ? subtrahend(lse[clattn_at(p.lse, b, h, row + i)]) : INFINITY;
        ((float *)row_delta)[i] = i < count ? delta[clattn_at(p.delta, b, h, row + i)] : 0.0f;
    }
    zero_vectors(out, PANELS * D_STRIDE * RV);

    const int end = clattn_key_end(first + count - 1, &view);
    const streamed in = {.in = k + clattn_at(p.k, b, kv_head, view.key_base),
                         .in_v = v + clattn_at(p.v, b, kv_head, view.key_base),
                         .row = p.k.row,
                         .column = p.k.column,
                         .row_v = p.v.row,
                         .column_v = p.v.column,
                         .count = end};
    const int before = (clattn_key_begin(first, &view) - view.first_key) / CLATTN_STREAM * CLATTN_STREAM;
    for (int j0 = view.first_key + before; j0 < end; j0 += CLATTN_STREAM)
        add_tile(&a, &in, first, count, j0, min(end, j0 + CLATTN_STREAM), 0, p.scale, &view);
    for (int i = 0; i < count; i += W) {
        panel_to_rows(a.tile, out + vector_of(i, D_STRIDE), D_STRIDE, (vec)(p.scale));
        for (int r = 0; r < min(W, count - i); ++r)
            put_row(d_q + clattn_at(p.d_q, b, h, row + i + r), p.d_q.column, a.tile + r * D_STRIDE, CLATTN_D);
    }
}

#elif CLATTN_KERNEL == 1
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
clattn_dk_dv(__global const clattn_storage *q, __global const clattn_storage *k, __global const clattn_storage *v,
             __global const clattn_storage *d_o, __global const float *lse, __global const float *delta,
             __global clattn_storage *d_k, __global clattn_storage *d_v,
             const clattn_backward_params p CLATTN_SCORE_PARAMETERS)
{
    int bh;
    const int number = block_of((int)get_group_id(0), (p.n_kv + BLOCK - 1) / BLOCK, &bh);
    const int b = bh / p.kv_heads, kv_head = bh - b * p.kv_heads, group = p.heads / p.kv_heads;
    const clattn_view any = clattn_open(b, kv_head * group, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
    const int first = any.first_key + number * BLOCK;
    if (first >= any.keys)
        return;
    const int count = min(BLOCK, any.keys - first); /* to be written: those that no row may see get 0 */
    const int seen = min(count, any.n_kv - first);

    DECLARE_ARRAYS(PANELS * D_STRIDE * RV, PANELS * D_V_STRIDE * RV);
    DECLARE_ROW_ARRAYS;
    load_keys(&a, k, v, &p, &any, first, count);
    zero_vectors(out, PANELS * D_STRIDE * RV);
    zero_vectors(out_v, PANELS * D_V_STRIDE * RV);
    a.out = d_k ? out : 0;
    a.out_v = d_v ? out_v : 0;

    for (int h = kv_head * group; h < (kv_head + 1) * group; ++h) {
        const clattn_view view = clattn_open(b, h, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
        const streamed in = rows_of(q, d_o, lse, delta, &p, &view);
        const int end = clattn_row_end(first + seen - 1, &view);
        for (int i0 = clattn_row_begin(first, &view) / CLATTN_STREAM * CLATTN_STREAM; i0 < end; i0 += CLATTN_STREAM)
            add_tile(&a, &in, first, seen, i0, min(end, i0 + CLATTN_STREAM), 0, p.scale, &view);
    }
    const long key = any.key_base + first;
    if (d_k)
        store_block(d_k + clattn_at(p.d_k, b, kv_head, key), p.d_k.row, p.d_k.column, CLATTN_D, a.tile, out, D_STRIDE,
                    count, p.scale);
    float factor = 1.0f;
#if CLATTN_DROPOUT
    factor = any.dropout_scale;
#endif
    if (d_v)
        store_block(d_v + clattn_at(p.d_v, b, kv_head, key), p.d_v.row, p.d_v.column, CLATTN_D_V, a.tile_v, out_v,
                    D_V_STRIDE, count, factor);
}

#else
/* dS of some rows, and keys from first_key on, to their places. */
CLATTN_INLINE void put_d_bias(__global clattn_sum *d_bias, const clattn_layout *at, int b, int h, int first_row, int rows,
                              int first_key, int keys, const vec *out)
{
    for (int i = 0; i < rows; ++i)
        put_row(d_bias + clattn_at(*at, b, h, first_row + i) + first_key * at->column, at->column,
                (const float *)(out + i * (PANELS * RV)), keys);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
clattn_d_bias(__global const clattn_storage *q, __global const clattn_storage *k, __global const clattn_storage *v,
              __global const clattn_storage *d_o, __global const float *lse, __global const float *delta,
              __global clattn_sum *d_bias, const clattn_backward_params p,
              const clattn_layout at CLATTN_SCORE_PARAMETERS)
{
#if CLATTN_STATE
    const int columns = score_params.keys;
#else
    const int columns = p.n_kv;
#endif
    const int t_r = (p.n_q + CLATTN_B_R - 1) / CLATTN_B_R, t_c = (columns + BLOCK - 1) / BLOCK;
    const int bias_heads = at.head ? p.heads : 1;
    const int group = (int)get_group_id(0);
    const int bias_head_rows = group / t_c, key_block = group - bias_head_rows * t_c;
    const int bias_bh = bias_head_rows / t_r, row_block = bias_head_rows - bias_bh * t_r;
    const int bias_b = bias_bh / bias_heads, bias_h = bias_bh - bias_b * bias_heads;
    const int first_row = row_block * CLATTN_B_R, first_key = key_block * BLOCK;
    const int rows = min(CLATTN_B_R, p.n_q - first_row), keys = min(BLOCK, columns - first_key);
    int held = first_key; /* the key of the first lane of what `out` holds */

    DECLARE_ARRAYS(CLATTN_B_R * PANELS * RV, 1);
    DECLARE_ROW_ARRAYS;
    zero_vectors(out, CLATTN_B_R * PANELS * RV);

    /* All that share this bias. */
    const int b_end = at.batch ? bias_b + 1 : p.batch, h_end = at.head ? bias_h + 1 : p.heads;
    for (int b = bias_b; b < b_end; ++b) {
        for (int h = bias_h; h < h_end; ++h) {
            const clattn_view view = clattn_open(b, h, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
            const int from = max(first_key, view.first_key);
            const int count = min(first_key + keys, view.n_kv) - from, end = min(first_row + rows, view.n_q);
            if (count <= 0 || first_row >= end)
                continue;
#if CLATTN_STATE
            if (from != held) { /* the chunk begins within the present sequence, or within the one before */
                put_d_bias(d_bias, &at, bias_b, bias_h, first_row, rows, held, first_key + keys - held, out);
                zero_vectors(out, CLATTN_B_R * PANELS * RV);
                held = from;
            }
#endif
            load_keys(&a, k, v, &p, &view, from, count);
            const streamed in = rows_of(q, d_o, lse, delta, &p, &view);
            for (int i0 = first_row; i0 < end; i0 += CLATTN_STREAM)
                add_tile(&a, &in, from, count, i0, min(end, i0 + CLATTN_STREAM), first_row, p.scale, &view);
        }
    }
    put_d_bias(d_bias, &at, bias_b, bias_h, first_row, rows, held, first_key + keys - held, out);
}
#endif
