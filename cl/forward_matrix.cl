/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Forward attention on matrix units: one skeleton over the operations of unit/contract.clh. Storage is fp16 or bf16,
 * products accumulate in float.
 *
 * One work-group computes CLATTN_B_R query rows of one head; each of its sub-groups owns 16 * CLATTN_ROW_TILES of
 * them, with their outputs and softmax state in registers. All matrices are handled in 16 x 16 pieces. For each tile
 * of CLATTN_B_C keys a sub-group forms S = Q K^T, turns S into weights P, rounds them to the storage type, and adds P
 * V. Rows are split between sub-groups, keys never, so nothing but K and V passes between them.
 *
 * Tiles arrive in local memory while the ones before are used. Tiles that no row of the group sees are not loaded, and
 * a sub-group skips the keys that none of its rows sees.
 *
 * What becomes of the scores is common/matrix_scores.clh, matrix_weights.clh and matrix_rows.clh, which stand above
 * too.
 *
 * Where a pair can weigh nothing (hidden, its bias -inf, dropped) and its V is infinite or NaN, P V carries 0 * NaN
 * into a row that does not see it. So if an output is NaN after all, such rows are computed again, in plain arithmetic
 * (common/matrix_repair.clh). Ordinary data pays one comparison per output for that.
 *
 * With CLATTN_STATE `o` is float, un-normalised, and it, m (natural units) and l are read first and written back; the
 * keys are those from the view's first_key on. lse is then not used. With CLATTN_SPLIT they are the workspace's
 * (common/splits.clh). With CLATTN_STREAMS the work-group that comes last makes the results of them
 * (common/matrix_join.clh).
 *
 * With CLATTN_PACKS rows are packed ones (score/view.clh).
 *
 * Launch: 1-D, CLATTN_WORK_GROUP_SIZE items a group, batch * heads * ceil(n_q / CLATTN_B_R) groups, with CLATTN_SPLIT
 * as many for each split.
 *
 * Baked constants (beside those of types.clh, view.clh, score.clh, matrix_tiles.clh, matrix_scores.clh and the matrix
 * header); CLATTN_ROW_TILES is 1..4 (with 2, an operand read from K or V serves 32 rows)
 *   CLATTN_STREAMS           1: K and V come straight from device memory (common/matrix_stream.clh); 0: by tiles
 *   CLATTN_Q_REGISTERS       1: Q stays in registers; 0: it is read again from local memory for every tile
 *   CLATTN_STALE_MAX         1: bounds of the tile before are tried first (common/matrix_tile_weights.clh); 0: they are
 *                            looked for
 *   CLATTN_KEEPS_SCORES      1: scores are kept until it is known whether such bounds hold; 0: where these do not hold,
 *                            they are formed once more
 *   CLATTN_REGISTERS         what an item has at most; left out: as compiled
 *   CLATTN_WORK_GROUP_SIZE   B_R / (16 * ROW_TILES) * SHARERS sub-groups of UNIT_LANES items
 *   CLATTN_LOCAL_BYTES       what the planner counts of local memory, which the kernel compares with its own
 *
 * Local memory: MATRIX_LOCAL_BYTES, below.
 */
#include "common/types.clh"
#include "common/view.clh"
#include "common/splits.clh"
#include "common/matrix_tiles.clh"
#include "common/matrix_stages.clh"
#include "score/fast/alibi_linear.clh"
#include "score/fast/dropout.clh"
#include "score/fast/softcap_polynomial.clh"
#include "common/matrix_modify.clh"
#include "common/matrix_weights.clh"
#include "common/matrix_rows.clh"
#include "common/matrix_repair.clh"
#include "common/matrix_tile_weights.clh"
#include "common/matrix_tile_products.clh"
#include "common/matrix_stream.clh"
#include "common/matrix_join.clh"

