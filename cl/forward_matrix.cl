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
 * Scores stay as the product gave them: weights are 2^fma(s, unit, -bound * unit), with `unit` the scale in powers of
 * two. The bound is lazy: it is moved (an exchange between the lanes of a row, a rescaling of O) only when some score
 * exceeds it by more than MATRIX_SLACK powers of two. Weights stay below 2^MATRIX_SLACK, which costs neither 16-bit
 * type any accuracy and is far from fp16's largest value. Where bounds are large, their product with `unit` is not
 * exact enough to make the largest weight 1: they are then subtracted from the scores first. Where scores are modified,
 * or a state comes in from device memory, they are scaled first, and `unit` is log2(e).
 *
 * Where a pair can weigh nothing (hidden, its bias -inf, dropped) and its V is infinite or NaN, P V would carry 0 * NaN
 * into a row that does not see it. So if an output is NaN after all, the work-group runs once more, carefully: those
 * values are then taken out of the tiles, and added only to rows that see them. Ordinary data pays one
 * comparison per output for that. The careful run is a second copy of the code: as a branch within the first it cost
 * registers, and a tenth of the speed.
 *
 * With CLATTN_STATE `o` is float, un-normalised, and it, m (natural units) and l are read first and written back; the keys
 * are those from the view's first_key on. lse is then not used.
 *
 * Launch: 1-D, CLATTN_WORK_GROUP_SIZE items a group, batch * heads * ceil(n_q / CLATTN_B_R) groups.
 *
 * Baked constants (beside those of types.clh, score.clh, matrix_tiles.clh and the matrix header)
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

#define RT CLATTN_ROW_TILES           /* pieces along a sub-group's rows, */
#define KT (CLATTN_KEYS / 16)         /* the keys it takes at a time, */
#define DT MATRIX_PIECES(CLATTN_D)    /* the columns of Q and K, */
#define VT MATRIX_PIECES(CLATTN_D_V)  /* and those of V and O */
#define MATRIX_SLACK 8.0f
#define MATRIX_LARGE 256.0f            /* a bound, in powers of two, whose rounding would show in the weights */
#define MATRIX_CACHE_BYTES (32l << 20) /* of a head set's K and V; less than the caches of large devices hold */

/* What bounds start from: not -inf, for then no difference is NaN, but below every score. A bias may be the lowest float
 * there is; times a unit, which is then above 1, that is -inf, which matrix_bound takes for a large bound. */
#define MATRIX_NO_BOUND (CLATTN_BIAS || CLATTN_SCORE_MOD ? -FLT_MAX : -1e30f)

#define MATRIX_LOG2_E 1.44269504088896341f
#define MATRIX_LN_2 0.693147180559945309f

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
#define D_PITCH MATRIX_PITCH(CLATTN_D)
#define V_PITCH MATRIX_PITCH(CLATTN_D_V)
#define K_TILE (CLATTN_B_C * D_PITCH)
#define V_TILE (CLATTN_B_C * V_PITCH)
#define Q_TILE (CLATTN_B_R * D_PITCH)
#define O_TILE (CLATTN_B_R * V_PITCH)
#define INPUT_TILES (Q_TILE + 2 * (K_TILE + V_TILE))
#define MATRIX_LOCAL_BYTES ((INPUT_TILES > O_TILE ? INPUT_TILES : O_TILE) + 16)

/* Per row: what exponents are relative to, the same in all lanes; the largest of this lane's scores, and the sum of its
 * weights. */
typedef struct {
    float bound[RT][MATRIX_SLOTS], top[RT][MATRIX_SLOTS], sum[RT][MATRIX_SLOTS];
} matrix_softmax;

#define MATRIX_MAY_SKIP ((CLATTN_WINDOW | CLATTN_BLOCK_MASK) != 0) /* keys before the last that some row sees */

