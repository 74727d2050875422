/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Backward attention on matrix units: one text for the two kernels of FlashAttention-2's backward pass without atomics,
 * and for the gradient of a bias. Storage is fp16 or bf16, products accumulate in float.
 *
 * A work-group keeps a block of one side (rows of Q and dO; or keys, rows of K and V) and lets the other side pass, tile
 * by tile. Each sub-group owns 16 * TILES rows of the fixed side, their gradients in registers. With X1, X2 the fixed
 * matrices and Y1, Y2 the moving ones, every step is
 *     S = X1 Y1^T,  dP = X2 Y2^T,  P = e^(scale S - lse),  dS = P (dP - delta)
 *     dq     X = Q, dO  Y = K, V     dQ += dS Y1
 *     dk_dv  X = K, V   Y = Q, dO    dK += dS Y1,  dV += P Y2
 *     d_bias X = Q, dO  Y = K, V     d_bias += dS, over the batch elements and heads that share it
 * where S is the scores' transpose if keys are fixed. P and dS are rounded to the storage type on their way from
 * accumulators to operands, as P is in the forward pass. Heads that share K and V are summed one after the other.
 *
 * A hidden pair must bring nothing in, whatever the other side holds there; but 0 * NaN is NaN. So if a result is NaN
 * after all, and pairs can be hidden, the work-group runs once more, carefully: moving rows with anything that is not
 * finite are zeroed, and make NaN of the fixed rows that do see them. Ordinary data pays one comparison per result.
 *
 * Launch: 1-D, CLATTN_WORK_GROUP_SIZE items a group. dq: batch * heads * ceil(n_q / B_R) groups; dk_dv: batch * kv_heads *
 * ceil(n_kv / B_C); d_bias: (batch or 1) * (heads or 1) * ceil(n_q / B_R) * ceil(n_kv / B_C), 1 where the bias has stride 0.
 *
 * Baked constants (beside those of types.clh, score.clh and the matrix header)
 *   CLATTN_KERNEL            0 clattn_dq, 1 clattn_dk_dv, 2 clattn_d_bias, 3 clattn_dk_dv_again
 *   CLATTN_SUMMED            1: backward_hopper.cl has gone before, 2: backward_fused.cl: dq takes sums from the workspace,
 *                            dk_dv_again computes the blocks of keys that are flagged there; both run carefully at once where
 *                            something is NaN
 *   CLATTN_D, CLATTN_D_V     head dimensions, 1..256
 *   CLATTN_B_R, CLATTN_B_C   rows that a group of dq keeps, keys that one of dk_dv keeps: multiples of 16 * sub-groups
 *                            (of d_bias: both the tile of its result; there keys pass)
 *   and, for DQ (d_bias too) and for DK_DV:
 *   CLATTN_.._MOVING            rows of the moving side in a tile, a multiple of 16
 *   CLATTN_.._SLICE             of these, how many meet the fixed rows at a time: a multiple of 16 that divides MOVING
 *                               (and B_C, in d_bias)
 *   CLATTN_.._FIXED_REGISTERS   1: X1 and X2 stay in registers; 0: they are read again from local memory
 *   CLATTN_.._SPLIT             (1 for DQ) 1 or 2: sub-groups that share fixed rows, each with its part of the columns of dK and dV,
 *                               which are too many for one's registers beyond d = 128; scores are then computed twice
 *   CLATTN_.._STAGES            1 or 2: tiles of the moving side that local memory holds; with 2 one arrives while the
 *                               one before is used
 *   CLATTN_WORK_GROUP_SIZE   sub-groups times MATRIX_LANES
 *
 * Local memory: MATRIX_LOCAL_BYTES, below.
 */
#if !defined(CLATTN_KERNEL) || CLATTN_KERNEL < 0 || CLATTN_KERNEL > 3
#error "CLATTN_KERNEL must be 0 (dq), 1 or 3 (dk_dv), or 2 (d_bias)"
#endif
#ifndef CLATTN_SUMMED
#error "CLATTN_SUMMED must be 0; 1 or 2 to end what backward_hopper.cl or backward_fused.cl has begun"
#endif
#if !defined(CLATTN_D) || !defined(CLATTN_D_V) || !defined(CLATTN_B_R) || !defined(CLATTN_B_C)
#error "CLATTN_D and CLATTN_D_V must be 1..256, CLATTN_B_R and CLATTN_B_C multiples of 16"
#endif
#if CLATTN_KERNEL % 2
#define MATRIX_SIDE(name) CLATTN_DK_DV_##name
#else
#define MATRIX_SIDE(name) CLATTN_DQ_##name
#endif
#define MOVING MATRIX_SIDE(MOVING)
#define SLICE MATRIX_SIDE(SLICE)
#define FIXED_REGISTERS MATRIX_SIDE(FIXED_REGISTERS)
#define STAGES MATRIX_SIDE(STAGES)
#define SPLIT MATRIX_SIDE(SPLIT)
#if MOVING < 16 || MOVING % 16 || SLICE < 16 || SLICE % 16
#error "CLATTN_.._MOVING and _SLICE must be multiples of 16"
#endif
#if STAGES < 1 || STAGES > 2 || SPLIT < 1 || SPLIT > 2
#error "CLATTN_.._STAGES and _SPLIT must be 1 or 2"
#endif