#ifndef CLATTN_Q_REGISTERS
#error "CLATTN_Q_REGISTERS must be 0 or 1"
#endif
#ifndef CLATTN_STALE_MAX
#error "CLATTN_STALE_MAX must be 0 or 1"
#endif
#ifndef CLATTN_KEEPS_SCORES
#error "CLATTN_KEEPS_SCORES must be 0 or 1"
#endif
#ifndef CLATTN_WORK_GROUP_SIZE
#error "CLATTN_WORK_GROUP_SIZE must be CLATTN_B_R / (UNIT_ROWS * CLATTN_ROW_TILES) * UNIT_LANES"
#endif

CLATTN_ASSERT(RT >= 1 && RT <= 4);
CLATTN_ASSERT(CLATTN_B_R % (UNIT_ROWS * RT) == 0);
CLATTN_ASSERT(WG == CLATTN_B_R / (UNIT_ROWS * RT) * CLATTN_SHARERS * UNIT_LANES);

/* where it lies what dropout takes, of each sub-group's rows */
#define STORED (INPUT_TILES > O_TILE ? INPUT_TILES : O_TILE)
#if MATRIX_STORES_PHILOX
#define STORED_BYTES (CLATTN_B_R / UNIT_PIECE * MATRIX_STORED)
#else
#define STORED_BYTES 0
#endif
#if CLATTN_STREAMS
/* Q, then what sub-groups leave each other */
#define STREAM_QUERY_BYTES (CLATTN_Q_REGISTERS ? 0 : DT * STREAM_OPERAND_BYTES)
#define STREAM_BYTES       (MATRIX_JOIN_BYTES > STREAM_QUERY_BYTES ? MATRIX_JOIN_BYTES : STREAM_QUERY_BYTES)
#define SCRATCH_AT         STREAM_BYTES
#define MATRIX_LOCAL_BYTES (STREAM_BYTES + WG / UNIT_LANES * UNIT_SCRATCH_BYTES + MATRIX_FLAG_BYTES)
#else
#define SCRATCH_AT         (STORED + STORED_BYTES)
#define MATRIX_LOCAL_BYTES (STORED + STORED_BYTES + WG / UNIT_LANES * UNIT_SCRATCH_BYTES + MATRIX_FLAG_BYTES)
#endif
CLATTN_ASSERT(MATRIX_LOCAL_BYTES == CLATTN_LOCAL_BYTES); /* what the planner counts with */

/* What a sub-group attends with: where its tiles lie, and which rows are its own. */
typedef struct {
    clattn_source k, v;
    unit_address q_tile;
    unit_lane lane;
    int lid, group_row, row;
    int key_end, my_key_end; /* one past the last key that a row of the group, or of the sub-group, sees */
} matrix_attending;
#define MATRIX_TILES(by) ((by)->q_tile + TILES_AT) /* stages, each a tile of K, then one of V */

/* How far it has come. */
typedef struct {
    matrix_walk walk;
    int stage;     /* where the present tile's K starts, in bytes from the first */
    int which_max; /* whether, and how, bounds are tried before they are looked for (common/matrix_tile_weights.clh) */
#if MATRIX_STORES_PHILOX
    matrix_stored_words drawn;
#endif
    matrix_coming coming; /* the next tile, as far as it is not in local memory */
} matrix_progress;

/* Where rows end at different keys, or begin, most tiles are seen whole all the same. Those pass by a loop of their
 * own, which hides nothing. */
#define MATRIX_SORTS_TILES ((CLATTN_ENDS || CLATTN_BEGINS || DT > 2) && !CLATTN_BLOCK_MASK && !CLATTN_PAIRS)
/* In which order they come: causal rows with ALiBi begin at the diagonal; windows cut tiles on both sides, a state the
 * first and the last, and from the middle on the last is met amid others; else those that are cut come last. */
#define MATRIX_ENDS_WHOLE (MATRIX_FROM_DIAGONAL && CLATTN_CAUSAL && !CLATTN_HAS_END && !CLATTN_BEGINS && !CLATTN_STATE)
#define MATRIX_ALTERNATES (CLATTN_BEGINS || CLATTN_STATE || (MATRIX_FROM_DIAGONAL && !CLATTN_CAUSAL))

enum { MATRIX_EVERY_TILE, MATRIX_WHOLE_TILES, MATRIX_OTHER_TILES };

