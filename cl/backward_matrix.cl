/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Backward attention on matrix units: one text for the two kernels of FlashAttention-2's backward pass without atomics,
 * and for the gradient of a bias. Storage is fp16, bf16 or fp32, products accumulate in float.
 *
 * A work-group keeps a block of one side (rows of Q and dO; or keys, rows of K and V) and lets the other side pass,
 * tile by tile. Each sub-group owns 16 * TILES rows of the fixed side, their gradients in registers. With X1, X2 the
 * fixed matrices and Y1, Y2 the moving ones, every step is
 *     S = X1 Y1^T,  dP = X2 Y2^T,  P = e^(scale S - lse),  dS = P (dP - delta)
 *     dq     X = Q, dO  Y = K, V     dQ += dS Y1
 *     dk_dv  X = K, V   Y = Q, dO    dK += dS Y1,  dV += P Y2
 *     d_bias X = Q, dO  Y = K, V     d_bias += dS, over the batch elements and heads that share it
 * where S is the scores' transpose if keys are fixed. P and dS are rounded to the storage type on their way from
 * accumulators to operands, as P is in the forward pass. Heads that share K and V are summed one after the other.
 *
 * A hidden pair must bring nothing in, whatever the other side holds there; but 0 * NaN is NaN. And where scores are
 * large, a row's lse is not exact enough: it is NaN then. So if a result is NaN after all, the work-group runs once
 * more, carefully: moving rows with anything that is not finite are zeroed, and make NaN of the fixed rows that do see
 * them; and weights are e^(scale S - top) share. Ordinary data pays one comparison per result.
 *
 * In fp32 the kernel of dq comes first, and mends the rows' deltas (common/delta.clh). It is run without a d_q, too.
 *
 * Launch: 1-D, CLATTN_WORK_GROUP_SIZE items a group. dq: batch * heads * ceil(n_q / B_R) groups; dk_dv: batch *
 * kv_heads * ceil(n_kv / B_C); dk_dv_again: any number; d_bias: (batch or 1) * (heads or 1) * ceil(n_q / B_R) *
 * ceil(n_kv / B_C), 1 where the bias has stride 0.
 *
 * Baked constants (beside those of types.clh, view.clh, score.clh and the matrix header)
 *   CLATTN_KERNEL            0 clattn_dq, 1 clattn_dk_dv, 2 clattn_d_bias, 3 clattn_dk_dv_again
 *   CLATTN_DQ_SUMS            sums of each tile that backward_hopper.cl leaves; else 1
 *   CLATTN_SUMMED            1: backward_hopper.cl has gone before, 3: the same, and its sums are turned round
 *                            (CLATTN_TILE_ROWS is what it has), 2: backward_fused.cl: dq takes sums from the
 *                            workspace, dk_dv_again computes the blocks of keys that are flagged there; both run
 *                            carefully at once where something is NaN. 4: dk_dv, which comes first, adds its dS Y1 to
 *                            sums of dQ in the workspace, in whatever order (they begin at 0), and dq takes these: 5
 *                            products in place of 7. Deltas are not mended then. CLATTN_B_R is 64
 *   CLATTN_D, CLATTN_D_V     head dimensions, 1..256
 *   CLATTN_B_R, CLATTN_B_C   rows that a group of dq keeps, keys that one of dk_dv keeps: multiples of 16 * sub-groups
 *                            (of d_bias: both the tile of its result; there keys pass)
 *   and, for DQ (d_bias too) and for DK_DV:
 *   CLATTN_.._MOVING            rows of the moving side in a tile, a multiple of 16
 *   CLATTN_.._SLICE             of these, how many meet the fixed rows at a time: a multiple of 16 that divides MOVING
 *                               (and B_C, in d_bias)
 *   CLATTN_.._FIXED_REGISTERS   1: X1 and X2 stay in registers; 2: so that local memory has no place for them; 0: they
 *                               are read again from local memory
 *   CLATTN_.._SPLIT             (1 for DQ) 1 or 2: sub-groups that share fixed rows, each with its part of the columns
 *                               of dK and dV, which are too many for one's registers beyond d = 128; scores are then
 *                               computed twice
 *   CLATTN_.._STAGES            1 or 2: tiles of the moving side that local memory holds; with 2 one arrives while the
 *                               one before is used
 *   CLATTN_WORK_GROUP_SIZE   sub-groups times UNIT_LANES
 *   CLATTN_LOCAL_BYTES       what the planner counts of local memory, which the kernel compares with its own
 *
 * Local memory: MATRIX_LOCAL_BYTES. What the kernels have in common is in common/matrix_gradients.clh and
 * matrix_gradient_walk.clh.
 */
