/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Forward attention for a CPU: one work-item per query block, explicit vectors, no barriers. The query rows of a block
 * are stationary, keys and values stream (common/cpu_tiles.clh), so that a row's maximum and sum are lane-wise.
 *
 * Baked constants, besides those of types.clh, view.clh, lanes.clh, score.clh and cpu_tiles.clh (all required)
 *   CLATTN_B_R   a multiple of VECTOR_WIDTH * ROW_VECTORS: query rows of the block. K and V are read and converted once
 *                per block.
 *   CLATTN_B_C   a multiple of MICRO, at least VECTOR_WIDTH: keys of a tile.
 *
 * With CLATTN_STATE o, m and l are the state's: float, O un-normalised, m in natural units; and lse is not used. With
 * CLATTN_SPLIT they are the workspace's (common/splits.clh).
 *
 * With CLATTN_PACKS rows are packed ones (score/view.clh).
 *
 * NDRange: batch * heads * ceil(n_q / B_R) work-groups of one work-item, with CLATTN_SPLIT as many for each split. The
 * private arrays take
 *     4 * ((B_R + B_C) * (d' + d_v') + B_C * VECTOR_WIDTH * ROW_VECTORS + 3 * B_R)
 * bytes of a thread's stack, whatever the storage type; d' and d_v' are D_STRIDE and D_V_STRIDE. No local memory.
 */
#include "common/cpu_tiles.clh"
#include "common/lanes.clh"
#include "common/score.clh"
#include "common/splits.clh"
#include "common/types.clh"
#include "common/view.clh"

#if !defined(CLATTN_B_R) || CLATTN_B_R < 1 || CLATTN_B_R % (CLATTN_VECTOR_WIDTH * CLATTN_ROW_VECTORS)
#error "CLATTN_B_R must be a multiple of CLATTN_VECTOR_WIDTH * CLATTN_ROW_VECTORS"
#endif
#if !defined(CLATTN_B_C) || CLATTN_B_C < CLATTN_VECTOR_WIDTH || CLATTN_B_C % CLATTN_MICRO
#error "CLATTN_B_C must be a multiple of CLATTN_MICRO and at least CLATTN_VECTOR_WIDTH"
#endif

#define PANELS (CLATTN_B_R / PANEL)
#if CLATTN_DOT && CLATTN_B_C < 2 * CLATTN_VECTOR_WIDTH
#error "with CLATTN_DOT CLATTN_B_C must be at least 2 * CLATTN_VECTOR_WIDTH: O goes by way of V's tile"
#endif

#if CLATTN_PARTIAL
#define CPU_OUTPUT_TYPE CLATTN_FP32
#else
#define CPU_OUTPUT_TYPE CLATTN_O_TYPE
#endif
typedef CLATTN_FOR(CPU_OUTPUT_TYPE, clattn) cpu_output;

/* Scores are scaled where something is done to them before they are exponentiated, or their maximum has to be that of
 * another call; else they stay Q K^T until then. */
#define SCALED (CLATTN_MODIFIES || CLATTN_STATE)

/* Whether scores are what they were, but for those that a causal mask hides. */
#define ONLY_CAUSAL (CLATTN_CAUSAL && !CLATTN_FEATURES && !CLATTN_SCORE_MOD && !CLATTN_MASK_MOD && !SCALED)

/* A block's online softmax and output; vectors of panel after panel. */
typedef struct {
    vec *max, *sum; /* max: of scores as they are */
    vec *out;       /* O^T */
} softmax_state;

/* A tile of keys and values, which the first panel to need them fetches. */
typedef struct {
    cpu_item *k, *v;
    int first, end; /* keys: the tile's first; where the block's end */
    int loaded;     /* so many of the tile's are there */
    cpu_fetches ahead;
} key_tile;

/* The scores of a panel and a tile. */
typedef struct {
    vec *s;
    const cpu_cell *rows; /* the panel's */
    int panel, first;     /* its number, and its first row */
    int from, to;         /* the tile's keys that any of its rows sees */
    int next;             /* the first of these that has no scores yet */
    bool some;            /* some pairs are hidden */
} panel_scores;