CLATTN_INLINE bool matrix_is_of(const int sort, int tile, const matrix_attending *by, const clattn_view *view)
{
    if (sort == MATRIX_EVERY_TILE)
        return true;
    const int last_row = by->group_row + CLATTN_B_R - 1;
    const bool whole = clattn_tile_ends(by->group_row, last_row, tile, tile + CLATTN_B_C - 1, view) == CLATTN_TILE_ALL;
    return whole == (sort == MATRIX_WHOLE_TILES);
}

/* Tiles that have no linear part of ALiBi's penalties take the way of bounds that are looked for, so that what is done
 * to their scores stands between no other's products and weights. */
#if MATRIX_ALIBI_LINEAR && UNIT_FETCHES && !CLATTN_KEEPS_SCORES
#define MATRIX_IS_EVEN(row, key, p, view) matrix_linear_of(row, key, p, view).is_there
#else
#define MATRIX_IS_EVEN(row, key, p, view) true
#endif

/* Scores of keys from `key` on become weights by the bounds of the tile before, or where these do not hold by others,
 * and P V is added to O. Or, unless CLATTN_KEEPS_SCORES, nothing is added where they do not hold, and the scores are
 * lost. */
CLATTN_INLINE bool matrix_add_steadily(unit_accumulator s[RT][KT], const matrix_attending *by, int key, int kind,
                                       const matrix_drawing *drawing, unit_address my_v, clattn_forward_params p,
                                       clattn_view *view, matrix_progress *at, matrix_softmax *rows,
                                       unit_accumulator out[RT][VT])
{
    unit_operand weights[RT][KT];
    matrix_form form;
    bool weighed = false;
    if (!MATRIX_CAPS_LATE)
        form = matrix_modify(s, by->row, key, by->lane, p, kind, false, view);
    if (!CLATTN_KEEPS_SCORES || at->which_max) {
        if (MATRIX_CAPS_LATE)
            form = matrix_modify(s, by->row, key, by->lane, p, kind, true, view);
        weighed = matrix_weigh_by_stale_max(by->lane, weights, s, &form, at->which_max, drawing, view, rows);
    }
    if (!weighed) {
        UNIT_SELDOM;
        at->which_max = MATRIX_NEW_MAX;
        if (!CLATTN_KEEPS_SCORES)
            return false;
        float shrink[RT][UNIT_SLOTS];
        if (MATRIX_CAPS_LATE)
            form = matrix_modify(s, by->row, key, by->lane, p, kind, false, view);
        if (matrix_weigh_bounded(by->lane, weights, s, &form, drawing, p, view, rows, shrink))
            FOR_OUTPUTS out[r][c].x[e] *= shrink[r][UNIT_SLOT(e)];
        at->which_max = matrix_which_max(by->lane, rows, p, view);
    }
    matrix_add_values(by->lane, weights, my_v, out);
    return true;
}

/* The same by bounds that are looked for. */
CLATTN_INLINE void matrix_add_bounded(unit_accumulator s[RT][KT], const matrix_attending *by, int key, int kind,
                                      const matrix_drawing *drawing, unit_address my_v, clattn_forward_params p,
                                      clattn_view *view, matrix_softmax *rows, unit_accumulator out[RT][VT])
{
    float shrink[RT][UNIT_SLOTS];
#if UNIT_SUMS_IN_PARTS
    unit_operand weights[RT][KT];
    const matrix_form form = matrix_modify(s, by->row, key, by->lane, p, kind, false, view);
    if (matrix_weigh_bounded(by->lane, weights, s, &form, drawing, p, view, rows, shrink))
        FOR_OUTPUTS out[r][c].x[e] *= shrink[r][UNIT_SLOT(e)];
    matrix_add_values(by->lane, weights, my_v, out);
#else
    float offset[RT][UNIT_SLOTS];
    matrix_form form = matrix_modify(s, by->row, key, by->lane, p, kind, false, view);
    if (matrix_bound(by->lane, s, &form, offset, rows, shrink, view))
        FOR_OUTPUTS out[r][c].x[e] *= shrink[r][UNIT_SLOT(e)];
    if (form.raw)
        matrix_values(by->lane, s, &form, MATRIX_RAW, offset, rows, my_v, out, drawing, p, view);
    else
        matrix_values(by->lane, s, &form, MATRIX_AS_THEY_ARE, offset, rows, my_v, out, drawing, p, view);
#endif
}

