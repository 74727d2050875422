/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Forward attention for a CPU where few rows meet many keys, as in decoding: what takes time is to read K and V. The
 * query heads that share a head of K and V go together, p.pack of them (src/plan/packing.h), so that its keys are read
 * once: packed row r is row r / pack of head r % pack. A work-group is one work-item with a block of packed rows;
 * vectors run along d (common/decode_tiles.clh). Each row has a view of its own, in which a row is a row of its head,
 * so CLATTN_PACKS stays out of this text.
 *
 * Baked constants, besides those of types.clh, view.clh, lanes.clh, score.clh and decode_tiles.clh (all required)
 *   CLATTN_B_R   a multiple of ROWS: rows of a block. K and V are read once per block.
 *   CLATTN_B_C   a multiple of VECTOR_WIDTH: keys of a tile.
 *
 * With CLATTN_STATE o, m and l are the state's: float, O un-normalised, m in natural units; and lse is not used. With
 * CLATTN_SPLIT they are the workspace's (common/splits.clh).
 *
 * NDRange: batch * heads * ceil(n_q / B_R), of packed heads and rows, work-groups of one work-item, with CLATTN_SPLIT
 * as many for each split. The private arrays take
 *     4 * ((B_R + 1) * (d' + d_v') + B_R * (B_C + 3 * VECTOR_WIDTH))
 * bytes of a thread's stack and a view for each row; d' and d_v' are whole vectors. With CLATTN_INTEGERS a panel's
 * weights (common/decode_pairs.clh) take more, with CLATTN_WORDS another block and tile
 * (common/decode_words.clh). No local memory.
 */
#include "common/decode_pairs.clh"
#include "common/decode_scores.clh"
#include "common/decode_tiles.clh"
#include "common/decode_words.clh"
#include "common/lanes.clh"
#include "common/philox.clh"
#include "common/score.clh"
#include "common/splits.clh"
#include "common/types.clh"
#include "common/view.clh"

#if !defined(CLATTN_B_R) || CLATTN_B_R < 1 || CLATTN_B_R % CLATTN_ROWS
#error "CLATTN_B_R must be a multiple of CLATTN_ROWS"
#endif

#if CLATTN_PARTIAL
#define DECODE_OUTPUT_TYPE CLATTN_FP32
#else
#define DECODE_OUTPUT_TYPE CLATTN_O_TYPE
#endif
typedef CLATTN_FOR(DECODE_OUTPUT_TYPE, clattn) decode_output;

/* Scores are scaled where something is done to them before they are exponentiated, or their maximum has to be that of
 * another call; else they stay Q K^T until then. */
#define SCALED (CLATTN_MODIFIES || CLATTN_STATE)

/* What one row of a block is: row i of its head, which has a view of its own. */
typedef struct {
    int i;
    clattn_view view;
} decode_row;

/* What the tile from key j0 on is to all rows together. */
CLATTN_INLINE int kind_of_tile(const decode_row *rows, int count, int j0)
{
    bool skip = true, all = true;
    for (int r = 0; r < count; ++r) {
        const int kind = clattn_tile(rows[r].i, rows[r].i, j0, j0 + CLATTN_B_C - 1, &rows[r].view);
        skip = skip && kind == CLATTN_TILE_SKIP;
        all = all && kind == CLATTN_TILE_ALL;
    }
    return skip ? CLATTN_TILE_SKIP : all ? CLATTN_TILE_ALL : CLATTN_TILE_SOME;
}

#if SCORES_WHOLE
#define WHOLE_QUERIES(q) , const whole_queries *q
#define WITH_WHOLE(q)    , q
#else
#define WHOLE_QUERIES(q)
#define WITH_WHOLE(q)
#endif

/* Raw scores of a tile from key j0 on with `count` rows. A panel of one row has a form of its own: heads that share
 * nothing have no more. */
CLATTN_INLINE void score_tile(vec *s, const vec *q, const clattn_source *keys, int count, int j0 WHOLE_QUERIES(whole))
{
    if (keys->column != 1) {
        vec row[D_VECTORS];
        score_expanded(s, count, q, keys, j0, row);
        return;
    }
    for (int r = 0; r < count; r += CLATTN_ROWS) {
        for (int t = 0; t < TILE_VECTORS; ++t) {
            if (count - r == 1)
                score_keys(s + r * TILE_VECTORS + t, 1, q + r * D_VECTORS, keys, j0 + t * W);
#if SCORES_WHOLE
            else if (whole->finite)
                score_whole(s + r * TILE_VECTORS + t, whole, r, keys, j0 + t * W);
#endif
            else
                score_keys(s + r * TILE_VECTORS + t, CLATTN_ROWS, q + r * D_VECTORS, keys, j0 + t * W);
        }
    }
}

