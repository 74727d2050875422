/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Forward attention on matrix units: one skeleton over the operations of a matrix/<vendor>.clh header, which stands
 * above it in the program text, with common/matrix_tiles.clh between. Storage is fp16 or bf16, products accumulate in float.
 *
 * One work-group computes CLATTN_B_R query rows of one head; each of its sub-groups owns 16 * CLATTN_ROW_TILES of
 * them, with their outputs and softmax state in registers. All matrices are handled in 16 x 16 pieces. For each tile
 * of CLATTN_B_C keys a sub-group forms S = Q K^T, turns S into weights P, rounds them to the storage type, and adds P
 * V. Rows are split between sub-groups, keys never, so nothing but K and V passes between them.
 *
 * Tiles arrive in local memory while the ones before are used. Tiles that no row of the group sees are not loaded, and a
 * sub-group passes over the keys that none of its rows sees.
 *
 * What becomes of the scores is common/matrix_scores.clh, matrix_weights.clh and matrix_rows.clh, which stand above too.
 *
 * Where a pair can weigh nothing (hidden, its bias -inf, dropped) and its V is infinite or NaN, P V would carry 0 * NaN
 * into a row that does not see it. So if an output is NaN after all, the work-group runs once more, carefully: those
 * values are then taken out of the tiles, and added only to rows that see them. Ordinary data pays one
 * comparison per output for that. The careful run is a second copy of the code: as a branch within the first it cost
 * registers, and a tenth of the speed.
 *
 * With CLATTN_STATE `o` is float, un-normalised, and it, m (natural units) and l are read first and written back; the keys
 * are those from the view's first_key on. lse is then not used. With CLATTN_SPLIT they are the workspace's
 * (common/splits.clh).
 *
 * Launch: 1-D, CLATTN_WORK_GROUP_SIZE items a group, batch * heads * ceil(n_q / CLATTN_B_R) groups, with CLATTN_SPLIT as
 * many for each split.
 *
 * Baked constants (beside those of types.clh, view.clh, score.clh, matrix_tiles.clh, matrix_scores.clh and the matrix header);
 * CLATTN_ROW_TILES is 1..4 (with 2, an operand read from K or V serves 32 rows)
 *   CLATTN_Q_REGISTERS       1: Q stays in registers; 0: it is read again from local memory for every tile
 *   CLATTN_STEADY            1: bounds of the tile before are tried first (common/matrix_tile_weights.clh); 0: they are looked for
 *   CLATTN_WORK_GROUP_SIZE   B_R / (16 * ROW_TILES) sub-groups of MATRIX_LANES items
 *
 * Local memory: MATRIX_LOCAL_BYTES, below.
 */
#ifndef CLATTN_Q_REGISTERS
#error "CLATTN_Q_REGISTERS must be 0 or 1"
#endif
#ifndef CLATTN_STEADY
#error "CLATTN_STEADY must be 0 or 1"
#endif
#ifndef CLATTN_WORK_GROUP_SIZE
#error "CLATTN_WORK_GROUP_SIZE must be CLATTN_B_R / (16 * CLATTN_ROW_TILES) * MATRIX_LANES"
#endif

CLATTN_ASSERT(RT >= 1 && RT <= 4);
CLATTN_ASSERT(CLATTN_B_R % (16 * RT) == 0 && WG == CLATTN_B_R / (16 * RT) * MATRIX_LANES);

/* Bytes: of a tile's row, of a tile, of all. Q's place serves O at the end. */
#define D_PITCH MATRIX_PITCH(CLATTN_D)
#define V_PITCH MATRIX_PITCH(CLATTN_D_V)
#define K_TILE (CLATTN_B_C * D_PITCH)
#define V_TILE (CLATTN_B_C * V_PITCH)
#define Q_TILE (CLATTN_B_R * D_PITCH)
#define O_TILE (CLATTN_B_R * V_PITCH)
#define INPUT_TILES (Q_TILE + 2 * (K_TILE + V_TILE))
#define CALLS (INPUT_TILES > O_TILE ? INPUT_TILES : O_TILE) /* where those of dropout lie, of each sub-group's rows */
#if MATRIX_STORES_CALLS
#define CALLS_BYTES (CLATTN_B_R / 16 * MATRIX_WORDS)
#else
#define CALLS_BYTES 0
#endif
#define MATRIX_LOCAL_BYTES (CALLS + CALLS_BYTES + 16)
#define MATRIX_MAY_REPEAT (CLATTN_HIDES || CLATTN_ZEROES)
#if MATRIX_MAY_REPEAT
/* An element of V as it lies in memory, if it is infinite or NaN; else 0. */
CLATTN_INLINE float matrix_not_finite(ushort x)
{
    const ushort mantissa = CLATTN_DTYPE == 1 ? 0x3ff : 0x7f;
    if (matrix_is_finite(x))
        return 0.0f;
    return (x & mantissa) ? NAN : (x & 0x8000) ? -INFINITY : INFINITY;
}

