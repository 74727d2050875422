/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Backward attention on Hopper's tensor cores in one kernel: 5 matrix products where the two of backward_matrix.cl spend 7, and
 * FlashAttention-3's division of labour. Storage is fp16 or bf16, products accumulate in float.
 *
 * A work-group keeps a block of 128 keys (K and V) while rows of Q and dO pass, CLATTN_B_R at a time. Its first warp group is
 * the producer, which brings tiles into whichever of CLATTN_STAGES places is free; the two others are consumers of 64 keys each, with the
 * keys' dK and dV in registers. For each tile of rows a consumer forms, transposed, keys by rows,
 *     S = K Q^T,  dP = V dO^T,  P = e^(scale S - lse),  dS = P (dP - delta),  dV += P dO,  dK += dS Q
 * with P and dS rounded to the storage type on their way from accumulators to operands. dQ needs all keys of a row: the
 * consumers leave their dS in local memory, and when both have, each multiplies half of the result,
 *     dQ = dS^T K
 * which an item of the producer adds to sums in device memory, in bulk, laid out as registers hold them; clattn_dq of
 * backward_matrix.cl turns these into dQ. A consumer forms dQ of one tile behind dV and dK of the next, so that neither waits for the
 * other, and the next tile's S is under way while it leaves.
 *
 * Sums of floats depend on their order. Unless CLATTN_UNORDERED, a tile of rows receives what blocks of keys have for it from the
 * first to the last: its counter says up to which block that has been done. So that none waits for one that has not begun, blocks are
 * taken by ticket, in that order. The first to come stores in place of adding (for it alone others wait with CLATTN_UNORDERED): a
 * counter of 0 stands for sums of 0.
 *
 * A NaN in a result, where a pair that weighs nothing may have caused it (0 * NaN), is left to others: of dK and dV a flag
 * says so, for clattn_dk_dv of backward_matrix.cl to compute the block of keys again; clattn_dq sees it in the sums.
 *
 * Launch: 1-D, CLATTN_WORK_GROUP_SIZE items a group, any number of groups. Tickets, counters and flags begin at 0; sums may hold anything.
 *
 * Baked constants (beside those of types.clh, score.clh and nvidia_mma.clh)
 *   CLATTN_D, CLATTN_D_V     head dimensions, 1..128
 *   CLATTN_B_C               128
 *   CLATTN_B_R               64: rows that pass at a time
 *   CLATTN_ROW_PIECES, CLATTN_D_PIECES, CLATTN_V_PIECES   ceil(B_R / 16), ceil(D / 16), ceil(D_V / 16), and
 *   CLATTN_PART_PIECES       (of a consumer) 4 where D_PIECES is more, else half of these, as literal numbers from 1 to 8
 *   CLATTN_STAGES, CLATTN_KV_STAGES   places for tiles of Q and dO, 2 or more; for K and V, 1 or 2
 *   CLATTN_PRODUCER_REGISTERS, CLATTN_CONSUMER_REGISTERS   what items of each have
 *   CLATTN_FILLERS           96: three of the producer's warps fill tiles, an item of the fourth sums up
 *   CLATTN_UNORDERED         1: sums of dQ in any order; 0: always in the same
 *   CLATTN_WORK_GROUP_SIZE   384
 *
 * The producer's side is in common/hopper_backward_work.clh.
 */

/* A consumer's own keys times the rows of a tile, as far as `pieces` of their columns go. */
#define HOPPER_ROWS_PRODUCT(out, key_tile, row_tile, pieces)                                                           \
    do {                                                                                                               \
        const ulong left = hopper_rows(key_tile), right = hopper_rows(row_tile);                                       \
        HOPPER_FIRST_PRODUCT(CLATTN_ROW_PIECES, out, left, right);                                                     \
        UNROLL for (int x = 1; x < pieces; ++x)                                                                        \
        {                                                                                                              \
            const ulong more = (ulong)(x % 4 * 32 / 16);                                                               \
            HOPPER_PRODUCT(CLATTN_ROW_PIECES, out, left + (ulong)(x / 4 * KEY_PANEL / 16) + more,                      \
                           right + (ulong)(x / 4 * ROW_PANEL / 16) + more);                                            \
        }                                                                                                              \
        hopper_commit();                                                                                               \
    } while (0)