#define ROWS_FIXED (CLATTN_KERNEL % 2 == 0)
#define FIXED (ROWS_FIXED ? CLATTN_B_R : CLATTN_B_C)
#define SUB_GROUPS (WG / MATRIX_LANES)
#define RT (FIXED * SPLIT / (16 * SUB_GROUPS)) /* pieces along a sub-group's fixed rows, */
#define ST (SLICE / 16)         /* along a slice of moving rows, */
#define DT MATRIX_PIECES(CLATTN_D)     /* the columns of Q and K, */
#define VT MATRIX_PIECES(CLATTN_D_V)   /* and those of V and dO */
#define MATRIX_LOG2E 1.44269504088896341f

CLATTN_ASSERT(CLATTN_D >= 1 && CLATTN_D <= 256 && CLATTN_D_V >= 1 && CLATTN_D_V <= 256);
CLATTN_ASSERT(RT >= 1 && FIXED * SPLIT == 16 * RT * SUB_GROUPS && WG == SUB_GROUPS * MATRIX_LANES);
CLATTN_ASSERT(SLICE % 16 == 0 && MOVING % SLICE == 0);

#define FOR_PIECES(columns)                                                                                            \
    UNROLL for (int r = 0; r < RT; ++r) UNROLL for (int c = 0; c < columns; ++c)                                       \
        UNROLL for (int e = 0; e < MATRIX_ELEMENTS; ++e)

/* Bytes. A stage holds Y1, Y2, and of each moving row lse, delta (where these move) and a flag for the careful run. */
#define D_PITCH MATRIX_PITCH(CLATTN_D)
#define V_PITCH MATRIX_PITCH(CLATTN_D_V)
#define FIXED_BYTES (FIXED * (D_PITCH + V_PITCH))
#define TILE_BYTES (MOVING * (D_PITCH + V_PITCH))
#define STAGE_BYTES (TILE_BYTES + MOVING * 12)
#define MATRIX_LOCAL_BYTES (FIXED_BYTES + STAGES * STAGE_BYTES + 16)

/* Everything about one head that the loops need. */
typedef struct {
    matrix_source x1, x2, y1, y2;
    __global const float *lse, *delta; /* the head's first row */
    long lse_row, delta_row;
} matrix_head;

/* One of a row's two statistics; rows that do not exist, or see no key, get what makes their weights 0. */
CLATTN_INLINE float matrix_lse(const matrix_head *head, int i, int n_q)
{
    const float x = i < n_q ? head->lse[i * head->lse_row] : -INFINITY;
    return x == -INFINITY ? INFINITY : x;
}
CLATTN_INLINE float matrix_delta(const matrix_head *head, int i, int n_q)
{
    return i < n_q ? head->delta[i * head->delta_row] : 0.0f;
}

