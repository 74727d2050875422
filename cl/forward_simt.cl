/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Forward attention for every OpenCL 1.2 device that likes GPU-shaped work-groups: float arithmetic, barriers in
 * uniform control flow only, no sub-groups, no extensions.
 *
 * One work-group computes CLATTN_B_R query rows of one head. Its items stand in a grid of TX columns by TY rows. An
 * item owns RS = B_R / TY rows; of these, CS = B_C / TX columns of the score tile, then CV float4 columns of the
 * output, all in registers. Both products are sums of outer products of vectors read from local memory: Q, K and P lie
 * there transposed, so that the rows (keys) of an item are adjacent, in chunks of RW (CW), and the next pair of vectors
 * is read while the present one is used. K arrives in slices of D_SLICE columns, V in slices of KV_SLICE rows, through
 * the same buffers; the next slice travels from device memory in registers while the present one is used.
 *
 * The running maximum is lazy: scores are taken relative to a bound that all items of a row agree on, and the bounds
 * move (an exchange between the TX items of a row, a rescaling of O) only when some score exceeds its bound by SLACK.
 * P then stays below e^SLACK, which costs a float no accuracy. Sums and true maxima stay with the items until the end.
 *
 * Launch: 1-D, CLATTN_WORK_GROUP_SIZE items a group, batch * heads * ceil(n_q / CLATTN_B_R) groups.
 *
 * Baked constants (beside those of types.clh and score.clh)
 *   CLATTN_D, CLATTN_D_V      head dimensions, 1..512
 *   CLATTN_B_R, CLATTN_B_C    query rows and keys of a tile, at least 1
 *   CLATTN_WORK_GROUP_SIZE    items of a work-group, a multiple of TX
 *   CLATTN_TX                 items along a row; divides B_C. TY = WORK_GROUP_SIZE / TX divides B_R
 *   CLATTN_LANES_X, _LANES_Y  items are numbered patch by patch, LANES_X x LANES_Y items a patch (they divide TX and
 *                             TY): a squarer patch has a hardware vector read fewer words. TX and 1: plain order
 *   CLATTN_D_SLICE            columns of Q and K a slice, a positive multiple of 4
 *   CLATTN_KV_SLICE           rows of V a slice, a divisor of B_C; pipelined where it is a multiple of 4
 *   CLATTN_Q_RESIDENT         1: the Q tile stays in local memory; 0: it is read again with every slice of K
 *   CLATTN_BUFFERS            slice buffers, 1 or 2; with 2 one barrier a slice suffices
 *   CLATTN_PREFETCH           1: the next slice is read into registers before the present one is used; 0: it is not
 *
 * Local memory: 4 * SIMT_LOCAL_FLOATS bytes, below.
 */
#if !defined(CLATTN_D) || !defined(CLATTN_D_V) || !defined(CLATTN_B_R) || !defined(CLATTN_B_C)
#error "CLATTN_D, CLATTN_D_V, CLATTN_B_R and CLATTN_B_C must be positive integers"
#endif
#if !defined(CLATTN_WORK_GROUP_SIZE) || !defined(CLATTN_TX) || !defined(CLATTN_LANES_X) || !defined(CLATTN_LANES_Y)
#error "CLATTN_WORK_GROUP_SIZE, CLATTN_TX, CLATTN_LANES_X and CLATTN_LANES_Y must be positive integers"
#endif
#if !defined(CLATTN_D_SLICE) || !defined(CLATTN_KV_SLICE)
#error "CLATTN_D_SLICE must be a positive multiple of 4, CLATTN_KV_SLICE a divisor of CLATTN_B_C"
#endif
#if !defined(CLATTN_Q_RESIDENT) || !defined(CLATTN_BUFFERS) || !defined(CLATTN_PREFETCH)
#error "CLATTN_Q_RESIDENT must be 0 or 1, CLATTN_BUFFERS 1 or 2, CLATTN_PREFETCH 0 or 1"
#endif

#define WG CLATTN_WORK_GROUP_SIZE
#define TX CLATTN_TX
#define TY (WG / TX)
#define RS (CLATTN_B_R / TY)
#define CS (CLATTN_B_C / TX)
#define CV ((CLATTN_D_V + 4 * TX - 1) / (4 * TX))
#define SIMT_WIDTH(n) ((n) % 4 == 0 ? 4 : (n) % 2 == 0 ? 2 : 1)
#define RW SIMT_WIDTH(RS)
#define CW SIMT_WIDTH(CS)
#define RG (RS / RW) /* chunks of rows an item owns */
#define SIMT_SLACK 5.0f
#define SIMT_LOG2E 1.44269504088896341f
#define SIMT_LANES (CLATTN_LANES_X * CLATTN_LANES_Y)
#define UNROLL _Pragma("unroll")