/* One row's scores after all modifications. */
CLATTN_INLINE void modify_scores(vec *s, const decode_row *row, int j0, float scale, bool some)
{
    for (int t = 0; t < TILE_VECTORS; ++t) {
        const ivec i = (ivec)(row->i), keys = lane_numbers() + (j0 + t * W);
        vec score = s[t];
#if SCALED
        score *= scale;
#endif
#if CLATTN_MODIFIES
        score = clattn_modified(score, i, keys, &row->view);
#endif
        if (some)
            score = select(score, (vec)(-INFINITY), clattn_hidden(i, keys, &row->view));
        s[t] = score;
    }
}

/* One row's scores to weights relative to its new maximum; answers what the old O is to be multiplied by. The maximum
 * and the factor are the same in all lanes, the sum is that of the lanes. */
CLATTN_INLINE vec softmax_row(vec *s, vec *row_max, vec *row_sum, float scale)
{
    const float limit = -126.0f / scale;
    vec new_max = *row_max;
    for (int t = 0; t < TILE_VECTORS; ++t)
        new_max = max_vec(new_max, s[t]);
    new_max = lane_max(new_max);
    /* A row that has seen no key yet keeps -inf, but subtracts 0: -inf - -inf would be NaN. */
    const vec base = select(new_max, (vec)(0.0f), new_max == (vec)(-INFINITY));
    const vec alpha = exp2_scaled(*row_max - base, scale, limit);
    vec sum = (vec)(0.0f);
    for (int t = 0; t < TILE_VECTORS; ++t) {
        s[t] = exp2_scaled(s[t] - base, scale, limit);
        sum += s[t];
    }
    *row_max = new_max;
    *row_sum = *row_sum * alpha + sum;
    return alpha;
}

#if PANELS_TOGETHER
CLATTN_INLINE void softmax_panel(vec *s, vec *row_max, vec *row_sum, vec *alpha, float scale)
{
    const float limit = -126.0f / scale;
    vec most[CLATTN_ROWS];
#pragma unroll
    for (int r = 0; r < CLATTN_ROWS; ++r) {
        most[r] = row_max[r];
#pragma unroll
        for (int t = 0; t < TILE_VECTORS; ++t)
            most[r] = max_vec(most[r], s[r * TILE_VECTORS + t]);
    }
    const vec new_max = rows_max(most), base = select(new_max, (vec)(0.0f), new_max == (vec)(-INFINITY));
    const vec factor = exp2_scaled(rows_lanes(row_max) - base, scale, limit);
    const vec bases[] = {OF_ROW(base, 0), OF_ROW(base, 1), OF_ROW(base, 2), OF_ROW(base, 3)};
    const vec factors[] = {OF_ROW(factor, 0), OF_ROW(factor, 1), OF_ROW(factor, 2), OF_ROW(factor, 3)};
    const vec maxima[] = {OF_ROW(new_max, 0), OF_ROW(new_max, 1), OF_ROW(new_max, 2), OF_ROW(new_max, 3)};
#pragma unroll
    for (int r = 0; r < CLATTN_ROWS; ++r) {
        vec sum = row_sum[r] * factors[r];
#pragma unroll
        for (int t = 0; t < TILE_VECTORS; ++t) {
            const vec weight = exp2_scaled(s[r * TILE_VECTORS + t] - bases[r], scale, limit);
            s[r * TILE_VECTORS + t] = weight;
            sum += weight;
        }
        row_sum[r] = sum;
        row_max[r] = maxima[r];
        alpha[r] = factors[r];
    }
}
#endif

/* The same of all rows of a block, those of a panel together with CLATTN_INTEGERS; rows from `count` on may have
 * any. */