/* Which pairs there are; false where there is none. */
CLATTN_INLINE bool begin_scores(panel_scores *scores, int panel, int first, const cpu_cell *block, const key_tile *tile,
                                const clattn_view *view)
{
    const int row = first + panel * PANEL, last = min(row + PANEL, view->n_q) - 1;
    const int from = CLATTN_BEGINS || CLATTN_STATE ? max(clattn_key_begin(row, view) - tile->first, 0) : 0;
    const int to = min(clattn_key_end(last, view) - tile->first, CLATTN_B_C);
    if (from >= to)
        return false;
    const int kind = clattn_tile(row, last, tile->first + from, tile->first + to - 1, view);
    scores->rows = block + panel * (D_ITEMS * RV);
    scores->panel = panel;
    scores->first = row;
    scores->from = from;
    scores->to = to;
    scores->next = from / MICRO * MICRO;
    scores->some = kind == CLATTN_TILE_SOME;
    return kind != CLATTN_TILE_SKIP;
}

/* Those of the next MICRO keys, where any are left. */
CLATTN_INLINE void add_scores(panel_scores *scores, key_tile *tile)
{
    const int j = scores->next;
    if (j >= scores->to)
        return;
    /* The first panel to need a key fetches it: between two products the loads hide behind arithmetic. */
    if (j >= tile->loaded) {
        load_rows(tile->k + j * D_ITEMS, MICRO, tile->ahead.keys, tile->first + j, CLATTN_D, D_ITEMS, tile->end);
        load_turned(tile->v + j * D_V_ITEMS, tile->ahead.values, tile->first + j, tile->end);
        tile->loaded = j + MICRO;
    }
    score_tile(scores->s + j * RV, tile->k + j * D_ITEMS, USED_ITEMS(CLATTN_D), D_ITEMS, scores->rows,
               &tile->ahead);
    scores->next = j + MICRO;
}

CLATTN_INLINE void complete_scores(panel_scores *scores, key_tile *tile)
{
    while (scores->next < scores->to)
        add_scores(scores, tile);
}

/* The scores of keys first_key + from .. first_key + to - 1 and one panel after all modifications. */
CLATTN_INLINE void modify_scores(vec *s, int first_row, int first_key, int from, int to, float scale, bool some,
                                 const clattn_view *view)
{
    for (int j = from; j < to; ++j) {
#pragma unroll
        for (int r = 0; r < RV; ++r) {
            const ivec rows = lane_numbers() + (first_row + r * W), keys = (ivec)(first_key + j);
            vec score = s[j * RV + r];
#if SCALED
            score *= scale;
#endif
#if CLATTN_MODIFIES
            score = clattn_modified(score, rows, keys, view);
#endif
            if (some)
                score = select(score, (vec)(-INFINITY), clattn_hidden(rows, keys, view));
            s[j * RV + r] = score;
        }
    }
}

/* The largest of a vector's scores, and of `most`: by four chains, since each step waits for the one before. */
CLATTN_INLINE vec largest_score(const vec *s, int from, int to, vec most)
{
    vec chains[4] = {most, most, most, most};
    int j = from;
    for (; j + 4 <= to; j += 4) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            chains[i] = max_vec(chains[i], s[(j + i) * RV]);
    }
    for (; j < to; ++j)
        chains[0] = max_vec(chains[0], s[j * RV]);
    return max_vec(max_vec(chains[0], chains[1]), max_vec(chains[2], chains[3]));
}

/* Scores to weights relative to the rows' new maxima; alpha is what the old O is to be multiplied by. Between the keys
 * of one product and the next comes one of the panel that follows, if there is one. */
