/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Forward attention on matrix units: one skeleton over the operations of a matrix/<vendor>.clh header, which stands
 * above it in the program text. Storage is fp16 or bf16, products accumulate in float.
 *
 * One work-group computes CLATTN_B_R query rows of one head; each of its sub-groups owns 16 * CLATTN_ROW_TILES of
 * them, with their outputs and softmax state in registers. All matrices are handled in 16 x 16 pieces. For each tile
 * of CLATTN_B_C keys a sub-group forms S = Q K^T, turns S into weights P, rounds them to the storage type, and adds P
 * V. Rows are split between sub-groups, keys never, so nothing but K and V passes between them.
 *
 * Tiles lie in local memory in rows of an odd number of 16-byte chunks (no two of 8 neighbouring rows then start on
 * the same banks), absent rows and columns as zeros. They arrive by 16-byte copies, asynchronous where the device has
 * them, while the tiles before are used.
 *
 * Scores stay as the product gave them: weights are 2^fma(s, unit, -bound * unit), with `unit` the scale in powers of
 * two. The bound is lazy: it is moved (an exchange between the lanes of a row, a rescaling of O) only when some score
 * exceeds it by more than MATRIX_SLACK powers of two. Weights stay below 2^MATRIX_SLACK, which costs neither 16-bit
 * type any accuracy and is far from fp16's largest value. Where bounds are large, their product with `unit` is not
 * exact enough to make the largest weight 1: they are then subtracted from the scores first.
 *
 * Where a mask hides keys whose V is infinite or NaN, P V would carry 0 * NaN into rows that do not see them. So if
 * an output is NaN after all, the work-group runs once more, carefully: those values are then taken out of partly
 * hidden tiles and added only to rows that see them. Ordinary data pays one comparison per output for that. The
 * careful run is a second copy of the code: as a branch within the first it cost registers, and a tenth of the speed.
 *
 * Launch: 1-D, CLATTN_WORK_GROUP_SIZE items a group, batch * heads * ceil(n_q / CLATTN_B_R) groups.
 *
 * Baked constants (beside those of types.clh, score.clh and the matrix header)
 *   CLATTN_D, CLATTN_D_V     head dimensions, 1..256
 *   CLATTN_B_R, CLATTN_B_C   query rows and keys of a tile; B_C a multiple of 16
 *   CLATTN_ROW_TILES         16-row pieces a sub-group owns, 1..4: with 2, an operand read from K or V serves 32 rows
 *   CLATTN_KEYS              keys whose scores a sub-group holds at a time; a multiple of 16 that divides B_C
 *   CLATTN_Q_REGISTERS       1: Q stays in registers; 0: it is read again from local memory for every tile
 *   CLATTN_WORK_GROUP_SIZE   B_R / (16 * ROW_TILES) sub-groups of MATRIX_LANES items
 *
 * Local memory: MATRIX_LOCAL_BYTES, below.
 */
#if !defined(CLATTN_D) || !defined(CLATTN_D_V)
#error "CLATTN_D and CLATTN_D_V must be 1..256"
#endif
#if !defined(CLATTN_B_R) || !defined(CLATTN_B_C)
#error "CLATTN_B_R must be a multiple of 16 * CLATTN_ROW_TILES, CLATTN_B_C of 16"
#endif
#if !defined(CLATTN_ROW_TILES) || !defined(CLATTN_KEYS) || !defined(CLATTN_Q_REGISTERS)
#error "CLATTN_ROW_TILES must be 1..4, CLATTN_KEYS a divisor of CLATTN_B_C, CLATTN_Q_REGISTERS 0 or 1"
#endif
#ifndef CLATTN_WORK_GROUP_SIZE
#error "CLATTN_WORK_GROUP_SIZE must be CLATTN_B_R / (16 * CLATTN_ROW_TILES) * MATRIX_LANES"
#endif

#define WG CLATTN_WORK_GROUP_SIZE
#define RT CLATTN_ROW_TILES         /* pieces along a sub-group's rows, */
#define KT (CLATTN_KEYS / 16)       /* the keys it takes at a time, */
#define DT ((CLATTN_D + 15) / 16)   /* the columns of Q and K, */
#define VT ((CLATTN_D_V + 15) / 16) /* and those of V and O */
#define UNROLL MATRIX_UNROLL
#define MATRIX_SLACK 8.0f
#define MATRIX_LARGE 256.0f            /* a bound, in powers of two, whose rounding would show in the weights */
#define MATRIX_NO_BOUND (-1e30f)       /* not -inf: then no difference is NaN */
#define MATRIX_CACHE_BYTES (32l << 20) /* of a head set's K and V; less than the caches of large devices hold */