CLATTN_INLINE void softmax_rows(vec *s, vec *row_max, vec *row_sum, vec *alpha, int count, float scale)
{
    int r = 0;
#if PANELS_TOGETHER
    for (; r < count - 1; r += CLATTN_ROWS)
        softmax_panel(s + r * TILE_VECTORS, row_max + r, row_sum + r, alpha + r, scale);
#endif
    for (; r < count; ++r)
        alpha[r] = softmax_row(s + r * TILE_VECTORS, &row_max[r], &row_sum[r], scale);
}

#if CLATTN_DROPOUT
/* A vector of keys begins at a multiple of its width, so it lies in one piece of a call's (common/philox.clh). */
CLATTN_INLINE void drop_weights(vec *s, const decode_row *row, int j0)
{
    for (int t = 0; t < TILE_VECTORS; ++t) {
        const int first = j0 + t * W;
        const ivec keys = lane_numbers() + first;
        uvec call[4], dropped[2];
        clattn_philox(clattn_dropout_group(keys), clattn_dropout_line((ivec)(row->i)), &row->view, call);
        clattn_dropped_words(call, clattn_dropout_block(first), &row->view, dropped);
        const uvec word = clattn_dropout_piece(first) < 4 ? dropped[0] : dropped[1];
        const uvec bit = word >> as_uvec(clattn_dropout_bit((ivec)(row->i), keys)) & 1u;
        s[t] = select(s[t], (vec)(0.0f), bit != (uvec)(0u));
    }
}
#endif

/* Adds a tile to O. hides: a pair's weight may be 0, and must not become 0 * NaN. */
CLATTN_INLINE void output_tile(vec *o, vec *weights, const vec *alpha, const clattn_source *values, int count, int j0,
                               int from, int to, bool hides)
{
    bool leaks = values->column != 1;
    vec row[D_V_VECTORS];
#if CLATTN_HIDES || CLATTN_ZEROES
    leaks = leaks || ((CLATTN_ZEROES || hides) && !rows_finite(values, j0, from, to, row));
#endif
    if (leaks) {
        ORDER_PANELS(o, count);
        output_expanded(o, count, weights, alpha, values, j0, from, to, row);
        ORDER_PANELS(o, count);
        return;
    }
    scale_weights(weights, count, values, j0);
    for (int r = 0; r < count; r += CLATTN_ROWS) {
        if (count - r == 1)
            output_rows(o + r * D_V_VECTORS, 1, weights + r * TILE_VECTORS, alpha + r, values, j0, from, to);
#if CLATTN_INTEGERS
        else
            output_panel(o + r * D_V_VECTORS, weights + r * TILE_VECTORS, alpha + r, values, count - r, j0, from, to);
#else
        else
            output_rows(o + r * D_V_VECTORS, CLATTN_ROWS, weights + r * TILE_VECTORS, alpha + r, values, j0, from, to);
#endif
    }
}

#if CLATTN_WORDS
/* Where rows of the tile from j0 on begin, if all are there and equally far apart; else NULL. */
CLATTN_INLINE __global const uchar *next_tile(const clattn_source *keys, const int type, int j0)
{
    if (CLATTN_PAGES || j0 < keys->first || j0 + CLATTN_B_C > keys->rows)
        return 0;
    return (__global const uchar *)row_place(keys, type, row_at(keys, j0));
}

/* A tile, O by sums of integers; false where V is not finite, or columns do not follow each other: then nothing is
 * added. */
CLATTN_INLINE bool add_words(word_block *block, word_tile *tile, vec *scores, const decode_row *rows, int count,
                             const clattn_source *keys, const clattn_source *values, int j0, float given_scale,
                             float scale, bool some)
{
    if (keys->column != 1 || values->column != 1)
        return false;
    word_keys(tile, keys, j0);
    word_scores(tile, block, next_tile(keys, CLATTN_K_TYPE, j0 + CLATTN_B_C), row_stride(keys, CLATTN_K_TYPE));
    if (!word_values(tile, values, j0))
        return false;
    if (SCALED || some) {
        words_to_rows(scores, TILE_VECTORS, tile->s, CLATTN_B_C);
        for (int r = 0; r < count; ++r)
            modify_scores(scores + r * TILE_VECTORS, &rows[r], j0, given_scale, some);
        rows_to_words(tile->s, scores, TILE_VECTORS, CLATTN_B_C);
    }
    word_weights(tile, block, scale);
    word_outputs(block, tile, next_tile(values, CLATTN_V_TYPE, j0 + CLATTN_B_C), row_stride(values, CLATTN_V_TYPE));
    return true;
}
#endif