CLATTN_INLINE void softmax_panel(const panel_scores *now, vec *row_max, vec *row_sum, vec *alpha, float scale,
                                 panel_scores *following, key_tile *tile)
{
    const float limit = -126.0f / scale;
    vec base[RV], sum[RV];
#pragma unroll
    for (int r = 0; r < RV; ++r) {
        const vec old_max = row_max[r];
        row_max[r] = largest_score(now->s + r, now->from, now->to, old_max);
        /* A row that has seen no key yet keeps -inf, but subtracts 0: -inf - -inf would be NaN. */
        base[r] = select(row_max[r], (vec)(0.0f), row_max[r] == (vec)(-INFINITY));
        alpha[r] = exp2_scaled(old_max - base[r], scale, limit);
        sum[r] = (vec)(0.0f);
    }
    for (int from = now->from, to; from < now->to; from = to) {
        to = CPU_SCORES_AHEAD ? min(now->to, from / MICRO * MICRO + MICRO) : now->to;
        if (following)
            add_scores(following, tile);
#pragma unroll
        for (int r = 0; r < RV; ++r) {
            for (int j = from; j < to; ++j) {
                const vec e = exp2_scaled(now->s[j * RV + r] - base[r], scale, limit);
                now->s[j * RV + r] = e;
                sum[r] += e;
            }
        }
    }
#pragma unroll
    for (int r = 0; r < RV; ++r)
        row_sum[r] = row_sum[r] * alpha[r] + sum[r];
}

#if CLATTN_DROPOUT
CLATTN_INLINE void drop_weights(vec *s, int first_row, int first_key, int from, int to, const clattn_view *view)
{
    for (int r = 0; r < RV; ++r) {
        const ivec rows = lane_numbers() + (first_row + r * W);
        for (int base = (first_key + from) & -KEPT_KEYS; base < first_key + to; base += KEPT_KEYS) {
            uvec kept[KEPT_KEYS / 32];
            const int first = max(from, base - first_key), last = min(to, base + KEPT_KEYS - first_key);
            kept_keys(kept, rows, base, (first_key + first - base) / 32, (first_key + last - base + 31) / 32, view);
            for (int j = first; j < last; ++j) {
                const int at = first_key + j - base;
                const uvec bit = kept[at / 32] & (1u << (uint)(at % 32));
                s[j * RV + r] = select(s[j * RV + r], (vec)(0.0f), bit == (uvec)(0u));
            }
        }
    }
}
#endif

/* Where a row's results are: a state has the rows of each sequence by themselves. */
#define OUTPUT_AT(layout, batch, i, view)                                                                              \
    clattn_at(layout, batch, CLATTN_HEAD(i, view), (CLATTN_PARTIAL ? 0 : (view)->row_base) + CLATTN_ROW(i, view))

/* `count` rows of Q, transposed, times factor (1 or -1), and zeros up to the panel. */
CLATTN_INLINE void load_queries(cpu_cell *block, cpu_item *scratch, __global const clattn_q *q, clattn_layout at,
                                int first, int count, float factor, const clattn_view *view)
{
    for (int i = 0; i < ROUND_UP(count, PANEL); i += W) {
        for (int r = i; r < i + W; ++r) {
            const int row = first + min(r, count - 1);
            const clattn_source of =
                clattn_open_source(q, CLATTN_Q_TYPE, at, CLATTN_D, 1, view->b, CLATTN_HEAD(row, view),
                                   view->row_base + CLATTN_ROW(row, view), 0, 1);
            load_rows(scratch + (r - i) * D_ITEMS, 1, &of, 0, CLATTN_D, D_ITEMS, count - r);
        }
        cpu_rows_to_block(block + vector_of(i, D_ITEMS), scratch, D_ITEMS, factor);
    }
}

/* A panel whose scores are complete: what its keys add to O. */
CLATTN_INLINE void add_output(const softmax_state *state, const panel_scores *now, key_tile *tile, cpu_cell *room,
                              float given_scale, float scale, panel_scores *following, const clattn_view *view)
{
    if (SCALED || now->some) {
        /* Under a causal mask alone every row sees the keys that the first one does. */
        const int hides = ONLY_CAUSAL ? max(clattn_key_end(now->first, view) - tile->first, now->from) : now->from;
        modify_scores(now->s, now->first, tile->first, hides, now->to, given_scale, now->some, view);
    }
    vec alpha[RV];
    softmax_panel(now, state->max + now->panel * RV, state->sum + now->panel * RV, alpha, scale, following, tile);
#if CLATTN_DROPOUT
    drop_weights(now->s, now->first, tile->first, now->from, now->to, view);
#endif
    bool leaks = has_company(now->from, now->to);
#if CLATTN_HIDES || CLATTN_ZEROES
    leaks = leaks || CLATTN_ZEROES || now->some;
#endif
    leaks = leaks && !rows_finite(tile->v, D_V_ITEMS, now->from, now->to);
    output_panel(state->out + now->panel * (D_V_STRIDE * RV), tile->v, CLATTN_D_V, D_V_ITEMS, now->s, room, alpha,
                 now->from, now->to, leaks, &tile->ahead);
}