CLATTN_ASSERT(CLATTN_D >= 1 && CLATTN_D <= 512 && CLATTN_D_V >= 1 && CLATTN_D_V <= 512);
CLATTN_ASSERT(WG % TX == 0 && CLATTN_B_R % TY == 0 && CLATTN_B_C % TX == 0 && RS >= 1 && CS >= 1);
CLATTN_ASSERT(TX % CLATTN_LANES_X == 0 && TY % CLATTN_LANES_Y == 0);
CLATTN_ASSERT(CLATTN_D_SLICE >= 4 && CLATTN_D_SLICE % 4 == 0 && CLATTN_B_C % CLATTN_KV_SLICE == 0);
CLATTN_ASSERT(CLATTN_BUFFERS == 1 || CLATTN_BUFFERS == 2);

/* Local memory, in floats: [Q tile] [slice buffers] [P tile, also for exchanges between items] [4 flags]. */
#define SIMT_D4 ((CLATTN_D + 3) / 4 * 4)
#define SIMT_V_STRIDE (CV * TX * 4)
#define SIMT_Q_FLOATS (CLATTN_Q_RESIDENT ? SIMT_D4 * CLATTN_B_R : 0)
#define SIMT_K_FLOATS (CLATTN_D_SLICE * (CLATTN_B_C + (CLATTN_Q_RESIDENT ? 0 : CLATTN_B_R)))
#define SIMT_V_FLOATS (CLATTN_KV_SLICE * SIMT_V_STRIDE)
#define SIMT_BUFFER ((SIMT_K_FLOATS > SIMT_V_FLOATS ? SIMT_K_FLOATS : SIMT_V_FLOATS))
#define SIMT_P_FLOATS ((CLATTN_B_R * CLATTN_B_C + 3) / 4 * 4)
#define SIMT_LOCAL_FLOATS (SIMT_Q_FLOATS + CLATTN_BUFFERS * SIMT_BUFFER + SIMT_P_FLOATS + 4)

/* Row x of a transposed tile has its chunks exchanged by a pattern of x / 4: items that write 4 x 4 blocks side by side
 * then meet different banks. An item's chunks stay n apart, where SIMT_CHUNK finds the first: one xor in four rows. */
#define SIMT_LOW_BIT(n) ((n) & -(n))
#define SIMT_SWIZZLE(x, n) ((x) / 4 & ((SIMT_LOW_BIT(n) < 8 ? SIMT_LOW_BIT(n) : 8) - 1))
#define SIMT_CHUNK(x, item, n, width) (((item) ^ SIMT_SWIZZLE(x, n)) * (width))

/* Quotients and remainders of numbers that are not negative and below 2^24, which the compiler cannot know. */
#define SIMT_DIV(a, n) ((int)((uint)(a) / (uint)(n)))
#define SIMT_MOD(a, n) ((n) & ((n) - 1) ? (a) - mul24(SIMT_DIV(a, n), n) : (a) & ((n) - 1))

/* What items carry between memories: blocks of CW keys x 4 columns of K, of 1 row x 4 columns of V. SIMT_ROW and
 * SIMT_COLUMN are the row and the first column of an item's i-th block, in slices n blocks wide. */
#define SIMT_K_WIDTH (CLATTN_D_SLICE / 4)
#define SIMT_V_WIDTH (SIMT_V_STRIDE / 4)
#define SIMT_K_BLOCKS (CLATTN_B_C / CW * SIMT_K_WIDTH)
#define SIMT_V_BLOCKS (CLATTN_KV_SLICE * SIMT_V_WIDTH)
#define SIMT_K_CARRIED ((SIMT_K_BLOCKS + WG - 1) / WG)
#define SIMT_V_CARRIED ((SIMT_V_BLOCKS + WG - 1) / WG)
#define SIMT_ROW(i, n) (WG % (n) == 0 ? SIMT_DIV(lid, n) + (i) * (WG / (n)) : SIMT_DIV(lid + (i) * WG, n))
#define SIMT_COLUMN(i, n) (4 * (WG % (n) == 0 ? SIMT_MOD(lid, n) : SIMT_MOD(lid + (i) * WG, n)))
#if CLATTN_PREFETCH
#define SIMT_CARRIED (SIMT_K_CARRIED * CW > SIMT_V_CARRIED ? SIMT_K_CARRIED * CW : SIMT_V_CARRIED)
#define UNROLL_CARRIED _Pragma("unroll")
#else
#define SIMT_CARRIED 1
#define UNROLL_CARRIED
#endif

