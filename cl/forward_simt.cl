/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Forward attention for every OpenCL 1.2 device that likes GPU-shaped work-groups: float arithmetic, barriers in
 * uniform control flow only, no sub-groups, no extensions.
 *
 * One work-group computes CLATTN_B_R query rows of one head; keys stream past them (common/simt_tiles.clh). An item
 * owns RS rows of CS scores, then of CV float4 columns of the output.
 *
 * The running maximum is lazy: scores are taken relative to a bound that all items of a row agree on, and the bounds
 * move (an exchange between the TX items of a row, a rescaling of O) only when some score exceeds its bound by SLACK.
 * P then stays below e^SLACK, which costs a float no accuracy. Sums and true maxima stay with the items until the end.
 *
 * Launch: 1-D, CLATTN_WORK_GROUP_SIZE items a group, batch * heads * ceil(n_q / CLATTN_B_R) groups; with CLATTN_SPLIT
 * as many for each split (common/splits.clh), and o, m and l are then the workspace's.
 *
 * With CLATTN_STATE, o, m and l are the state of the rows (clattn/state.h), read first and written last: O
 * un-normalised fp32, m natural, lse unused; the keys are a piece of the sequence. All of [batch, heads, n_q] has its
 * place there.
 *
 * With CLATTN_PACKS rows are packed ones (score/view.clh).
 *
 * Baked constants, beside those of simt_tiles.clh
 *   CLATTN_LOCAL_BYTES   what the planner counts of local memory, which the kernel compares with its own
 *
 * Local memory: 4 * SIMT_LOCAL_FLOATS bytes, below.
 */
#include "common/types.clh"
#include "common/view.clh"
#include "common/score.clh"
#include "common/splits.clh"
#include "common/simt_tiles.clh"
#include "score/fast/dropout_simt.clh"

#define CV SIMT_VECTORS(CLATTN_D_V)
#define SIMT_SLACK 5.0f

/* Local memory, in floats: [Q tile] [slice buffers] [P tile, also for exchanges between items] [4 flags]. */
#define SIMT_BUFFER SIMT_MOST(SIMT_COLUMNS_FLOATS, SIMT_ROWS_FLOATS(CLATTN_D_V))
#define SIMT_LOCAL_FLOATS (SIMT_BLOCK_FLOATS(CLATTN_D) + CLATTN_BUFFERS * SIMT_BUFFER + SIMT_TILE_FLOATS + 4)
CLATTN_ASSERT(4 * SIMT_LOCAL_FLOATS == CLATTN_LOCAL_BYTES); /* what the planner counts with */

#if CLATTN_PARTIAL
typedef float simt_output;
#define SIMT_STORE clattn_put_fp32
#define SIMT_STORE4 clattn_put4_fp32
#else
typedef clattn_output simt_output;
#define SIMT_STORE clattn_put_output
#define SIMT_STORE4 CLATTN_FOR(CLATTN_O_TYPE, clattn_put4)
#endif
/* The block of rows, the item's place in it, and the batch under which results are kept; and where a row's are. */
typedef struct {
    int row0, tx, ty, batch;
} simt_block;
#define SIMT_OUTPUT_AT(layout, i)                                                                                      \
    clattn_at(layout, block->batch, CLATTN_HEAD(i, view),                                                              \
              CLATTN_PARTIAL ? CLATTN_ROW(i, view) : view->row_base + CLATTN_ROW(i, view))

/* Combines what the TX items of a row hold apart, in the same order for all of them. Takes the P tile. */
#define SIMT_ADD(a, b) ((a) + (b))
#define SIMT_EXCHANGE(to, from, combine, neutral) \
    do { \
        UNROLL for (int g = 0; g < RG; ++g) \
            SIMT_PUT(simt_rows, weights + tx * CLATTN_B_R + (ty + TY * g) * RW, from[g]); \
        barrier(CLK_LOCAL_MEM_FENCE); \
        UNROLL for (int g = 0; g < RG; ++g) to[g] = (simt_rows)(neutral); \
        for (int t = 0; t < TX; ++t) UNROLL for (int g = 0; g < RG; ++g) \
            to[g] = combine(to[g], SIMT_GET(simt_rows, weights + t * CLATTN_B_R + (ty + TY * g) * RW)); \
    } while (0)