/* Where scores meet their rows and keys, from here to matrix_modify. What hides or changes a score belongs here, behind
 * conditions that are the same for a whole tile, so that most tiles pass unchanged. What works on scaled scores has
 * matrix_scales_first say so. `row` and `key` are the first of the sub-group's rows and of the tile's keys. */
#define MATRIX_NATURAL (CLATTN_MODIFIES || CLATTN_STATE) /* scores are scaled by `scale`, not by its powers of two */
CLATTN_INLINE bool matrix_scales_first(clattn_forward_params p)
{
    return MATRIX_NATURAL || !(p.scale_log2e > 0.0f); /* a row's largest score is then not its largest product */
}

CLATTN_INLINE float matrix_unit(clattn_forward_params p)
{
    return MATRIX_NATURAL ? MATRIX_LOG2_E : matrix_scales_first(p) ? 1.0f : p.scale_log2e;
}

#if CLATTN_SOFTCAP
/* Most scores are far below the cap. There tanh(x) is a polynomial, x (1 + c2 x^2 + c4 x^4 + c6 x^6) within 2e-7 for
 * |x| <= 1/2; powers of scale / softcap are in its coefficients, so that products are scaled and capped at once.
 * Squares are compared, summed over a piece: that takes half as long as the largest would. */
CLATTN_INLINE void matrix_cap(matrix_accumulator s[RT][KT], clattn_forward_params p, const clattn_view *view)
{
    const float ratio = p.scale / view->softcap, ratio2 = ratio * ratio;
    const float c2 = p.scale * ratio2 * -0.33326460638f, c4 = p.scale * ratio2 * ratio2 * 0.13185860322f;
    const float c6 = p.scale * ratio2 * ratio2 * ratio2 * -0.04422924586f;
    const float most = 0.25f / ratio2;
    bool is_far = fabs(ratio) < 1e-5f; /* its powers would vanish */
    UNROLL for (int r = 0; r < RT; ++r) UNROLL for (int c = 0; c < KT; ++c)
    {
        float squares = 0.0f;
        UNROLL for (int e = 0; e < MATRIX_ELEMENTS; ++e) squares = fma(s[r][c].x[e], s[r][c].x[e], squares);
        is_far = is_far || !(squares <= most); /* or NaN */
    }
    if (matrix_any(is_far))
        FOR_SCORES s[r][c].x[e] = view->softcap * clattn_tanh_quick(s[r][c].x[e] * ratio);
    else
        FOR_SCORES
        {
            const float x = s[r][c].x[e], y = x * x;
            s[r][c].x[e] = x * fma(y, fma(y, fma(y, c6, c4), c2), p.scale);
        }
}
#endif

#if CLATTN_ALIBI
/* s * scale - slope * |i + shift - j|. Penalties differ between columns by whole slopes, so that each is one product and
 * sum from its row's, exact but for rounding. Where no key of the tile lies beyond the diagonal, or all do, they have one
 * sign. */
CLATTN_INLINE void matrix_alibi(matrix_accumulator s[RT][KT], float scale, int row, int key, int lane,
                                const clattn_view *view)
{
    float penalty[RT][MATRIX_SLOTS];
    const int first = matrix_column(lane, 0);
    const bool before = key + CLATTN_KEYS - 1 <= row + view->shift, beyond = key >= row + 16 * RT - 1 + view->shift;
    const float slope = beyond ? -view->slope : view->slope;
    FOR_ROWS penalty[r][i] = slope * convert_float(row + 16 * r + matrix_row(lane, i) + view->shift - key - first);
#define MATRIX_PENALTY fma(-slope, (float)(16 * c + matrix_column(lane, e) - first), penalty[r][MATRIX_SLOT(e)])
    if (before || beyond)
        FOR_SCORES s[r][c].x[e] = fma(s[r][c].x[e], scale, -MATRIX_PENALTY);
    else
        FOR_SCORES s[r][c].x[e] = fma(s[r][c].x[e], scale, -copysign(MATRIX_PENALTY, slope));
}
#endif