/* Vectors of an item's rows and keys, and their lanes. */
#define SIMT_LANE1(v, i) (v)
#define SIMT_LANE2(v, i) ((i) % 2 ? (v).y : (v).x)
#define SIMT_LANE4(v, i) ((i) % 4 == 0 ? (v).x : (i) % 4 == 1 ? (v).y : (i) % 4 == 2 ? (v).z : (v).w)
#if RW == 4
typedef float4 simt_rows;
#define ROW_LANE SIMT_LANE4
#define SIMT_ROWS(f) ((float4)(f(0), f(1), f(2), f(3)))
#elif RW == 2
typedef float2 simt_rows;
#define ROW_LANE SIMT_LANE2
#define SIMT_ROWS(f) ((float2)(f(0), f(1)))
#else
typedef float simt_rows;
#define ROW_LANE SIMT_LANE1
#define SIMT_ROWS(f) f(0)
#endif
#if CW == 4
typedef float4 simt_keys;
#define KEY_LANE SIMT_LANE4
#define SIMT_KEYS(from) vload4(0, from)
#elif CW == 2
typedef float2 simt_keys;
#define KEY_LANE SIMT_LANE2
#define SIMT_KEYS(from) vload2(0, from)
#else
typedef float simt_keys;
#define KEY_LANE SIMT_LANE1
#define SIMT_KEYS(from) (from)[0]
#endif
#define SIMT_GET(type, p) (*(__local const type *)(p))
#define SIMT_PUT(type, p, x) (*(__local type *)(p) = (x))

/* Four elements as they lie in memory: carrying them unconverted is what lets their loads overlap with arithmetic. */
#if CLATTN_DTYPE == 0
typedef float simt_word;
typedef float4 simt_raw;
#define SIMT_RAW(a, b, c, d) ((float4)(a, b, c, d))
CLATTN_INLINE float4 simt_widen(simt_raw x) { return x; }
#else
typedef ushort simt_word;
typedef uint2 simt_raw;
#define SIMT_RAW(a, b, c, d) as_uint2((ushort4)(a, b, c, d))
#if CLATTN_DTYPE == 1
CLATTN_INLINE float4 simt_widen(simt_raw x) { return vload_half4(0, (const __private half *)&x); }
#else
CLATTN_INLINE float4 simt_widen(simt_raw x) { return as_float4(convert_uint4(as_ushort4(x)) << 16); }
#endif
#endif

/* Rows in device memory; vectors are read whole where columns are adjacent and every row is aligned. */
typedef struct {
    __global const simt_word *base;
    long row, column;
    int rows, columns;
    bool whole;
} simt_source;

CLATTN_INLINE simt_source simt_open(__global const clattn_storage *buffer, clattn_layout at, int b, int h, int rows,
                                    int columns)
{
    simt_source s;
    s.base = (__global const simt_word *)buffer + (at.offset + b * at.batch + h * at.head);
    s.row = at.row;
    s.column = at.column;
    s.rows = rows;
    s.columns = columns;
    s.whole = at.column == 1 && at.row % 4 == 0 && (size_t)s.base % sizeof(simt_raw) == 0;
    return s;
}

/* Elements column..column+3 of a row, zero where the row or the column is absent. */
CLATTN_INLINE simt_raw simt_fetch(simt_source s, int row, int column)
{
    simt_raw x = (simt_raw)(0);
    if (row < s.rows && column < s.columns) {
        __global const simt_word *p = s.base + row * s.row + column * s.column;
        if (s.whole && column + 4 <= s.columns)
            x = *(__global const simt_raw *)p;
        else
            x = SIMT_RAW(p[0], column + 1 < s.columns ? p[s.column] : (simt_word)0,
                         column + 2 < s.columns ? p[2 * s.column] : (simt_word)0,
                         column + 3 < s.columns ? p[3 * s.column] : (simt_word)0);
    }
    return x;
}