#if CLATTN_SCORE_MOD
CLATTN_INLINE float matrix_value(matrix_address at)
{
    const ushort x = matrix_get(at);
#if CLATTN_DTYPE == 1
    return vload_half(0, (const half *)&x);
#else
    return as_float((uint)x << 16);
#endif
}
#endif

/* Whether row i sees key j, with other weight than 0 but for rounding; their vectors are at q and k. */
CLATTN_INLINE bool matrix_weighs(int i, int j, matrix_address q, matrix_address k, clattn_forward_params p,
                                 const clattn_view *view)
{
    bool weighs = !clattn_hidden(i, j, view);
#if CLATTN_BIAS || CLATTN_SCORE_MOD
    float score = 0.0f; /* any one does, unless the user's function looks at it */
#if CLATTN_SCORE_MOD
#pragma unroll 1
    for (int x = 0; x < CLATTN_D; ++x)
        score = fma(matrix_value(q + 2 * x), matrix_value(k + 2 * x), score);
#endif
    weighs = weighs && clattn_modified(score * p.scale, i, j, view) != -INFINITY;
#endif
#if CLATTN_DROPOUT
    weighs = weighs && !clattn_dropped(i, j, view);
#endif
    return weighs;
}

/* Adds the infinities and NaN of a tile of V to the rows that see them; my_q is where the sub-group's rows of Q are. */
CLATTN_INLINE void matrix_add_not_finite(matrix_accumulator out[RT][VT], matrix_address my_q, matrix_address k,
                                         matrix_address v, int row, int key, int lane, clattn_forward_params p,
                                         const clattn_view *view)
{
#pragma unroll 1
    for (int j = 0; j < CLATTN_B_C; ++j) {
        const matrix_address v_row = v + j * V_PITCH;
        bool finite = true;
        UNROLL for (int c = 0; c < VT; ++c) UNROLL for (int e = 0; e < MATRIX_ELEMENTS; ++e)
            finite = finite && matrix_is_finite(matrix_get(v_row + 2 * (16 * c + matrix_column(lane, e))));
        if (finite)
            continue;
        bool weighs[RT][MATRIX_SLOTS];
        FOR_ROWS weighs[r][i] =
            matrix_weighs(row + 16 * r + matrix_row(lane, i), key + j, my_q + (16 * r + matrix_row(lane, i)) * D_PITCH,
                          k + j * D_PITCH, p, view);
        FOR_OUTPUTS if (weighs[r][MATRIX_SLOT(e)])
            out[r][c].x[e] += matrix_not_finite(matrix_get(v_row + 2 * (16 * c + matrix_column(lane, e))));
    }
}

/* Zeros them in the tile. */
CLATTN_INLINE void matrix_drop_not_finite(matrix_address v, int lid)
{
    for (int n = lid; n < CLATTN_B_C * 2 * VT; n += WG) {
        const int j = n / (2 * VT);
        const matrix_address at = v + (j * V_PITCH + (n - j * (2 * VT)) * 16);
        const uint4 x = matrix_get16(at);
        /* An exponent of ones carries into the sign's place when 1 is added to it. */
        const uint one = CLATTN_DTYPE == 1 ? 0x400 : 0x80;
        const uint4 sign = ((x & 0x7fff7fffu) + (one << 16 | one)) & 0x80008000u;
        matrix_put16(at, x & ~((sign >> 15) * 0xffffu));
    }
}
#endif

/* What products are added to: 0, or ALiBi's ramp of the keys from `key` on. */
CLATTN_INLINE void matrix_begin_scores(matrix_accumulator s[RT][KT], int row, int key, int lane, clattn_forward_params p,
                                       const clattn_view *view)
{
#if MATRIX_RAMP
    const matrix_ramp ramp = matrix_ramp_of(row, key, p, view);
    const float rise = ramp.is_there ? ramp.rise : 0.0f;
    const float first = rise * convert_float(key + matrix_column(lane, 0) - ramp.origin);
    FOR_SCORES s[r][c].x[e] = fma(rise, MATRIX_STEPS, first);
#else
    FOR_SCORES s[r][c].x[e] = 0.0f;
#endif
}

