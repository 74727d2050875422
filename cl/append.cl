/* SPDX-License-Identifier: BSD-2-Clause
 *
 * New rows go into a cache of keys: converted, rotated, each to its position.
 *
 * Baked constants, besides those of types.clh and view.clh (all required; of CLATTN_FEATURES only pages, key lengths
 * and variable lengths matter here)
 *   CLATTN_DTYPE            of the new rows, and of Q.
 *   CLATTN_Q_TYPE, _K_TYPE, _V_TYPE   of the rotated Q and of the cache.
 *   CLATTN_D, CLATTN_D_V    columns of K and Q, and of V.
 *   CLATTN_ROTARY           how many of them are rotated: even, from 0 to CLATTN_D.
 *   CLATTN_K_SCALE_GROUP, _V_SCALE_GROUP   elements that have one scale; of formats without scales apart a block.
 *   CLATTN_INTERLEAVED      1: a pair is two neighbours. 0: its columns are CLATTN_ROTARY / 2 apart.
 *   CLATTN_WORK_GROUP_SIZE  from 1 to 1024: work-items that share a row.
 *
 * NDRange: batch * heads * n_q work-groups.
 */
#include "common/quantise.clh"
#include "common/types.clh"
#include "common/view.clh"
#include "source/dense.clh"

#if !defined(CLATTN_ROTARY) || CLATTN_ROTARY < 0 || CLATTN_ROTARY % 2 || CLATTN_ROTARY > CLATTN_D
#error "CLATTN_ROTARY must be even, from 0 to CLATTN_D"
#endif
#if !defined(CLATTN_INTERLEAVED) || !defined(CLATTN_D) || !defined(CLATTN_D_V)
#error "CLATTN_INTERLEAVED, CLATTN_D and CLATTN_D_V must be given"
#endif
#if !defined(CLATTN_WORK_GROUP_SIZE) || CLATTN_WORK_GROUP_SIZE < 1 || CLATTN_WORK_GROUP_SIZE > 1024
#error "CLATTN_WORK_GROUP_SIZE must be in 1..1024"
#endif

#pragma OPENCL FP_CONTRACT OFF /* a rotation has the same bits on every device */

#define KERNEL __kernel __attribute__((reqd_work_group_size(CLATTN_WORK_GROUP_SIZE, 1, 1))) void

/* struct cla_append_params on the host. */
typedef struct {
    clattn_layout from, to, positions, cosines, sines;
    int heads, n_q, n_kv, rope_rows;
} clattn_append_params;
CLATTN_ASSERT(sizeof(clattn_append_params) == 5 * 40 + 4 * 4);

/* Which row a work-group has: that of number i of its sequence, and the position that it goes to; negative: nowhere. */
typedef struct {
    int i, position;
} append_row;

CLATTN_INLINE append_row append_place(__global const int *positions, clattn_append_params p, const int rotary,
                                      const clattn_view *view)
{
    append_row row;
    row.i = (int)get_group_id(0) % p.n_q;
    row.position = -1;
    if (row.i >= view->n_q)
        return row;
    int position = row.i + view->shift;
    if (positions)
        position = positions[clattn_at(p.positions, view->b, 0, view->row_base + row.i)];
    if (position >= 0 && position < view->keys && (!rotary || position < p.rope_rows))
        row.position = position;
    return row;
}

/* A new row: its elements, and how the first `rotary` of them are rotated. */
typedef struct {
    __global const void *base;
    __global const float *cosines, *sines; /* of the row's position */
    long column, cosine_column, sine_column;
} append_source;

CLATTN_INLINE append_source append_open(__global const void *from, int b, int h, long i, int position,
                                        __global const float *cosines, __global const float *sines,
                                        const int rotary, clattn_append_params p)
{
    append_source s;
    s.base = clattn_place(CLATTN_DTYPE, from, clattn_at(p.from, b, h, i));
    s.cosines = rotary ? cosines + p.cosines.offset + position * p.cosines.row : 0;
    s.sines = rotary ? sines + p.sines.offset + position * p.sines.row : 0;
    s.column = p.from.column;
    s.cosine_column = p.cosines.column;
    s.sine_column = p.sines.column;
    return s;
}

/* Pair u is columns x and y. */
#define PAIR_X(u)         (CLATTN_INTERLEAVED ? 2 * (u) : (u))
#define PAIR_Y(u, rotary) (CLATTN_INTERLEAVED ? 2 * (u) + 1 : (u) + (rotary) / 2)

CLATTN_INLINE float2 append_pair(const append_source *s, int u, const int rotary)
{
    const float a = clattn_read(CLATTN_DTYPE, s->base, PAIR_X(u) * s->column);
    const float b = clattn_read(CLATTN_DTYPE, s->base, PAIR_Y(u, rotary) * s->column);
    const float cosine = s->cosines[u * s->cosine_column], sine = s->sines[u * s->sine_column];
    return (float2)(a * cosine - b * sine, b * cosine + a * sine);
}

/* Both elements of a pair are read before one is written: rows may be rotated where they lie. */
CLATTN_INLINE void append_copy(const append_source *s, __global void *to, long column, const int type,
                               const int columns, const int rotary)
{
    const int pairs = rotary / 2;
    for (int u = (int)get_local_id(0); u < columns - pairs; u += CLATTN_WORK_GROUP_SIZE) {
        if (u < pairs) {
            const float2 pair = append_pair(s, u, rotary);
            clattn_write(type, pair.x, to, PAIR_X(u) * column);
            clattn_write(type, pair.y, to, PAIR_Y(u, rotary) * column);
        } else
            clattn_write(type, clattn_read(CLATTN_DTYPE, s->base, (u + pairs) * s->column), to, (u + pairs) * column);
    }
}