/* out += weights times the rows of a tile. */
#define HOPPER_WEIGHTED_ROWS(out, pieces, weights, row_tile)                                                           \
    do {                                                                                                               \
        const ulong right = hopper_columns(row_tile, ROW_PANEL);                                                       \
        UNROLL for (int c = 0; c < RT; ++c)                                                                            \
            HOPPER_PRODUCT_AS_IT_LIES(pieces, out, weights[c], right + (ulong)(c * 2048 / 16));                        \
        hopper_commit();                                                                                               \
    } while (0)

/* A part of dQ = dS^T K: 64 rows (columns of dS) by up to 64 columns. */
CLATTN_INLINE void hopper_part(matrix_accumulator part[PT], matrix_address ds_panel, matrix_address k_panel)
{
    const ulong left = hopper_columns(ds_panel, KEY_PANEL), right = hopper_columns(k_panel, KEY_PANEL);
    HOPPER_FIRST_PRODUCT_AS_THEY_LIE(CLATTN_PART_PIECES, part, left, right);
    UNROLL for (int x = 1; x < KEYS / 16; ++x)
        HOPPER_PRODUCT_AS_THEY_LIE(CLATTN_PART_PIECES, part, left + (ulong)(x * 2048 / 16), right + (ulong)(x * 2048 / 16));
    hopper_commit();
}

/* Whether P and dS take nothing but lse, delta and what is hidden: then in three steps, each in place, which need the
 * fewest registers. Else hopper_weigh does it all. */
#define HOPPER_PLAIN (!CLATTN_MODIFIES && !CLATTN_DROPOUT)

/* Scores become weights, before dP is there. */
CLATTN_INLINE void hopper_weigh_plain(matrix_accumulator s[RT], matrix_address statistics, int lane, clattn_backward_params p)
{
    UNROLL for (int c = 0; c < RT; ++c) UNROLL for (int e = 0; e < MATRIX_ELEMENTS; e += 4)
    {
        const float4 both = hopper_get4(statistics + (16 * c + matrix_column(lane, e)) * 8);
        UNROLL for (int n = 0; n < 4; ++n)
            s[c].x[e + n] = matrix_exp2(fma(s[c].x[e + n], p.scale_log2e, -(n % 2 ? both.z : both.x)));
    }
}

/* Weights and dP of hidden pairs become 0, for 16 keys a warp from `key` on and the rows from `row` on. */
CLATTN_INLINE void hopper_hide(matrix_accumulator s[RT], matrix_accumulator dp[RT], int key, int row, int lane, const clattn_view *view)
{
    UNROLL for (int c = 0; c < RT; ++c) UNROLL for (int e = 0; e < MATRIX_ELEMENTS; ++e)
    {
        const bool hidden = clattn_hidden(row + 16 * c + matrix_column(lane, e), key + matrix_row(lane, MATRIX_SLOT(e)), view);
        s[c].x[e] = hidden ? 0.0f : s[c].x[e];
        dp[c].x[e] = hidden ? 0.0f : dp[c].x[e];
    }
}

/* dP of 16 rows becomes dS. */
CLATTN_INLINE void hopper_differentiate(const matrix_accumulator *s, matrix_accumulator *dp, matrix_address statistics, int lane)
{
    UNROLL for (int e = 0; e < MATRIX_ELEMENTS; e += 4)
    {
        const float4 both = hopper_get4(statistics + matrix_column(lane, e) * 8);
        UNROLL for (int n = 0; n < 4; ++n) dp->x[e + n] = s->x[e + n] * (dp->x[e + n] - (n % 2 ? both.w : both.y));
    }
}

/* Scores (weights, where nothing modifies scores) become P, and dP becomes dS, for 16 keys a warp from `key` on and the rows from
 * `row` on. `check`: pairs may be hidden. */