CLATTN_INLINE void matrix_modify(matrix_accumulator s[RT][KT], int row, int key, int lane, clattn_forward_params p,
                                 int kind, const clattn_view *view)
{
#if CLATTN_SOFTCAP
    matrix_cap(s, p, view);
#elif !CLATTN_ALIBI
    if (matrix_scales_first(p))
        FOR_SCORES s[r][c].x[e] *= MATRIX_NATURAL ? p.scale : p.scale_log2e;
#endif
#if CLATTN_ALIBI
    matrix_alibi(s, CLATTN_SOFTCAP ? 1.0f : p.scale, row, key, lane, view);
#endif
#if CLATTN_BIAS || CLATTN_SCORE_MOD
    FOR_SCORES s[r][c].x[e] = clattn_shifted(s[r][c].x[e], row + 16 * r + matrix_row(lane, MATRIX_SLOT(e)),
                                             key + 16 * c + matrix_column(lane, e), view, 0, 0);
#endif
    if (kind == CLATTN_TILE_SOME)
        FOR_SCORES
        {
            const int i = row + 16 * r + matrix_row(lane, MATRIX_SLOT(e)), j = key + 16 * c + matrix_column(lane, e);
            if (clattn_hidden(i, j, view))
                s[r][c].x[e] = -INFINITY;
        }
}

#if CLATTN_DROPOUT
/* A lane's columns of a piece fall into so many of dropout's groups: 4 elements of a row to each. Groups reach over 32
 * keys, two pieces. */
#define MATRIX_GROUPS (MATRIX_ELEMENTS / MATRIX_SLOTS / 4)
typedef struct {
    uint words[RT][MATRIX_SLOTS][MATRIX_GROUPS][4];
} matrix_random;

/* Draws for the piece of keys from `key` on, a multiple of 16, and for its partner. */
CLATTN_INLINE void matrix_draw(matrix_random *random, int row, int key, int lane, const clattn_view *view)
{
    const int group = clattn_dropout_group(key + matrix_column(lane, 0));
    FOR_ROWS UNROLL for (int n = 0; n < MATRIX_GROUPS; ++n)
        clattn_philox(group + n, row + 16 * r + matrix_row(lane, i), view, random->words[r][i][n]);
}

/* Whether element e is dropped; second: whether the piece is the second of its two. */
CLATTN_INLINE bool matrix_dropped(const matrix_random *random, int r, int e, bool second, int lane,
                                  const clattn_view *view)
{
    const int x = matrix_column(lane, e) - matrix_column(lane, 0);
    return clattn_slot_dropped(random->words[r][MATRIX_SLOT(e)][x / 2 % 4 % MATRIX_GROUPS],
                               clattn_dropout_slot(x) + (second ? 4 : 0), view);
}
#endif

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
CLATTN_INLINE void matrix_bound(matrix_accumulator s[RT][KT], float unit, float offset[RT][MATRIX_SLOTS],
                                matrix_softmax *rows, matrix_accumulator out[RT][VT], const bool careful)
{
    bool exceeded = false, large = false;
    FOR_SCORES rows->top[r][MATRIX_SLOT(e)] = fmax(rows->top[r][MATRIX_SLOT(e)], s[r][c].x[e]);
    FOR_ROWS
    {
        offset[r][i] = rows->bound[r][i] * unit;
        exceeded = exceeded || fma(rows->top[r][i], unit, -offset[r][i]) > MATRIX_SLACK;
    }
    if (matrix_any(exceeded)) {
        float shrink[RT][MATRIX_SLOTS];
        FOR_ROWS
        {
            rows->top[r][i] = matrix_row_max(rows->top[r][i]);
            const float higher = fmax(rows->bound[r][i], rows->top[r][i]);
            shrink[r][i] = matrix_exp2((rows->bound[r][i] - higher) * unit);
            if (careful)
                shrink[r][i] = fmax(shrink[r][i], FLT_MIN); /* O may be infinite: 0 times that would be NaN */
            rows->sum[r][i] *= shrink[r][i];
            rows->bound[r][i] = higher;
            offset[r][i] = higher * unit;
        }
        FOR_OUTPUTS out[r][c].x[e] *= shrink[r][MATRIX_SLOT(e)];
    }
    FOR_ROWS large = large || fabs(offset[r][i]) > MATRIX_LARGE;
    if (large) {
        FOR_SCORES s[r][c].x[e] -= rows->bound[r][MATRIX_SLOT(e)];
        FOR_ROWS offset[r][i] = 0.0f;
    }
}

