/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The state of attention over keys that come in pieces: m, l and the un-normalised O of each row, in one buffer of
 * floats. m lies at 0, l at l_at, O at o_at; rows are numbered through batch and heads. Several states of the same
 * rows, over disjoint keys (the splits of common/splits.clh), lie one after the other: their rows are numbered on.
 *
 * Baked constants, besides those of types.clh, view.clh and score.clh (all required; of CLATTN_FEATURES only variable
 * lengths, sinks and dropout matter here)
 *   CLATTN_D_V              1..512: the head dimension of O.
 *   CLATTN_WORK_GROUP_SIZE  a power of two from 1 to 1024; CLATTN_ROW_ITEMS neighbours share a row.
 *   CLATTN_ROW_ITEMS        a power of two from 1 to CLATTN_WORK_GROUP_SIZE.
 *   CLATTN_MAX_SPLITS       the most states that are finished together.
 *   CLATTN_B_R              rows of a work-group: a multiple of CLATTN_WORK_GROUP_SIZE / CLATTN_ROW_ITEMS.
 */
#include "common/types.clh"
#include "common/view.clh"
#include "common/score.clh"

#if !defined(CLATTN_D_V) || CLATTN_D_V < 1 || CLATTN_D_V > 512
#error "CLATTN_D_V must be in 1..512"
#endif
#if !defined(CLATTN_WORK_GROUP_SIZE) || CLATTN_WORK_GROUP_SIZE < 1 || CLATTN_WORK_GROUP_SIZE > 1024 ||                 \
    (CLATTN_WORK_GROUP_SIZE & (CLATTN_WORK_GROUP_SIZE - 1))
#error "CLATTN_WORK_GROUP_SIZE must be a power of two in 1..1024"
#endif
#if !defined(CLATTN_ROW_ITEMS) || CLATTN_ROW_ITEMS < 1 || CLATTN_WORK_GROUP_SIZE % CLATTN_ROW_ITEMS
#error "CLATTN_ROW_ITEMS must divide CLATTN_WORK_GROUP_SIZE"
#endif
#define ROWS_AT_ONCE (CLATTN_WORK_GROUP_SIZE / CLATTN_ROW_ITEMS)
#if !defined(CLATTN_B_R) || CLATTN_B_R < 1 || CLATTN_B_R % ROWS_AT_ONCE
#error "CLATTN_B_R must be a multiple of the rows worked at a time"
#endif

/* Unsigned: a shift and a mask, not the freeze instruction that Oclgrind lacks. */
#define LANE       ((int)(get_local_id(0) % CLATTN_ROW_ITEMS))
#define ROW_NUMBER ((int)(get_local_id(0) / CLATTN_ROW_ITEMS))
#define COLUMNS    ((CLATTN_D_V + CLATTN_ROW_ITEMS - 1) / CLATTN_ROW_ITEMS) /* of O that an item has, at most */
#define X_OF(c)    ((c)*CLATTN_ROW_ITEMS + LANE)
#define KERNEL     __kernel __attribute__((reqd_work_group_size(CLATTN_WORK_GROUP_SIZE, 1, 1))) void

/* NDRange of begin and merge: ceil(rows / B_R) work-groups. */
KERNEL clattn_state_begin(__global float *state, const long l_at, const long o_at, const long rows)
{
    const long first = (long)get_group_id(0) * CLATTN_B_R;
    for (int r = ROW_NUMBER; r < CLATTN_B_R; r += ROWS_AT_ONCE) {
        const long row = first + r;
        if (row >= rows)
            return;
        if (LANE == 0) {
            state[row] = -INFINITY;
            state[l_at + row] = 0.0f;
        }
        for (int x = LANE; x < CLATTN_D_V; x += CLATTN_ROW_ITEMS)
            state[o_at + row * CLATTN_D_V + x] = 0.0f;
    }
}

/* m = max(m1, m2), l = l1 e^(m1 - m) + l2 e^(m2 - m), O alike. */
KERNEL clattn_state_merge(__global float *restrict into, __global const float *restrict from, const long l_at,
                          const long o_at, const long rows)
{
    const long first = (long)get_group_id(0) * CLATTN_B_R;
    for (int r = ROW_NUMBER; r < CLATTN_B_R; r += ROWS_AT_ONCE) {
        const long row = first + r;
        const bool exists = row < rows;
        float m = 0.0f, l = 0.0f, by_into = 0.0f, by_from = 0.0f;
        if (exists) {
            m = fmax(into[row], from[row]);
            const float base = m == -INFINITY ? 0.0f : m;
            by_into = exp(into[row] - base); /* 0 where a state has seen no key: base is finite */
            by_from = exp(from[row] - base);
            l = into[l_at + row] * by_into + from[l_at + row] * by_from;
        }
#if CLATTN_WORK_GROUP_SIZE > 1
        barrier(CLK_GLOBAL_MEM_FENCE); /* the row's items have all read what one of them now overwrites */
#endif
        if (!exists)
            continue;
        if (LANE == 0) {
            into[row] = m;
            into[l_at + row] = l;
        }
        for (int x = LANE; x < CLATTN_D_V; x += CLATTN_ROW_ITEMS) {
            const long at = o_at + row * CLATTN_D_V + x;
            into[at] = into[at] * by_into + from[at] * by_from;
        }
    }
}

CLATTN_INLINE void store_number(__global float *vector, clattn_layout at, int b, int h, long row, float value)
{
    if (vector)
        vector[clattn_at(at, b, h, row)] = value;
}

/* Where rows are few, the items of several share one, each CLATTN_ROW_ITEMS of them with some of its states: of how
 * many. */