/* A slice of K (V) starts at a row and a column of its source. Fetching fills the registers that an item carries;
 * committing moves them to local memory, or reads the slice there and then where nothing is carried. */
CLATTN_INLINE void simt_fetch_k(simt_source k, int row, int column, int lid, simt_raw *carried)
{
    UNROLL_CARRIED for (int i = 0; CLATTN_PREFETCH && i < SIMT_K_CARRIED * CW; ++i)
        carried[i] = simt_fetch(k, row + SIMT_ROW(i / CW, SIMT_K_WIDTH) * CW + i % CW,
                                column + SIMT_COLUMN(i / CW, SIMT_K_WIDTH));
}

CLATTN_INLINE void simt_fetch_v(simt_source v, int row, int lid, simt_raw *carried)
{
    UNROLL_CARRIED for (int i = 0; CLATTN_PREFETCH && i < SIMT_V_CARRIED; ++i)
        carried[i] = simt_fetch(v, row + SIMT_ROW(i, SIMT_V_WIDTH), SIMT_COLUMN(i, SIMT_V_WIDTH));
}

CLATTN_INLINE void simt_commit_k(simt_source k, int row, int column, int lid, const simt_raw *carried,
                                 __local float *slice)
{
    UNROLL_CARRIED for (int i = 0; i < SIMT_K_CARRIED; ++i) {
        const int chunk = SIMT_ROW(i, SIMT_K_WIDTH), x = SIMT_COLUMN(i, SIMT_K_WIDTH);
        if (SIMT_K_BLOCKS % WG && chunk >= CLATTN_B_C / CW)
            continue;
        float columns[4][CW]; /* read back by vload: collecting lanes in vector literals crashes Oclgrind 21.10 */
        UNROLL for (int c = 0; c < CW; ++c) {
            const float4 key =
                simt_widen(CLATTN_PREFETCH ? carried[i * CW + c] : simt_fetch(k, row + chunk * CW + c, column + x));
            columns[0][c] = key.x;
            columns[1][c] = key.y;
            columns[2][c] = key.z;
            columns[3][c] = key.w;
        }
        __local float *const to = slice + x * CLATTN_B_C + SIMT_CHUNK(x, chunk, TX, CW);
        UNROLL for (int e = 0; e < 4; ++e) SIMT_PUT(simt_keys, to + e * CLATTN_B_C, SIMT_KEYS(columns[e]));
    }
}

/* Says whether all values were finite. */
CLATTN_INLINE bool simt_commit_v(simt_source v, int row, int lid, const simt_raw *carried, __local float *slice)
{
    bool finite = true;
    UNROLL_CARRIED for (int i = 0; i < SIMT_V_CARRIED; ++i) {
        const int j = SIMT_ROW(i, SIMT_V_WIDTH), x = SIMT_COLUMN(i, SIMT_V_WIDTH);
        if (SIMT_V_BLOCKS % WG && j >= CLATTN_KV_SLICE)
            continue;
        const float4 y = simt_widen(CLATTN_PREFETCH ? carried[i] : simt_fetch(v, row + j, x));
        SIMT_PUT(float4, slice + j * SIMT_V_STRIDE + x, y);
        finite = finite && all(isfinite(y));
    }
    return finite;
}

/* Columns column..column+width-1 of the rows of Q, scaled: scores come out in natural units. Only their differences are
 * taken to base 2, so large logits lose nothing to a rounded log2(e). */
CLATTN_INLINE void simt_load_q(simt_source q, int row, int column, int width, int lid, float scale, __local float *tile)
{
    for (int n = lid; n < CLATTN_B_R * (width / 4); n += WG) {
        const int i = SIMT_DIV(n, width / 4), x = 4 * SIMT_MOD(n, width / 4);
        const float4 y = scale * simt_widen(simt_fetch(q, row + i, column + x));
        __local float *const to = tile + x * CLATTN_B_R + (i ^ SIMT_SWIZZLE(x, TY) * RW);
        to[0] = y.x;
        to[CLATTN_B_R] = y.y;
        to[2 * CLATTN_B_R] = y.z;
        to[3 * CLATTN_B_R] = y.w;
    }
}