/* A bound that may be subtracted: rows that have seen nothing yet have none. */
#define SIMT_REAL(x) fmax(x, -FLT_MAX)

/* Nothing seen yet. */
CLATTN_INLINE void simt_begin(simt_rows bound[RG], simt_rows top[RG], simt_rows sum[RG], simt_rows out[RG * 4 * CV])
{
    UNROLL for (int g = 0; g < RG; ++g) {
        bound[g] = top[g] = (simt_rows)(-INFINITY);
        sum[g] = (simt_rows)(0.0f);
    }
    UNROLL for (int c = 0; c < RG * 4 * CV; ++c) out[c] = (simt_rows)(0.0f);
}

#if CLATTN_STATE
/* An item's part of a row of O. */
CLATTN_INLINE void simt_read_outputs(__global const float *from, long column, int tx, float values[4 * CV])
{
    UNROLL for (int c = 0; c < 4 * CV; ++c) {
        const int x = (c / 4 * TX + tx) * 4 + c % 4;
        values[c] = x < CLATTN_D_V ? from[x * column] : 0.0f;
    }
}

/* The state of the item's rows. One that `stays` is not read: the last row, if it has none, is another group's, who may
 * be writing it. */
CLATTN_INLINE void simt_read_state(const simt_block *block, const clattn_view *view, const clattn_forward_params *p,
                                   __global const float *o, __global const float *m, __global const float *l,
                                   bool stays, simt_rows bound[RG], simt_rows top[RG], simt_rows sum[RG],
                                   simt_rows out[RG * 4 * CV])
{
    const int ty = block->ty;
    UNROLL for (int g = 0; g < RG; ++g) {
        float most[RW], total[RW], values[RW][4 * CV];
        UNROLL for (int e = 0; e < RW; ++e) {
            const int i = min(SIMT_ROW_OF(block->row0, g, e), view->n_q - 1);
            most[e] = total[e] = 0.0f;
            UNROLL for (int c = 0; c < 4 * CV; ++c) values[e][c] = 0.0f;
            if (stays)
                continue;
            most[e] = m[SIMT_OUTPUT_AT(p->m, i)];
            total[e] = block->tx == 0 ? l[SIMT_OUTPUT_AT(p->l, i)] : 0.0f;
            simt_read_outputs(o + SIMT_OUTPUT_AT(p->o, i), p->o.column, block->tx, values[e]);
        }
#define SIMT_MOST_OF(e) most[e]
#define SIMT_TOTAL_OF(e) total[e]
#define SIMT_VALUE_OF(e) values[e][c]
        bound[g] = top[g] = SIMT_ROWS(SIMT_MOST_OF);
        sum[g] = SIMT_ROWS(SIMT_TOTAL_OF);
        UNROLL for (int c = 0; c < 4 * CV; ++c) out[g * 4 * CV + c] = SIMT_ROWS(SIMT_VALUE_OF);
    }
}
#endif

/* Scores as the modifications make them, -inf where the pair is hidden. */
CLATTN_INLINE void simt_modify(int first, int start, int tx, int ty, bool some, const clattn_view *view,
                               simt_rows scores[RG][CS])
{
#if CLATTN_MODIFIES
    UNROLL for (int g = 0; g < RG; ++g) UNROLL for (int c = 0; c < CS; ++c) {
#define SIMT_MODIFIED(e) \
    clattn_modified(ROW_LANE(scores[g][c], e), SIMT_I(first, start, g, e, c), SIMT_J(first, start, g, e, c), view)
        scores[g][c] = SIMT_ROWS(SIMT_MODIFIED);
    }
#endif
    if (some) {
        UNROLL for (int g = 0; g < RG; ++g) UNROLL for (int c = 0; c < CS; ++c) {
#define SIMT_MASKED(e)                                                                                                 \
    (clattn_hidden(SIMT_I(first, start, g, e, c), SIMT_J(first, start, g, e, c), view) ? -INFINITY                     \
                                                                                       : ROW_LANE(scores[g][c], e))
            scores[g][c] = SIMT_ROWS(SIMT_MASKED);
        }
    }
}

/* Raises the item's maxima; whether one is above its bound by more than the slack. (No ||: it becomes a freeze, which
 * Oclgrind lacks.) */