CLATTN_INLINE int state_share(clattn_forward_params p)
{
#if CLATTN_SPLIT_KEYS /* the same for all shapes, so that sums have one order */
    return min(ROWS_AT_ONCE, 4);
#else
    int share = ROWS_AT_ONCE;
    while (share > 1 && (ROWS_AT_ONCE / share < p.n_q || share / 2 >= p.splits))
        share /= 2;
    return share;
#endif
}

/* So many states are read at a time, none of which waits for another. */
#if CLATTN_ROW_ITEMS > 1
#define STATES       8
#define STATE_UNROLL _Pragma("unroll")
#else
#define STATES 1
#define STATE_UNROLL
#endif

/* O of the states `first`, `first` + step, ... of a row, each times its weight. An infinity stays, though its weight
 * may have become 0 by rounding. */
CLATTN_INLINE void state_sum(__global const float *from, long stride, int first, int step, int splits,
                             __local const float *weights, float sums[COLUMNS])
{
    for (int c = 0; c < COLUMNS; ++c)
        sums[c] = 0.0f;
    for (int n = first; n < splits; n += step * STATES) {
        float values[STATES][COLUMNS];
        STATE_UNROLL for (int u = 0; u < STATES; ++u)
            STATE_UNROLL for (int c = 0; c < COLUMNS; ++c) /* what is beyond is not stored */
            values[u][c] = from[min(n + u * step, splits - 1) * stride + min(X_OF(c), CLATTN_D_V - 1)];
        STATE_UNROLL for (int u = 0; u < STATES; ++u)
            STATE_UNROLL for (int c = 0; c < COLUMNS; ++c) if (n + u * step < splits) sums[c] +=
            isfinite(values[u][c]) ? values[u][c] * weights[n + u * step] : values[u][c];
    }
}

/* The results of p.splits states, which become one on the way: m is the largest, and what l and O of each are
 * multiplied by is e^(its m - m). A single state's is 1.
 *
 * Of p: o, lse, m, l, batch, heads, n_q and splits. lse, m and l may be NULL.
 *
 * NDRange: batch * heads * ceil(n_q / B_R) work-groups. */
KERNEL clattn_state_finish(__global const float *state, __global clattn_output *o, __global float *lse,
                           __global float *m, __global float *l, const long l_at, const long o_at,
                           const clattn_forward_params p CLATTN_SCORE_PARAMETERS)
{
    __local float all_weights[ROWS_AT_ONCE * CLATTN_MAX_SPLITS];
    __local float parts[CLATTN_WORK_GROUP_SIZE * (CLATTN_MAX_SPLITS > 1 ? COLUMNS : 1)];
    const int blocks = (p.n_q + CLATTN_B_R - 1) / CLATTN_B_R;
    const int group = (int)get_group_id(0);
    const int bh = group / blocks;
    const int first = (group - bh * blocks) * CLATTN_B_R;
    const int b = bh / p.heads;
    const int h = bh - b * p.heads;
    const clattn_view view = clattn_open(b, h, p.heads, p.n_q, 0 CLATTN_SCORE_ARGUMENTS);
    /* A mask, for a power of two: beside / the remainder would become a freeze. */
    const int share = state_share(p), part = ROW_NUMBER & (share - 1), item = part * CLATTN_ROW_ITEMS + LANE;
    const int items = share * CLATTN_ROW_ITEMS, end = min(first + CLATTN_B_R, view.n_q);
    __local float *const weights = all_weights + ROW_NUMBER / share * CLATTN_MAX_SPLITS;
    __local float *const row_parts = parts + ROW_NUMBER / share * items * (share > 1 ? COLUMNS : 1);
    const long all = (long)p.batch * p.heads * p.n_q;
    for (int r = first; r < end; r += ROWS_AT_ONCE / share) {
        const int i = min(r + ROW_NUMBER / share, end - 1); /* the last row again, where there is none */
        const long row = (long)bh * p.n_q + i, out = view.row_base + i;
        for (int n = item; n < p.splits; n += items)
            weights[n] = state[row + n * all];
        barrier(CLK_LOCAL_MEM_FENCE);
        float row_m = -INFINITY, row_l = 0.0f;
        for (int n = 0; n < p.splits; ++n)
            row_m = fmax(row_m, weights[n]);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int n = item; n < p.splits; n += items) {
            weights[n] = exp(weights[n] - (row_m == -INFINITY ? 0.0f : row_m));
            row_l += state[l_at + row + n * all] * weights[n];
        }
        row_parts[item] = row_l;
        barrier(CLK_LOCAL_MEM_FENCE);
        float sums[COLUMNS];
        state_sum(state + o_at + row * CLATTN_D_V, all * CLATTN_D_V, part, share, p.splits, weights, sums);
        row_l = 0.0f;
        for (int n = 0; n < min(items, p.splits); ++n)
            row_l += row_parts[n];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int c = 0; share > 1 && c < COLUMNS; ++c)
            row_parts[c * items + item] = sums[c];
        barrier(CLK_LOCAL_MEM_FENCE);
        if (part > 0 || r + ROW_NUMBER / share >= end)
            continue;
        const float factor = clattn_finish(&row_m, &row_l, &view);
        __global clattn_output *const to = o + clattn_at(p.o, b, h, out);
        for (int c = 0; c < COLUMNS; ++c) {
            for (int other = 1; other < share; ++other)
                sums[c] += row_parts[c * items + other * CLATTN_ROW_ITEMS + LANE];
            if (X_OF(c) < CLATTN_D_V)
                clattn_put_output(sums[c] * factor, to + X_OF(c) * p.o.column);
        }
        if (LANE == 0) {
            store_number(lse, p.lse, b, h, out, row_m + log(row_l));
            store_number(m, p.m, b, h, out, row_m);
            store_number(l, p.l, b, h, out, row_l);
        }
    }
}