#if CLATTN_FORMATS
/* Element x of the row, rotated. */
CLATTN_INLINE float append_element(const append_source *s, int x, const int rotary)
{
    const int pairs = rotary / 2;
    if (x >= rotary)
        return clattn_read(CLATTN_DTYPE, s->base, x * s->column);
    const float2 pair = append_pair(s, CLATTN_INTERLEAVED ? x / 2 : x % pairs, rotary);
    return (CLATTN_INTERLEAVED ? x % 2 == 0 : x < pairs) ? pair.x : pair.y;
}

/* The same into a format: a group of elements at a time, or a block. Groups of an odd number of int4 share bytes, and
 * are one work-item's. */
CLATTN_INLINE void append_quantised(const append_source *s, const clattn_source *keys, __global uchar *to, int j,
                                    const int type, const int columns, const int rotary, const int group)
{
    const bool together = type == CLATTN_INT4 && group % 2;
    const int step = together ? 1 : CLATTN_WORK_GROUP_SIZE;
    if (together && get_local_id(0) > 0)
        return;
    for (int g = together ? 0 : (int)get_local_id(0); g * group < columns; g += step) {
        const int first = g * group, count = min(group, columns - first);
        quantise_range range = quantise_nothing();
        for (int x = first; x < first + count; ++x)
            quantise_reach(&range, append_element(s, x, rotary));
        if (!CLATTN_IS_SCALED(type)) {
            __global uchar *const block = to + clattn_format_bytes(type, first);
            const float scale = quantise_block(type, &range, block);
            for (int e = 0; e < CLATTN_BLOCK; ++e)
                quantise_in_block(type, e < count ? append_element(s, first + e, rotary) : 0.0f, scale, block, e);
            continue;
        }
        const float2 scale = quantise_scale(keys, j, g, type, &range);
        for (int x = first; x < first + count; ++x)
            quantise_element(type, append_element(s, x, rotary), scale, to, x);
    }
}
#endif

/* Of K or V: the row goes to the key at its position. */
#define APPEND_KEY(open, type, columns, rotary, group)                                                                 \
    const int bh = (int)get_group_id(0) / p.n_q, b = bh / p.heads, h = bh - b * p.heads;                               \
    const clattn_view view = clattn_open(b, h, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);                         \
    const append_row row = append_place(positions, p, rotary, &view);                                                  \
    if (row.position < 0)                                                                                              \
        return;                                                                                                        \
    const clattn_source keys = open(to, p.to, columns, 1, h, &view);                                                   \
    const long at = clattn_key_at(&keys, row.position);                                                                \
    if (at < 0)                                                                                                        \
        return;                                                                                                        \
    const append_source source =                                                                                       \
        append_open(from, b, h, view.row_base + row.i, row.position, cosines, sines, rotary, p);                       \
    APPEND_AS(type, (__global void *)clattn_place(type, keys.base, at), columns, rotary, group)

#if CLATTN_FORMATS
#define APPEND_AS(type, place, columns, rotary, group)                                                                 \
    if (CLATTN_IS_FORMAT(type))                                                                                        \
        append_quantised(&source, &keys, place, row.position, type, columns, rotary, group);                           \
    else                                                                                                               \
        append_copy(&source, place, p.to.column, type, columns, rotary);
#else
#define APPEND_AS(type, place, columns, rotary, group)                                                                 \
    append_copy(&source, place, p.to.column, type, columns, rotary);
#endif

KERNEL clattn_append_k(__global const void *from, __global clattn_k *to, __global const int *positions,
                       __global const float *cosines, __global const float *sines,
                       const clattn_append_params p CLATTN_SCORE_PARAMETERS)
{
    APPEND_KEY(clattn_open_k, CLATTN_K_TYPE, CLATTN_D, CLATTN_ROTARY, CLATTN_K_SCALE_GROUP)
}

KERNEL clattn_append_v(__global const void *from, __global clattn_v *to, __global const int *positions,
                       __global const float *cosines, __global const float *sines,
                       const clattn_append_params p CLATTN_SCORE_PARAMETERS)
{
    APPEND_KEY(clattn_open_v, CLATTN_V_TYPE, CLATTN_D_V, 0, CLATTN_V_SCALE_GROUP)
}

/* Rows of Q stay where they are in their sequence. */
KERNEL clattn_append_q(__global const void *from, __global void *to, __global const int *positions,
                       __global const float *cosines, __global const float *sines,
                       const clattn_append_params p CLATTN_SCORE_PARAMETERS)
{
    const int bh = (int)get_group_id(0) / p.n_q, b = bh / p.heads, h = bh - b * p.heads;
    const clattn_view view = clattn_open(b, h, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
    const append_row row = append_place(positions, p, CLATTN_ROTARY, &view);
    if (row.position < 0)
        return;
    const long i = view.row_base + row.i;
    const append_source source = append_open(from, b, h, i, row.position, cosines, sines, CLATTN_ROTARY, p);
    append_copy(&source, (__global void *)clattn_place(CLATTN_Q_TYPE, to, clattn_at(p.to, b, h, i)), p.to.column,
                CLATTN_Q_TYPE, CLATTN_D, CLATTN_ROTARY);
}