/* S += Q K^T, from where this lane's parts of Q and of the tile of K begin. */
CLATTN_INLINE void matrix_scores(matrix_accumulator s[RT][KT], const matrix_operand query[RT][DT], matrix_address my_q,
                                 matrix_address my_k)
{
    UNROLL for (int x = 0; x < DT; ++x)
    {
        matrix_operand a[RT];
        UNROLL for (int r = 0; r < RT; ++r)
        {
            if (CLATTN_Q_REGISTERS)
                a[r] = query[r][x];
            else
                matrix_load_a(&a[r], my_q + (16 * r * D_PITCH + 32 * x), D_PITCH);
        }
        UNROLL for (int c = 0; c < KT; ++c)
        {
            matrix_operand y;
            matrix_load_bt(&y, my_k + (16 * c * D_PITCH + 32 * x), D_PITCH);
            UNROLL for (int r = 0; r < RT; ++r) matrix_multiply(&s[r][c], &a[r], &y);
        }
    }
}

#if CLATTN_STEADY
/* P V is added to O. */
CLATTN_INLINE void matrix_add_values(const matrix_operand weights[RT][KT], matrix_address my_v, matrix_accumulator out[RT][VT])
{
    UNROLL for (int c = 0; c < KT; ++c) UNROLL for (int x = 0; x < VT; ++x)
    {
        matrix_operand y;
        matrix_load_b(&y, my_v + (16 * c * V_PITCH + 32 * x), V_PITCH);
        UNROLL for (int r = 0; r < RT; ++r) matrix_multiply(&out[r][x], &weights[r][c], &y);
    }
}
#else
/* P, rounded, times V is added to O, 16 keys at a time. */
CLATTN_INLINE void matrix_values(matrix_accumulator s[RT][KT], const matrix_form *form, const int scores,
                                 const float offset[RT][MATRIX_SLOTS], matrix_softmax *rows, matrix_address my_v,
                                 matrix_accumulator out[RT][VT], const matrix_drawing *drawing, clattn_forward_params p,
                                 const clattn_view *view)
{
#if CLATTN_DROPOUT
    matrix_dropped dropped[RT];
#endif
    UNROLL for (int c = 0; c < KT; ++c)
    {
        matrix_operand a[RT];
        matrix_accumulator weights[RT];
        matrix_weigh(weights, s, c, form, scores, offset, rows->sum, view);
#if CLATTN_DROPOUT
        matrix_draw_piece(dropped, c, drawing, view);
        matrix_drop_piece(weights, dropped, c, drawing);
#endif
        UNROLL for (int r = 0; r < RT; ++r) matrix_round(&a[r], &weights[r]);
        UNROLL for (int x = 0; x < VT; ++x)
        {
            matrix_operand y;
            matrix_load_b(&y, my_v + (16 * c * V_PITCH + 32 * x), V_PITCH);
            UNROLL for (int r = 0; r < RT; ++r) matrix_multiply(&out[r][x], &a[r], &y);
        }
    }
}
#endif

/* Attention of the sub-group's rows to all keys. `careful`, a constant at each call, keeps what is infinite or NaN in
 * V from rows that do not see it. */