/* scores[g][c] += Q rows of chunk g . K row c, over one slice of depth columns, of which Q starts at column x0. */
CLATTN_INLINE void simt_scores(__local const float *q, __local const float *k, int x0, int tx, int ty, int depth,
                               simt_rows scores[RG][CS])
{
    simt_rows query[2][RG];
    simt_keys key[2][CS / CW];
#define SIMT_READ_QK(to, q_row, k_row) \
    do { \
        UNROLL for (int g = 0; g < RG; ++g) query[to][g] = SIMT_GET(simt_rows, (q_row) + TY * g * RW); \
        UNROLL for (int c = 0; c < CS / CW; ++c) key[to][c] = SIMT_GET(simt_keys, (k_row) + TX * c * CW); \
    } while (0)
    __local const float *q_at = q + x0 * CLATTN_B_R + SIMT_CHUNK(x0, ty, TY, RW), *k_at = k + tx * CW;
    SIMT_READ_QK(0, q_at, k_at);
#pragma unroll 2
    for (int x = 0; x < depth; x += 4) {
        const int next = x + 4 < depth ? x + 4 : 0;
        __local const float *const q_next = q + (x0 + next) * CLATTN_B_R + SIMT_CHUNK(x0 + next, ty, TY, RW);
        __local const float *const k_next = k + next * CLATTN_B_C + SIMT_CHUNK(next, tx, TX, CW);
        UNROLL for (int e = 0; e < 4; ++e) {
            SIMT_READ_QK((e + 1) % 2, e < 3 ? q_at + (e + 1) * CLATTN_B_R : q_next,
                         e < 3 ? k_at + (e + 1) * CLATTN_B_C : k_next);
            UNROLL for (int g = 0; g < RG; ++g) UNROLL for (int c = 0; c < CS; ++c)
                scores[g][c] += query[e % 2][g] * KEY_LANE(key[e % 2][c / CW], c);
        }
        q_at = q_next;
        k_at = k_next;
    }
}

/* out[g][4 * c..] += P rows of chunk g . V columns (c * TX + tx) * 4.., over one slice, of which P starts at key j0. */
CLATTN_INLINE void simt_values(__local const float *p, __local const float *v, int j0, int tx, int ty,
                               simt_rows out[RG][4 * CV])
{
    simt_rows weight[2][RG];
    float4 value[2][CV];
#define SIMT_READ_PV(to, p_row, v_row) \
    do { \
        UNROLL for (int g = 0; g < RG; ++g) weight[to][g] = SIMT_GET(simt_rows, (p_row) + TY * g * RW); \
        UNROLL for (int c = 0; c < CV; ++c) value[to][c] = SIMT_GET(float4, (v_row) + TX * c * 4); \
    } while (0)
#define SIMT_ADD_PV(from) \
    UNROLL for (int g = 0; g < RG; ++g) UNROLL for (int c = 0; c < CV; ++c) { \
        out[g][4 * c] += weight[from][g] * value[from][c].x; \
        out[g][4 * c + 1] += weight[from][g] * value[from][c].y; \
        out[g][4 * c + 2] += weight[from][g] * value[from][c].z; \
        out[g][4 * c + 3] += weight[from][g] * value[from][c].w; \
    }
#define SIMT_P_ROW(j) (p + (j) * CLATTN_B_R + SIMT_CHUNK(j, ty, TY, RW))
    __local const float *v_at = v + tx * 4;
#if CLATTN_KV_SLICE % 4 == 0
    __local const float *p_at = SIMT_P_ROW(j0);
    SIMT_READ_PV(0, p_at, v_at);
#pragma unroll 2
    for (int j = 0; j < CLATTN_KV_SLICE; j += 4) {
        const int next = j + 4 < CLATTN_KV_SLICE ? j + 4 : 0;
        __local const float *const p_next = SIMT_P_ROW(j0 + next), *const v_next = v + next * SIMT_V_STRIDE + tx * 4;
        UNROLL for (int e = 0; e < 4; ++e) {
            SIMT_READ_PV((e + 1) % 2, e < 3 ? p_at + (e + 1) * CLATTN_B_R : p_next,
                         e < 3 ? v_at + (e + 1) * SIMT_V_STRIDE : v_next);
            SIMT_ADD_PV(e % 2);
        }
        p_at = p_next;
        v_at = v_next;
    }
#else
    for (int j = 0; j < CLATTN_KV_SLICE; ++j) {
        SIMT_READ_PV(0, SIMT_P_ROW(j0 + j), v_at + j * SIMT_V_STRIDE);
        SIMT_ADD_PV(0);
    }
#endif
}