CLATTN_INLINE void hopper_weigh(matrix_accumulator s[RT], matrix_accumulator dp[RT], matrix_address statistics, int key,
                                int row, int lane, clattn_backward_params p, const clattn_view *view, const bool check)
{
    UNROLL for (int c = 0; c < RT; ++c) UNROLL for (int e = 0; e < MATRIX_ELEMENTS; ++e)
    {
        const int column = 16 * c + matrix_column(lane, e), i = row + column, j = key + matrix_row(lane, MATRIX_SLOT(e));
        const float4 both = hopper_get4(statistics + (column - column % 2) * 8); /* of two neighbouring columns */
        const float lse = e % 2 ? both.z : both.x, delta = e % 2 ? both.w : both.y;
        float slope = 1.0f, gradient = dp[c].x[e];
        float weight = s[c].x[e];
        if (CLATTN_MODIFIES)
            weight = matrix_exp2(fma(clattn_modified_grads(weight * p.scale, i, j, view, &slope, 0), MATRIX_LOG2E, -lse));
        float kept = weight;
#if CLATTN_DROPOUT
        const bool dropped = clattn_dropped(i, j, view);
        kept = dropped ? 0.0f : weight * view->dropout_scale;
        gradient = dropped ? 0.0f : gradient * view->dropout_scale;
#endif
        gradient = weight * (gradient - delta) * slope;
        if ((check && clattn_hidden(i, j, view)) || ((check || CLATTN_ZEROES) && weight == 0.0f))
            kept = gradient = 0.0f;
        s[c].x[e] = kept;
        dp[c].x[e] = gradient;
    }
}

/* The consumer's part of dQ, of the tile that is number `count` of the work-group's, to where it is added to the sums. Then dS is
 * needed no longer. */
CLATTN_INLINE void hopper_leave(const matrix_accumulator part[PT], matrix_address memory, uint count, int consumer, int lid)
{
    const matrix_address to = memory + SUMMAND(consumer) + lid % HOPPER_ITEMS * 16;
    hopper_release(memory + DS_EMPTY(count % 2), lid % MATRIX_LANES);
    hopper_await(memory + SUMMANDS_EMPTY, count & 1 ^ 1);
    UNROLL for (int c = 0; c < PT; ++c) UNROLL for (int e = 0; e < MATRIX_ELEMENTS; e += 4)
        hopper_put_float4(to + (2 * c + e / 4) * (HOPPER_ITEMS * 16), part[c].x[e], part[c].x[e + 1], part[c].x[e + 2],
                          part[c].x[e + 3]);
    hopper_publish();
    hopper_arrive(memory + SUMMANDS_FULL);
}

/* Gradients of 64 keys to their tensor, by way of a tile that is no longer needed, so that they leave in whole chunks. */
#define HOPPER_RESULT(out, pieces, columns, factor, tile, buffer, at)                                                  \
    do {                                                                                                               \
        UNROLL for (int c = 0; c < pieces; ++c)                                                                        \
        {                                                                                                              \
            matrix_operand y;                                                                                          \
            UNROLL for (int e = 0; e < MATRIX_ELEMENTS; ++e) out[c].x[e] *= (factor);                                  \
            matrix_round(&y, &out[c]);                                                                                 \
            hopper_store((tile) + c / 4 * KEY_PANEL, c % 4, lane, &y);                                                 \
        }                                                                                                              \
        hopper_warp_sync();                                                                                            \
        __global ushort *const to = (__global ushort *)buffer + clattn_at(at, block.x, block.y, view.key_base);        \
        hopper_write_rows(tile, KEY_PANEL, columns, to, at.row, at.column, matrix_is_whole((size_t)to, at), my_keys,   \
                          view.keys, lane);                                                                            \
    } while (0)