/* Every element that a lane holds of S (piece r, c, element e), of O, and every row (piece r, slot i). */
#define FOR_PIECES(columns)                                                                                            \
    UNROLL for (int r = 0; r < RT; ++r) UNROLL for (int c = 0; c < columns; ++c)                                       \
        UNROLL for (int e = 0; e < MATRIX_ELEMENTS; ++e)
#define FOR_SCORES FOR_PIECES(KT)
#define FOR_OUTPUTS FOR_PIECES(VT)
#define FOR_ROWS UNROLL for (int r = 0; r < RT; ++r) UNROLL for (int i = 0; i < MATRIX_SLOTS; ++i)

CLATTN_ASSERT(CLATTN_D >= 1 && CLATTN_D <= 256 && CLATTN_D_V >= 1 && CLATTN_D_V <= 256);
CLATTN_ASSERT(CLATTN_B_C >= 16 && CLATTN_B_C % 16 == 0);
CLATTN_ASSERT(RT >= 1 && RT <= 4);
CLATTN_ASSERT(CLATTN_KEYS % 16 == 0 && CLATTN_B_C % CLATTN_KEYS == 0);
CLATTN_ASSERT(CLATTN_B_R % (16 * RT) == 0 && WG == CLATTN_B_R / (16 * RT) * MATRIX_LANES);

/* Bytes: of a tile's row, of a tile, of all. Q's place serves O at the end. */
#define D_PITCH ((2 * DT | 1) * 16)
#define V_PITCH ((2 * VT | 1) * 16)
#define K_TILE (CLATTN_B_C * D_PITCH)
#define V_TILE (CLATTN_B_C * V_PITCH)
#define Q_TILE (CLATTN_B_R * D_PITCH)
#define O_TILE (CLATTN_B_R * V_PITCH)
#define INPUT_TILES (Q_TILE + 2 * (K_TILE + V_TILE))
#define MATRIX_LOCAL_BYTES ((INPUT_TILES > O_TILE ? INPUT_TILES : O_TILE) + 16)

/* One head's rows in device memory; `whole` if every row is contiguous and 16-byte aligned. */
typedef struct {
    __global const ushort *base;
    long row, column;
    int rows;
    bool whole;
} matrix_source;

CLATTN_INLINE bool matrix_is_whole(size_t base, clattn_layout at)
{
    return at.column == 1 && at.row % 8 == 0 && base % 16 == 0;
}

CLATTN_INLINE matrix_source matrix_open(__global const clattn_storage *buffer, clattn_layout at, int b, int h, int rows)
{
    matrix_source s;
    s.base = (__global const ushort *)buffer + (at.offset + b * at.batch + h * at.head);
    s.row = at.row;
    s.column = at.column;
    s.rows = rows;
    s.whole = matrix_is_whole((size_t)s.base, at);
    return s;
}

/* Brings tile_rows rows, from row `first` on, into a tile; the work-group shares the work, chunk by chunk. The tile
 * is complete for all after matrix_copy_wait and a barrier. */
CLATTN_INLINE void matrix_fill(matrix_source s, int first, int tile_rows, int columns, matrix_address tile, int pitch,
                               int lid)
{
    const int chunks = (columns + 15) / 16 * 2, total = tile_rows * chunks;
    const int present = s.rows - first;
    if (s.whole) {
        /* Where the group covers whole rows at a time, an item keeps its column and steps down the rows. */
        int row = lid / chunks, chunk = lid % chunks;
        __global const ushort *from = s.base + (first + row) * s.row + chunk * 8;
        UNROLL for (int i = 0; i < (total + WG - 1) / WG; ++i)
        {
            if (WG % chunks != 0) {
                row = (lid + i * WG) / chunks;
                chunk = (lid + i * WG) % chunks;
                from = s.base + (first + row) * s.row + chunk * 8;
            }
            const int bytes = columns % 16 == 0 ? 16 : clamp(2 * columns - 16 * chunk, 0, 16);
            if (total % WG == 0 || lid + i * WG < total)
                matrix_copy16(tile + (row * pitch + chunk * 16), from, row < present ? bytes : 0);
            if (WG % chunks == 0) {
                row += WG / chunks;
                from += WG / chunks * s.row;
            }
        }
    } else {
        /* Element by element, neighbouring items taking neighbouring columns. */
#pragma unroll 1
        for (int n = lid; n < 8 * total; n += WG) {
            const int row = n / (8 * chunks), x = n % (8 * chunks);
            matrix_put(tile + (row * pitch + 2 * x),
                       row < present && x < columns ? s.base[(first + row) * s.row + x * s.column] : (ushort)0);
        }
    }
}

