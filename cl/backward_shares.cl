/* SPDX-License-Identifier: BSD-2-Clause
 *
 * dK and dV of blocks of keys that work-groups of backward_hopper.cl have shared out: the parts that these have left
 * are added up, always in the same order. An item has 8 neighbouring columns of a key. A NaN is left to others: a flag
 * says so, for clattn_dk_dv of backward_matrix.cl to compute the block of keys again.
 *
 * Launch: 1-D, CLATTN_WORK_GROUP_SIZE items a group, a multiple of which each block of keys has chunks of 8 columns.
 *
 * Baked constants (beside those of types.clh and view.clh): CLATTN_B_C; CLATTN_D_PIECES and CLATTN_V_PIECES, as in
 * backward_hopper.cl; CLATTN_WORK_GROUP_SIZE
 */
#include "common/types.clh"
#include "common/vectors.clh"
#include "common/view.clh"

#if !defined(CLATTN_B_C) || !defined(CLATTN_D_PIECES) || !defined(CLATTN_V_PIECES)
#error "CLATTN_B_C, CLATTN_D_PIECES and CLATTN_V_PIECES must be those of backward_hopper.cl"
#endif
#ifndef CLATTN_WORK_GROUP_SIZE
#error "CLATTN_WORK_GROUP_SIZE must be the items of a group"
#endif
#define KEYS CLATTN_B_C
#define DT CLATTN_D_PIECES
#define VT CLATTN_V_PIECES
#define CHUNKS (KEYS * 2 * (DT + VT)) /* of 8 columns, of a block of keys */
#define SHARE_FLOATS (CHUNKS * 8)
CLATTN_ASSERT(CHUNKS % CLATTN_WORK_GROUP_SIZE == 0);
/* Where loops are not unrolled sums would lie in memory. */
#define UNROLL _Pragma("unroll")

/* Keys of a warp, and its items. */
enum { WARP_KEYS = 16, WARP_ITEMS = 32 };

/* 8 columns of a key, of all shares. 4 items of a warp hold the 8 columns of a key, 2 each, and of the key 8 behind it,
 * in fours; KEYS * 2 items leave a four each, then their next. */
CLATTN_INLINE void shares_sum(__global const float *parts, int key, int chunk, int shares, float sum[8])
{
    const int item = key / WARP_KEYS * WARP_ITEMS + key % 8 * 4;
    __global const float *from = parts + (chunk * (KEYS * 2) + item) * 4 + key % WARP_KEYS / 8 * 2;
    UNROLL for (int n = 0; n < 8; ++n) sum[n] = 0.0f;
#pragma unroll 4
    for (int share = 0; share < shares; ++share) {
        UNROLL for (int n = 0; n < 4; ++n)
        {
            const float2 two = vload2(0, from + 4 * n);
            sum[2 * n] += two.x;
            sum[2 * n + 1] += two.y;
        }
        from += SHARE_FLOATS;
    }
}

CLATTN_INLINE void shares_write(const float sum[8], float factor, __global clattn_storage *to, int columns,
                                long column_step)
{
    if (columns >= 8 && column_step == 1 && ((size_t)to & 15) == 0) {
        clattn_write4(CLATTN_DTYPE, (float4)(sum[0], sum[1], sum[2], sum[3]) * factor, to, 0);
        clattn_write4(CLATTN_DTYPE, (float4)(sum[4], sum[5], sum[6], sum[7]) * factor, to, 4);
    } else {
        UNROLL for (int n = 0; n < 8; ++n) if (n < columns) clattn_store(sum[n] * factor, to + n * column_step);
    }
}

/* dV is formed of the weights that dropout leaves, as they are, beyond 128 columns; else their scale is in them. */
#if CLATTN_DROPOUT && CLATTN_B_C == 64
#define SHARES_KEPT_SCALE score_params.dropout_scale
#else
#define SHARES_KEPT_SCALE 1.0f
#endif

__kernel __attribute__((reqd_work_group_size(CLATTN_WORK_GROUP_SIZE, 1, 1))) void
clattn_shares(__global const clattn_storage *q, __global const clattn_storage *k, __global const clattn_storage *v,
              __global const clattn_storage *d_o, __global float *workspace, __global clattn_storage *d_k,
              __global clattn_storage *d_v, const clattn_backward_params p CLATTN_SCORE_PARAMETERS)
{
    const int group_count = CHUNKS / CLATTN_WORK_GROUP_SIZE, number = (int)get_group_id(0) / group_count,
              all = ((int)get_group_id(0) - number * group_count) * CLATTN_WORK_GROUP_SIZE + (int)get_local_id(0);
    const int blocks = (p.n_kv + KEYS - 1) / KEYS, head = number / blocks, block = number - head * blocks;
    const int b = head / p.kv_heads, kv_head = head - b * p.kv_heads;
    /* Neighbours in the list lie beside each other in parts: key by key, two chunks of each, then the next two. */
    const int two = all / (2 * KEYS), key = all / 2 % KEYS, chunk = 2 * two + all % 2;
    const bool of_v = chunk >= 2 * DT;
    const int x = (of_v ? chunk - 2 * DT : chunk) * 8, columns = (of_v ? CLATTN_D_V : CLATTN_D) - x;
    const clattn_view view = clattn_open(b, kv_head * p.group, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
    __global clattn_storage *const to = of_v ? d_v : d_k;
    if (!to || block * KEYS + key >= view.keys)
        return;
    float sum[8];
    shares_sum(workspace + p.share_sums + (long)number * p.shares * SHARE_FLOATS, key, chunk, p.shares, sum);
    bool is_nan = false;
    UNROLL for (int n = 0; n < 8; ++n) is_nan = is_nan || (n < columns && isnan(sum[n]));
    if (is_nan)
        ((__global uint *)workspace)[p.flags + number] = 1;
    const clattn_layout at = of_v ? p.d_v : p.d_k;
    const long row = clattn_at(at, b, kv_head, view.key_base + block * KEYS + key);
    shares_write(sum, of_v ? SHARES_KEPT_SCALE : p.scale, to + row + x * at.column, columns, at.column);
}