#if CLATTN_STATE
/* The state of `count` rows, transposed. */
CLATTN_INLINE void load_state(softmax_state state, float *scratch, __global const float *o, __global const float *m,
                              __global const float *l, const clattn_forward_params *p, int first, int count,
                              const clattn_view *view)
{
    for (int i = 0; i < count; ++i) {
        ((float *)state.max)[i] = m[OUTPUT_AT(p->m, view->b, first + i, view)];
        ((float *)state.sum)[i] = l[OUTPUT_AT(p->l, view->b, first + i, view)];
    }
    for (int i = 0; i < count; i += W) {
        for (int r = 0; r < W; ++r) {
            for (int x = 0; x < D_V_STRIDE; ++x)
                scratch[r * D_V_STRIDE + x] = i + r < count && x < CLATTN_D_V
                                                  ? o[OUTPUT_AT(p->o, view->b, first + i + r, view) + x * p->o.column]
                                                  : 0.0f;
        }
        rows_to_panel(state.out + vector_of(i, D_V_STRIDE), scratch, D_V_STRIDE, 1.0f);
    }
}
#endif

/* `count` rows of O, each times its factor. */
CLATTN_INLINE void store_output(__global cpu_output *o, clattn_layout at, int batch, float *scratch,
                                softmax_state state, const vec *factor, int first, int count, const clattn_view *view)
{
    for (int i = 0; i < count; i += W) {
        panel_to_rows(scratch, state.out + vector_of(i, D_V_STRIDE), D_V_STRIDE, factor[i / W]);
        for (int r = 0; r < min(W, count - i); ++r) {
            store_row(o, CPU_OUTPUT_TYPE, OUTPUT_AT(at, batch, first + i + r, view), at.column,
                      scratch + r * D_V_STRIDE, CLATTN_D_V);
        }
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
clattn_forward(__global const clattn_q *q, __global const clattn_k *k, __global const clattn_v *v,
               __global cpu_output *o, __global float *lse, __global float *m, __global float *l,
               const clattn_forward_params p CLATTN_SCORE_PARAMETERS)
{
    cpu_cell qt[PANELS * D_ITEMS * RV];
    vec ot[PANELS * D_V_STRIDE * RV];
    vec st[(1 + CPU_SCORES_AHEAD) * CLATTN_B_C * RV];
    vec row_max[PANELS * RV], row_sum[PANELS * RV];
    cpu_cell k_tile[CLATTN_B_C * D_ITEMS / W], v_tile[CLATTN_B_C * D_V_ITEMS / W];
    cpu_cell weights[WEIGHT_CELLS(CLATTN_B_C)];
    cpu_item *const kt = (cpu_item *)k_tile, *const vt = (cpu_item *)v_tile;
    float *const scratch = (float *)v_tile; /* before and after the loop over keys */
    const softmax_state state = {row_max, row_sum, ot};

    /* Work-groups are handed out in runs, large ones first. Heads are outermost and the blocks of a head alternate
     * between the end and the beginning of the sequence, so that under a causal mask every run has its fair share. */
    const int blocks = (p.n_q + CLATTN_B_R - 1) / CLATTN_B_R;
#if CLATTN_SPLIT
    const int all = blocks * p.heads * p.batch, split = (int)get_group_id(0) / all;
    const int group = (int)get_group_id(0) - all * split;
#else
    const int group = (int)get_group_id(0);
#endif
    const int bh = group / blocks;
    const int turn = group - bh * blocks; /* not %: beside / it becomes a freeze, which Oclgrind lacks */
    const int block = (turn & 1) ? turn / 2 : blocks - 1 - turn / 2;
    const int b = bh / p.heads;
    const int h = bh - b * p.heads;
    const int kv_head = h / (p.heads / p.kv_heads);
    clattn_view view = clattn_open_forward(b, CLATTN_FIRST_HEAD(h, p), p CLATTN_SCORE_ARGUMENTS);
    const int first = block * CLATTN_B_R;
    if (first >= view.n_q)
        return;
    cpu_open_unit();
    const int rows = min(CLATTN_B_R, view.n_q - first);
    const int panels = (rows + PANEL - 1) / PANEL;
#if CLATTN_SPLIT
    clattn_take_split(split, p.splits, clattn_key_begin(first, &view) / CLATTN_B_C * CLATTN_B_C, CLATTN_B_C,
                      clattn_key_end(first + rows - 1, &view), &view);
    const int out_batch = clattn_split_batch(split, b, p);
#else
    const int out_batch = b;
#endif

    /* While scores stay Q K^T a negative scale turns Q, so that the maximum is the maximum. */
    const float sign = !SCALED && p.scale < 0.0f ? -1.0f : 1.0f;
    const float scale = SCALED ? M_LOG2E_F : fabs(p.scale_log2e);

    const clattn_source k_rows = clattn_open_k(k, p.k, CLATTN_D, 1, kv_head, &view);
    const clattn_source v_rows = clattn_open_v(v, p.v, CLATTN_D_V, 1, kv_head, &view);
    load_queries(qt, kt, q, p.q, first, rows, sign, &view);
    for (int i = 0; i < panels * RV; ++i) {
        row_max[i] = (vec)(-INFINITY);
        row_sum[i] = (vec)(0.0f);
    }
    for (int i = 0; i < panels * D_V_STRIDE * RV; ++i)
        ot[i] = (vec)(0.0f);
#if CLATTN_STATE
    load_state(state, scratch, o, m, l, &p, first, rows, &view);
#endif

    const int end = clattn_key_end(first + rows - 1, &view);
    for (int j0 = clattn_key_begin(first, &view) / CLATTN_B_C * CLATTN_B_C; j0 < end; j0 += CLATTN_B_C) {
        key_tile tile = {kt, vt, j0, end, 0, {&k_rows, &v_rows, j0 + CLATTN_B_C, min(j0 + 2 * CLATTN_B_C, end)}};
        panel_scores both[1 + CPU_SCORES_AHEAD];
        panel_scores *ready = 0; /* has waited while another's scores began */
        for (int panel = 0, begun = 0; panel < panels + CPU_SCORES_AHEAD; ++panel) {
            panel_scores *const begins = &both[begun % (1 + CPU_SCORES_AHEAD)];
            begins->s = st + begun % (1 + CPU_SCORES_AHEAD) * (CLATTN_B_C * RV);
            const bool more = panel < panels && begin_scores(begins, panel, first, qt, &tile, &view);
            if (!CPU_SCORES_AHEAD && more)
                complete_scores(ready = begins, &tile);
            if (ready)
                add_output(&state, ready, &tile, weights, p.scale, scale, CPU_SCORES_AHEAD && more ? begins : 0, &view);
            if (CPU_SCORES_AHEAD && more)
                complete_scores(begins, &tile);
            ready = CPU_SCORES_AHEAD && more ? begins : 0;
            begun += more;
        }
    }
    cpu_close_unit();

    /* The row statistics, then O. */
    vec factors[PANELS * RV];
    for (int i = 0; i < rows; ++i) {
        float row_m = ((const float *)row_max)[i], row_l = ((const float *)row_sum)[i];
        if (!SCALED && row_m != -INFINITY)
            row_m *= fabs(p.scale);
#if CLATTN_PARTIAL
        ((float *)factors)[i] = 1.0f;
        m[OUTPUT_AT(p.m, out_batch, first + i, &view)] = row_m;
        l[OUTPUT_AT(p.l, out_batch, first + i, &view)] = row_l;
#else
        ((float *)factors)[i] = clattn_finish_row(first + i, &row_m, &row_l, &view);
        if (lse)
            lse[OUTPUT_AT(p.lse, out_batch, first + i, &view)] = row_m + log(row_l);
        if (m)
            m[OUTPUT_AT(p.m, out_batch, first + i, &view)] = row_m;
        if (l)
            l[OUTPUT_AT(p.l, out_batch, first + i, &view)] = row_l;
#endif
    }
    store_output(o, p.o, out_batch, scratch, state, factors, first, rows, &view);
}