/* The one place where scores meet their rows and keys. What hides or changes a score belongs here, behind conditions
 * that are the same for a whole tile, so that most tiles pass unchanged; what works on scaled scores scales them
 * first, and has matrix_unit say so. `row` and `key` are the first of the sub-group's rows and of the tile's keys. */
CLATTN_INLINE bool matrix_scales_first(clattn_forward_params p)
{
    return !(p.scale_log2e > 0.0f); /* a row's largest score is then not its largest product */
}

CLATTN_INLINE float matrix_unit(clattn_forward_params p)
{
    return matrix_scales_first(p) ? 1.0f : p.scale_log2e;
}

CLATTN_INLINE void matrix_modify(matrix_accumulator s[RT][KT], int row, int key, int lane, clattn_forward_params p,
                                 const clattn_view *view)
{
    if (matrix_scales_first(p))
        FOR_SCORES s[r][c].x[e] *= p.scale_log2e;
    if (clattn_tile(row, row + 16 * RT - 1, key, key + CLATTN_KEYS - 1, view) == CLATTN_TILE_SOME)
        FOR_SCORES
        {
            const int i = row + 16 * r + matrix_row(lane, MATRIX_SLOT(e)), j = key + 16 * c + matrix_column(lane, e);
            if (clattn_hidden(i, j, view))
                s[r][c].x[e] = -INFINITY;
        }
}

/* Whether an element of V, as it lies in memory, is infinite or NaN; and its value if it is, else 0. */
#define MATRIX_EXPONENT (CLATTN_DTYPE == 1 ? 0x7c00 : 0x7f80)
CLATTN_INLINE float matrix_not_finite(ushort x)
{
    if ((x & MATRIX_EXPONENT) != MATRIX_EXPONENT)
        return 0.0f;
    return (x & (MATRIX_EXPONENT ^ 0x7fff)) ? NAN : (x & 0x8000) ? -INFINITY : INFINITY;
}

/* Adds the infinities and NaN of a tile of V to the rows that see them. */
CLATTN_INLINE void matrix_add_not_finite(matrix_accumulator out[RT][VT], matrix_address v, int row, int key, int lane,
                                         const clattn_view *view)
{
#pragma unroll 1
    for (int j = 0; j < CLATTN_B_C; ++j)
        UNROLL for (int c = 0; c < VT; ++c) UNROLL for (int e = 0; e < MATRIX_ELEMENTS; ++e)
        {
            const float x = matrix_not_finite(matrix_get(v + (j * V_PITCH + 2 * (16 * c + matrix_column(lane, e)))));
            UNROLL for (int r = 0; r < RT; ++r) if (!clattn_hidden(row + 16 * r + matrix_row(lane, MATRIX_SLOT(e)),
                                                                   key + j, view)) out[r][c].x[e] += x;
        }
}

/* Zeros them in the tile. */
CLATTN_INLINE void matrix_drop_not_finite(matrix_address v, int lid)
{
    for (int n = lid; n < CLATTN_B_C * 2 * VT; n += WG) {
        const matrix_address at = v + (n / (2 * VT) * V_PITCH + n % (2 * VT) * 16);
        const uint4 x = matrix_get16(at);
        /* An exponent of ones carries into the sign's place when 1 is added to it. */
        const uint one = (MATRIX_EXPONENT ^ 0x7fff) + 1;
        const uint4 sign = ((x & 0x7fff7fffu) + (one << 16 | one)) & 0x80008000u;
        matrix_put16(at, x & ~((sign >> 15) * 0xffffu));
    }
}

