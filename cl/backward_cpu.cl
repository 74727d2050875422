/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Backward attention for a CPU: one work-item per block, explicit vectors, no barriers. Scores S and
 * weights P = exp(S - m) / l are computed again, tile by tile; with dP = dO V^T (dropout's scale times, and 0 where
 * that took P),
 *     dS = P (dP - delta) S',  dQ = scale dS K,  dK = scale dS^T Q,  dV = P^T dO,  dbias = sum of P (dP - delta) S''
 * where S' and S'' are the derivatives of the modified score by the scaled one and by the bias, and dV's P is without
 * what dropout took.
 *
 * With CLATTN_FUSED kernel 1 forms dQ as well, and S, dP, P and dS once for all gradients (common/cpu_fused.clh):
 *               dQ += dS K
 * and kernel 0 adds up what work-groups have left of dQ, where several share a head.
 *
 * One text for all kernels: a block of one side is stationary, the other side streams past (common/cpu_gradients.clh).
 * Each side has two tensors, one of d columns, whose products are scores, and one of d_v columns, whose products are
 * dP:
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
 *   CLATTN_FUSED     1: see above; not with CLATTN_STATE. Else 0.
 *   CLATTN_B_R       a multiple of VECTOR_WIDTH * ROW_VECTORS: rows of a block.
 *   CLATTN_B_C       the same for keys.
 *   CLATTN_STREAM    a multiple of MICRO, at least VECTOR_WIDTH: rows or keys of a streamed tile.
 *
 * NDRange, work-groups of one work-item
 *     0: batch * heads * ceil(n_q / B_R);  1: batch * kv_heads * ceil(n_kv / B_C);
 *     with CLATTN_FUSED 1: batch * kv_heads * p.shares
 *     2: bias batch * bias heads * ceil(n_q / B_R) * ceil(n_kv / B_C).
 * Private arrays, in floats, with d' and d_v' as D_STRIDE and D_V_STRIDE, B the stationary block and panel
 * VECTOR_WIDTH * ROW_VECTORS: STREAM (d' + d_v' + 2 panel) + B (d' + d_v') and, by kernel,
 * B d', B (d' + d_v') or B_R B_C. No local memory.
 */
#define CLATTN_FETCH 0 /* what streams is asked for between panels: ask_for_streamed() of cpu_gradients.clh */
#include "common/types.clh"
#include "common/lanes.clh"
#include "common/view.clh"
#include "common/cpu_tiles.clh"
#include "common/cpu_gradients.clh"

#if CPU_ITEMS == 1
#define DECLARE_TURNED                                                                                                 \
    a.turned = a.tile;                                                                                                 \
    a.turned_v = a.tile_v
#else
#define DECLARE_TURNED                                                                                                 \
    cpu_cell turned[CLATTN_STREAM * D_ITEMS / W], turned_v[CLATTN_STREAM * D_V_ITEMS / W];                             \
    a.turned = (cpu_item *)turned;                                                                                     \
    a.turned_v = (cpu_item *)turned_v
#endif

/* Every kernel's arrays. */
#define DECLARE_ARRAYS(out_vectors, out_v_vectors)                                                                     \
    cpu_cell block[PANELS * D_ITEMS * RV], block_v[PANELS * D_V_ITEMS * RV];                                           \
    cpu_cell tile[CLATTN_STREAM * D_ITEMS / W], tile_v[CLATTN_STREAM * D_V_ITEMS / W];                                 \
    cpu_cell weights[WEIGHT_ROOM(CLATTN_STREAM)];                                                                      \
    vec s[CLATTN_STREAM * RV], dp[CLATTN_STREAM * RV];                                                                 \
    vec out[out_vectors], out_v[out_v_vectors];                                                                        \
    arrays a;                                                                                                          \
    a.block = block;                                                                                                   \
    a.block_v = block_v;                                                                                               \
    a.tile = (cpu_item *)tile;                                                                                         \
    a.tile_v = (cpu_item *)tile_v;                                                                                     \
    a.weights = weights;                                                                                               \
    a.s = s;                                                                                                           \
    a.dp = dp;                                                                                                         \
    a.out = out;                                                                                                       \
    a.out_v = out_v;                                                                                                   \
    DECLARE_TURNED
#if CLATTN_DROPOUT
#define DECLARE_ROW_ARRAYS                                                                                             \
    clattn_row tile_statistics[CLATTN_STREAM];                                                                         \
    uint kept[CLATTN_STREAM * KEPT_WORDS];                                                                             \
    a.rows = tile_statistics;                                                                                          \
    a.kept = kept