/* The same where V has infinities or NaN that only some rows see: a hidden pair must not enter as 0 * NaN. */
CLATTN_INLINE void simt_values_selected(__local const float *p, __local const float *v, int j0, int tx, int ty, int row,
                                        int key, const clattn_view *view, simt_rows out[RG][4 * CV])
{
    for (int j = 0; j < CLATTN_KV_SLICE; ++j) {
        UNROLL for (int g = 0; g < RG; ++g) {
            const int i = row + (ty + TY * g) * RW;
            const simt_rows weight = SIMT_GET(simt_rows, SIMT_P_ROW(j0 + j) + TY * g * RW);
            UNROLL for (int c = 0; c < 4 * CV; ++c) {
                const float value = v[j * SIMT_V_STRIDE + (tx + TX * (c / 4)) * 4 + c % 4];
#define SIMT_SELECTED(e) \
    (ROW_LANE(out[g][c], e) + (clattn_hidden(i + (e), key + j, view) ? 0.0f : ROW_LANE(weight, e) * value))
                out[g][c] = SIMT_ROWS(SIMT_SELECTED);
            }
        }
    }
}

/* Combines what the TX items of a row hold apart, in the same order for all of them. Takes the P tile. */
#define SIMT_ADD(a, b) ((a) + (b))
#define SIMT_EXCHANGE(to, from, combine, neutral) \
    do { \
        UNROLL for (int g = 0; g < RG; ++g) \
            SIMT_PUT(simt_rows, p_tile + tx * CLATTN_B_R + (ty + TY * g) * RW, from[g]); \
        barrier(CLK_LOCAL_MEM_FENCE); \
        UNROLL for (int g = 0; g < RG; ++g) to[g] = (simt_rows)(neutral); \
        for (int t = 0; t < TX; ++t) UNROLL for (int g = 0; g < RG; ++g) \
            to[g] = combine(to[g], SIMT_GET(simt_rows, p_tile + t * CLATTN_B_R + (ty + TY * g) * RW)); \
    } while (0)
/* A bound that may be subtracted: rows that have seen nothing yet have none. */
#define SIMT_REAL(x) fmax(x, -FLT_MAX)