#include "common/types.clh"
#include "common/view.clh"
#include "common/matrix_tiles.clh"
#include "common/matrix_gradients.clh"
#include "common/matrix_gradient_walk.clh"

/* What sums over all keys: with CLATTN_STATE those before are there, and in float. */
#if CLATTN_STATE
typedef float clattn_sum;
#else
typedef clattn_storage clattn_sum;
#endif

#define MATRIX_INPUTS                                                                                                  \
    __global const clattn_storage *q, __global const clattn_storage *k, __global const clattn_storage *v,              \
        __global const clattn_storage *d_o, MATRIX_WORKSPACE *workspace
#define MATRIX_KERNEL __kernel UNIT_KERNEL __attribute__((reqd_work_group_size(CLATTN_WORK_GROUP_SIZE, 1, 1))) void
#define MATRIX_MEMORY __local uint memory[MATRIX_LOCAL_BYTES / 4] __attribute__((aligned(128)))
/* An item's place in its sub-group, whose scratch memory lies before the kernel's flag. */
#define MATRIX_LANE_OF(lid, memory)                                                                                    \
    UNIT_LANE_OF(lid, unit_address_of(memory) + MATRIX_LOCAL_BYTES - MATRIX_FLAG_BYTES -                               \
                          (SUB_GROUPS - lid / UNIT_LANES) * UNIT_SCRATCH_BYTES)
#define MATRIX_ZERO(out, pieces) FOR_PIECES(pieces) out[r][c].x[e] = 0.0f

#if CLATTN_KERNEL == 0
#if CLATTN_SUMMED == 3
/* backward_hopper.cl's sums of tiles of CLATTN_TILE_ROWS rows, turned round: of each of two consumers, 8 rows by a
 * panel's 64 columns after the other, as a warp group's 16 columns a warp hold them, 4 floats a lane; first every other
 * panel, then of an odd number's last half of the rows. A counter of 0: nothing has been added. */
CLATTN_INLINE void matrix_add_turned(__global const float *workspace, clattn_backward_params p, int bh, int row,
                                     int rows, const int chain, unit_lane lane, unit_accumulator out[RT][O1])
{
    const int panels = (DT + 3) / 4, whole = panels / 2, part_floats = panels * 2 * UNIT_PIECE * CLATTN_TILE_ROWS;
    const int tiles = (p.n_q + CLATTN_TILE_ROWS - 1) / CLATTN_TILE_ROWS;
    UNROLL for (int r = 0; r < RT; ++r)
    {
        const int first = row + UNIT_PIECE * r, tile = first / CLATTN_TILE_ROWS;
        const int at = (bh * tiles + tile) * CLATTN_DQ_SUMS + chain;
        if (first >= rows || ((__global const uint *)workspace)[p.counters + at] == 0)
            continue;
        __global const float *const sums = workspace + p.sums + (long)at * (2 * part_floats);
        UNROLL for (int c = 0; c < O1; ++c) UNROLL for (int e = 0; e < UNIT_ELEMENTS; ++e)
        {
            const int i = first - tile * CLATTN_TILE_ROWS + unit_row(lane, UNIT_SLOT(e)), x = unit_column(lane, e),
                      second = i / (CLATTN_TILE_ROWS / 2);
            const bool is_whole = c / 4 < 2 * whole;
            const int consumer = is_whole ? c / 4 % 2 : second,
                      eight = is_whole ? (c / 8 * CLATTN_TILE_ROWS + i) / 8
                                       : (whole * CLATTN_TILE_ROWS + i - second * (CLATTN_TILE_ROWS / 2)) / 8;
            const int item = c % 4 * UNIT_LANES + x % 8 * 4 + i % 8 / 2;
            out[r][c].x[e] += sums[consumer * part_floats + (eight * 4 * UNIT_LANES + item) * 4 + x / 8 * 2 + i % 2];
        }
    }
}
#elif CLATTN_SUMMED
/* backward_hopper.cl leaves a counter of 0 where nothing has been added. Before compute capability 9.0 floats are added
 * one by one: of such 4, all lanes' first come first. */