/* A tile that is there, CLATTN_KEYS keys at a time. */
CLATTN_INLINE void matrix_meet_tile(const int sort, const matrix_attending *by, unit_address k_tile,
                                    const unit_operand query[RT][DT], clattn_forward_params p, clattn_view *view,
                                    matrix_progress *at, matrix_softmax *rows, unit_accumulator out[RT][VT])
{
    const int tile = at->walk.tile, row = by->row;
    const unit_lane lane = by->lane;
    const int end = sort == MATRIX_WHOLE_TILES    ? tile + CLATTN_B_C
                    : matrix_sees_tile(&at->walk) ? by->my_key_end
                                                  : tile;
    const unit_address my_q = by->q_tile + (row - by->group_row) * D_PITCH + unit_lane_a(lane, D_PITCH);
    const unit_address my_k = k_tile + unit_lane_bt(lane, D_PITCH), my_v = k_tile + K_TILE + MATRIX_LANE_V(lane);
#pragma unroll 1
    for (int n = 0; n < CLATTN_B_C && tile + n < end; n += CLATTN_KEYS) {
        const int key = tile + n;
        const int kind = sort == MATRIX_WHOLE_TILES ? CLATTN_TILE_ALL
                                                    : clattn_tile_met(MATRIX_IN_BLOCKS, row, row + UNIT_ROWS * RT - 1,
                                                                      key, key + CLATTN_KEYS - 1, view);
        if (MATRIX_MAY_SKIP && kind == CLATTN_TILE_SKIP)
            continue;
        matrix_drawing drawing = MATRIX_DRAWING(row, key, lane);
#if MATRIX_STORES_PHILOX
        matrix_draw_stored(&drawing, &at->drawn, view);
#endif
        unit_accumulator s[RT][KT];
        matrix_begin_scores(s, row, key, lane, p, view);
        matrix_scores(lane, s, query, my_q, my_k + n * D_PITCH);
        if (CLATTN_STALE_MAX && sort != MATRIX_OTHER_TILES && MATRIX_IS_EVEN(row, key, p, view) &&
            (CLATTN_KEEPS_SCORES || at->which_max)) {
            if (!matrix_add_steadily(s, by, key, kind, &drawing, MATRIX_V_FROM(my_v, n), p, view, at, rows, out))
                n -= CLATTN_KEYS; /* once more, from the products on */
        } else {
            matrix_add_bounded(s, by, key, kind, &drawing, MATRIX_V_FROM(my_v, n), p, view, rows, out);
            at->which_max = CLATTN_STALE_MAX ? matrix_which_max(lane, rows, p, view) : MATRIX_NEW_MAX;
        }
    }
}

/* Tiles of a sort, as long as such follow. */
CLATTN_INLINE void matrix_meet_tiles(const int sort, const matrix_attending *by, const unit_operand query[RT][DT],
                                     clattn_forward_params p, clattn_view *view, matrix_progress *at,
                                     matrix_softmax *rows, unit_accumulator out[RT][VT])
{
#pragma unroll 1
    while (at->walk.tile < by->key_end && matrix_is_of(sort, at->walk.tile, by, view)) {
        const matrix_walk next = matrix_next_tile(at->walk, by->key_end, by->group_row, by->row, by->lane, view);
        const unit_address k_tile = MATRIX_TILES(by) + at->stage;

        matrix_receive(&at->coming, by->k, by->v, at->walk.tile, k_tile, by->lid);
        at->stage = MATRIX_OTHER_STAGE(at->stage);
        if (next.tile < by->key_end)
            matrix_ask(&at->coming, by->k, by->v, next.tile, MATRIX_TILES(by) + at->stage, by->lid);
        matrix_meet_tile(sort, by, k_tile, query, p, view, at, rows, out);
        at->walk = next;
    }
}