CLATTN_INLINE int simt_raise(simt_rows scores[RG][CS], const simt_rows bound[RG], simt_rows top[RG])
{
    int exceeded = 0;
    UNROLL for (int g = 0; g < RG; ++g) {
        UNROLL for (int c = 0; c < CS; ++c) top[g] = fmax(top[g], scores[g][c]);
        UNROLL for (int e = 0; e < RW; ++e) exceeded |= ROW_LANE(top[g], e) > ROW_LANE(bound[g], e) + SIMT_SLACK;
    }
    return exceeded;
}

/* Moves the bounds to the rows' joint maxima, and what is relative to them. */
CLATTN_INLINE void simt_move_bounds(const simt_rows joint[RG], simt_rows bound[RG], simt_rows sum[RG],
                                    simt_rows out[RG * 4 * CV], simt_rows recent[RG], simt_rows part[RG * 4 * CV])
{
    UNROLL for (int g = 0; g < RG; ++g) {
        const simt_rows shrink = simt_exp2((bound[g] - SIMT_REAL(joint[g])) * CLATTN_LOG2E);
        bound[g] = joint[g];
        sum[g] *= shrink;
        UNROLL for (int c = 0; c < 4 * CV; ++c) out[g * 4 * CV + c] *= shrink;
        if (SIMT_TILES_SUMMED > 1) {
            recent[g] *= shrink;
            UNROLL for (int c = 0; c < 4 * CV; ++c) part[g * 4 * CV + c] *= shrink;
        }
    }
}

/* Weights of the scores, into their tile, without those that dropout takes; all of them into the sums. */
CLATTN_INLINE void simt_weigh(int row0, int j0, int tx, int ty, const clattn_view *view, simt_rows scores[RG][CS],
                              const simt_rows bound[RG], simt_rows recent[RG], __local float *weights)
{
#if CLATTN_DROPOUT
    uint dropped[SIMT_DROP_WORDS];
    simt_drop(row0, j0, tx, ty, view, dropped);
#endif
    UNROLL for (int g = 0; g < RG; ++g) {
        const simt_rows base = SIMT_REAL(bound[g]);
        UNROLL for (int c = 0; c < CS; ++c) {
            simt_rows weight = simt_exp2((scores[g][c] - base) * CLATTN_LOG2E);
            recent[g] += weight;
#if CLATTN_DROPOUT
            weight = simt_kept(weight, g, c, dropped);
#endif
            simt_put_weight(weights, c, g, tx, ty, weight);
        }
    }
}

/* An item's part of a row of O: four columns of every 4 TX, times what finishing makes of them. */
CLATTN_INLINE void simt_write_outputs(__global simt_output *to, long column, int tx, int r, float factor,
                                      const simt_rows *out)
{
    UNROLL for (int c = 0; c < CV; ++c) {
        const int x = (c * TX + tx) * 4;
#define SIMT_OUT(e) (ROW_LANE(out[4 * c + (e)], r) * factor)
        if (column == 1 && x + 4 <= CLATTN_D_V) {
            SIMT_STORE4((float4)(SIMT_OUT(0), SIMT_OUT(1), SIMT_OUT(2), SIMT_OUT(3)), to + x);
        } else {
            UNROLL for (int e = 0; e < 4; ++e) if (x + e < CLATTN_D_V)
                SIMT_STORE(SIMT_OUT(e), to + (x + e) * column);
        }
    }
}

/* A row's results. Its output and sum are relative to the bound; m, l and LSE as returned use the true maximum. */
CLATTN_INLINE void simt_write_row(const simt_block *block, const clattn_view *view, const clattn_forward_params *p,
                                  __global simt_output *o, __global float *lse, __global float *m, __global float *l,
                                  int i, int r, float x_bound, float l_bound, float x_max, const simt_rows *out)
{
#if CLATTN_PARTIAL
    const float factor = x_max == -INFINITY ? 1.0f : exp(x_bound - x_max);
#else
    CLATTN_OF_ROW(own, i, view);
    const float factor = clattn_finish(&x_bound, &l_bound, own);
#if CLATTN_SINKS
    x_max = fmax(x_max, own->sinks);
#endif
#endif
    simt_write_outputs(o + SIMT_OUTPUT_AT(p->o, i), p->o.column, block->tx, r, factor, out);
    if (block->tx == 0) {
        const float l_max = x_max == -INFINITY ? l_bound : l_bound * exp(x_bound - x_max);
        if (m)
            m[SIMT_OUTPUT_AT(p->m, i)] = x_max;
        if (l)
            l[SIMT_OUTPUT_AT(p->l, i)] = l_max;
        if (lse)
            lse[SIMT_OUTPUT_AT(p->lse, i)] = x_max + log(l_max);
    }
}