#define MATRIX_SUMS_APART                                                                                              \
    ((CLATTN_SUMMED == 2 && CLATTN_COMPUTE_CAPABILITY < 90) || (CLATTN_SUMMED == 4 && !UNIT_ADDS_TOGETHER))
CLATTN_INLINE void matrix_add_sums(__global const float4 *sums, int block, int row, unit_lane lane,
                                   unit_accumulator out[RT][O1])
{
    UNROLL for (int r = 0; r < RT; ++r) UNROLL for (int c = 0; c < O1; ++c)
        UNROLL for (int e = 0; e < UNIT_ELEMENTS; e += 4)
    {
        __global const float4 *const from = sums + matrix_sum_quad(block, row + UNIT_PIECE * r, c, e, lane);
#if MATRIX_SUMS_APART
        __global const float *const apart = (__global const float *)(from - unit_number(lane)) + unit_number(lane);
        const float4 x = (float4)(apart[0], apart[UNIT_LANES], apart[2 * UNIT_LANES], apart[3 * UNIT_LANES]);
#else
        const float4 x = *from;
#endif
        out[r][c].x[e] += x.x;
        out[r][c].x[e + 1] += x.y;
        out[r][c].x[e + 2] += x.z;
        out[r][c].x[e + 3] += x.w;
    }
}
#endif
MATRIX_KERNEL clattn_dq(MATRIX_INPUTS, __global clattn_sum *d_q,
                        const clattn_backward_params p CLATTN_SCORE_PARAMETERS)
{
    MATRIX_MEMORY;
    const int lid = (int)get_local_id(0), group = (int)get_group_id(0);
    const unit_lane lane = MATRIX_LANE_OF(lid, memory);
    const int blocks = (p.n_q + FIXED - 1) / FIXED, bh = group / blocks, place = group - bh * blocks;
    const int b = bh / p.heads, h = bh - b * p.heads;
    const int fixed = (CLATTN_CAUSAL ? blocks - 1 - place : place) * FIXED,
              mine = fixed + unit_sub_group(lid) * UNIT_PIECE * RT;
    const clattn_view view = clattn_open(b, h, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
    if (fixed >= view.n_q)
        return;
    const matrix_head head = matrix_open_head(q, k, v, d_o, workspace, &p, &view);
    const int begin = clattn_key_begin(fixed, &view), end = clattn_key_end(min(fixed + FIXED, view.n_q) - 1, &view);

    unit_accumulator out1[RT][O1], out2[RT][O2];
    matrix_pair_sums sums;
    bool poisoned = false;
#if CLATTN_SUMMED == 3
    MATRIX_ZERO(out1, O1);
    UNROLL for (int chain = 0; chain < CLATTN_DQ_SUMS; ++chain)
        matrix_add_turned(workspace, p, bh, mine, view.n_q, chain, lane, out1);
#elif CLATTN_SUMMED
    MATRIX_ZERO(out1, O1);
    UNROLL for (int chain = 0; chain < CLATTN_DQ_SUMS; ++chain)
    {
        const int at = (bh * blocks + fixed / FIXED) * CLATTN_DQ_SUMS + chain;
        if (CLATTN_SUMMED != 1 || ((__global const uint *)workspace)[p.counters + at] != 0)
            matrix_add_sums((__global const float4 *)(workspace + p.sums), at, mine - fixed, lane, out1);
    }
#else
    for (bool again = true, mended = false; again; mended = true) {
        MATRIX_ZERO(out1, O1);
        matrix_begin_sums(&sums);
        matrix_head_gradients(&head, memory, lid, lane, fixed, mine, begin, end, p.scale, &view, false, out1, out2,
                              &sums);
        again = !mended && matrix_mend_deltas(workspace + clattn_at(p.statistics, b, h, view.row_base), &sums, mine,
                                              memory, lid, lane, &view) && d_q;
    }
    if (MATRIX_MENDS && !d_q)
        return;
#endif
    FOR_PIECES(O1) poisoned = poisoned || isnan(out1[r][c].x[e]);
    if (matrix_group_any(poisoned, memory, lid)) {
        MATRIX_ZERO(out1, O1);
        matrix_head_gradients(&head, memory, lid, lane, fixed, mine, begin, end, p.scale, &view, true, out1, out2,
                              &sums);
    }
#if CLATTN_STATE
    FOR_PIECES(O1)
    {
        const int i = mine + UNIT_PIECE * r + unit_row(lane, UNIT_SLOT(e)), x = UNIT_PIECE * c + unit_column(lane, e);
        if (i < view.n_q && x < CLATTN_D)
            d_q[clattn_at(p.d_q, b, h, view.row_base + i) + x * p.d_q.column] += out1[r][c].x[e] * p.scale;
    }
#else
    MATRIX_RESULT(out1, O1, CLATTN_D, p.scale, d_q, p.d_q, b, h, view.row_base, fixed, view.n_q);
#endif
}

#elif CLATTN_KERNEL % 2
#if CLATTN_KERNEL == 3
#define MATRIX_DK_DV clattn_dk_dv_again
#else
#define MATRIX_DK_DV clattn_dk_dv
#endif
/* dV is formed of the weights that dropout leaves, as they are. */
#if CLATTN_DROPOUT
#define MATRIX_KEPT_SCALE score_params.dropout_scale
#else
#define MATRIX_KEPT_SCALE 1.0f
#endif
/* Block `number` of all heads' keys. */
CLATTN_INLINE void matrix_key_block(int number, __local uint *memory, int lid, unit_lane lane, MATRIX_INPUTS,
                                    __global clattn_storage *d_k, __global clattn_storage *d_v,
                                    const clattn_backward_params p CLATTN_SCORE_PARAMETERS)
{
    const int blocks = (p.n_kv + FIXED - 1) / FIXED, bh = number / blocks;
    const int b = bh / p.kv_heads, kv_head = bh - b * p.kv_heads, share = p.heads / p.kv_heads;
#if CLATTN_STATE
    const clattn_view any = clattn_open(b, kv_head * share, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
    const int first = any.first_key;
#else
    const int first = 0;
#endif
    const int fixed = first + (number - bh * blocks) * FIXED,
              mine = fixed + unit_sub_group(lid) / SPLIT * UNIT_PIECE * RT;
    unit_accumulator out1[RT][O1], out2[RT][O2];
    matrix_pair_sums unused;
    MATRIX_ZERO(out1, O1);
    MATRIX_ZERO(out2, O2);

    /* How many keys there are in the tensor, which with lengths is more than are looked at: these get zeros. */
    int keys = p.n_kv;
    long base = 0;
    bool poisoned = false;
#define MATRIX_HEADS(careful)                                                                                          \
    _Pragma("unroll 1") for (int h = kv_head * share; h < (kv_head + 1) * share; ++h)                                  \
    {                                                                                                                  \
        const clattn_view view = clattn_open(b, h, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);                     \
        const matrix_head head = matrix_open_head(q, k, v, d_o, workspace, &p, &view);                                 \
        const int last = min(fixed + FIXED, view.n_kv) - 1;                                                            \
        keys = view.keys;                                                                                              \
        base = view.key_base;                                                                                          \
        if (last >= fixed)                                                                                             \
            matrix_head_gradients(&head, memory, lid, lane, fixed, mine, clattn_row_begin(fixed, &view),               \
                                  clattn_row_end(last, &view), p.scale, &view, careful, out1, out2, &unused);          \
    }
#if CLATTN_KERNEL == 3
    poisoned = true;
#else
    MATRIX_HEADS(false)
#endif
    FOR_PIECES(O1) poisoned = poisoned || isnan(out1[r][c].x[e]);
    FOR_PIECES(O2) poisoned = poisoned || isnan(out2[r][c].x[e]);
    if (matrix_group_any(poisoned, memory, lid)) {
        MATRIX_ZERO(out1, O1);
        MATRIX_ZERO(out2, O2);
        MATRIX_HEADS(true)
    }
    if (d_k)
        MATRIX_RESULT(out1, O1, CLATTN_D, p.scale, d_k, p.d_k, b, kv_head, base, fixed, keys);
    if (d_v)
        MATRIX_RESULT(out2, O2, CLATTN_D_V, MATRIX_KEPT_SCALE, d_v, p.d_v, b, kv_head, base, fixed, keys);
}

/* Of clattn_dk_dv_again each group looks at several blocks' flags at once, of which mostly none is set. */
MATRIX_KERNEL MATRIX_DK_DV(MATRIX_INPUTS, __global clattn_storage *d_k, __global clattn_storage *d_v,
                           const clattn_backward_params p CLATTN_SCORE_PARAMETERS)
{
    MATRIX_MEMORY;
    const int lid = (int)get_local_id(0), group = (int)get_group_id(0);
    const unit_lane lane = MATRIX_LANE_OF(lid, memory);
#if CLATTN_KERNEL == 3
    const int all = p.batch * p.kv_heads * ((p.n_kv + FIXED - 1) / FIXED), step = (int)get_num_groups(0);
    __global const uint *const flags = (__global const uint *)workspace + p.flags;
    for (int first = group; first < all; first += WG * step) {
        const int own = first + lid * step;
        if (!matrix_group_any(own < all && flags[own] != 0, memory, lid))
            continue;
#pragma unroll 1
        for (int number = first; number < min(all, first + WG * step); number += step)
            if (flags[number] != 0)
                matrix_key_block(number, memory, lid, lane, q, k, v, d_o, workspace, d_k, d_v,
                                 p CLATTN_SCORE_ARGUMENTS);
    }
#else
    matrix_key_block(group, memory, lid, lane, q, k, v, d_o, workspace, d_k, d_v, p CLATTN_SCORE_ARGUMENTS);
#endif
}

#else
#if CLATTN_STATE
#define MATRIX_PUT_SUM(sum, place) *(place) += (sum)
#else
#define MATRIX_PUT_SUM(sum, place) clattn_store(sum, place)
#endif
/* Sums over the rows of piece c, whose first key is `first`: of a sub-group's pieces, then of one sub-group after the
 * other in local memory, where the sums of columns lie behind a piece. */
CLATTN_ASSERT(MATRIX_LOCAL_BYTES >= 4 * UNIT_PIECE * (UNIT_PIECE + 1));
#define MATRIX_SUM_ROWS(c, first, out)                                                                                 \
    {                                                                                                                  \
        __local float *const piece = (__local float *)memory, *const sums = piece + UNIT_PIECE * UNIT_PIECE;           \
        _Pragma("unroll 1") for (int turn = 0; turn < SUB_GROUPS; ++turn)                                              \
        {                                                                                                              \
            barrier(CLK_LOCAL_MEM_FENCE);                                                                              \
            UNROLL for (int e = 0; e < UNIT_ELEMENTS; ++e)                                                             \
            {                                                                                                          \
                float sum = out1[0][c].x[e];                                                                           \
                UNROLL for (int r = 1; r < RT; ++r) sum += out1[r][c].x[e];                                            \
                if (unit_sub_group(lid) == turn)                                                                       \
                    piece[unit_row(lane, UNIT_SLOT(e)) * UNIT_PIECE + unit_column(lane, e)] = sum;                     \
            }                                                                                                          \
            barrier(CLK_LOCAL_MEM_FENCE);                                                                              \
            for (int j = lid; j < UNIT_PIECE; j += SUB_GROUPS * UNIT_LANES) {                                          \
                float sum = turn ? sums[j] : 0.0f;                                                                     \
                for (int i = 0; i < UNIT_PIECE; ++i)                                                                   \
                    sum += piece[i * UNIT_PIECE + j];                                                                  \
                sums[j] = sum;                                                                                         \
            }                                                                                                          \
        }                                                                                                              \
        for (int j = lid; j < UNIT_PIECE; j += SUB_GROUPS * UNIT_LANES) {                                              \
            if ((first) + j < keys)                                                                                    \
                MATRIX_PUT_SUM(sums[j], (out) + ((first) + j) * at.column);                                            \
        }                                                                                                              \
    }
MATRIX_KERNEL clattn_d_bias(MATRIX_INPUTS, __global clattn_sum *d_bias, const clattn_backward_params p,
                            const clattn_layout at CLATTN_SCORE_PARAMETERS)
{
    MATRIX_MEMORY;
    const int lid = (int)get_local_id(0), group = (int)get_group_id(0);
    const unit_lane lane = MATRIX_LANE_OF(lid, memory);
#if CLATTN_STATE
    const int keys = score_params.keys;
#else
    const int keys = p.n_kv;
#endif
    const int row_blocks = at.row ? (p.n_q + CLATTN_B_R - 1) / CLATTN_B_R : 1;
    const int key_blocks = (keys + CLATTN_B_C - 1) / CLATTN_B_C;
    const int batches = at.batch ? p.batch : 1, heads = at.head ? p.heads : 1;
    const int bh = group / (row_blocks * key_blocks), tile = group - bh * (row_blocks * key_blocks);
    const int own_b = bh / heads, own_h = bh - own_b * heads;
    const int row_block = tile / key_blocks;
    const int fixed = row_block * CLATTN_B_R, first_key = (tile - row_block * key_blocks) * CLATTN_B_C;
    const int mine = fixed + unit_sub_group(lid) * UNIT_PIECE * RT;
    unit_accumulator out1[RT][O1], out2[RT][O2];
    matrix_pair_sums unused;
    bool poisoned = false;
#define MATRIX_ALL(careful)                                                                                            \
    _Pragma("unroll 1") for (int b = own_b; b < (at.batch ? own_b + 1 : p.batch); ++b)                                 \
        _Pragma("unroll 1") for (int h = own_h; h < (at.head ? own_h + 1 : p.heads); ++h)                              \
    {                                                                                                                  \
        const clattn_view view = clattn_open(b, h, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);                     \
        const matrix_head head = matrix_open_head(q, k, v, d_o, workspace, &p, &view);                                 \
        const bool any = first_key < view.n_kv && first_key + CLATTN_B_C > view.first_key;                             \
        const int end = !any ? 0 : at.row ? min(fixed + 1, view.n_q) : view.n_q; /* of the first rows of blocks */     \
        _Pragma("unroll 1") for (int i = fixed; i < end; i += CLATTN_B_R)                                              \
            matrix_head_gradients(&head, memory, lid, lane, i, mine - fixed + i, first_key,                            \
                                  min(first_key + CLATTN_B_C, view.n_kv), p.scale, &view, careful, out1, out2,         \
                                  &unused);                                                                            \
    }
    MATRIX_ZERO(out1, O1);
    MATRIX_ALL(false)
    FOR_PIECES(O1) poisoned = poisoned || isnan(out1[r][c].x[e]);
    if (matrix_group_any(poisoned, memory, lid)) {
        MATRIX_ZERO(out1, O1);
        MATRIX_ALL(true)
    }
    if (!at.row) {
        UNROLL for (int c = 0; c < O1; ++c)
            MATRIX_SUM_ROWS(c, first_key + UNIT_PIECE * c, d_bias + clattn_at(at, own_b, own_h, 0));
        return;
    }
    UNROLL for (int r = 0; r < RT; ++r) UNROLL for (int c = 0; c < O1; ++c)
        UNROLL for (int e = 0; e < UNIT_ELEMENTS; ++e)
    {
        const int i = mine + UNIT_PIECE * r + unit_row(lane, UNIT_SLOT(e)),
                  j = first_key + UNIT_PIECE * c + unit_column(lane, e);
        __global clattn_sum *const place = d_bias + (clattn_at(at, own_b, own_h, i) + j * at.column);
        if (i >= p.n_q || j >= keys)
            continue;
        MATRIX_PUT_SUM(out1[r][c].x[e], place);
    }
}
#endif