__kernel __attribute__((reqd_work_group_size(CLATTN_WORK_GROUP_SIZE, 1, 1))) void
clattn_forward(__global const clattn_storage *q, __global const clattn_storage *k, __global const clattn_storage *v,
               __global clattn_storage *o, __global float *lse, __global float *m, __global float *l,
               const clattn_forward_params p CLATTN_SCORE_PARAMETERS)
{
    __local float tile[SIMT_LOCAL_FLOATS] __attribute__((aligned(16)));
    __local float *const slices = tile + SIMT_Q_FLOATS;
    __local float *const p_tile = slices + CLATTN_BUFFERS * SIMT_BUFFER;
    /* 0, 1: in an even, odd block some score exceeded its bound; 2, 3: an even, odd slice of V has values not finite */
    volatile __local int *const flags = (volatile __local int *)(p_tile + SIMT_P_FLOATS);

    const int lid = (int)get_local_id(0);
    const int patch = SIMT_DIV(lid, SIMT_LANES), lane = SIMT_MOD(lid, SIMT_LANES);
    const int tx = SIMT_MOD(patch, TX / CLATTN_LANES_X) * CLATTN_LANES_X + SIMT_MOD(lane, CLATTN_LANES_X);
    const int ty = SIMT_DIV(patch, TX / CLATTN_LANES_X) * CLATTN_LANES_Y + SIMT_DIV(lane, CLATTN_LANES_X);

    /* Neighbouring groups share a head, so that its K and V stay in cache; causal heads start with the longest rows. */
    const int row_blocks = (p.n_q + CLATTN_B_R - 1) / CLATTN_B_R;
    const int group = (int)get_group_id(0);
    const int head = group / row_blocks, b = head / p.heads, h = head - b * p.heads;
    const int place = group - head * row_blocks, row0 = CLATTN_B_R * (CLATTN_CAUSAL ? row_blocks - 1 - place : place);
    const int kv_head = h / (p.heads / p.kv_heads);
    const clattn_view view = clattn_open(b, h, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
    const int key_end = clattn_key_end(min(row0 + CLATTN_B_R, p.n_q) - 1, &view);

    const simt_source q_rows = simt_open(q, p.q, b, h, p.n_q, CLATTN_D);
    const simt_source k_rows = simt_open(k, p.k, b, kv_head, p.n_kv, CLATTN_D);
    const simt_source v_rows = simt_open(v, p.v, b, kv_head, p.n_kv, CLATTN_D_V);

    simt_raw carried[SIMT_CARRIED];
    simt_rows out[RG][4 * CV], bound[RG], top[RG], sum[RG];
    UNROLL for (int g = 0; g < RG; ++g) {
        bound[g] = top[g] = (simt_rows)(-INFINITY);
        sum[g] = (simt_rows)(0.0f);
        UNROLL for (int c = 0; c < 4 * CV; ++c) out[g][c] = (simt_rows)(0.0f);
    }
    if (lid == 0)
        flags[0] = flags[1] = flags[2] = flags[3] = 0;

    int current = 0; /* where the present slice starts */
/* Puts the next slice in place of the present one, or beside it, and makes it the present one. */
#define SIMT_TURN(commit) \
    do { \
        if (CLATTN_BUFFERS == 1) \
            barrier(CLK_LOCAL_MEM_FENCE); \
        else \
            current = SIMT_BUFFER - current; \
        commit; \
        barrier(CLK_LOCAL_MEM_FENCE); \
    } while (0)
#define SIMT_Q_TILE (CLATTN_Q_RESIDENT ? tile : slices + current + CLATTN_D_SLICE * CLATTN_B_C)
#define SIMT_COMMIT_K(j0, x) \
    simt_commit_k(k_rows, j0, x, lid, carried, slices + current); \
    if (!CLATTN_Q_RESIDENT) \
        simt_load_q(q_rows, row0, x, CLATTN_D_SLICE, lid, p.scale, SIMT_Q_TILE)
#define SIMT_V_FLAG(j) (flags + 2 + (j) / CLATTN_KV_SLICE % 2)
#define SIMT_COMMIT_V(j) \
    if (!simt_commit_v(v_rows, j, lid, carried, slices + current) && CLATTN_CAUSAL && masked) \
        atomic_or(SIMT_V_FLAG(j), 1)

    if (key_end > 0) {
        simt_fetch_k(k_rows, 0, 0, lid, carried);
        if (CLATTN_Q_RESIDENT)
            simt_load_q(q_rows, row0, 0, SIMT_D4, lid, p.scale, tile);
        SIMT_COMMIT_K(0, 0);
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    for (int j0 = 0, parity = 0; j0 < key_end; j0 += CLATTN_B_C, parity ^= 1) {
        const bool masked = clattn_tile(row0, row0 + CLATTN_B_R - 1, j0, j0 + CLATTN_B_C - 1, &view) == CLATTN_TILE_SOME;
        simt_rows scores[RG][CS];
        UNROLL for (int g = 0; g < RG; ++g) UNROLL for (int c = 0; c < CS; ++c) scores[g][c] = (simt_rows)(0.0f);

#pragma unroll 1
        for (int x = 0; x < SIMT_D4; x += CLATTN_D_SLICE) {
            const bool last = x + CLATTN_D_SLICE >= SIMT_D4;
            if (last)
                simt_fetch_v(v_rows, j0, lid, carried);
            else
                simt_fetch_k(k_rows, j0, x + CLATTN_D_SLICE, lid, carried);
            simt_scores(SIMT_Q_TILE, slices + current, CLATTN_Q_RESIDENT ? x : 0, tx, ty,
                        min(CLATTN_D_SLICE, SIMT_D4 - x), scores);
            if (!last)
                SIMT_TURN(SIMT_COMMIT_K(j0, x + CLATTN_D_SLICE));
        }

        if (masked) {
            UNROLL for (int g = 0; g < RG; ++g) UNROLL for (int c = 0; c < CS; ++c) {
                const int i = row0 + (ty + TY * g) * RW, j = j0 + (c / CW * TX + tx) * CW + c % CW;
#define SIMT_MASKED(e) (clattn_hidden(i + (e), j, &view) ? -INFINITY : ROW_LANE(scores[g][c], e))
                scores[g][c] = SIMT_ROWS(SIMT_MASKED);
            }
        }
        bool exceeded = false;
        UNROLL for (int g = 0; g < RG; ++g) {
            UNROLL for (int c = 0; c < CS; ++c) top[g] = fmax(top[g], scores[g][c]);
            UNROLL for (int e = 0; e < RW; ++e)
                exceeded = exceeded || ROW_LANE(top[g], e) > ROW_LANE(bound[g], e) + SIMT_SLACK;
        }
        if (exceeded)
            atomic_or(flags + parity, 1);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (flags[parity]) {
            simt_rows joint[RG];
            SIMT_EXCHANGE(joint, top, fmax, -INFINITY);
            barrier(CLK_LOCAL_MEM_FENCE);
            UNROLL for (int g = 0; g < RG; ++g) {
                const simt_rows shrink = native_exp2((bound[g] - SIMT_REAL(joint[g])) * SIMT_LOG2E);
                bound[g] = joint[g];
                sum[g] *= shrink;
                UNROLL for (int c = 0; c < 4 * CV; ++c) out[g][c] *= shrink;
            }
        }
        if (lid == 0)
            flags[parity ^ 1] = 0; /* last read before this block's first barrier, next set after its last */

        UNROLL for (int g = 0; g < RG; ++g) {
            const simt_rows base = SIMT_REAL(bound[g]);
            UNROLL for (int c = 0; c < CS; ++c) {
                const int j = (c / CW * TX + tx) * CW + c % CW;
                const simt_rows weight = native_exp2((scores[g][c] - base) * SIMT_LOG2E);
                sum[g] += weight;
                SIMT_PUT(simt_rows, p_tile + j * CLATTN_B_R + SIMT_CHUNK(j, ty, TY, RW) + TY * g * RW, weight);
            }
        }

        const int tile_end = min(j0 + CLATTN_B_C, key_end);
        SIMT_TURN(SIMT_COMMIT_V(j0));
#pragma unroll 1
        for (int j = j0; j < tile_end; j += CLATTN_KV_SLICE) {
            const int next = j + CLATTN_KV_SLICE;
            if (next < tile_end)
                simt_fetch_v(v_rows, next, lid, carried);
            else if (next < key_end)
                simt_fetch_k(k_rows, next, 0, lid, carried);
            if (CLATTN_CAUSAL && masked && *SIMT_V_FLAG(j))
                simt_values_selected(p_tile, slices + current, j - j0, tx, ty, row0, j, &view, out);
            else
                simt_values(p_tile, slices + current, j - j0, tx, ty, out);
            if (next < tile_end)
                SIMT_TURN(SIMT_COMMIT_V(next));
            else if (next < key_end)
                SIMT_TURN(SIMT_COMMIT_K(next, 0));
        }
    }

    simt_rows maximum[RG], total[RG];
    barrier(CLK_LOCAL_MEM_FENCE);
    SIMT_EXCHANGE(total, sum, SIMT_ADD, 0.0f);
    barrier(CLK_LOCAL_MEM_FENCE);
    SIMT_EXCHANGE(maximum, top, fmax, -INFINITY);

    UNROLL for (int r = 0; r < RS; ++r) {
        const int g = r / RW, i = row0 + (ty + TY * g) * RW + r % RW;
        if (i >= p.n_q)
            continue;
        const float l_bound = ROW_LANE(total[g], r), x_max = ROW_LANE(maximum[g], r);
        const float inverse = l_bound == 0.0f ? 0.0f : 1.0f / l_bound;
        __global clattn_storage *const to = o + (p.o.offset + b * p.o.batch + h * p.o.head + i * p.o.row);
        UNROLL for (int c = 0; c < CV; ++c) {
            const int x = (c * TX + tx) * 4;
#define SIMT_OUT(e) (ROW_LANE(out[g][4 * c + (e)], r) * inverse)
            if (p.o.column == 1 && x + 4 <= CLATTN_D_V) {
                clattn_store4((float4)(SIMT_OUT(0), SIMT_OUT(1), SIMT_OUT(2), SIMT_OUT(3)), to + x);
            } else {
                UNROLL for (int e = 0; e < 4; ++e) if (x + e < CLATTN_D_V)
                    clattn_store(SIMT_OUT(e), to + (x + e) * p.o.column);
            }
        }
        if (tx == 0) {
            const float l_max = x_max == -INFINITY ? l_bound : l_bound * exp(ROW_LANE(bound[g], r) - x_max);
            if (m)
                m[p.m.offset + b * p.m.batch + h * p.m.head + i * p.m.row] = x_max;
            if (l)
                l[p.l.offset + b * p.l.batch + h * p.l.head + i * p.l.row] = l_max;
            if (lse)
                lse[p.lse.offset + b * p.lse.batch + h * p.lse.head + i * p.lse.row] = x_max + log(l_max);
        }
    }
}
