/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Backward attention for every OpenCL 1.2 device: float arithmetic, barriers in uniform control flow only, no
 * sub-groups, no extensions, no atomics on floats. Scores S and weights P = exp(S - m) / l are computed again, tile by
 * tile; with dP = dO V^T (times dropout's scale, and 0 where that took P),
 *     dS = P (dP - delta) S',   dQ = scale dS K, dK = scale dS^T Q, dV = P^T dO, dbias = the sum of P (dP - delta) S''
 * where S' and S'' are the derivatives of the modified score by the scaled one and by the bias, and dV's P is without
 * what dropout took. Passage of tiles, and their products: common/simt_tiles.clh.
 *
 * Baked constants, beside those of simt_tiles.clh
 *   CLATTN_KERNEL   0 clattn_dq: a block of rows stays, keys stream past:         S, dP; dQ += dS K
 *                   1 clattn_dk_dv: a block of keys stays, rows stream past,
 *                     those of each query head of the key/value head in turn:     S^T; dV += P^T dO; dP^T; dK += dS^T Q
 *                   2 clattn_d_bias: one tile, for each batch element and head that shares the bias (those along which
 *                     d_bias has stride 0) in turn:                               S, dP; dbias += dS. RESIDENT is not
 *                                                                                 used
 *   CLATTN_LOCAL_BYTES   what the planner counts of local memory, the most of all kernels, which they compare with
 *                        their own
 *
 * Launch: 1-D, CLATTN_WORK_GROUP_SIZE items a group; groups: 0: batch * heads * ceil(n_q / B_R); 1: batch * kv_heads *
 * ceil(n_kv / B_C); 2: batches and heads of the bias * ceil(n_q / B_R) * ceil(n_kv / B_C).
 *
 * Local memory: 4 * SIMT_LOCAL_FLOATS bytes, below.
 */
#include "common/types.clh"
#include "common/view.clh"
#include "common/score.clh"
#include "common/delta.clh"
#include "common/simt_tiles.clh"
#include "score/fast/dropout_simt.clh"
#include "common/simt_gradients.clh"

/* What all kernels begin with. */
#define SIMT_BEGIN \
    __local float tile[SIMT_LOCAL_FLOATS] __attribute__((aligned(16))); \
    __local float *const tile_v = tile + SIMT_BLOCK_FLOATS(CLATTN_D), *const slices = tile + SIMT_BLOCKS_FLOATS; \
    __local float *const weights = slices + CLATTN_BUFFERS * SIMT_BUFFER; \
    volatile __local int *const flags = (volatile __local int *)(weights + SIMT_TILE_FLOATS); \
    const int lid = (int)get_local_id(0), group = (int)get_group_id(0); \
    const int patch = SIMT_DIV(lid, SIMT_LANES), lane = SIMT_MOD(lid, SIMT_LANES); \
    const int tx = SIMT_MOD(patch, TX / CLATTN_LANES_X) * CLATTN_LANES_X + SIMT_MOD(lane, CLATTN_LANES_X); \
    const int ty = SIMT_DIV(patch, TX / CLATTN_LANES_X) * CLATTN_LANES_Y + SIMT_DIV(lane, CLATTN_LANES_X); \
    int current = 0; \
    simt_raw carried[SIMT_CARRIED]; \
    simt_rows weight[RG][CS], slopes[RG][CS], change[RG][CS]; \
    uint dropped[SIMT_DROP_WORDS]; \
    SIMT_DECLARE_WAITING
#if CLATTN_KERNEL == 2
#define SIMT_DECLARE_WAITING simt_rows waiting[RG][CS];
#else
#define SIMT_DECLARE_WAITING
#endif

#if CLATTN_KERNEL == 0
#define SIMT_WORKSPACE float
#else
#define SIMT_WORKSPACE const float
#endif
#define SIMT_SIGNATURE \
    __global const clattn_q *q, __global const clattn_k *k, __global const clattn_v *v, \
        __global const clattn_storage *d_o, __global SIMT_WORKSPACE *workspace

#if CLATTN_KERNEL == 0
/* Rows of the block that an item mends, one after WORK_GROUP_SIZE others: fewer registers than all items' own rows. */
#define SIMT_MENDED ((CLATTN_B_R + CLATTN_WORK_GROUP_SIZE - 1) / CLATTN_WORK_GROUP_SIZE)
#define SIMT_MENDED_ROW(n) (lid + (n) * CLATTN_WORK_GROUP_SIZE)

/* What the TX items of a row hold apart is added up, for the rows that the item mends. Takes the tile of weights. */
CLATTN_INLINE void simt_sum_rows(__local float *weights, const simt_rows from[RG], int lid, int tx, int ty,
                                 float sums[SIMT_MENDED])
{
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL for (int g = 0; g < RG; ++g) SIMT_PUT(simt_rows, weights + tx * SIMT_BLOCK + (ty + TY * g) * RW, from[g]);
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL for (int n = 0; n < SIMT_MENDED; ++n) {
        sums[n] = 0.0f;
        if (SIMT_MENDED_ROW(n) < CLATTN_B_R)
            for (int t = 0; t < TX; ++t)
                sums[n] += weights[t * SIMT_BLOCK + SIMT_MENDED_ROW(n)];
    }
}

/* The deltas of the block's rows, here and in the workspace, become the better ones. Whether the group's dQ has to be
 * computed again by them. largest[0], [1]: 0. All items of the group call it. */
CLATTN_INLINE bool simt_mend_deltas(__local float *weights, const simt_sums *sums, __global float *workspace,
                                    clattn_layout at, int first, int lid, int tx, int ty, const clattn_view *view,
                                    simt_statistics *s, volatile __local int *largest)
{
#if SIMT_SUMS_PAIRS
    float weight[SIMT_MENDED], change[SIMT_MENDED], size[SIMT_MENDED];
    simt_sum_rows(weights, sums->weight, lid, tx, ty, weight);
    simt_sum_rows(weights, sums->change, lid, tx, ty, change);
    simt_sum_rows(weights, sums->size, lid, tx, ty, size);
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE); /* all have read the deltas that are written here */
    UNROLL for (int n = 0; n < SIMT_MENDED; ++n) {
        const int at_row = SIMT_MENDED_ROW(n), i = first + at_row;
        if (at_row < CLATTN_B_R) {
            const clattn_row row = simt_read_row(workspace, at, i, view);
            float delta = row.delta;
            const clattn_mending mending =
                clattn_mend_delta(&row, (clattn_pair_sums){weight[n], change[n], size[n]}, i, view, &delta);
            atomic_max(largest, as_int(mending.off)); /* floats that are not negative are in order as such */
            atomic_max(largest + 1, as_int(mending.size));
            weights[at_row] = delta;
            if (i < view->n_q)
                workspace[clattn_at(at, view->b, view->h, view->row_base + i)] = delta;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL for (int g = 0; g < RG; ++g) s->delta[g] = SIMT_GET(simt_rows, weights + (ty + TY * g) * RW);
    return clattn_matters((clattn_mending){as_float(largest[0]), as_float(largest[1])});
#else
    return false;
#endif
}

SIMT_KERNEL
clattn_dq(SIMT_SIGNATURE, __global clattn_sum_q *d_q, const clattn_backward_params p CLATTN_SCORE_PARAMETERS)
{
    SIMT_BEGIN
    /* Causal heads start with the longest rows. */
    const int row_blocks = (p.n_q + CLATTN_B_R - 1) / CLATTN_B_R;
    const int head = group / row_blocks, b = head / p.heads, h = head - b * p.heads;
    const int place = group - head * row_blocks, row0 = CLATTN_B_R * (CLATTN_CAUSAL ? row_blocks - 1 - place : place);
    const int kv_head = h / (p.heads / p.kv_heads);
    const clattn_view view = clattn_open(b, h, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
    const bool has_rows = !CLATTN_FEWER_ROWS || row0 < view.n_q; /* no group returns: see forward_simt.cl */
    const int key_end = has_rows ? clattn_key_end(min(row0 + CLATTN_B_R, view.n_q) - 1, &view) : 0;
    const int begin = simt_next(row0, clattn_key_begin(row0, &view) / CLATTN_B_C * CLATTN_B_C, key_end, &view);
    const clattn_source q_rows = clattn_open_rows(q, CLATTN_Q_TYPE, p.q, CLATTN_D, 4, &view);
    const clattn_source do_rows = clattn_open_rows(d_o, CLATTN_DTYPE, p.d_o, CLATTN_D_V, 4, &view);
    const clattn_source k_rows = clattn_open_keys(k, CLATTN_K_TYPE, p.k, CLATTN_D, 4, kv_head, &view);
    const clattn_source v_rows = clattn_open_keys(v, CLATTN_V_TYPE, p.v, CLATTN_D_V, 4, kv_head, &view);
    simt_statistics statistics = simt_read_statistics(workspace, p.statistics, row0, 0, tx, ty, &view);

    simt_rows out[RG * 4 * CV], part[RG * 4 * CV]; /* part: the present tiles' share */
    simt_sums sums;
    if (lid == 0)
        flags[0] = flags[1] = flags[2] = flags[3] = 0;
    if (SIMT_RESIDENT && begin < key_end) {
        simt_load_block(q_rows, row0, 0, SIMT_ROUNDED(CLATTN_D), lid, p.scale, tile);
        simt_load_block(do_rows, row0, 0, SIMT_ROUNDED(CLATTN_D_V), lid, 1.0f, tile_v);
    }

    int parity = 0;
    for (bool again = true, mended = false; again; mended = true) {
        int j0 = begin, tiles = 0;
        simt_zero(out, RG * 4 * CV);
        simt_zero(part, RG * 4 * CV);
        simt_begin_sums(&sums);
        if (j0 < key_end) {
            simt_fetch_columns(k_rows, j0, 0, lid, carried);
            SIMT_TURN(SIMT_COMMIT_COLUMNS(q_rows, row0, p.scale, k_rows, j0, 0));
        }
        while (j0 < key_end) {
            const bool some = simt_tile(row0, j0, &view) == CLATTN_TILE_SOME, guarded = some || CLATTN_ZEROES;
            const int tile_end = min(j0 + CLATTN_B_C, key_end);
            const int next = simt_next(row0, j0 + CLATTN_B_C, key_end, &view);
            SIMT_MULTIPLY_COLUMNS(weight, q_rows, row0, p.scale, tile, k_rows, j0, CLATTN_D, SIMT_SUM_COLUMNS,
                                  simt_fetch_columns(v_rows, j0, 0, lid, carried));
            SIMT_TURN(SIMT_COMMIT_COLUMNS(do_rows, row0, 1.0f, v_rows, j0, 0));
            simt_modify(row0, j0, tx, ty, &view, weight, slopes);
            simt_weigh(row0, j0, tx, ty, some, row0 + CLATTN_B_R > view.n_q, &statistics, &view, weight);
            if (SIMT_PARKS)
                simt_put_weights(weights, tx, ty, weight);

            SIMT_MULTIPLY_COLUMNS(change, do_rows, row0, 1.0f, tile_v, v_rows, j0, CLATTN_D_V, SIMT_SUM_CHANGE,
                                  simt_fetch_rows(k_rows, j0, CV, lid, carried));
#if CLATTN_DROPOUT
            simt_drop(row0, j0, tx, ty, &view, dropped);
#endif
            simt_differentiate(&statistics, &view, dropped, tx, ty, weights, weight, slopes, change, &sums);
            simt_put_weights(weights, tx, ty, change);
            SIMT_TURN(SIMT_COMMIT_ROWS(k_rows, j0, CV));
            SIMT_MULTIPLY_ROWS(part, CV, weights, k_rows, j0, tile_end,
                               if (next < key_end) simt_fetch_columns(k_rows, next, 0, lid, carried));
            if (++tiles % SIMT_TILES_SUMMED == 0)
                simt_join(out, part, RG * 4 * CV);
            if (next < key_end)
                SIMT_TURN(SIMT_COMMIT_COLUMNS(q_rows, row0, p.scale, k_rows, next, 0));
            j0 = next;
        }
        if (SIMT_TILES_SUMMED > 1)
            simt_join(out, part, RG * 4 * CV);
        if (!mended)
            again = simt_mend_deltas(weights, &sums, workspace, p.statistics, row0, lid, tx, ty, &view, &statistics,
                                     flags + 2);
        again = again && !mended && d_q;
    }
    if (d_q)
        simt_store(d_q, CLATTN_Q_TYPE, p.d_q, b, h, view.row_base, row0, view.n_q, CLATTN_D, CV, tx, ty, p.scale, out);
}
#endif

#if CLATTN_KERNEL == 1
SIMT_KERNEL
clattn_dk_dv(SIMT_SIGNATURE, __global clattn_k *d_k, __global clattn_v *d_v,
             const clattn_backward_params p CLATTN_SCORE_PARAMETERS)
{
    SIMT_BEGIN
    const int key_blocks = (p.n_kv + CLATTN_B_C - 1) / CLATTN_B_C;
    const int head = group / key_blocks, b = head / p.kv_heads, kv_head = head - b * p.kv_heads;
    const int shared = p.heads / p.kv_heads;
    clattn_view view = clattn_open(b, kv_head * shared, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
    const int key0 = view.first_key + CLATTN_B_C * (group - head * key_blocks);
    const int last_key = min(key0 + CLATTN_B_C, view.n_kv) - 1;
    const clattn_source k_rows = clattn_open_keys(k, CLATTN_K_TYPE, p.k, CLATTN_D, 4, kv_head, &view);
    const clattn_source v_rows = clattn_open_keys(v, CLATTN_V_TYPE, p.v, CLATTN_D_V, 4, kv_head, &view);

    simt_rows out[RG * 4 * CV], out_v[RG * 4 * CV_V], part[RG * 4 * CV], part_v[RG * 4 * CV_V];
    simt_zero(out, RG * 4 * CV);
    simt_zero(out_v, RG * 4 * CV_V);
    simt_zero(part, RG * 4 * CV);
    simt_zero(part_v, RG * 4 * CV_V);
    if (lid == 0)
        flags[0] = flags[1] = 0;
    if (SIMT_RESIDENT && key0 < view.n_kv) {
        simt_load_block(k_rows, key0, 0, SIMT_ROUNDED(CLATTN_D), lid, SIMT_BLOCK_FACTOR(p.scale), tile);
        simt_load_block(v_rows, key0, 0, SIMT_ROUNDED(CLATTN_D_V), lid, 1.0f, tile_v);
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    int parity = 0, tiles = 0;
    for (int h = kv_head * shared; h < (kv_head + 1) * shared && key0 < view.n_kv; ++h) {
        view = clattn_open(b, h, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
        const clattn_source q_rows = clattn_open_rows(q, CLATTN_Q_TYPE, p.q, CLATTN_D, 4, &view);
        const clattn_source do_rows = clattn_open_rows(d_o, CLATTN_DTYPE, p.d_o, CLATTN_D_V, 4, &view);
        const int row_end = clattn_row_end(last_key, &view);
        int i0 = simt_next(key0, clattn_row_begin(key0, &view) / CLATTN_B_R * CLATTN_B_R, row_end, &view);
        if (i0 < row_end) {
            simt_fetch_columns(q_rows, i0, 0, lid, carried);
            SIMT_TURN(SIMT_COMMIT_COLUMNS(k_rows, key0, p.scale, q_rows, i0, 0));
        }
        while (i0 < row_end) {
            const bool joins = ++tiles % SIMT_TILES_SUMMED == 0;
            const bool some = simt_tile(key0, i0, &view) == CLATTN_TILE_SOME, guarded = some || CLATTN_ZEROES;
            const int tile_end = min(i0 + CLATTN_B_R, row_end), next = simt_next(key0, i0 + CLATTN_B_R, row_end, &view);
            const simt_statistics statistics = simt_read_statistics(workspace, p.statistics, key0, i0, tx, ty, &view);
#define SIMT_FETCH_NEXT if (next < row_end) simt_fetch_columns(q_rows, next, 0, lid, carried)
            SIMT_MULTIPLY_COLUMNS(weight, k_rows, key0, p.scale, tile, q_rows, i0, CLATTN_D, SIMT_SUM_COLUMNS,
                                  if (d_v) simt_fetch_rows(do_rows, i0, CV_V, lid, carried);
                                  else simt_fetch_columns(do_rows, i0, 0, lid, carried));
            simt_modify(key0, i0, tx, ty, &view, weight, slopes);
            simt_weigh(key0, i0, tx, ty, some, i0 + CLATTN_B_R > view.n_q, &statistics, &view, weight);
#if CLATTN_DROPOUT
            simt_drop(key0, i0, tx, ty, &view, dropped);
#endif
            if (SIMT_PARKS || d_v) {
                UNROLL for (int g = 0; g < RG; ++g) UNROLL for (int c = 0; c < CS; ++c) {
#if CLATTN_DROPOUT
                    simt_put_weight(weights, c, g, tx, ty, simt_kept(weight[g][c], g, c, dropped));
#else
                    simt_put_weight(weights, c, g, tx, ty, weight[g][c]);
#endif
                }
            }
            if (d_v) {
                SIMT_TURN(SIMT_COMMIT_ROWS(do_rows, i0, CV_V));
                SIMT_MULTIPLY_ROWS(part_v, CV_V, weights, do_rows, i0, tile_end,
                                   if (d_k) simt_fetch_columns(do_rows, i0, 0, lid, carried);
                                   else SIMT_FETCH_NEXT);
                if (joins)
                    simt_join(out_v, part_v, RG * 4 * CV_V);
            }
            if (d_k) {
                SIMT_TURN(SIMT_COMMIT_COLUMNS(v_rows, key0, 1.0f, do_rows, i0, 0));
                SIMT_MULTIPLY_COLUMNS(change, v_rows, key0, 1.0f, tile_v, do_rows, i0, CLATTN_D_V, SIMT_SUM_CHANGE,
                                      simt_fetch_rows(q_rows, i0, CV, lid, carried));
                simt_differentiate(&statistics, &view, dropped, tx, ty, weights, weight, slopes, change, 0);
                simt_put_weights(weights, tx, ty, change);
                SIMT_TURN(SIMT_COMMIT_ROWS(q_rows, i0, CV));
                SIMT_MULTIPLY_ROWS(part, CV, weights, q_rows, i0, tile_end, SIMT_FETCH_NEXT);
                if (joins)
                    simt_join(out, part, RG * 4 * CV);
            }
            if (next < row_end)
                SIMT_TURN(SIMT_COMMIT_COLUMNS(k_rows, key0, p.scale, q_rows, next, 0));
            i0 = next;
        }
    }
    if (SIMT_TILES_SUMMED > 1) {
        simt_join(out, part, RG * 4 * CV);
        simt_join(out_v, part_v, RG * 4 * CV_V);
    }
#if CLATTN_DROPOUT
    const float factor_v = view.dropout_scale;
#else
    const float factor_v = 1.0f;
#endif
    if (d_k)
        simt_store(d_k, CLATTN_K_TYPE, p.d_k, b, kv_head, view.key_base, key0, view.keys, CLATTN_D, CV, tx, ty, p.scale,
                   out);
    if (d_v)
        simt_store(d_v, CLATTN_V_TYPE, p.d_v, b, kv_head, view.key_base, key0, view.keys, CLATTN_D_V, CV_V, tx, ty,
                   factor_v, out_v);
}
#endif

#if CLATTN_KERNEL == 2
/* The sum lies in local memory, each pair where its item alone goes. */
#define SIMT_PLACE(r, c) (weights + (((r) * CS + (c)) * WG + lid))

/* The sum over the tile's rows: each item's own, then those of the items with its columns. */
#define SIMT_SUM_ROWS(out) \
    float own[CS]; \
    UNROLL for (int c = 0; c < CS; ++c) { \
        own[c] = *SIMT_PLACE(0, c); \
        UNROLL for (int r = 1; r < RS; ++r) own[c] += *SIMT_PLACE(r, c); \
    } \
    barrier(CLK_LOCAL_MEM_FENCE); \
    UNROLL for (int c = 0; c < CS; ++c) weights[(c * TY + ty) * TX + tx] = own[c]; \
    barrier(CLK_LOCAL_MEM_FENCE); \
    UNROLL for (int c = 0; c < CS; ++c) { \
        const int j = SIMT_COLUMN_OF(j0, c); \
        float sum = 0.0f; \
        for (int y = 0; y < TY; ++y) \
            sum += weights[(c * TY + y) * TX + tx]; \
        if (ty == 0 && j < keys) \
            simt_put(sum, (out) + j * at.column); \
    }

SIMT_KERNEL
clattn_d_bias(SIMT_SIGNATURE, __global clattn_sum *d_bias, const clattn_backward_params p,
              const clattn_layout at CLATTN_SCORE_PARAMETERS)
{
    SIMT_BEGIN
#if CLATTN_STATE
    const int keys = score_params.keys;
#else
    const int keys = p.n_kv;
#endif
    const bool sums = at.row == 0; /* over rows: one group has them all */
    const int row_blocks = sums ? 1 : (p.n_q + CLATTN_B_R - 1) / CLATTN_B_R;
    const int key_blocks = (keys + CLATTN_B_C - 1) / CLATTN_B_C;
    const int heads = at.head != 0 ? p.heads : 1;
    const int rest = group / key_blocks, j0 = CLATTN_B_C * (group - rest * key_blocks);
    const int bias = rest / row_blocks, first_row = CLATTN_B_R * (rest - bias * row_blocks);
    const int bias_b = bias / heads, bias_h = bias - bias_b * heads;
    UNROLL for (int r = 0; r < RS; ++r) UNROLL for (int c = 0; c < CS; ++c) *SIMT_PLACE(r, c) = 0.0f;

    const int row_end = sums ? p.n_q : first_row + 1; /* of the first rows of tiles */
    const int b_end = at.batch != 0 ? bias_b + 1 : p.batch, h_end = at.head != 0 ? bias_h + 1 : p.heads;
    for (int b = bias_b; b < b_end; ++b) {
        for (int h = bias_h; h < h_end; ++h) {
            const int kv_head = h / (p.heads / p.kv_heads);
            const clattn_view view = clattn_open(b, h, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
            for (int row0 = first_row; row0 < row_end; row0 += CLATTN_B_R) {
                const int kind = simt_tile(row0, j0, &view);
                if (row0 >= view.n_q || j0 >= view.n_kv || j0 + CLATTN_B_C <= view.first_key ||
                    kind == CLATTN_TILE_SKIP)
                    continue;
                const clattn_source q_rows = clattn_open_rows(q, CLATTN_Q_TYPE, p.q, CLATTN_D, 4, &view);
                const clattn_source do_rows = clattn_open_rows(d_o, CLATTN_DTYPE, p.d_o, CLATTN_D_V, 4, &view);
                const clattn_source k_rows =
                    clattn_open_keys(k, CLATTN_K_TYPE, p.k, CLATTN_D, 4, kv_head, &view);
                const clattn_source v_rows =
                    clattn_open_keys(v, CLATTN_V_TYPE, p.v, CLATTN_D_V, 4, kv_head, &view);
                const simt_statistics statistics =
                    simt_read_statistics(workspace, p.statistics, row0, j0, tx, ty, &view);
                simt_fetch_columns(k_rows, j0, 0, lid, carried);
                SIMT_TURN(SIMT_COMMIT_COLUMNS(q_rows, row0, p.scale, k_rows, j0, 0));
                SIMT_MULTIPLY_COLUMNS(weight, q_rows, row0, p.scale, tile, k_rows, j0, CLATTN_D, SIMT_SUM_COLUMNS,
                                      simt_fetch_columns(v_rows, j0, 0, lid, carried));
                SIMT_TURN(SIMT_COMMIT_COLUMNS(do_rows, row0, 1.0f, v_rows, j0, 0));
                simt_modify(row0, j0, tx, ty, &view, weight, slopes);
                simt_weigh(row0, j0, tx, ty, kind == CLATTN_TILE_SOME, row0 + CLATTN_B_R > view.n_q, &statistics, &view,
                           weight);
                SIMT_MULTIPLY_COLUMNS(change, do_rows, row0, 1.0f, tile_v, v_rows, j0, CLATTN_D_V, SIMT_SUM_CHANGE,
                                      (void)0);
    #if CLATTN_DROPOUT
                simt_drop(row0, j0, tx, ty, &view, dropped);
    #endif
                simt_differentiate(&statistics, &view, dropped, tx, ty, weights, weight, slopes, change, 0);
                UNROLL for (int r = 0; r < RS; ++r) UNROLL for (int c = 0; c < CS; ++c)
                    *SIMT_PLACE(r, c) += ROW_LANE(change[r / RW][c], r % RW);
            }
        }
    }
    if (sums) {
        SIMT_SUM_ROWS(d_bias + clattn_at(at, bias_b, bias_h, 0));
        return;
    }
    UNROLL for (int r = 0; r < RS; ++r) {
        const int i = SIMT_ROW_OF(first_row, r / RW, r % RW);
        UNROLL for (int c = 0; c < CS; ++c) {
            const int j = SIMT_COLUMN_OF(j0, c);
            if (i < p.n_q && j < keys)
                simt_put(*SIMT_PLACE(r, c), d_bias + clattn_at(at, bias_b, bias_h, i) + j * at.column);
        }
    }
}
#endif