SIMT_KERNEL
clattn_forward(__global const clattn_q *q, __global const clattn_k *k, __global const clattn_v *v,
               __global simt_output *o, __global float *lse, __global float *m, __global float *l,
               const clattn_forward_params p CLATTN_SCORE_PARAMETERS)
{
    __local float tile[SIMT_LOCAL_FLOATS] __attribute__((aligned(16)));
    __local float *const slices = tile + SIMT_BLOCK_FLOATS(CLATTN_D);
    __local float *const weights = slices + CLATTN_BUFFERS * SIMT_BUFFER;
    /* The first two: in an even, odd tile some score exceeded its bound. */
    volatile __local int *const exceeds = (volatile __local int *)(weights + SIMT_TILE_FLOATS), *const flags =
                                                                                                    exceeds + 2;

    const int lid = (int)get_local_id(0);
    const int patch = SIMT_DIV(lid, SIMT_LANES), lane = SIMT_MOD(lid, SIMT_LANES);
    const int tx = SIMT_MOD(patch, TX / CLATTN_LANES_X) * CLATTN_LANES_X + SIMT_MOD(lane, CLATTN_LANES_X);
    const int ty = SIMT_DIV(patch, TX / CLATTN_LANES_X) * CLATTN_LANES_Y + SIMT_DIV(lane, CLATTN_LANES_X);

    /* Neighbouring groups share a head, so that its K and V stay in cache; causal heads start with the longest rows. */
    const int row_blocks = (p.n_q + CLATTN_B_R - 1) / CLATTN_B_R;
#if CLATTN_SPLIT
    const int all = row_blocks * p.heads * p.batch, split = (int)get_group_id(0) / all;
    const int group = (int)get_group_id(0) - all * split;
#else
    const int group = (int)get_group_id(0);
#endif
    const int head = group / row_blocks, b = head / p.heads, h = head - b * p.heads;
    const int place = group - head * row_blocks, row0 = CLATTN_B_R * (CLATTN_CAUSAL ? row_blocks - 1 - place : place);
    const int kv_head = h / (p.heads / p.kv_heads);
    clattn_view view = clattn_open_forward(b, CLATTN_FIRST_HEAD(h, p), p CLATTN_SCORE_ARGUMENTS);
#if CLATTN_SPLIT
    clattn_take_split(split, p.by_splits, clattn_key_begin(row0, &view) / CLATTN_B_C * CLATTN_B_C, CLATTN_B_C,
                      clattn_key_end(min(row0 + CLATTN_B_R, view.n_q) - 1, &view), &view);
    const int out_batch = clattn_split_batch(split, b, p);
#else
    const int out_batch = b;
#endif
    /* No group returns before the others: PoCL 6.0 takes a barrier behind a return for one that only some items
     * reach. */
    const bool has_rows = !CLATTN_FEWER_ROWS || row0 < view.n_q;
    const int key_end = has_rows ? clattn_key_end(min(row0 + CLATTN_B_R, view.n_q) - 1, &view) : 0;
    int j0 = simt_next(row0, clattn_key_begin(row0, &view) / CLATTN_B_C * CLATTN_B_C, key_end, &view);
    const bool keeps_state = CLATTN_STATE && j0 >= key_end; /* it stays as it is */

    clattn_source q_rows = clattn_open_rows(q, CLATTN_Q_TYPE, p.q, CLATTN_D, 4, &view);
    SIMT_PACK(q_rows, p.q.head, &view);
    const clattn_source k_rows = clattn_open_k(k, p.k, CLATTN_D, 4, kv_head, &view);
    const clattn_source v_rows = clattn_open_v(v, p.v, CLATTN_D_V, 4, kv_head, &view);

    simt_raw carried[SIMT_CARRIED];
    simt_rows out[RG * 4 * CV], bound[RG], top[RG], sum[RG];
    simt_rows part[RG * 4 * CV], recent[RG]; /* of out and sum: the present tiles' share */
    simt_zero(part, RG * 4 * CV);
    simt_zero(recent, RG);
    const simt_block block = {row0, tx, ty, out_batch};
#if CLATTN_STATE
    simt_read_state(&block, &view, &p, o, m, l, keeps_state, bound, top, sum, out);
    barrier(CLK_GLOBAL_MEM_FENCE); /* the row's items have all read what some of them overwrite in the end */
#else
    simt_begin(bound, top, sum, out);
#endif
    if (lid == 0)
        exceeds[0] = exceeds[1] = flags[0] = flags[1] = 0;

    int current = 0, parity = 0;
    bool guarded = false;
    if (j0 < key_end) {
        simt_fetch_columns(k_rows, j0, 0, lid, carried);
        if (SIMT_RESIDENT)
            simt_load_block(q_rows, row0, 0, SIMT_ROUNDED(CLATTN_D), lid, p.scale, tile);
        SIMT_COMMIT_COLUMNS(q_rows, row0, p.scale, k_rows, j0, 0);
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    for (int turn = 0, tiles = 0; j0 < key_end; turn ^= 1) {
        const bool some = simt_tile(row0, j0, &view) == CLATTN_TILE_SOME;
        guarded = some || CLATTN_ZEROES;
        simt_rows scores[RG][CS];
        SIMT_MULTIPLY_COLUMNS(scores, q_rows, row0, p.scale, tile, k_rows, j0, CLATTN_D, SIMT_SUM_COLUMNS,
                              simt_fetch_rows(v_rows, j0, CV, lid, carried));
        simt_modify(row0, j0, tx, ty, some, &view, scores);

        if (simt_raise(scores, bound, top))
            atomic_or(exceeds + turn, 1);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (exceeds[turn]) {
            simt_rows joint[RG];
            SIMT_EXCHANGE(joint, top, fmax, -INFINITY);
            barrier(CLK_LOCAL_MEM_FENCE);
            simt_move_bounds(joint, bound, sum, out, recent, part);
        }
        if (lid == 0)
            exceeds[turn ^ 1] = 0; /* last read before this tile's first barrier, next set after its last */

        simt_weigh(row0, j0, tx, ty, &view, scores, bound, recent, weights);
        const int tile_end = min(j0 + CLATTN_B_C, key_end), next = simt_next(row0, j0 + CLATTN_B_C, key_end, &view);
        SIMT_TURN(SIMT_COMMIT_ROWS(v_rows, j0, CV));
        SIMT_MULTIPLY_ROWS(part, CV, weights, v_rows, j0, tile_end,
                           if (next < key_end) simt_fetch_columns(k_rows, next, 0, lid, carried));
        if (++tiles % SIMT_TILES_SUMMED == 0) {
            simt_join(out, part, RG * 4 * CV);
            simt_join(sum, recent, RG);
        }
        if (next < key_end)
            SIMT_TURN(SIMT_COMMIT_COLUMNS(q_rows, row0, p.scale, k_rows, next, 0));
        j0 = next;
    }

    if (SIMT_TILES_SUMMED > 1) {
        simt_join(out, part, RG * 4 * CV);
        simt_join(sum, recent, RG);
    }
    simt_rows maximum[RG], total[RG];
    barrier(CLK_LOCAL_MEM_FENCE);
    SIMT_EXCHANGE(total, sum, SIMT_ADD, 0.0f);
    barrier(CLK_LOCAL_MEM_FENCE);
    SIMT_EXCHANGE(maximum, top, fmax, -INFINITY);

    UNROLL for (int r = 0; r < RS; ++r) {
        const int g = r / RW, i = SIMT_ROW_OF(row0, g, r % RW);
        if (i >= view.n_q || keeps_state)
            continue;
        simt_write_row(&block, &view, &p, o, lse, m, l, i, r, ROW_LANE(bound[g], r), ROW_LANE(total[g], r),
                       ROW_LANE(maximum[g], r), out + g * 4 * CV);
    }
}