/* Attention of the sub-group's rows to all keys; `rows` and `out` hold what they begin with. */
CLATTN_INLINE void matrix_attend(clattn_source q, const matrix_attending *by, clattn_forward_params p,
                                 clattn_view *view, matrix_softmax *rows, unit_accumulator out[RT][VT])
{
    matrix_progress at;
    at.walk = matrix_first_tile(by->key_end, by->group_row, by->row, by->lane, view);
    at.stage = 0;
    at.which_max = MATRIX_NEW_MAX;
#if MATRIX_STORES_PHILOX
    at.drawn = matrix_stored_at(by->q_tile + STORED + (by->row - by->group_row) / UNIT_PIECE * MATRIX_STORED, by->lane);
#endif
    if (at.walk.tile >= by->key_end)
        return;
    matrix_fill_queries(q, by->group_row, CLATTN_B_R, CLATTN_D, by->q_tile, D_PITCH, by->lid);
    matrix_ask(&at.coming, by->k, by->v, at.walk.tile, MATRIX_TILES(by), by->lid);
    unit_operand query[RT][DT];
#if MATRIX_CAPS_LATE
    const unit_address my_rows = by->q_tile + (by->row - by->group_row) * D_PITCH;
    unit_copy_wait();
    barrier(CLK_LOCAL_MEM_FENCE);
    view->q_scaled = matrix_scale_q(my_rows, D_PITCH, 0, by->lane, view);
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
#if CLATTN_Q_REGISTERS
    const unit_address my_q = by->q_tile + (by->row - by->group_row) * D_PITCH + unit_lane_a(by->lane, D_PITCH);
    unit_copy_wait();
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL for (int r = 0; r < RT; ++r) UNROLL for (int x = 0; x < DT; ++x)
        unit_load_a(&query[r][x], my_q + (UNIT_PIECE * r * D_PITCH + MATRIX_PIECE_BYTES * x), D_PITCH);
#endif
#if MATRIX_SORTS_TILES && MATRIX_ENDS_WHOLE
    matrix_meet_tiles(MATRIX_OTHER_TILES, by, query, p, view, &at, rows, out);
    matrix_meet_tiles(MATRIX_WHOLE_TILES, by, query, p, view, &at, rows, out);
#elif MATRIX_SORTS_TILES
    do {
        matrix_meet_tiles(MATRIX_WHOLE_TILES, by, query, p, view, &at, rows, out);
        matrix_meet_tiles(MATRIX_OTHER_TILES, by, query, p, view, &at, rows, out);
    } while (MATRIX_ALTERNATES && at.walk.tile < by->key_end);
#else
    matrix_meet_tiles(MATRIX_EVERY_TILE, by, query, p, view, &at, rows, out);
#endif
}

#if MATRIX_MAY_REPAIR
/* Whether any item of the group has an output that is NaN. */
CLATTN_INLINE bool matrix_is_poisoned(const unit_accumulator out[RT][VT], volatile __local uint *flag, int lid)
{
    bool poisoned = false;
    FOR_OUTPUTS poisoned = poisoned || isnan(out[r][c].x[e]);
    if (lid == 0)
        *flag = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (poisoned)
        atomic_or(flag, 1u);
    barrier(CLK_LOCAL_MEM_FENCE);
    return *flag != 0;
}
#endif