/* `count` rows of Q, each at its place, times factor; the block's others are 0. */
CLATTN_INLINE void load_queries(vec *q, __global const clattn_q *from, clattn_layout at, const decode_row *rows,
                                int count, float factor)
{
    for (int r = 0; r < CLATTN_B_R; ++r) {
        if (r < count) {
            const clattn_source of = clattn_open_rows(from, CLATTN_Q_TYPE, at, CLATTN_D, 1, &rows[r].view);
            load_row((float *)(q + r * D_VECTORS), &of, rows[r].i, CLATTN_D, D_VECTORS * W);
        }
        for (int c = 0; c < D_VECTORS; ++c)
            q[r * D_VECTORS + c] = r < count ? q[r * D_VECTORS + c] * factor : (vec)(0.0f);
    }
}

/* A head as it is without packing. */
CLATTN_INLINE clattn_view view_of(int b, int h, clattn_forward_params p CLATTN_SCORE_PARAMETERS)
{
    return clattn_open(b, h, p.heads * p.pack.number, p.n_q / p.pack.number, p.n_kv CLATTN_SCORE_ARGUMENTS);
}

__kernel CLATTN_ONE_ITEM void
clattn_forward(__global const clattn_q *q, __global const clattn_k *k, __global const clattn_v *v,
               __global decode_output *o, __global float *lse, __global float *m, __global float *l,
               const clattn_forward_params p CLATTN_SCORE_PARAMETERS)
{
    vec queries[CLATTN_B_R * D_VECTORS], outputs[CLATTN_B_R * D_V_VECTORS], scores[CLATTN_B_R * TILE_VECTORS];
    vec row_max[CLATTN_B_R], row_sum[CLATTN_B_R], alpha[CLATTN_B_R];
    decode_row rows[CLATTN_B_R];
#if CLATTN_WORDS
    word_block block_of_words;
    word_tile tile_of_words;
#endif

    const int blocks = (p.n_q + CLATTN_B_R - 1) / CLATTN_B_R;
#if CLATTN_SPLIT
    const int all = blocks * p.heads * p.batch, split = (int)get_group_id(0) / all;
    const int group = (int)get_group_id(0) - all * split;
#else
    const int group = (int)get_group_id(0);
#endif
    const int bh = group / blocks, block = group - bh * blocks; /* not %: beside / it becomes a freeze, which Oclgrind
                                                                 * lacks */
    const int b = bh / p.heads, head = bh - b * p.heads, kv_head = head / (p.heads / p.kv_heads);
    clattn_view view = view_of(b, head * p.pack.number, p CLATTN_SCORE_ARGUMENTS);
    const int first = block * CLATTN_B_R, count = min(CLATTN_B_R, view.n_q * p.pack.number - first);
    if (count <= 0)
        return;
    const int first_row = first / p.pack.number, last_row = (first + count - 1) / p.pack.number;
#if CLATTN_SPLIT
    clattn_take_split(split, p.by_splits, clattn_key_begin(first_row, &view) / CLATTN_B_C * CLATTN_B_C, CLATTN_B_C,
                      clattn_key_end(last_row, &view), &view);
    const int out_batch = clattn_split_batch(split, b, p);
#else
    const int out_batch = b;
#endif
    for (int r = 0; r < count; ++r) {
        rows[r].i = (first + r) / p.pack.number;
        const int own = first + r - rows[r].i * p.pack.number;
        rows[r].view = view_of(b, head * p.pack.number + own, p CLATTN_SCORE_ARGUMENTS);
        rows[r].view.first_key = view.first_key; /* the split's */
        rows[r].view.n_kv = view.n_kv;
    }

    /* While scores stay Q K^T a negative scale turns Q, so that the maximum is the maximum. */
    const float sign = !SCALED && p.scale < 0.0f ? -1.0f : 1.0f;
    const float scale = SCALED ? M_LOG2E_F : fabs(p.scale_log2e);
    load_queries(queries, q, p.q, rows, count, sign);
#if SCORES_WHOLE
    whole_queries whole;
    whole_rows(&whole, queries);
#endif
#if CLATTN_WORDS
    rows_to_words(block_of_words.q, queries, D_VECTORS, CLATTN_D);
    block_of_words.begun = false;
#endif
    for (int i = 0; i < CLATTN_B_R * D_V_VECTORS; ++i)
        outputs[i] = (vec)(0.0f);
    for (int r = 0; r < CLATTN_B_R; ++r) {
        row_max[r] = (vec)(-INFINITY);
        row_sum[r] = alpha[r] = (vec)(0.0f);
    }
#if CLATTN_PARTIAL
    const long row_base = 0; /* a state has the rows of each sequence by themselves */
#else
    const long row_base = view.row_base;
#endif
#if CLATTN_STATE
    for (int r = 0; r < count; ++r) {
        const int h = rows[r].view.h, i = rows[r].i;
        __global const float *from = o + clattn_at(p.o, b, h, i);
        row_max[r] = (vec)(m[clattn_at(p.m, b, h, i)]);
        ((float *)&row_sum[r])[0] = l[clattn_at(p.l, b, h, i)];
        for (int x = 0; x < CLATTN_D_V; ++x)
            ((float *)(outputs + r * D_V_VECTORS))[x] = from[x * p.o.column];
    }
#endif

    const int begin = clattn_key_begin(first_row, &view), end = clattn_key_end(last_row, &view);
    const clattn_source keys = clattn_open_k(k, p.k, CLATTN_D, 1, kv_head, &view);
    const clattn_source values = clattn_open_v(v, p.v, CLATTN_D_V, 1, kv_head, &view);
    /* Where no key is there, begin may be behind end, and the tile that it is in before it. */
    for (int j0 = begin < end ? begin / CLATTN_B_C * CLATTN_B_C : end; j0 < end; j0 += CLATTN_B_C) {
        const int from = max(begin - j0, 0), to = min(end - j0, CLATTN_B_C);
        const int kind = kind_of_tile(rows, count, j0);
        if (kind == CLATTN_TILE_SKIP)
            continue;
#if CLATTN_WORDS
        words_begin(&block_of_words, outputs, row_max, row_sum);
        if (add_words(&block_of_words, &tile_of_words, scores, rows, count, &keys, &values, j0, p.scale, scale,
                      kind == CLATTN_TILE_SOME))
            continue;
        words_end(&block_of_words, outputs, row_max, row_sum);
#endif
        score_tile(scores, queries, &keys, count, j0 WITH_WHOLE(&whole));
        for (int r = 0; r < count; ++r) {
            if (SCALED || kind == CLATTN_TILE_SOME)
                modify_scores(scores + r * TILE_VECTORS, &rows[r], j0, p.scale, kind == CLATTN_TILE_SOME);
        }
        softmax_rows(scores, row_max, row_sum, alpha, count, scale);
#if CLATTN_DROPOUT
        for (int r = 0; r < count; ++r)
            drop_weights(scores + r * TILE_VECTORS, &rows[r], j0);
#endif
        output_tile(outputs, scores, alpha, &values, count, j0, from, to, kind == CLATTN_TILE_SOME);
    }

#if CLATTN_WORDS
    words_end(&block_of_words, outputs, row_max, row_sum);
#endif
    ORDER_PANELS(outputs, count);
    for (int r = 0; r < count; ++r) {
        const int h = rows[r].view.h;
        const long i = row_base + rows[r].i;
        float row_m = ((const float *)&row_max[r])[0], row_l = lane_sum(row_sum[r]), factor = 1.0f;
        if (!SCALED && row_m != -INFINITY)
            row_m *= fabs(p.scale);
#if CLATTN_PARTIAL
        m[clattn_at(p.m, out_batch, h, i)] = row_m;
        l[clattn_at(p.l, out_batch, h, i)] = row_l;
#else
        factor = clattn_finish(&row_m, &row_l, &rows[r].view);
        if (lse)
            lse[clattn_at(p.lse, b, h, i)] = row_m + log(row_l);
        if (m)
            m[clattn_at(p.m, b, h, i)] = row_m;
        if (l)
            l[clattn_at(p.l, b, h, i)] = row_l;
#endif
        for (int c = 0; c < D_V_VECTORS; ++c)
            outputs[r * D_V_VECTORS + c] *= factor;
        store_row(o, DECODE_OUTPUT_TYPE, clattn_at(p.o, out_batch, h, i), p.o.column,
                  (const float *)(outputs + r * D_V_VECTORS), CLATTN_D_V);
    }
}