CLATTN_INLINE void matrix_attend(matrix_source q, matrix_source k, matrix_source v, matrix_address q_tile, int lid,
                                 int group_row, int row, clattn_forward_params p, clattn_view *view,
                                 MATRIX_BEFORE_PARAMETER const bool careful, matrix_softmax *rows,
                                 matrix_accumulator out[RT][VT])
{
    const int lane = lid % MATRIX_LANES;
    const int key_end = clattn_key_end(min(group_row + CLATTN_B_R, view->n_q) - 1, view);
    const int my_key_end = clattn_key_end(min(row + 16 * RT, view->n_q) - 1, view);
    const matrix_address tiles = q_tile + Q_TILE; /* two stages, each a tile of K, then one of V */

#if CLATTN_STATE
    matrix_continue(before, row, lane, view, rows, out);
#else
    matrix_begin(rows, out);
#endif
    matrix_walk walk = matrix_first_tile(key_end, group_row, row, lane, view);
    if (walk.tile < key_end) {
        matrix_fill(q, group_row, CLATTN_B_R, CLATTN_D, q_tile, D_PITCH, lid);
        matrix_fill(k, walk.tile, CLATTN_B_C, CLATTN_D, tiles, D_PITCH, lid);
        matrix_fill(v, walk.tile, CLATTN_B_C, CLATTN_D_V, tiles + K_TILE, V_PITCH, lid);
    }
    const matrix_address my_q = q_tile + (row - group_row) * D_PITCH + matrix_lane_a(lane, D_PITCH);
    matrix_operand query[RT][DT];
#if MATRIX_CAPS_LATE
    if (walk.tile < key_end) {
        matrix_copy_wait();
        barrier(CLK_LOCAL_MEM_FENCE);
        view->bent = matrix_bend(q_tile + (row - group_row) * D_PITCH, D_PITCH, 0, lane, view);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#endif
#if CLATTN_Q_REGISTERS
    matrix_copy_wait();
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL for (int r = 0; r < RT; ++r) UNROLL for (int x = 0; x < DT; ++x)
        matrix_load_a(&query[r][x], my_q + (16 * r * D_PITCH + 32 * x), D_PITCH);
#endif

#if CLATTN_STEADY
    int steady = MATRIX_UNSTEADY; /* bounds are tried first before they are looked for (common/matrix_tile_weights.clh) */
#endif
#if MATRIX_STORES_CALLS
    const matrix_address calls = q_tile + CALLS + (row - group_row) / 16 * MATRIX_WORDS;
    int calls_made = -1;
#endif
    int stage = 0; /* where this tile's K starts, in bytes from the first */
#pragma unroll 1
    while (walk.tile < key_end) {
        const matrix_walk next = matrix_next_tile(walk, key_end, group_row, row, lane, view);
        const int tile = walk.tile, end = matrix_sees_tile(&walk) ? my_key_end : tile;
        const matrix_address k_tile = tiles + stage, v_tile = k_tile + K_TILE;

        matrix_copy_wait();
        barrier(CLK_LOCAL_MEM_FENCE); /* this tile is there, and all are done with the one before */
        stage = K_TILE + V_TILE - stage;
        if (next.tile < key_end) {
            matrix_fill(k, next.tile, CLATTN_B_C, CLATTN_D, tiles + stage, D_PITCH, lid);
            matrix_fill(v, next.tile, CLATTN_B_C, CLATTN_D_V, tiles + stage + K_TILE, V_PITCH, lid);
        }
#if MATRIX_MAY_REPEAT
        if (careful) {
            matrix_add_not_finite(out, q_tile + (row - group_row) * D_PITCH, k_tile, v_tile, row, tile, lane, p, view);
            barrier(CLK_LOCAL_MEM_FENCE);
            matrix_drop_not_finite(v_tile, lid);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
#endif

        const matrix_address my_k = k_tile + matrix_lane_bt(lane, D_PITCH);
        const matrix_address my_v = v_tile + matrix_lane_b(lane, V_PITCH);
#pragma unroll 1
        for (int key = 0; key < CLATTN_B_C && tile + key < end; key += CLATTN_KEYS) {
            const int kind = clattn_tile_met(MATRIX_IN_BLOCKS, row, row + 16 * RT - 1, tile + key, tile + key + CLATTN_KEYS - 1, view);
            if (MATRIX_MAY_SKIP && kind == CLATTN_TILE_SKIP)
                continue;
            matrix_drawing drawing = MATRIX_DRAWING(row, tile + key, lane);
#if MATRIX_STORES_CALLS
            matrix_draw_stored(&drawing, calls, &calls_made, view);
#endif
            matrix_accumulator s[RT][KT];
            float shrink[RT][MATRIX_SLOTS];
            matrix_begin_scores(s, row, tile + key, lane, p, view);
            matrix_scores(s, query, my_q, my_k + key * D_PITCH);
#if CLATTN_STEADY
            matrix_operand weights[RT][KT];
            matrix_form form;
            bool weighed = false;
            if (!MATRIX_CAPS_LATE)
                form = matrix_modify(s, row, tile + key, lane, p, kind, false, view);
            if (steady) {
                if (MATRIX_CAPS_LATE)
                    form = matrix_modify(s, row, tile + key, lane, p, kind, true, view);
                weighed = matrix_weigh_steady(weights, s, &form, steady, &drawing, view, rows);
            }
            if (!weighed) {
                MATRIX_SELDOM;
                if (MATRIX_CAPS_LATE)
                    form = matrix_modify(s, row, tile + key, lane, p, kind, false, view);
                if (matrix_weigh_bounded(weights, s, &form, &drawing, careful, p, view, rows, shrink))
                    FOR_OUTPUTS out[r][c].x[e] *= shrink[r][MATRIX_SLOT(e)];
                steady = matrix_steadiness(rows, p, view);
            }
            matrix_add_values(weights, my_v + key * V_PITCH, out);
#else
            float offset[RT][MATRIX_SLOTS];
            matrix_form form = matrix_modify(s, row, tile + key, lane, p, kind, false, view);
            if (matrix_bound(s, &form, offset, rows, shrink, careful, view))
                FOR_OUTPUTS out[r][c].x[e] *= shrink[r][MATRIX_SLOT(e)];
            if (form.raw)
                matrix_values(s, &form, MATRIX_RAW, offset, rows, my_v + key * V_PITCH, out, &drawing, p, view);
            else
                matrix_values(s, &form, MATRIX_AS_THEY_ARE, offset, rows, my_v + key * V_PITCH, out, &drawing, p, view);
#endif
        }
        walk = next;
    }
}

/* Whether any item of the group has an output that is NaN. */
CLATTN_INLINE bool matrix_is_poisoned(const matrix_accumulator out[RT][VT], volatile __local uint *flag, int lid)
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

__kernel __attribute__((reqd_work_group_size(CLATTN_WORK_GROUP_SIZE, 1, 1))) void
clattn_forward(__global const clattn_storage *q, __global const clattn_storage *k, __global const clattn_storage *v,
               __global MATRIX_OUTPUT *o, __global float *lse, __global float *m, __global float *l,
               const clattn_forward_params p CLATTN_SCORE_PARAMETERS)
{
    __local uint memory[MATRIX_LOCAL_BYTES / 4] __attribute__((aligned(128)));
    const matrix_address q_tile = matrix_address_of(memory);
    const int lid = (int)get_local_id(0), lane = lid % MATRIX_LANES;

    const matrix_place place = matrix_find_place((int)get_group_id(0), p);
    const int group_row = place.row, row = group_row + lid / MATRIX_LANES * 16 * RT, b = place.b, h = place.h;
    clattn_view view = clattn_open(b, h, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
#if CLATTN_VARLEN
    if (group_row >= view.n_q)
        return;
#endif
#if CLATTN_SPLIT
    matrix_take_split(place, p, &view);
#endif
    const matrix_source q_rows = matrix_open(q, p.q, b, h, view.row_base, view.n_q);
    matrix_source k_rows = matrix_open(k, p.k, b, place.kv_head, view.key_base, view.n_kv);
    matrix_source v_rows = matrix_open(v, p.v, b, place.kv_head, view.key_base, view.n_kv);
#if CLATTN_STATE
    k_rows.before = v_rows.before = view.first_key;
    const matrix_results to = matrix_locate(o, lse, m, l, p, b, h, 0); /* each sequence's rows have a place of their own */
#endif
    matrix_accumulator out[RT][VT];
    matrix_softmax rows;
    matrix_attend(q_rows, k_rows, v_rows, q_tile, lid, group_row, row, p, &view, MATRIX_BEFORE false, &rows, out);
#if MATRIX_MAY_REPEAT
    if (matrix_is_poisoned(out, memory + (MATRIX_LOCAL_BYTES / 4 - 4), lid))
        matrix_attend(q_rows, k_rows, v_rows, q_tile, lid, group_row, row, p, &view, MATRIX_BEFORE true, &rows, out);
#endif
    barrier(CLK_LOCAL_MEM_FENCE); /* all are done with the tiles */

    float factor[RT][MATRIX_SLOTS];
    matrix_finish(&rows, factor, p, &view);
    FOR_OUTPUTS out[r][c].x[e] *= factor[r][MATRIX_SLOT(e)];
#if CLATTN_SPLIT
    const matrix_results to = matrix_results_of(o, lse, m, l, p, place, &view);
#endif
#if CLATTN_PARTIAL
    FOR_OUTPUTS if (MATRIX_I(r, MATRIX_SLOT(e)) < view.n_q && MATRIX_X(c, e) < CLATTN_D_V)
        to.o[MATRIX_I(r, MATRIX_SLOT(e)) * to.o_row + MATRIX_X(c, e) * to.o_column] = out[r][c].x[e];
#else
    /* By way of local memory, so that it leaves in whole chunks. */
    UNROLL for (int r = 0; r < RT; ++r) UNROLL for (int c = 0; c < VT; ++c)
    {
        matrix_operand y;
        matrix_round(&y, &out[r][c]);
        matrix_store(q_tile + ((row - group_row + 16 * r) * V_PITCH + 32 * c), V_PITCH, lane, &y);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    matrix_write(q_tile, V_PITCH, CLATTN_B_R, CLATTN_D_V, o, p.o, b, h, view.row_base, group_row, view.n_q, lid);
    const matrix_results to = matrix_locate(o, lse, m, l, p, b, h, view.row_base);
#endif
    matrix_write_rows(to, &rows, row, lane, &view);
}