/* X Y^T, from where this lane's parts of them begin. */
#define MATRIX_PRODUCT(out, fixed, my_x, my_y, pitch, pieces)                                                          \
    do {                                                                                                               \
        FOR_PIECES(ST) out[r][c].x[e] = 0.0f;                                                                          \
        UNROLL for (int x = 0; x < pieces; ++x)                                                                        \
        {                                                                                                              \
            matrix_operand a[RT];                                                                                      \
            UNROLL for (int r = 0; r < RT; ++r)                                                                        \
            {                                                                                                          \
                if (FIXED_REGISTERS)                                                                            \
                    a[r] = fixed[r][FIXED_REGISTERS ? x : 0];                                                   \
                else                                                                                                   \
                    matrix_load_a(&a[r], (my_x) + (16 * r * (pitch) + 32 * x), pitch);                                 \
            }                                                                                                          \
            UNROLL for (int c = 0; c < ST; ++c)                                                                        \
            {                                                                                                          \
                matrix_operand y;                                                                                      \
                matrix_load_bt(&y, (my_y) + (16 * c * (pitch) + 32 * x), pitch);                                       \
                UNROLL for (int r = 0; r < RT; ++r) matrix_multiply(&out[r][c], &a[r], &y);                            \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

/* out += weights Y over a slice: `pieces` of Y's columns from piece `first` on, as far as there are `all`. */
#define MATRIX_ADD(out, weights, my_y, pitch, pieces, first, all)                                                                  \
    do {                                                                                                               \
        UNROLL for (int c = 0; c < ST; ++c)                                                                            \
        {                                                                                                              \
            matrix_operand a[RT];                                                                                      \
            UNROLL for (int r = 0; r < RT; ++r) matrix_round(&a[r], &weights[r][c]);                                   \
            UNROLL for (int x = 0; x < pieces; ++x)                                                                    \
            {                                                                                                          \
                matrix_operand y;                                                                                      \
                if (all % SPLIT && (first) + x >= all)                                                                 \
                    continue;                                                                                          \
                matrix_load_b(&y, (my_y) + (16 * c * (pitch) + 32 * ((first) + x)), pitch);                            \
                UNROLL for (int r = 0; r < RT; ++r) matrix_multiply(&out[r][x], &a[r], &y);                            \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

/* Scores become the weights of dV, and dP becomes dS (of d_bias: what comes before the bias left out). lse and delta of
 * fixed rows are in registers, those of moving rows in `stats`. `check`: pairs may be hidden. */
CLATTN_INLINE void matrix_weigh(matrix_accumulator s[RT][ST], matrix_accumulator dp[RT][ST],
                                const float row_lse[RT][MATRIX_SLOTS], const float row_delta[RT][MATRIX_SLOTS],
                                __local const float *stats, int fixed_row, int moving_row, int slice, int lane,
                                float scale, const clattn_view *view, const bool check, const bool careful)
{
    FOR_PIECES(ST)
    {
        const int f = fixed_row + 16 * r + matrix_row(lane, MATRIX_SLOT(e)), in_tile = slice + 16 * c + matrix_column(lane, e);
        const int t = moving_row + in_tile;
        const int i = ROWS_FIXED ? f : t, j = ROWS_FIXED ? t : f;
        const float lse = ROWS_FIXED ? row_lse[r][MATRIX_SLOT(e)] : stats[in_tile];
        const float delta = ROWS_FIXED ? row_delta[r][MATRIX_SLOT(e)] : stats[MOVING + in_tile];
        float slope = 1.0f, difference = 0.0f;
        if (CLATTN_MODIFIES)
            difference = clattn_modified_grads(s[r][c].x[e] * scale, i, j, view, CLATTN_KERNEL == 2 ? 0 : &slope,
                                               CLATTN_KERNEL == 2 ? &slope : 0) -
                         lse;
        else
            difference = fma(s[r][c].x[e], scale, -lse);
        float weight = matrix_exp2(difference * MATRIX_LOG2E), kept = weight, gradient = dp[r][c].x[e];
#if CLATTN_DROPOUT
        const bool dropped = clattn_dropped(i, j, view);
        kept = dropped ? 0.0f : weight * view->dropout_scale;
        gradient = dropped ? 0.0f : gradient * view->dropout_scale;
#endif
        gradient = weight * (gradient - delta) * slope;
        if (check || CLATTN_ZEROES) {
            /* with an lse of INFINITY a row is not there, or sees no key: it has no weight, whatever a key holds */
            const bool hidden = check && (clattn_hidden(i, j, view) || (careful && !ROWS_FIXED && lse == INFINITY));
            if (careful && !hidden && stats[2 * MOVING + in_tile] != 0.0f) {
                kept = gradient = NAN;
            } else if (hidden || weight == 0.0f) {
                kept = gradient = 0.0f;
            }
        }
        s[r][c].x[e] = kept;
        dp[r][c].x[e] = gradient;
    }
}

/* Whether eight elements, as they lie in memory, are finite: an exponent of ones carries into the sign's place when 1 is
 * added to it. */
CLATTN_INLINE bool matrix_all_finite(uint4 x)
{
    const uint one = CLATTN_DTYPE == 1 ? 0x0400u : 0x0080u;
    const uint4 carried = (x & 0x7fff7fffu) + (one << 16 | one);
    return ((carried.x | carried.y | carried.z | carried.w) & 0x80008000u) == 0;
}

/* Flags the rows of a pair of tiles with anything that is not finite, and zeros them. Ends with a barrier. */
CLATTN_INLINE void matrix_clean(matrix_address y1, matrix_address y2, int rows, __local float *flags, int lid)
{
    const int d_chunks = 2 * DT, chunks = d_chunks + 2 * VT;
    for (int row = lid; row < rows; row += WG)
        flags[row] = 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int n = lid; n < rows * chunks; n += WG) {
        const int row = n / chunks, x = n - row * chunks;
        const matrix_address at =
            x < d_chunks ? y1 + (row * D_PITCH + 16 * x) : y2 + (row * V_PITCH + 16 * (x - d_chunks));
        if (!matrix_all_finite(matrix_get16(at)))
            flags[row] = 1.0f; /* whoever finds it writes the same */
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int row = lid; row < rows; row += WG) {
        if (flags[row] == 0.0f)
            continue;
        for (int x = 0; x < d_chunks; ++x)
            matrix_put16(y1 + (row * D_PITCH + 16 * x), (uint4)(0));
        for (int x = 0; x < 2 * VT; ++x)
            matrix_put16(y2 + (row * V_PITCH + 16 * x), (uint4)(0));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

CLATTN_INLINE int matrix_tile(int fixed, int fixed_count, int moving, int moving_count, const clattn_view *view)
{
    return ROWS_FIXED ? clattn_tile(fixed, fixed + fixed_count - 1, moving, moving + moving_count - 1, view)
                      : clattn_tile(moving, moving + moving_count - 1, fixed, fixed + fixed_count - 1, view);
}

/* The first tile from `at` on that has a pair to compute. */
CLATTN_INLINE int matrix_next(int at, int end, int fixed, const clattn_view *view)
{
    while (at < end && matrix_tile(fixed, FIXED, at, MOVING, view) == CLATTN_TILE_SKIP)
        at += MOVING;
    return at;
}

/* Starts the copies of a moving tile, and of its rows' statistics. */
CLATTN_INLINE void matrix_bring(const matrix_head *head, int at, matrix_address tile, __local float *stats, int lid,
                                const clattn_view *view)
{
    matrix_fill(head->y1, at, MOVING, CLATTN_D, tile, D_PITCH, lid);
    matrix_fill(head->y2, at, MOVING, CLATTN_D_V, tile + MOVING * D_PITCH, V_PITCH, lid);
    if (!ROWS_FIXED)
        for (int n = lid; n < MOVING; n += WG) {
            stats[n] = matrix_lse(head, at + n, view->n_q);
            stats[MOVING + n] = matrix_delta(head, at + n, view->n_q);
        }
}

#if CLATTN_KERNEL == 2
#define O1 ST_ALL
#define ST_ALL (CLATTN_B_C / 16)
#else
#define O1 ((DT + SPLIT - 1) / SPLIT)
#endif
#if CLATTN_KERNEL % 2
#define O2 ((VT + SPLIT - 1) / SPLIT)
#else
#define O2 1
#endif

/* Adds what one head brings to the gradients of the fixed rows from `fixed` on (the sub-group's from `mine`): moving rows
 * begin..end-1. `careful` is a constant at each call. */
CLATTN_INLINE void matrix_head_gradients(const matrix_head *head, __local uint *memory, int lid, int fixed, int mine,
                                         int begin, int end, float scale, const clattn_view *view, const bool careful,
                                         matrix_accumulator out1[RT][O1], matrix_accumulator out2[RT][O2])
{
    const int lane = lid % MATRIX_LANES, part = SPLIT == 1 ? 0 : lid / MATRIX_LANES % SPLIT;
    const matrix_address x1 = matrix_address_of(memory), x2 = x1 + FIXED * D_PITCH;
    const matrix_address tiles = x1 + FIXED_BYTES;
    __local float *const stats = (__local float *)(memory + (FIXED_BYTES + STAGES * TILE_BYTES) / 4);

    barrier(CLK_LOCAL_MEM_FENCE); /* all are done with what local memory holds */
    int at = matrix_next(begin, end, fixed, view);
    if (at >= end)
        return;
    matrix_fill(head->x1, fixed, FIXED, CLATTN_D, x1, D_PITCH, lid);
    matrix_fill(head->x2, fixed, FIXED, CLATTN_D_V, x2, V_PITCH, lid);
    matrix_bring(head, at, tiles, stats, lid, view);

    float row_lse[RT][MATRIX_SLOTS], row_delta[RT][MATRIX_SLOTS];
    if (ROWS_FIXED)
        UNROLL for (int r = 0; r < RT; ++r) UNROLL for (int i = 0; i < MATRIX_SLOTS; ++i)
        {
            row_lse[r][i] = matrix_lse(head, mine + 16 * r + matrix_row(lane, i), view->n_q);
            row_delta[r][i] = matrix_delta(head, mine + 16 * r + matrix_row(lane, i), view->n_q);
        }

    const matrix_address my_x1 = x1 + (mine - fixed) * D_PITCH + matrix_lane_a(lane, D_PITCH);
    const matrix_address my_x2 = x2 + (mine - fixed) * V_PITCH + matrix_lane_a(lane, V_PITCH);
#if FIXED_REGISTERS
    matrix_operand kept1[RT][DT], kept2[RT][VT];
    matrix_copy_wait();
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL for (int r = 0; r < RT; ++r) UNROLL for (int x = 0; x < DT; ++x)
        matrix_load_a(&kept1[r][x], my_x1 + (16 * r * D_PITCH + 32 * x), D_PITCH);
    UNROLL for (int r = 0; r < RT; ++r) UNROLL for (int x = 0; x < VT; ++x)
        matrix_load_a(&kept2[r][x], my_x2 + (16 * r * V_PITCH + 32 * x), V_PITCH);
#else
    matrix_operand kept1[1][1], kept2[1][1];
#endif

    int stage = 0;
#pragma unroll 1
    while (at < end) {
        const int next = matrix_next(at + MOVING, end, fixed, view);
        const matrix_address y1 = tiles + stage * TILE_BYTES, y2 = y1 + MOVING * D_PITCH;
        __local float *const my_stats = stats + stage * (3 * MOVING);

        matrix_copy_wait();
        barrier(CLK_LOCAL_MEM_FENCE); /* this tile is there, and all are done with the one before */
        if (STAGES == 2) {
            stage = 1 - stage;
            if (next < end)
                matrix_bring(head, next, tiles + stage * TILE_BYTES, stats + stage * (3 * MOVING), lid, view);
        }
        if (careful)
            matrix_clean(y1, y2, MOVING, my_stats + 2 * MOVING, lid);

#pragma unroll 1
        for (int slice = 0; slice < MOVING && at + slice < end; slice += SLICE) {
            const int status = matrix_tile(mine, 16 * RT, at + slice, SLICE, view);
            if (status == CLATTN_TILE_SKIP)
                continue;
            matrix_accumulator s[RT][ST], dp[RT][ST];
            const matrix_address my_y1 = y1 + slice * D_PITCH, my_y2 = y2 + slice * V_PITCH;
            MATRIX_PRODUCT(s, kept1, my_x1, my_y1 + matrix_lane_bt(lane, D_PITCH), D_PITCH, DT);
            MATRIX_PRODUCT(dp, kept2, my_x2, my_y2 + matrix_lane_bt(lane, V_PITCH), V_PITCH, VT);
            if (careful || status == CLATTN_TILE_SOME)
                matrix_weigh(s, dp, row_lse, row_delta, my_stats, mine, at, slice, lane, scale, view, true, careful);
            else
                matrix_weigh(s, dp, row_lse, row_delta, my_stats, mine, at, slice, lane, scale, view, false, careful);
#if CLATTN_KERNEL == 2
            UNROLL for (int to = 0; to < ST_ALL; to += ST) if (at + slice - begin == 16 * to)
                FOR_PIECES(ST) out1[r][to + c].x[e] += dp[r][c].x[e];
#else
            if (!ROWS_FIXED)
                MATRIX_ADD(out2, s, my_y2 + matrix_lane_b(lane, V_PITCH), V_PITCH, O2, part * O2, VT);
            MATRIX_ADD(out1, dp, my_y1 + matrix_lane_b(lane, D_PITCH), D_PITCH, O1, part * O1, DT);
#endif
        }
        if (STAGES == 1 && next < end) {
            barrier(CLK_LOCAL_MEM_FENCE);
            matrix_bring(head, next, tiles, stats, lid, view);
        }
        at = next;
    }
}

/* Whether any item of the group saw a NaN. */
CLATTN_INLINE bool matrix_group_any(bool mine, __local uint *memory, int lid)
{
    volatile __local uint *const flag = memory + (MATRIX_LOCAL_BYTES / 4 - 4);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lid == 0)
        *flag = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (mine)
        atomic_or(flag, 1u);
    barrier(CLK_LOCAL_MEM_FENCE);
    return *flag != 0;
}

/* Gradients, times `factor`, to their tensor, by way of local memory, so that they leave in whole chunks. */
#define MATRIX_RESULT(out, pieces, columns, factor, buffer, at, b, h, base, first, rows)                               \
    do {                                                                                                               \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                  \
        UNROLL for (int r = 0; r < RT; ++r) UNROLL for (int c = 0; c < pieces; ++c)                                    \
        {                                                                                                              \
            matrix_operand y;                                                                                          \
            const int piece = (SPLIT == 1 ? 0 : lid / MATRIX_LANES % SPLIT) * pieces + c;                              \
            if (piece >= MATRIX_PIECES(columns))                                                                       \
                continue;                                                                                              \
            UNROLL for (int e = 0; e < MATRIX_ELEMENTS; ++e) out[r][c].x[e] *= (factor);                               \
            matrix_round(&y, &out[r][c]);                                                                              \
            matrix_store(matrix_address_of(memory) + ((mine - (first) + 16 * r) * MATRIX_PITCH(columns) + 32 * piece), \
                         MATRIX_PITCH(columns), lane, &y);                                                             \
        }                                                                                                              \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                  \
        matrix_write(matrix_address_of(memory), MATRIX_PITCH(columns), FIXED, columns, buffer, at, b, h, base, first,  \
                     rows, lid);                                                                                       \
    } while (0)

CLATTN_INLINE matrix_head matrix_open_head(__global const clattn_storage *q, __global const clattn_storage *k,
                                           __global const clattn_storage *v, __global const clattn_storage *d_o,
                                           __global const float *lse, __global const float *delta,
                                           const clattn_backward_params *p, const clattn_view *view)
{
    const int kv_head = view->h / (p->heads / p->kv_heads);
    const matrix_source rows1 = matrix_open(q, p->q, view->b, view->h, view->row_base, view->n_q);
    const matrix_source rows2 = matrix_open(d_o, p->d_o, view->b, view->h, view->row_base, view->n_q);
    matrix_source keys1 = matrix_open(k, p->k, view->b, kv_head, view->key_base, view->n_kv);
    matrix_source keys2 = matrix_open(v, p->v, view->b, kv_head, view->key_base, view->n_kv);
    matrix_head head;
#if CLATTN_STATE
    keys1.before = keys2.before = view->first_key;
#endif
    head.x1 = ROWS_FIXED ? rows1 : keys1;
    head.x2 = ROWS_FIXED ? rows2 : keys2;
    head.y1 = ROWS_FIXED ? keys1 : rows1;
    head.y2 = ROWS_FIXED ? keys2 : rows2;
    head.lse = lse + clattn_at(p->lse, view->b, view->h, view->row_base);
    head.delta = delta + clattn_at(p->delta, view->b, view->h, view->row_base);
    head.lse_row = p->lse.row;
    head.delta_row = p->delta.row;
    return head;
}

/* What sums over all keys: with CLATTN_STATE those before are there, and in float. */
#if CLATTN_STATE
typedef float clattn_sum;
#else
typedef clattn_storage clattn_sum;
#endif

#define MATRIX_INPUTS                                                                                                  \
    __global const clattn_storage *q, __global const clattn_storage *k, __global const clattn_storage *v,              \
        __global const clattn_storage *d_o, __global const float *lse, __global const float *delta
#define MATRIX_KERNEL __kernel __attribute__((reqd_work_group_size(CLATTN_WORK_GROUP_SIZE, 1, 1))) void
#define MATRIX_MEMORY __local uint memory[MATRIX_LOCAL_BYTES / 4] __attribute__((aligned(128)))
#define MATRIX_ZERO(out, pieces) FOR_PIECES(pieces) out[r][c].x[e] = 0.0f

#if CLATTN_KERNEL == 0
#if CLATTN_SUMMED
/* A block of 64 rows lies in two parts of up to 64 columns each, or four, as the warps of a warp group hold them, 4 floats a lane at a
 * time. backward_hopper.cl leaves a counter of 0 where nothing has been added. Before compute capability 9.0 backward_fused.cl adds
 * floats one by one: of such 4, all lanes' first come first. */
#define MATRIX_SUMS_APART (CLATTN_SUMMED == 2 && CLATTN_COMPUTE_CAPABILITY < 90)
CLATTN_INLINE void matrix_take_sums(__global const float4 *sums, int block, int row, int lane, matrix_accumulator out[RT][O1])
{
    const int part_pieces = DT > 4 ? 4 : (DT + 1) / 2, parts = DT > 8 ? 4 : 2;
    UNROLL for (int r = 0; r < RT; ++r) UNROLL for (int c = 0; c < O1; ++c) UNROLL for (int e = 0; e < MATRIX_ELEMENTS; e += 4)
    {
        const int part = c / part_pieces, warp = (row + 16 * r) / 16;
        const int quad = MATRIX_ELEMENTS / 4 * (c % part_pieces) + e / 4;
        const int place = quad * (4 * MATRIX_LANES) + MATRIX_LANES * warp + lane;
        __global const float4 *const from = sums + (((long)block * parts + part) * (part_pieces * 256) + place);
#if MATRIX_SUMS_APART
        __global const float *const apart = (__global const float *)(from - lane) + lane;
        const float4 x = (float4)(apart[0], apart[MATRIX_LANES], apart[2 * MATRIX_LANES], apart[3 * MATRIX_LANES]);
#else
        const float4 x = *from;
#endif
        out[r][c].x[e] = x.x;
        out[r][c].x[e + 1] = x.y;
        out[r][c].x[e + 2] = x.z;
        out[r][c].x[e + 3] = x.w;
    }
}
#endif
MATRIX_KERNEL clattn_dq(MATRIX_INPUTS, __global clattn_sum *d_q,
                        const clattn_backward_params p CLATTN_SCORE_PARAMETERS)
{
    MATRIX_MEMORY;
    const int lid = (int)get_local_id(0), lane = lid % MATRIX_LANES, group = (int)get_group_id(0);
    const int blocks = (p.n_q + FIXED - 1) / FIXED, bh = group / blocks, place = group - bh * blocks;
    const int b = bh / p.heads, h = bh - b * p.heads;
    const int fixed = (CLATTN_CAUSAL ? blocks - 1 - place : place) * FIXED, mine = fixed + lid / MATRIX_LANES * 16 * RT;
    const clattn_view view = clattn_open(b, h, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
    if (fixed >= view.n_q)
        return;
    const matrix_head head = matrix_open_head(q, k, v, d_o, lse, delta, &p, &view);
    const int begin = clattn_key_begin(fixed, &view), end = clattn_key_end(min(fixed + FIXED, view.n_q) - 1, &view);

    matrix_accumulator out1[RT][O1], out2[RT][O2];
    bool poisoned = false;
#if CLATTN_SUMMED
    MATRIX_ZERO(out1, O1);
    if (CLATTN_SUMMED == 2 || ((__global const uint *)delta)[p.counters + (bh * blocks + fixed / FIXED)] != 0)
        matrix_take_sums((__global const float4 *)(delta + p.sums), bh * blocks + fixed / FIXED, mine - fixed, lane, out1);
#else
    MATRIX_ZERO(out1, O1);
    matrix_head_gradients(&head, memory, lid, fixed, mine, begin, end, p.scale, &view, false, out1, out2);
#endif
    FOR_PIECES(O1) poisoned = poisoned || isnan(out1[r][c].x[e]);
    if ((CLATTN_HIDES || CLATTN_ZEROES) && matrix_group_any(poisoned, memory, lid)) {
        MATRIX_ZERO(out1, O1);
        matrix_head_gradients(&head, memory, lid, fixed, mine, begin, end, p.scale, &view, true, out1, out2);
    }
#if CLATTN_STATE
    FOR_PIECES(O1)
    {
        const int i = mine + 16 * r + matrix_row(lane, MATRIX_SLOT(e)), x = 16 * c + matrix_column(lane, e);
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
MATRIX_KERNEL MATRIX_DK_DV(MATRIX_INPUTS, __global clattn_storage *d_k, __global clattn_storage *d_v,
                           const clattn_backward_params p CLATTN_SCORE_PARAMETERS)
{
    MATRIX_MEMORY;
    const int lid = (int)get_local_id(0), lane = lid % MATRIX_LANES, group = (int)get_group_id(0);
    const int blocks = (p.n_kv + FIXED - 1) / FIXED, bh = group / blocks;
    const int b = bh / p.kv_heads, kv_head = bh - b * p.kv_heads, share = p.heads / p.kv_heads;
#if CLATTN_STATE
    const clattn_view any = clattn_open(b, kv_head * share, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
    const int first = any.first_key;
#else
    const int first = 0;
#endif
    const int fixed = first + (group - bh * blocks) * FIXED, mine = fixed + lid / MATRIX_LANES / SPLIT * 16 * RT;
    matrix_accumulator out1[RT][O1], out2[RT][O2];
    MATRIX_ZERO(out1, O1);
    MATRIX_ZERO(out2, O2);
#if CLATTN_KERNEL == 3
    if (((__global const uint *)delta)[p.flags + group] == 0)
        return;
#endif

    /* How many keys there are in the tensor, which with lengths is more than are looked at: these get zeros. */
    int keys = p.n_kv;
    long base = 0;
    bool poisoned = false;
#define MATRIX_HEADS(careful)                                                                                          \
    _Pragma("unroll 1") for (int h = kv_head * share; h < (kv_head + 1) * share; ++h)                                  \
    {                                                                                                                  \
        const clattn_view view = clattn_open(b, h, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);                     \
        const matrix_head head = matrix_open_head(q, k, v, d_o, lse, delta, &p, &view);                                \
        const int last = min(fixed + FIXED, view.n_kv) - 1;                                                            \
        keys = view.keys;                                                                                              \
        base = view.key_base;                                                                                          \
        if (last >= fixed)                                                                                             \
            matrix_head_gradients(&head, memory, lid, fixed, mine, clattn_row_begin(fixed, &view),                     \
                                  clattn_row_end(last, &view), p.scale, &view, careful, out1, out2);                   \
    }
#if CLATTN_KERNEL == 3
    poisoned = true;
#else
    MATRIX_HEADS(false)
#endif
    FOR_PIECES(O1) poisoned = poisoned || isnan(out1[r][c].x[e]);
    FOR_PIECES(O2) poisoned = poisoned || isnan(out2[r][c].x[e]);
    if ((CLATTN_HIDES || CLATTN_ZEROES) && matrix_group_any(poisoned, memory, lid)) {
        MATRIX_ZERO(out1, O1);
        MATRIX_ZERO(out2, O2);
        MATRIX_HEADS(true)
    }
    if (d_k)
        MATRIX_RESULT(out1, O1, CLATTN_D, p.scale, d_k, p.d_k, b, kv_head, base, fixed, keys);
    if (d_v)
        MATRIX_RESULT(out2, O2, CLATTN_D_V, 1.0f, d_v, p.d_v, b, kv_head, base, fixed, keys);
}

#else
MATRIX_KERNEL clattn_d_bias(MATRIX_INPUTS, __global clattn_sum *d_bias, const clattn_backward_params p,
                            const clattn_layout at CLATTN_SCORE_PARAMETERS)
{
    MATRIX_MEMORY;
    const int lid = (int)get_local_id(0), lane = lid % MATRIX_LANES, group = (int)get_group_id(0);
#if CLATTN_STATE
    const int keys = score_params.keys;
#else
    const int keys = p.n_kv;
#endif
    const int row_blocks = (p.n_q + CLATTN_B_R - 1) / CLATTN_B_R, key_blocks = (keys + CLATTN_B_C - 1) / CLATTN_B_C;
    const int batches = at.batch ? p.batch : 1, heads = at.head ? p.heads : 1;
    const int bh = group / (row_blocks * key_blocks), tile = group - bh * (row_blocks * key_blocks);
    const int own_b = bh / heads, own_h = bh - own_b * heads;
    const int row_block = tile / key_blocks;
    const int fixed = row_block * CLATTN_B_R, first_key = (tile - row_block * key_blocks) * CLATTN_B_C;
    const int mine = fixed + lid / MATRIX_LANES * 16 * RT;
    matrix_accumulator out1[RT][O1], out2[RT][O2];
    bool poisoned = false;
#define MATRIX_ALL(careful)                                                                                            \
    _Pragma("unroll 1") for (int b = own_b; b < (at.batch ? own_b + 1 : p.batch); ++b)                                 \
        _Pragma("unroll 1") for (int h = own_h; h < (at.head ? own_h + 1 : p.heads); ++h)                              \
    {                                                                                                                  \
        const clattn_view view = clattn_open(b, h, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);                     \
        const matrix_head head = matrix_open_head(q, k, v, d_o, lse, delta, &p, &view);                                \
        if (fixed < view.n_q && first_key < view.n_kv && first_key + CLATTN_B_C > view.first_key)                                                               \
            matrix_head_gradients(&head, memory, lid, fixed, mine, first_key, min(first_key + CLATTN_B_C, view.n_kv),  \
                                  p.scale, &view, careful, out1, out2);                                                \
    }
    MATRIX_ZERO(out1, O1);
    MATRIX_ALL(false)
    FOR_PIECES(O1) poisoned = poisoned || isnan(out1[r][c].x[e]);
    if (matrix_group_any(poisoned, memory, lid)) {
        MATRIX_ZERO(out1, O1);
        MATRIX_ALL(true)
    }
    UNROLL for (int r = 0; r < RT; ++r) UNROLL for (int c = 0; c < O1; ++c) UNROLL for (int e = 0; e < MATRIX_ELEMENTS; ++e)
    {
        const int i = mine + 16 * r + matrix_row(lane, MATRIX_SLOT(e)), j = first_key + 16 * c + matrix_column(lane, e);
        __global clattn_sum *const place = d_bias + (clattn_at(at, own_b, own_h, i) + j * at.column);
        if (i >= p.n_q || j >= keys)
            continue;
#if CLATTN_STATE
        *place += out1[r][c].x[e];
#else
        clattn_store(out1[r][c].x[e], place);
#endif
    }
}
#endif