#else
#define DECLARE_ROW_ARRAYS                                                                                             \
    clattn_row tile_statistics[CLATTN_STREAM];                                                                         \
    a.rows = tile_statistics
#endif

/* W rows of floats in the room of a streamed tile, when all have passed. */
#define ROW_SCRATCH(tile) ((float *)(tile))
#if CLATTN_DOT && CLATTN_STREAM < 2 * CLATTN_VECTOR_WIDTH
#error "with CLATTN_DOT CLATTN_STREAM must be at least 2 * CLATTN_VECTOR_WIDTH: results go by way of tiles"
#endif

#if SUMS_PAIRS
#define DECLARE_SUMS                                                                                                   \
    vec_sums sums[PANELS * RV];                                                                                        \
    a.sums = sums
#else
#define DECLARE_SUMS
#endif

#if CLATTN_KERNEL == 0 && CLATTN_FUSED
/* Where `again` is not NULL it is the workspace, and those heads alone are computed whose words say so. */
__kernel CLATTN_ONE_ITEM void
clattn_dq(__global float *workspace, __global const float *again, __global clattn_sum_q *d_q,
          const clattn_backward_params p CLATTN_SCORE_PARAMETERS)
{
    int bh;
    const int first = block_of((int)get_group_id(0), (p.n_q + BLOCK - 1) / BLOCK, &bh) * BLOCK;
    const int b = bh / p.heads, h = bh - b * p.heads;
    const clattn_view view = clattn_open(b, h, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
    __global int *const word = (__global int *)workspace + p.flags + b * p.kv_heads + h / (p.heads / p.kv_heads);
    if (first >= view.n_q || (again && !*word))
        return;
    if (finish_rows(workspace, d_q, &p, first, min(BLOCK, view.n_q - first), !again, &view))
        atomic_or(word, 1);
}

#elif CLATTN_KERNEL == 0
__kernel CLATTN_ONE_ITEM void
clattn_dq(__global const clattn_q *q, __global const clattn_k *k, __global const clattn_v *v,
          __global const clattn_storage *d_o, __global float *workspace, __global clattn_sum_q *d_q,
          const clattn_backward_params p CLATTN_SCORE_PARAMETERS)
{
    int bh;
    const int first = block_of((int)get_group_id(0), (p.n_q + BLOCK - 1) / BLOCK, &bh) * BLOCK;
    const int b = bh / p.heads, h = bh - b * p.heads, kv_head = h / (p.heads / p.kv_heads);
    const clattn_view view = clattn_open(b, h, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
    if (first >= view.n_q)
        return;
    const int count = min(BLOCK, view.n_q - first);
    const long row = view.row_base + first;
    cpu_open_unit();

    DECLARE_ARRAYS(PANELS * D_STRIDE * RV, 1);
    a.out = d_q ? out : 0;
    vec row_top[PANELS * RV], row_share[PANELS * RV], row_delta[PANELS * RV];
    DECLARE_SUMS;
    a.top = row_top;
    a.share = row_share;
    a.delta = row_delta;
    const clattn_source q_rows = clattn_open_rows(q, CLATTN_Q_TYPE, p.q, CLATTN_D, 1, &view);
    const clattn_source do_rows = clattn_open_rows(d_o, CLATTN_DTYPE, p.d_o, CLATTN_D_V, 1, &view);
    load_block(block, a.tile, &q_rows, first, CLATTN_D, D_ITEMS, count);
    load_block(block_v, a.tile_v, &do_rows, first, CLATTN_D_V, D_V_ITEMS, count);
    __global float *const statistics = workspace + clattn_at(p.statistics, b, h, row);
    for (int i = 0; i < ROUND_UP(count, PANEL); ++i) {
        const clattn_row of = i < count ? clattn_read_row(statistics + i * CLATTN_STATISTICS) : clattn_no_row();
        ((float *)row_top)[i] = of.top;
        ((float *)row_share)[i] = of.share;
        ((float *)row_delta)[i] = of.delta;
    }

    const int end = clattn_key_end(first + count - 1, &view);
    const streamed in = {.in = clattn_open_keys(k, CLATTN_K_TYPE, p.k, CLATTN_D, 1, kv_head, &view),
                         .in_v = clattn_open_keys(v, CLATTN_V_TYPE, p.v, CLATTN_D_V, 1, kv_head, &view),
                         .count = end};
    const int before = (clattn_key_begin(first, &view) - view.first_key) / CLATTN_STREAM * CLATTN_STREAM;
    for (bool again = true, mended = false; again; mended = true) {
        begin_sums(&a);
        for (int j0 = view.first_key + before; j0 < end; j0 += CLATTN_STREAM)
            add_tile(&a, &in, first, count, j0, min(end, j0 + CLATTN_STREAM), 0, p.scale, &view);
        again = !mended && mend_deltas(&a, statistics, first, count, &view) && d_q;
    }
    cpu_close_unit();
    for (int i = 0; i < count && d_q; i += W) {
        panel_to_rows(ROW_SCRATCH(a.tile), out + vector_of(i, D_STRIDE), D_STRIDE, (vec)(p.scale));
        for (int r = 0; r < min(W, count - i); ++r)
            put_row(d_q, CLATTN_Q_TYPE, clattn_at(p.d_q, b, h, row + i + r), p.d_q.column,
                    ROW_SCRATCH(a.tile) + r * D_STRIDE, CLATTN_D);
    }
}

#elif CLATTN_KERNEL == 1
/* What the kernel of keys is given. */
typedef struct {
    __global const clattn_q *q;
    __global const clattn_k *k;
    __global const clattn_v *v;
    __global const clattn_storage *d_o;
    __global float *workspace;
    __global clattn_k *d_k;
    __global clattn_v *d_v;
} tensors;

/* dK and dV of block `number` of the head of keys that `any` is of; and what it adds to dQ. */
CLATTN_INLINE void add_keys(const arrays *a, const tensors *at, int number, int kv_head, int share,
                            const clattn_view *any, const clattn_backward_params p CLATTN_SCORE_PARAMETERS)
{
    const int first = any->first_key + number * BLOCK, group = p.heads / p.kv_heads;
    if (first >= any->keys)
        return;
    const int count = min(BLOCK, any->keys - first); /* to be written: those that no row may see get 0 */
    const int seen = min(count, any->n_kv - first);
    cpu_open_unit();
    load_keys(a, at->k, at->v, &p, any, first, count);
    if (a->out)
        zero_vectors(a->out, PANELS * D_STRIDE * RV);
    if (a->out_v)
        zero_vectors(a->out_v, PANELS * D_V_STRIDE * RV);

    for (int h = kv_head * group; h < (kv_head + 1) * group; ++h) {
        const clattn_view view = clattn_open(any->b, h, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
        streamed in = rows_of(at->q, at->d_o, at->workspace, &p, &view);
#if CLATTN_FUSED
        in.sums = sums_of(at->workspace, &p, share, &view);
#endif
        const int end = clattn_row_end(first + seen - 1, &view);
        for (int i0 = clattn_row_begin(first, &view) / CLATTN_STREAM * CLATTN_STREAM; i0 < end; i0 += CLATTN_STREAM)
            add_tile(a, &in, first, seen, i0, min(end, i0 + CLATTN_STREAM), 0, p.scale, &view);
    }
    cpu_close_unit();
    const long key = any->key_base + first;
    if (at->d_k)
        store_block(at->d_k, CLATTN_K_TYPE, clattn_at(p.d_k, any->b, kv_head, key), p.d_k.row, p.d_k.column, CLATTN_D,
                    ROW_SCRATCH(a->tile), a->out, D_STRIDE, count, p.scale);
    float factor = 1.0f;
#if CLATTN_DROPOUT
    factor = any->dropout_scale;
#endif
    if (at->d_v)
        store_block(at->d_v, CLATTN_V_TYPE, clattn_at(p.d_v, any->b, kv_head, key), p.d_v.row, p.d_v.column, CLATTN_D_V,
                    ROW_SCRATCH(a->tile_v), a->out_v, D_V_STRIDE, count, factor);
}

#if CLATTN_FUSED
/* A work-group's sums before the first block of keys. */
CLATTN_INLINE void begin_heads(__global float *workspace, int b, int kv_head, int share,
                               const clattn_backward_params p CLATTN_SCORE_PARAMETERS)
{
    const int group = p.heads / p.kv_heads;
    for (int h = kv_head * group; h < (kv_head + 1) * group; ++h) {
        const clattn_view view = clattn_open(b, h, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
        const row_sums sums = sums_of(workspace, &p, share, &view);
        clear_sums(&sums, view.n_q);
    }
}

/* dQ of all its rows, where it has all blocks of keys. Whether all is to be computed again. */
CLATTN_INLINE bool finish_heads(__global float *workspace, __global clattn_q *d_q, int b, int kv_head, bool mends,
                                const clattn_backward_params p CLATTN_SCORE_PARAMETERS)
{
    const int group = p.heads / p.kv_heads;
    bool again = false;
    for (int h = kv_head * group; h < (kv_head + 1) * group; ++h) {
        const clattn_view view = clattn_open(b, h, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
        for (int i = 0; i < view.n_q; i += CLATTN_B_R)
            again = finish_rows(workspace, d_q, &p, i, min(CLATTN_B_R, view.n_q - i), mends, &view) || again;
    }
    return again;
}

#define DECLARE_FUSED_ARRAYS                                                                                           \
    cpu_cell keys[PANELS * ROW_GROUPS * KEY_CELLS];                                                                    \
    vec d_rows[CLATTN_STREAM * ROW_GROUPS * RV];                                                                       \
    vec_sums sums[CLATTN_STREAM];                                                                                      \
    bool keys_finite[PANELS];                                                                                          \
    a.keys = keys;                                                                                                     \
    a.keys_finite = keys_finite;                                                                                       \
    a.sums = sums;                                                                                                     \
    a.d_rows = d_q ? d_rows : 0

/* A share of the blocks of keys of a head. */
CLATTN_INLINE void add_share(const tensors at, __global const float *again, __global clattn_q *d_q, int head, int share,
                             const clattn_backward_params p CLATTN_SCORE_PARAMETERS)
{
    const int b = head / p.kv_heads, kv_head = head - b * p.kv_heads, group = p.heads / p.kv_heads;
    const int blocks = (p.n_kv + BLOCK - 1) / BLOCK;
    __global int *const word = (__global int *)at.workspace + p.flags + head;
    if (again && !*word)
        return;
    if (!again && !share)
        *word = 0;
    const clattn_view any = clattn_open(b, kv_head * group, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);

    DECLARE_ARRAYS(PANELS * D_STRIDE * RV, PANELS * D_V_STRIDE * RV);
    DECLARE_ROW_ARRAYS;
    DECLARE_FUSED_ARRAYS;
    a.out = at.d_k ? out : 0;
    a.out_v = at.d_v ? out_v : 0;
    bool mends = !again;
    for (bool more = true; more; mends = false) {
        begin_heads(at.workspace, b, kv_head, share, p CLATTN_SCORE_ARGUMENTS);
        /* Back and forth, as under a causal mask the first blocks have most rows. */
        for (int n = 0; n * p.shares < blocks; ++n) {
            const int number = n * p.shares + (n & 1 ? p.shares - 1 - share : share);
            if (number < blocks)
                add_keys(&a, &at, number, kv_head, share, &any, p CLATTN_SCORE_ARGUMENTS);
        }
        more = p.shares == 1 && finish_heads(at.workspace, d_q, b, kv_head, mends, p CLATTN_SCORE_ARGUMENTS);
    }
}

/* Where `again` is not NULL it is the workspace: see clattn_dq. Shares go to whoever is free: the word at p.tickets, 0
 * at first, says how many have been taken, and the one behind it how many of those to be computed again. PoCL gives
 * each thread work-groups in runs, so that a call took as long as the slowest core; a thread's first work-group takes
 * shares as long as there are any. Which thread has a share is nothing to its sums. */
__kernel CLATTN_ONE_ITEM void
clattn_dk_dv(__global const clattn_q *q, __global const clattn_k *k, __global const clattn_v *v,
             __global const clattn_storage *d_o, __global float *workspace, __global const float *again,
             __global clattn_sum_q *d_q, __global clattn_k *d_k, __global clattn_v *d_v,
             const clattn_backward_params p CLATTN_SCORE_PARAMETERS)
{
    const tensors at = {q, k, v, d_o, workspace, d_k, d_v};
    const uint all = (uint)(p.batch * p.kv_heads * p.shares);
    volatile __global uint *const taken = (volatile __global uint *)workspace + p.tickets + (again ? 1 : 0);
    for (uint ticket = atomic_inc(taken); ticket < all; ticket = atomic_inc(taken)) {
        const int head = (int)ticket / p.shares;
        add_share(at, again, d_q, head, (int)ticket - head * p.shares, p CLATTN_SCORE_ARGUMENTS);
    }
}

#else
__kernel CLATTN_ONE_ITEM void
clattn_dk_dv(__global const clattn_q *q, __global const clattn_k *k, __global const clattn_v *v,
             __global const clattn_storage *d_o, __global float *workspace,
             __global clattn_k *d_k, __global clattn_v *d_v,
             const clattn_backward_params p CLATTN_SCORE_PARAMETERS)
{
    int bh;
    const int number = block_of((int)get_group_id(0), (p.n_kv + BLOCK - 1) / BLOCK, &bh);
    const int b = bh / p.kv_heads, kv_head = bh - b * p.kv_heads, group = p.heads / p.kv_heads;
    const clattn_view any = clattn_open(b, kv_head * group, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
    const tensors at = {q, k, v, d_o, workspace, d_k, d_v};

    DECLARE_ARRAYS(PANELS * D_STRIDE * RV, PANELS * D_V_STRIDE * RV);
    DECLARE_ROW_ARRAYS;
    a.out = d_k ? out : 0;
    a.out_v = d_v ? out_v : 0;
    add_keys(&a, &at, number, kv_head, 0, &any, p CLATTN_SCORE_ARGUMENTS);
}
#endif

#else
/* dS of some rows, and keys from first_key on, to their places; or the sum over these rows. */
CLATTN_INLINE void put_d_bias(__global clattn_sum *d_bias, const clattn_layout *at, int b, int h, int first_row,
                              int rows, int first_key, int keys, vec *out)
{
    if (!at->row) {
        for (int i = PANELS * RV; i < rows * (PANELS * RV); ++i)
            out[i % (PANELS * RV)] += out[i];
        rows = 1;
    }
    for (int i = 0; i < rows; ++i)
        put_row(d_bias, CLATTN_DTYPE, clattn_at(*at, b, h, first_row + i) + first_key * at->column, at->column,
                (const float *)(out + i * (PANELS * RV)), keys);
}

__kernel CLATTN_ONE_ITEM void
clattn_d_bias(__global const clattn_q *q, __global const clattn_k *k, __global const clattn_v *v,
              __global const clattn_storage *d_o, __global const float *workspace,
              __global clattn_sum *d_bias, const clattn_backward_params p,
              const clattn_layout at CLATTN_SCORE_PARAMETERS)
{
#if CLATTN_STATE
    const int columns = score_params.keys;
#else
    const int columns = p.n_kv;
#endif
    const int t_r = at.row ? (p.n_q + CLATTN_B_R - 1) / CLATTN_B_R : 1, t_c = (columns + BLOCK - 1) / BLOCK;
    const int bias_heads = at.head ? p.heads : 1;
    const int group = (int)get_group_id(0);
    const int bias_head_rows = group / t_c, key_block = group - bias_head_rows * t_c;
    const int bias_bh = bias_head_rows / t_r, row_block = bias_head_rows - bias_bh * t_r;
    const int bias_b = bias_bh / bias_heads, bias_h = bias_bh - bias_b * bias_heads;
    const int first_row = row_block * CLATTN_B_R, first_key = key_block * BLOCK;
    const int rows = min(CLATTN_B_R, p.n_q - first_row), keys = min(BLOCK, columns - first_key);
    int held = first_key; /* the key of the first lane of what `out` holds */
    cpu_open_unit();

    DECLARE_ARRAYS(CLATTN_B_R * PANELS * RV, 1);
    DECLARE_ROW_ARRAYS;
    zero_vectors(out, CLATTN_B_R * PANELS * RV);

    /* All that share this bias. */
    const int b_end = at.batch ? bias_b + 1 : p.batch, h_end = at.head ? bias_h + 1 : p.heads;
    for (int b = bias_b; b < b_end; ++b) {
        for (int h = bias_h; h < h_end; ++h) {
            const clattn_view view = clattn_open(b, h, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
            const int from = max(first_key, view.first_key);
            const int count = min(first_key + keys, view.n_kv) - from;
            const int end = min(at.row ? first_row + rows : p.n_q, view.n_q); /* without rows of its own: of all */
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
            const streamed in = rows_of(q, d_o, workspace, &p, &view);
            for (int block = first_row; block < end; block += CLATTN_B_R) {
                const int last = min(end, block + CLATTN_B_R);
                for (int i0 = block; i0 < last; i0 += CLATTN_STREAM)
                    add_tile(&a, &in, from, count, i0, min(last, i0 + CLATTN_STREAM), block, p.scale, &view);
            }
        }
    }
    cpu_close_unit();
    put_d_bias(d_bias, &at, bias_b, bias_h, first_row, rows, held, first_key + keys - held, out);
}
#endif