/* P = 2^(S unit - offset), then O += P V, 16 keys at a time. */
CLATTN_INLINE void matrix_values(const matrix_accumulator s[RT][KT], float unit, const float offset[RT][MATRIX_SLOTS],
                                 matrix_softmax *rows, matrix_address my_v, matrix_accumulator out[RT][VT], int row,
                                 int key, int lane, const clattn_view *view)
{
#if CLATTN_DROPOUT
    matrix_random random;
#endif
    UNROLL for (int c = 0; c < KT; ++c)
    {
        matrix_operand a[RT];
#if CLATTN_DROPOUT
        const bool second = (CLATTN_KEYS % 32 ? key / 16 + c : c) % 2;
        if (c == 0 || !second)
            matrix_draw(&random, row, key + 16 * c, lane, view);
#endif
        UNROLL for (int r = 0; r < RT; ++r)
        {
            matrix_accumulator w;
            UNROLL for (int e = 0; e < MATRIX_ELEMENTS; ++e)
            {
                w.x[e] = matrix_exp2(fma(s[r][c].x[e], unit, -offset[r][MATRIX_SLOT(e)]));
                rows->sum[r][MATRIX_SLOT(e)] += w.x[e];
#if CLATTN_DROPOUT
                if (matrix_dropped(&random, r, e, second, lane, view))
                    w.x[e] = 0.0f;
#endif
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

#if CLATTN_STATE
#define MATRIX_OUTPUT float
#else
#define MATRIX_OUTPUT clattn_storage
#endif

/* The sub-group's part of a head's results, or of its state. */
typedef struct {
    __global MATRIX_OUTPUT *o;
    __global float *lse, *m, *l; /* NULL: not wanted */
    long o_row, o_column, lse_row, m_row, l_row;
} matrix_results;

CLATTN_INLINE matrix_results matrix_locate(__global MATRIX_OUTPUT *o, __global float *lse, __global float *m,
                                           __global float *l, clattn_forward_params p, int b, int h, long first_row)
{
    matrix_results to;
    to.o = o + clattn_at(p.o, b, h, first_row);
    to.lse = lse ? lse + clattn_at(p.lse, b, h, first_row) : 0;
    to.m = m ? m + clattn_at(p.m, b, h, first_row) : 0;
    to.l = l ? l + clattn_at(p.l, b, h, first_row) : 0;
    to.o_row = p.o.row;
    to.o_column = p.o.column;
    to.lse_row = p.lse.row;
    to.m_row = p.m.row;
    to.l_row = p.l.row;
    return to;
}

/* Element e of output piece r, c, if it exists; and row i of piece r. */
#define MATRIX_I(r, slot) (row + 16 * (r) + matrix_row(lane, slot))
#define MATRIX_X(c, e) (16 * (c) + matrix_column(lane, e))

/* No key seen yet. */
CLATTN_INLINE void matrix_begin(matrix_softmax *rows, matrix_accumulator out[RT][VT])
{
    FOR_OUTPUTS out[r][c].x[e] = 0.0f;
    FOR_ROWS
    {
        rows->bound[r][i] = MATRIX_NO_BOUND;
        rows->top[r][i] = -INFINITY;
        rows->sum[r][i] = 0.0f;
    }
}

#if CLATTN_STATE
#define MATRIX_BEFORE_PARAMETER matrix_results before,
#define MATRIX_BEFORE to,
/* The keys that the state has seen. A row's sum is that of its lanes': one takes the state's. */
CLATTN_INLINE void matrix_continue(matrix_results before, int row, int lane, const clattn_view *view,
                                   matrix_softmax *rows, matrix_accumulator out[RT][VT])
{
    matrix_begin(rows, out);
    FOR_ROWS if (MATRIX_I(r, i) < view->n_q)
    {
        rows->top[r][i] = before.m[MATRIX_I(r, i) * before.m_row];
        rows->bound[r][i] = fmax(MATRIX_NO_BOUND, rows->top[r][i]);
        if (matrix_column(lane, 0) == 0)
            rows->sum[r][i] = before.l[MATRIX_I(r, i) * before.l_row];
    }
    FOR_OUTPUTS if (MATRIX_I(r, MATRIX_SLOT(e)) < view->n_q && MATRIX_X(c, e) < CLATTN_D_V)
        out[r][c].x[e] = before.o[MATRIX_I(r, MATRIX_SLOT(e)) * before.o_row + MATRIX_X(c, e) * before.o_column];
}
#else
#define MATRIX_BEFORE_PARAMETER
#define MATRIX_BEFORE
#endif

/* The group's first tile from `tile` on that any of its rows sees, or where there is none one not below key_end. Each
 * lane looks at a tile of its own, for the mask's blocks take long to arrive. */
CLATTN_INLINE int matrix_next_tile(int tile, int key_end, int group_row, int lane, const clattn_view *view)
{
#if CLATTN_BLOCK_MASK
    while (tile < key_end) {
        const int mine = tile + lane * CLATTN_B_C;
        const int ahead = matrix_first(mine < key_end && clattn_tile(group_row, group_row + CLATTN_B_R - 1, mine,
                                                                     mine + CLATTN_B_C - 1, view) != CLATTN_TILE_SKIP);
        tile += ahead * CLATTN_B_C;
        if (ahead < MATRIX_LANES)
            break;
    }
#endif
    return tile;
}

/* Where the group's tiles begin: at a multiple of 32 keys, as dropout's groups do, or of a tile, as the blocks of a mask. */
CLATTN_INLINE int matrix_first_tile(int key_end, int group_row, int lane, const clattn_view *view)
{
    int begin = 0;
#if CLATTN_WINDOW || CLATTN_STATE
    const int step = CLATTN_BLOCK_MASK ? CLATTN_B_C : 32;
    begin = clattn_key_begin(group_row, view);
    begin -= begin % step;
#endif
    return matrix_next_tile(begin, key_end, group_row, lane, view);
}

/* Attention of the sub-group's rows to all keys. `careful`, a constant at each call, keeps what is infinite or NaN in
 * V from rows that do not see it. */
CLATTN_INLINE void matrix_attend(matrix_source q, matrix_source k, matrix_source v, matrix_address q_tile, int lid,
                                 int group_row, int row, clattn_forward_params p, const clattn_view *view,
                                 MATRIX_BEFORE_PARAMETER const bool careful, matrix_softmax *rows,
                                 matrix_accumulator out[RT][VT])
{
    const int lane = lid % MATRIX_LANES;
    const int key_end = clattn_key_end(min(group_row + CLATTN_B_R, view->n_q) - 1, view);
    const int my_key_end = clattn_key_end(min(row + 16 * RT, view->n_q) - 1, view);
    const float unit = matrix_unit(p);
    const matrix_address tiles = q_tile + Q_TILE; /* two stages, each a tile of K, then one of V */

#if CLATTN_STATE
    matrix_continue(before, row, lane, view, rows, out);
#else
    matrix_begin(rows, out);
#endif
    int tile = matrix_first_tile(key_end, group_row, lane, view);
    if (tile < key_end) {
        matrix_fill(q, group_row, CLATTN_B_R, CLATTN_D, q_tile, D_PITCH, lid);
        matrix_fill(k, tile, CLATTN_B_C, CLATTN_D, tiles, D_PITCH, lid);
        matrix_fill(v, tile, CLATTN_B_C, CLATTN_D_V, tiles + K_TILE, V_PITCH, lid);
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
    while (tile < key_end) {
        const int next = matrix_next_tile(tile + CLATTN_B_C, key_end, group_row, lane, view);
        const matrix_address k_tile = tiles + stage, v_tile = k_tile + K_TILE;

        matrix_copy_wait();
        barrier(CLK_LOCAL_MEM_FENCE); /* this tile is there, and all are done with the one before */
        stage = K_TILE + V_TILE - stage;
        if (next < key_end) {
            matrix_fill(k, next, CLATTN_B_C, CLATTN_D, tiles + stage, D_PITCH, lid);
            matrix_fill(v, next, CLATTN_B_C, CLATTN_D_V, tiles + stage + K_TILE, V_PITCH, lid);
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
        for (int key = 0; key < CLATTN_B_C && tile + key < my_key_end; key += CLATTN_KEYS) {
            const int kind = clattn_tile(row, row + 16 * RT - 1, tile + key, tile + key + CLATTN_KEYS - 1, view);
            if (MATRIX_MAY_SKIP && kind == CLATTN_TILE_SKIP)
                continue;
            matrix_accumulator s[RT][KT];
            float offset[RT][MATRIX_SLOTS];
            matrix_scores(s, query, my_q, my_k + key * D_PITCH);
            matrix_modify(s, row, tile + key, lane, p, kind, view);
            matrix_bound(s, unit, offset, rows, out, careful);
            matrix_values(s, unit, offset, rows, my_v + key * V_PITCH, out, row, tile + key, lane, view);
        }
        tile = next;
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

/* From what the lanes hold to each row's m (natural units) in `top`, l in `sum`, and what the outputs are to be
 * multiplied by in `factor`; of a state, or of the results. */
CLATTN_INLINE void matrix_finish(matrix_softmax *rows, float factor[RT][MATRIX_SLOTS], clattn_forward_params p,
                                 const clattn_view *view)
{
    const float unit = matrix_unit(p);
    FOR_ROWS
    {
        const float top = matrix_row_max(rows->top[r][i]);
        const float to_top = top == -INFINITY ? 1.0f : exp2((rows->bound[r][i] - top) * unit);
        rows->sum[r][i] = matrix_row_sum(rows->sum[r][i]) * to_top;
        rows->top[r][i] = MATRIX_NATURAL ? top : top * unit * MATRIX_LN_2;
        factor[r][i] = CLATTN_STATE ? to_top : to_top * clattn_finish(&rows->top[r][i], &rows->sum[r][i], view);
    }
}

__kernel __attribute__((reqd_work_group_size(CLATTN_WORK_GROUP_SIZE, 1, 1))) void
clattn_forward(__global const clattn_storage *q, __global const clattn_storage *k, __global const clattn_storage *v,
               __global MATRIX_OUTPUT *o, __global float *lse, __global float *m, __global float *l,
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
#if CLATTN_VARLEN
    if (group_row >= view.n_q)
        return;
#endif
    const matrix_source q_rows = matrix_open(q, p.q, b, h, view.row_base, view.n_q);
    matrix_source k_rows = matrix_open(k, p.k, b, kv_head, view.key_base, view.n_kv);
    matrix_source v_rows = matrix_open(v, p.v, b, kv_head, view.key_base, view.n_kv);
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
#if CLATTN_STATE
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

    if (matrix_column(lane, 0) == 0)
        FOR_ROWS
        {
            const long at = MATRIX_I(r, i);
            if (at >= view.n_q)
                continue;
            if (to.m)
                to.m[at * to.m_row] = rows.top[r][i];
            if (to.l)
                to.l[at * to.l_row] = rows.sum[r][i];
            if (to.lse)
                to.lse[at * to.lse_row] = rows.top[r][i] + log(rows.sum[r][i]);
        }
}