/* S = Q K^T, from where this lane's parts of Q and of the tile of K begin. */
CLATTN_INLINE void matrix_scores(matrix_accumulator s[RT][KT], const matrix_operand query[RT][DT], matrix_address my_q,
                                 matrix_address my_k)
{
    FOR_SCORES s[r][c].x[e] = 0.0f;
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

/* Notes the largest scores; moves the bounds of all rows if one has fallen too far behind; and says what the
 * exponents are to be lowered by: bound * unit, or 0 where that would not be exact enough and bounds are subtracted
 * from the scores. */
CLATTN_INLINE void matrix_bound(matrix_accumulator s[RT][KT], float unit, float bound[RT][MATRIX_SLOTS],
                                float offset[RT][MATRIX_SLOTS], float top[RT][MATRIX_SLOTS],
                                float sum[RT][MATRIX_SLOTS], matrix_accumulator out[RT][VT], const bool careful)
{
    bool exceeded = false, large = false;
    FOR_SCORES top[r][MATRIX_SLOT(e)] = fmax(top[r][MATRIX_SLOT(e)], s[r][c].x[e]);
    FOR_ROWS
    {
        offset[r][i] = bound[r][i] * unit;
        exceeded = exceeded || fma(top[r][i], unit, -offset[r][i]) > MATRIX_SLACK;
    }
    if (matrix_any(exceeded)) {
        float shrink[RT][MATRIX_SLOTS];
        FOR_ROWS
        {
            top[r][i] = matrix_row_max(top[r][i]);
            const float higher = fmax(bound[r][i], top[r][i]);
            shrink[r][i] = matrix_exp2((bound[r][i] - higher) * unit);
            if (careful && bound[r][i] == MATRIX_NO_BOUND)
                shrink[r][i] = 1.0f; /* O is 0, or infinite already: 0 times that would be NaN */
            sum[r][i] *= shrink[r][i];
            bound[r][i] = higher;
            offset[r][i] = higher * unit;
        }
        FOR_OUTPUTS out[r][c].x[e] *= shrink[r][MATRIX_SLOT(e)];
    }
    FOR_ROWS large = large || fabs(offset[r][i]) > MATRIX_LARGE;
    if (large) {
        FOR_SCORES s[r][c].x[e] -= bound[r][MATRIX_SLOT(e)];
        FOR_ROWS offset[r][i] = 0.0f;
    }
}

/* P = 2^(S unit - offset), then O += P V, 16 keys at a time. */
CLATTN_INLINE void matrix_values(const matrix_accumulator s[RT][KT], float unit, float offset[RT][MATRIX_SLOTS],
                                 float sum[RT][MATRIX_SLOTS], matrix_address my_v, matrix_accumulator out[RT][VT])
{
    UNROLL for (int c = 0; c < KT; ++c)
    {
        matrix_operand a[RT];
        UNROLL for (int r = 0; r < RT; ++r)
        {
            matrix_accumulator w;
            UNROLL for (int e = 0; e < MATRIX_ELEMENTS; ++e)
            {
                w.x[e] = matrix_exp2(fma(s[r][c].x[e], unit, -offset[r][MATRIX_SLOT(e)]));
                sum[r][MATRIX_SLOT(e)] += w.x[e];
            }
            matrix_round(&a[r], &w);
        }
        UNROLL for (int x = 0; x < VT; ++x)
        {
            matrix_operand y;
            matrix_load_b(&y, my_v + (16 * c * V_PITCH + 32 * x), V_PITCH);
            UNROLL for (int r = 0; r < RT; ++r) matrix_multiply(&out[r][x], &a[r], &y);
        }
    }
}

/* Attention of the sub-group's rows to all keys. `careful`, a constant at each call, keeps what is infinite or NaN in
 * V from rows that do not see it. */
CLATTN_INLINE void matrix_attend(matrix_source q, matrix_source k, matrix_source v, matrix_address q_tile, int lid,
                                 int group_row, int row, clattn_forward_params p, const clattn_view *view, const bool careful,
                                 float bound[RT][MATRIX_SLOTS], float top[RT][MATRIX_SLOTS],
                                 float sum[RT][MATRIX_SLOTS], matrix_accumulator out[RT][VT])
{
    const int lane = lid % MATRIX_LANES;
    const int key_end = clattn_key_end(min(group_row + CLATTN_B_R, p.n_q) - 1, view);
    const int my_key_end = clattn_key_end(min(row + 16 * RT, p.n_q) - 1, view);
    const float unit = matrix_unit(p);
    const matrix_address tiles = q_tile + Q_TILE; /* two stages, each a tile of K, then one of V */

    FOR_OUTPUTS out[r][c].x[e] = 0.0f;
    FOR_ROWS
    {
        bound[r][i] = MATRIX_NO_BOUND;
        top[r][i] = -INFINITY;
        sum[r][i] = 0.0f;
    }
    if (key_end > 0) {
        matrix_fill(q, group_row, CLATTN_B_R, CLATTN_D, q_tile, D_PITCH, lid);
        matrix_fill(k, 0, CLATTN_B_C, CLATTN_D, tiles, D_PITCH, lid);
        matrix_fill(v, 0, CLATTN_B_C, CLATTN_D_V, tiles + K_TILE, V_PITCH, lid);
    }
    const matrix_address my_q = q_tile + (row - group_row) * D_PITCH + matrix_lane_a(lane, D_PITCH);
    matrix_operand query[RT][DT];
#if CLATTN_Q_REGISTERS
    matrix_copy_wait();
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL for (int r = 0; r < RT; ++r) UNROLL for (int x = 0; x < DT; ++x)
        matrix_load_a(&query[r][x], my_q + (16 * r * D_PITCH + 32 * x), D_PITCH);
#endif

    int stage = 0; /* where this tile's K starts, in bytes from the first */
#pragma unroll 1
    for (int tile = 0; tile < key_end; tile += CLATTN_B_C) {
        const int next = tile + CLATTN_B_C;
        const matrix_address k_tile = tiles + stage, v_tile = k_tile + K_TILE;

        matrix_copy_wait();
        barrier(CLK_LOCAL_MEM_FENCE); /* this tile is there, and all are done with the one before */
        stage = K_TILE + V_TILE - stage;
        if (next < key_end) {
            matrix_fill(k, next, CLATTN_B_C, CLATTN_D, tiles + stage, D_PITCH, lid);
            matrix_fill(v, next, CLATTN_B_C, CLATTN_D_V, tiles + stage + K_TILE, V_PITCH, lid);
        }
        if (careful && clattn_tile(group_row, group_row + CLATTN_B_R - 1, tile, next - 1, view) == CLATTN_TILE_SOME) {
            matrix_add_not_finite(out, v_tile, row, tile, lane, view);
            barrier(CLK_LOCAL_MEM_FENCE);
            matrix_drop_not_finite(v_tile, lid);
            barrier(CLK_LOCAL_MEM_FENCE);
        }

        const matrix_address my_k = k_tile + matrix_lane_bt(lane, D_PITCH);
        const matrix_address my_v = v_tile + matrix_lane_b(lane, V_PITCH);
#pragma unroll 1
        for (int key = 0; key < CLATTN_B_C && tile + key < my_key_end; key += CLATTN_KEYS) {
            matrix_accumulator s[RT][KT];
            float offset[RT][MATRIX_SLOTS];
            matrix_scores(s, query, my_q, my_k + key * D_PITCH);
            matrix_modify(s, row, tile + key, lane, p, view);
            matrix_bound(s, unit, bound, offset, top, sum, out, careful);
            matrix_values(s, unit, offset, sum, my_v + key * V_PITCH, out);
        }
    }
}

__kernel __attribute__((reqd_work_group_size(CLATTN_WORK_GROUP_SIZE, 1, 1))) void
clattn_forward(__global const clattn_storage *q, __global const clattn_storage *k, __global const clattn_storage *v,
               __global clattn_storage *o, __global float *lse, __global float *m, __global float *l,
               const clattn_forward_params p CLATTN_SCORE_PARAMETERS)
{
    __local uint memory[MATRIX_LOCAL_BYTES / 4] __attribute__((aligned(128)));
    const matrix_address q_tile = matrix_address_of(memory);
    const int lid = (int)get_local_id(0), lane = lid % MATRIX_LANES;

    /* Neighbouring groups share a head, so that its K and V stay in cache. Causal heads go in sets whose K and V fit
     * the cache together; of each set the longest rows come first, so that no long one is left for the end. */
    const int row_blocks = (p.n_q + CLATTN_B_R - 1) / CLATTN_B_R, all_heads = p.heads * p.batch;
    const int group = (int)get_group_id(0);
    int block = group % row_blocks, head = group / row_blocks;
    if (CLATTN_CAUSAL) {
        const long each = (long)p.n_kv * (2 * (CLATTN_D + CLATTN_D_V)) + 1;
        const int set = (int)clamp(MATRIX_CACHE_BYTES / each, 1l, (long)all_heads);
        const int first = group / (set * row_blocks) * set, heads = min(set, all_heads - first);
        const int place = group - first * row_blocks;
        block = row_blocks - 1 - place / heads;
        head = first + place % heads;
    }
    const int h = head % p.heads, b = head / p.heads;
    const int kv_head = h / (p.heads / p.kv_heads);
    const int group_row = block * CLATTN_B_R, row = group_row + lid / MATRIX_LANES * 16 * RT;

    const clattn_view view = clattn_open(b, h, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
    const matrix_source q_rows = matrix_open(q, p.q, b, h, p.n_q);
    const matrix_source k_rows = matrix_open(k, p.k, b, kv_head, p.n_kv);
    const matrix_source v_rows = matrix_open(v, p.v, b, kv_head, p.n_kv);

    matrix_accumulator out[RT][VT];
    /* Per row: what exponents are relative to, the same in all lanes; the largest of this lane's scores, and the sum of
     * its weights. */
    float bound[RT][MATRIX_SLOTS], top[RT][MATRIX_SLOTS], sum[RT][MATRIX_SLOTS];
    matrix_attend(q_rows, k_rows, v_rows, q_tile, lid, group_row, row, p, &view, false, bound, top, sum, out);

    if (CLATTN_CAUSAL) {
        volatile __local uint *const again = memory + (MATRIX_LOCAL_BYTES / 4 - 4);
        bool poisoned = false;
        FOR_OUTPUTS poisoned = poisoned || isnan(out[r][c].x[e]);
        if (lid == 0)
            *again = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (poisoned)
            atomic_or(again, 1u);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (*again)
            matrix_attend(q_rows, k_rows, v_rows, q_tile, lid, group_row, row, p, &view, true, bound, top, sum, out);
    }
    barrier(CLK_LOCAL_MEM_FENCE); /* all are done with the tiles */

    const float unit = matrix_unit(p);
    float inverse[RT][MATRIX_SLOTS];
    FOR_ROWS
    {
        top[r][i] = matrix_row_max(top[r][i]);
        sum[r][i] = matrix_row_sum(sum[r][i]);
        inverse[r][i] = sum[r][i] == 0.0f ? 0.0f : 1.0f / sum[r][i];
    }
    /* O, by way of local memory, so that it leaves in whole chunks. */
    UNROLL for (int r = 0; r < RT; ++r) UNROLL for (int c = 0; c < VT; ++c)
    {
        UNROLL for (int e = 0; e < MATRIX_ELEMENTS; ++e) out[r][c].x[e] *= inverse[r][MATRIX_SLOT(e)];
        matrix_operand y;
        matrix_round(&y, &out[r][c]);
        matrix_store(q_tile + ((row - group_row + 16 * r) * V_PITCH + 32 * c), V_PITCH, lane, &y);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    __global ushort *const to = (__global ushort *)o + (p.o.offset + b * p.o.batch + h * p.o.head);
    const bool whole = matrix_is_whole((size_t)to, p.o);
    for (int n = lid; n < CLATTN_B_R * 2 * VT; n += WG) {
        const int i = n / (2 * VT), x = n % (2 * VT) * 8;
        if (group_row + i >= p.n_q || x >= CLATTN_D_V)
            continue;
        const matrix_address from = q_tile + (i * V_PITCH + 2 * x);
        __global ushort *const there = to + (group_row + i) * p.o.row;
        if (whole && x + 8 <= CLATTN_D_V)
            *(__global uint4 *)(there + x) = matrix_get16(from);
        else
            for (int y = 0; y < min(8, CLATTN_D_V - x); ++y)
                there[(x + y) * p.o.column] = matrix_get(from + 2 * y);
    }

    if (matrix_column(lane, 0) == 0)
        UNROLL for (int r = 0; r < RT; ++r) UNROLL for (int s = 0; s < MATRIX_SLOTS; ++s)
        {
            const long i = row + 16 * r + matrix_row(lane, s);
            if (i >= p.n_q)
                continue;
            const float most = top[r][s] * unit, natural = most * 0.693147180559945309f;
            const float total = most == -INFINITY ? sum[r][s] : sum[r][s] * exp2((bound[r][s] - top[r][s]) * unit);
            if (m)
                m[p.m.offset + b * p.m.batch + h * p.m.head + i * p.m.row] = natural;
            if (l)
                l[p.l.offset + b * p.l.batch + h * p.l.head + i * p.l.row] = total;
            if (lse)
                lse[p.lse.offset + b * p.lse.batch + h * p.lse.head + i * p.lse.row] = natural + log(total);
        }
}