/* NVIDIA's compiler takes a limit of an item's registers from its options only where it is not told the size. */
#ifdef CLATTN_REGISTERS
#define MATRIX_SIZE
#else
#define MATRIX_SIZE __attribute__((reqd_work_group_size(CLATTN_WORK_GROUP_SIZE, 1, 1)))
#endif
__kernel UNIT_KERNEL MATRIX_SIZE void
clattn_forward(__global const clattn_storage *q, __global const clattn_k *k, __global const clattn_v *v,
               __global MATRIX_RESULT *o, __global float *lse, __global float *m, __global float *l,
               MATRIX_WORKSPACE const clattn_forward_params p CLATTN_SCORE_PARAMETERS)
{
    __local uint memory[MATRIX_LOCAL_BYTES / 4] __attribute__((aligned(128)));
    const unit_address q_tile = unit_address_of(memory);
    const int lid = (int)get_local_id(0);
    const unit_lane lane = UNIT_LANE_OF(lid, q_tile + SCRATCH_AT +
                                                 lid / UNIT_LANES * UNIT_SCRATCH_BYTES);

    const matrix_place place = matrix_find_place((int)get_group_id(0), p);
    const int group_row = place.row, b = place.b, h = place.h;
    const int row = group_row + unit_sub_group(lid) / CLATTN_SHARERS * UNIT_ROWS * RT;
    clattn_view view = clattn_open_forward(b, h, p CLATTN_SCORE_ARGUMENTS);
#if CLATTN_FEWER_ROWS
    if (group_row >= view.n_q)
        return;
#endif
#if CLATTN_SPLIT
    matrix_take_split(place, p, &view);
#endif
#if MATRIX_JOINS && CLATTN_SPLIT
    volatile __global ulong *const counter = join_counter(workspace, place, p, lid);
#endif
    clattn_source q_rows = clattn_open_rows(q, CLATTN_DTYPE, p.q, CLATTN_D, MATRIX_VECTOR, &view);
    matrix_pack(&q_rows, p.q.head, &view);
    matrix_attending by;
    by.key_end = clattn_key_end(min(group_row + CLATTN_B_R, view.n_q) - 1, &view);
#if CLATTN_SHARERS > 1
    const int all_first = view.first_key, all_keys = view.n_kv;
    const int first_key = CLATTN_SPLIT ? view.first_key : matrix_first_key(group_row, &view);
    const int sharer = unit_sub_group(lid) % CLATTN_SHARERS;
    const int tiles = clattn_tiles_between(first_key, CLATTN_B_C, by.key_end);
    if (MATRIX_TAKES_TURNS)
        view.first_key = first_key + sharer * CLATTN_B_C;
    else
        clattn_take_run(sharer, tiles / CLATTN_SHARERS, tiles % CLATTN_SHARERS, first_key, CLATTN_B_C, &view);
#else
    const int first_key = matrix_first_key_met(group_row, &view);
#endif
    by.k = clattn_open_k(k, p.k, CLATTN_D, MATRIX_VECTOR, place.kv_head, &view);
    by.v = clattn_open_v(v, p.v, CLATTN_D_V, MATRIX_VECTOR, place.kv_head, &view);
    by.q_tile = q_tile;
    by.lid = lid;
    by.lane = lane;
    by.group_row = group_row;
    by.row = row;
    by.my_key_end = clattn_key_end(min(row + UNIT_ROWS * RT, view.n_q) - 1, &view);
    unit_accumulator out[RT][VT];
    matrix_softmax rows;
#if CLATTN_STATE
    matrix_results to = matrix_locate(o, lse, m, l, p, b, h, 0); /* each sequence's rows have a place of their own */
    matrix_continue(to, row, lane, &view, &rows, out);
#else
    matrix_begin(&rows, out);
#endif
#if CLATTN_STREAMS
    matrix_stream(&q_rows, &by.k, &by.v, q_tile, row, by.my_key_end, lane, p, &view, &rows, out);
#else
    matrix_attend(q_rows, &by, p, &view, &rows, out);
#endif
#if CLATTN_SHARERS > 1
    view.first_key = all_first;
    view.n_kv = all_keys;
#endif
#if MATRIX_MAY_REPAIR
#if !MATRIX_JOINS
    const bool poisoned = matrix_is_poisoned(out, memory + (MATRIX_LOCAL_BYTES / 4 - 4), lid);
#endif
#define MATRIX_REPAIR(r)                                                                                               \
    matrix_repair(matrix_operands_of(q, k, v, place, p, &view), to, row + UNIT_ROWS * (r),                            \
                  first_key, by.key_end, lane, p, &view)
#if CLATTN_STATE
    if (poisoned)
        UNROLL for (int r = 0; r < RT; ++r) to.written[r] = MATRIX_REPAIR(r);
#endif
#endif
#if !MATRIX_JOINS || !CLATTN_Q_REGISTERS
    barrier(CLK_LOCAL_MEM_FENCE); /* all are done with the tiles, or Q */
#endif

    float factor[RT][UNIT_SLOTS];
    matrix_finish(lane, &rows, factor, row, p, &view);
#if MATRIX_JOINS
    const join_results results = {o, lse, m, l, place};
    const int quads = min(CLATTN_B_R, view.n_q - group_row) * JOIN_QUADS;
#if CLATTN_SPLIT
    const matrix_results to = join_state(workspace + p.states, place, p);
#else
    const matrix_results to = matrix_results_of(o, lse, m, l, p, place, &view);
#endif
    join_leave((__local float *)memory, lid / UNIT_LANES, &rows, factor, out, lane);
    bool poisoned = false;
    FOR_OUTPUTS poisoned = poisoned || isnan(out[r][c].x[e]);
    poisoned = unit_barrier_any(memory + (MATRIX_LOCAL_BYTES / 4 - 4), lid, poisoned);
    for (int at = lid; at < quads; at += WG) {
        const int r = at / JOIN_QUADS, x = at % JOIN_QUADS * 4;
        const join_sum sum = join_parts((__local const float *)memory, r, x);
#if CLATTN_SPLIT
        join_put_state(to, group_row + r, x, sum);
#else
        join_put(results, r, x, sum, p, &view);
#endif
    }
#else
    FOR_OUTPUTS out[r][c].x[e] *= factor[r][UNIT_SLOT(e)];
#if !CLATTN_STATE
    const matrix_results to = matrix_results_of(o, lse, m, l, p, place, &view);
#endif
    matrix_write_rows(to, &rows, row, lane, &view);
#if CLATTN_PARTIAL || MATRIX_OUTPUT_TYPE != CLATTN_DTYPE || CLATTN_STREAMS
    FOR_OUTPUTS if (matrix_is_wanted(&to, r, UNIT_SLOT(e), row, lane, &view) && MATRIX_X(c, e) < CLATTN_D_V)
        MATRIX_PUT(out[r][c].x[e], &to.o[MATRIX_AT(to, o, MATRIX_I(r, UNIT_SLOT(e))) + MATRIX_X(c, e) * to.o_column]);
#else
    /* By way of local memory, so that it leaves in whole chunks. */
    UNROLL for (int r = 0; r < RT; ++r) UNROLL for (int c = 0; c < VT; ++c)
    {
        unit_operand y;
        unit_to_left(lane, &y, &out[r][c]);
        unit_store(q_tile + ((row - group_row + UNIT_PIECE * r) * V_PITCH + MATRIX_PIECE_BYTES * c), V_PITCH, lane, &y);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    matrix_write(q_tile, V_PITCH, CLATTN_B_R, CLATTN_D_V, o, p.o, b, h, view.row_base, group_row, view.n_q, lid,
                 p.pack);
#endif
#endif
#if MATRIX_MAY_REPAIR && !CLATTN_STATE
    if (poisoned) {
        barrier(CLK_GLOBAL_MEM_FENCE); /* others may have written what is looked at now */
#pragma unroll 1
        for (int r = 0; r < RT && lid / UNIT_LANES % CLATTN_SHARERS == 0; ++r)
            MATRIX_REPAIR(r);
    }
#endif
#if MATRIX_JOINS && CLATTN_SPLIT
    if (!join_is_last(counter, p, memory + (MATRIX_LOCAL_BYTES / 4 - 4), lid))
        return;
    for (int at = lid; at < quads; at += WG) {
        const int r = at / JOIN_QUADS, x = at % JOIN_QUADS * 4;
        join_put(results, r, x, join_splits(workspace + p.states, join_row(place, p) + group_row + r, x, p), p, &view);
    }
    if (lid == 0)
        *counter = 0;
#endif
}