/* dP begins; S, which is under way before it, becomes P if nothing modifies it. Both are complete in the end. */
#define HOPPER_GRADIENTS(stage)                                                                                        \
    do {                                                                                                               \
        hopper_await(memory + DO_FULL(stage), turn.parity);                                                            \
        HOPPER_FENCE(CLATTN_V_PIECES, dv);                                                                             \
        HOPPER_ROWS_PRODUCT(dp, my_v, memory + DO_TILE(stage), VT);                                                    \
    } while (0)
#define HOPPER_WEIGHTS(stage)                                                                                          \
    do {                                                                                                               \
        HOPPER_WAIT(1, CLATTN_ROW_PIECES, s);                                                                          \
        if (!CLATTN_MODIFIES)                                                                                          \
            hopper_weigh_plain(s, memory + STATISTICS(stage), lane, p);                                                \
        HOPPER_WAIT_AFTER(0, CLATTN_ROW_PIECES, dp, CLATTN_ROW_PIECES, s);                                             \
    } while (0)

/* Whether the next tile's dP, too, is under way while dQ leaves: where registers suffice for both. */
#define HOPPER_AHEAD (2 * RT + DT + VT + PT <= 20)

CLATTN_INLINE void hopper_consume(hopper_outputs out, matrix_address memory, int lid,
                                  clattn_backward_params p CLATTN_SCORE_PARAMETERS)
{
    const int lane = lid % MATRIX_LANES, consumer = lid / HOPPER_ITEMS - 1;
    const int warp_keys = (lid - HOPPER_ITEMS) / MATRIX_LANES * 16;
    hopper_turn turn = hopper_first_turn(), kv_turn = hopper_first_turn(), place = hopper_first_turn();
    uint count = 0; /* of tiles */
    matrix_accumulator s[RT], dp[RT], dk[DT], dv[VT], part[PT];
    matrix_operand weights[RT], grads[RT];

#pragma unroll 1
    for (;;) {
        hopper_await(memory + BLOCK_FULL(place.stage), place.parity);
        const int4 block = hopper_get_int4(memory + BLOCK_NOTE(place.stage));
        hopper_release(memory + BLOCK_EMPTY(place.stage), lane);
        place = hopper_next_turn(place, 2);
        if (block.w == HOPPER_BLOCK_NONE)
            return;
        UNROLL for (int c = 0; c < DT; ++c) UNROLL for (int e = 0; e < MATRIX_ELEMENTS; ++e) dk[c].x[e] = 0.0f;
        UNROLL for (int c = 0; c < VT; ++c) UNROLL for (int e = 0; e < MATRIX_ELEMENTS; ++e) dv[c].x[e] = 0.0f;
        const matrix_address k_tile = memory + K_TILE(kv_turn.stage), v_tile = memory + V_TILE(kv_turn.stage);
        const matrix_address my_k = k_tile + consumer * (64 * 128), my_v = v_tile + consumer * (64 * 128);
        const int my_keys = block.z + warp_keys;
        if (block.w == HOPPER_BLOCK_SEEN) {
            hopper_await(memory + K_FULL(kv_turn.stage), kv_turn.parity);
            hopper_await(memory + Q_FULL(turn.stage), turn.parity);
            HOPPER_FENCE(CLATTN_V_PIECES, dv);
            HOPPER_FENCE(CLATTN_D_PIECES, dk);
            HOPPER_ROWS_PRODUCT(s, my_k, memory + Q_TILE(turn.stage), DT);
            hopper_await(memory + V_FULL(kv_turn.stage), kv_turn.parity);
            HOPPER_GRADIENTS(turn.stage);
            HOPPER_WEIGHTS(turn.stage);
            int4 tile;
#pragma unroll 1
            for (;;) {
                const matrix_address ds_tile = memory + DS_TILE(count % 2);
                tile = hopper_get_int4(memory + TILE_NOTE(count));
                const clattn_view view = clattn_open(block.x, tile.y / HOPPER_TILE_HEAD, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
                const matrix_address statistics = memory + STATISTICS(turn.stage);
                if (HOPPER_PLAIN && (tile.y & HOPPER_TILE_HIDES))
                    hopper_hide(s, dp, my_keys, tile.x, lane, &view);
                else if (!HOPPER_PLAIN && (tile.y & HOPPER_TILE_HIDES))
                    hopper_weigh(s, dp, statistics, my_keys, tile.x, lane, p, &view, true);
                else if (!HOPPER_PLAIN)
                    hopper_weigh(s, dp, statistics, my_keys, tile.x, lane, p, &view, false);
                hopper_await(memory + DS_EMPTY(count % 2), count / 2 % 2 ^ 1);
                UNROLL for (int c = 0; c < RT; ++c)
                {
                    if (HOPPER_PLAIN)
                        hopper_differentiate(&s[c], &dp[c], statistics + c * (16 * 8), lane);
                    matrix_round(&weights[c], &s[c]);
                    matrix_round(&grads[c], &dp[c]);
                    hopper_store(ds_tile + warp_keys * 128, c, lane, &grads[c]);
                }
                hopper_publish();
                hopper_arrive(memory + DS_FULL(count % 2));

                HOPPER_FENCE(CLATTN_V_PIECES, dv);
                HOPPER_WEIGHTED_ROWS(dv, CLATTN_V_PIECES, weights, memory + DO_TILE(turn.stage));
                HOPPER_WEIGHTED_ROWS(dk, CLATTN_D_PIECES, grads, memory + Q_TILE(turn.stage));
                /* dQ of the tile before, of which by now the other consumer, too, has its dS; of a block's first, of nothing. */
                hopper_await(memory + DS_FULL(~count & 1), (count - 1) / 2 % 2);
                HOPPER_FENCE(CLATTN_D_PIECES, dk);
                hopper_part(part, memory + DS_TILE(~count & 1), k_tile + K_PART(consumer));
                count++;
                HOPPER_WAIT(1, CLATTN_D_PIECES, dk);
                hopper_release(memory + ROWS_EMPTY(turn.stage), lane);
                turn = hopper_next_turn(turn, CLATTN_STAGES);
                if (!(tile.y & HOPPER_TILE_MORE))
                    break;
                hopper_await(memory + Q_FULL(turn.stage), turn.parity);
                HOPPER_WAIT(0, CLATTN_PART_PIECES, part);
                HOPPER_FENCE(CLATTN_D_PIECES, dk);
                HOPPER_ROWS_PRODUCT(s, my_k, memory + Q_TILE(turn.stage), DT);
                if (HOPPER_AHEAD)
                    HOPPER_GRADIENTS(turn.stage);
                if (!(tile.y & HOPPER_TILE_FIRST))
                    hopper_leave(part, memory, count - 2, consumer, lid);
                if (!HOPPER_AHEAD)
                    HOPPER_GRADIENTS(turn.stage);
                HOPPER_WEIGHTS(turn.stage);
            }
            HOPPER_WAIT(0, CLATTN_PART_PIECES, part);
            if (!(tile.y & HOPPER_TILE_FIRST))
                hopper_leave(part, memory, count - 2, consumer, lid);
            hopper_await(memory + DS_FULL(~count & 1), (count - 1) / 2 % 2);
            HOPPER_FENCE(CLATTN_D_PIECES, dk);
            hopper_part(part, memory + DS_TILE(~count & 1), k_tile + K_PART(consumer));
            HOPPER_WAIT(0, CLATTN_PART_PIECES, part);
            hopper_leave(part, memory, count - 1, consumer, lid);
        }
        /* Both are done with K: dK takes its place, dV that of V. */
        HOPPER_SYNC(4, CONSUMERS * HOPPER_ITEMS);
        bool is_nan = false;
        UNROLL for (int c = 0; c < DT; ++c) UNROLL for (int e = 0; e < MATRIX_ELEMENTS; ++e) is_nan = is_nan || isnan(dk[c].x[e]);
        UNROLL for (int c = 0; c < VT; ++c) UNROLL for (int e = 0; e < MATRIX_ELEMENTS; ++e) is_nan = is_nan || isnan(dv[c].x[e]);
        if (is_nan)
            out.flags[(block.x * p.kv_heads + block.y) * ((p.n_kv + KEYS - 1) / KEYS) + block.z / KEYS] = 1;
        const clattn_view view = clattn_open(block.x, block.y * (p.heads / p.kv_heads), p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
        if (out.d_v)
            HOPPER_RESULT(dv, VT, CLATTN_D_V, 1.0f, v_tile + warp_keys * 128, out.d_v, p.d_v);
        if (out.d_k)
            HOPPER_RESULT(dk, DT, CLATTN_D, p.scale, k_tile + warp_keys * 128, out.d_k, p.d_k);
        if (block.w == HOPPER_BLOCK_SEEN) {
            hopper_publish(); /* what comes next is written in another way */
            hopper_release(memory + KV_EMPTY(kv_turn.stage), lane);
            kv_turn = hopper_next_turn(kv_turn, CLATTN_KV_STAGES);
        }
    }
}

__kernel __attribute__((reqd_work_group_size(CLATTN_WORK_GROUP_SIZE, 1, 1))) void
clattn_dk_dv(__global const clattn_storage *q, __global const clattn_storage *k, __global const clattn_storage *v,
             __global const clattn_storage *d_o, __global const float *lse, __global float *workspace,
             __global clattn_storage *d_k, __global clattn_storage *d_v, const clattn_backward_params p CLATTN_SCORE_PARAMETERS)
{
    __local uint array[HOPPER_LOCAL_BYTES / 4] __attribute__((aligned(1024)));
    const matrix_address memory = matrix_address_of(array);
    const int lid = (int)get_local_id(0);
    const hopper_inputs in = {q, k, v, d_o, lse, workspace};
    __global uint *const words = (__global uint *)workspace;
    const hopper_outputs out = {d_k, d_v, workspace + p.sums, words + p.counters, words + p.flags};
    if (lid == 0) {
        for (int stage = 0; stage < 2; ++stage) {
            hopper_barrier_create(memory + BLOCK_FULL(stage), 1);
            hopper_barrier_create(memory + BLOCK_EMPTY(stage), 4 * CONSUMERS + 1);
        }
        for (int stage = 0; stage < CLATTN_KV_STAGES; ++stage) {
            hopper_barrier_create(memory + K_FULL(stage), CLATTN_FILLERS);
            hopper_barrier_create(memory + V_FULL(stage), CLATTN_FILLERS);
            hopper_barrier_create(memory + KV_EMPTY(stage), 4 * CONSUMERS);
        }
        for (int stage = 0; stage < CLATTN_STAGES; ++stage) {
            hopper_barrier_create(memory + Q_FULL(stage), 2 * CLATTN_FILLERS);
            hopper_barrier_create(memory + DO_FULL(stage), CLATTN_FILLERS);
            hopper_barrier_create(memory + ROWS_EMPTY(stage), 4 * CONSUMERS);
        }
        for (int n = 0; n < 2; ++n) {
            hopper_barrier_create(memory + DS_FULL(n), CONSUMERS * HOPPER_ITEMS);
            hopper_barrier_create(memory + DS_EMPTY(n), 4 * CONSUMERS);
        }
        hopper_barrier_create(memory + SUMMANDS_FULL, CONSUMERS * HOPPER_ITEMS);
        hopper_barrier_create(memory + SUMMANDS_EMPTY, 1);
        hopper_publish();
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lid < HOPPER_ITEMS) {
        HOPPER_GIVE_REGISTERS(CLATTN_PRODUCER_REGISTERS);
        if (lid == CLATTN_FILLERS)
            hopper_sum_up(out, memory);
        else if (lid < CLATTN_FILLERS)
            hopper_produce(in, words + p.maps + get_group_id(0) * 128, words + p.tickets, memory, lid, p CLATTN_SCORE_ARGUMENTS);
    } else {
        HOPPER_TAKE_REGISTERS(CLATTN_CONSUMER_REGISTERS);
        hopper_consume(out, memory, lid, p CLATTN_SCORE_ARGUMENTS);
    }
}
