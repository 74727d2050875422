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
 *   CLATTN_INTERLEAVED      1: a pair is two neighbours. 0: its columns are CLATTN_ROTARY / 2 apart.
 *   CLATTN_WORK_GROUP_SIZE  from 1 to 1024: work-items that share a row.
 *
 * NDRange: batch * heads * n_q work-groups.
 */
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

/* A row of `columns` elements, of which the first `rotary` are rotated. Both elements of a pair are read before one is
 * written: the rows may be the same. */
CLATTN_INLINE void append_copy(__global const void *from, __global void *to, const int type, const int columns,
                               const int rotary, int position, __global const float *cosines,
                               __global const float *sines, clattn_append_params p)
{
    const int pairs = rotary / 2;
    for (int u = (int)get_local_id(0); u < columns - pairs; u += CLATTN_WORK_GROUP_SIZE) {
        const int x = u >= pairs ? u + pairs : CLATTN_INTERLEAVED ? 2 * u : u;
        const int y = CLATTN_INTERLEAVED ? x + 1 : x + pairs;
        const float a = clattn_read(CLATTN_DTYPE, from, x * p.from.column);
        if (u >= pairs) {
            clattn_write(type, a, to, x * p.to.column);
            continue;
        }
        const float b = clattn_read(CLATTN_DTYPE, from, y * p.from.column);
        const float c = cosines[p.cosines.offset + position * p.cosines.row + u * p.cosines.column];
        const float s = sines[p.sines.offset + position * p.sines.row + u * p.sines.column];
        clattn_write(type, a * c - b * s, to, x * p.to.column);
        clattn_write(type, b * c + a * s, to, y * p.to.column);
    }
}

/* Of K or V: the row goes to the key at its position. */
CLATTN_INLINE void append_key(__global const void *from, __global void *to, const int type, const int columns,
                              const int rotary, __global const int *positions, __global const float *cosines,
                              __global const float *sines, clattn_append_params p CLATTN_SCORE_PARAMETERS)
{
    const int bh = (int)get_group_id(0) / p.n_q, b = bh / p.heads, h = bh - b * p.heads;
    const clattn_view view = clattn_open(b, h, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
    const append_row row = append_place(positions, p, rotary, &view);
    if (row.position < 0)
        return;
    const clattn_source keys = clattn_open_keys(to, type, p.to, columns, 1, h, &view);
    const long at = clattn_key_at(&keys, row.position);
    if (at < 0)
        return;
    append_copy(clattn_place(CLATTN_DTYPE, from, clattn_at(p.from, b, h, view.row_base + row.i)),
                (__global void *)clattn_place(type, keys.base, at), type, columns, rotary, row.position, cosines,
                sines, p);
}

KERNEL clattn_append_k(__global const void *from, __global void *to, __global const int *positions,
                       __global const float *cosines, __global const float *sines,
                       const clattn_append_params p CLATTN_SCORE_PARAMETERS)
{
    append_key(from, to, CLATTN_K_TYPE, CLATTN_D, CLATTN_ROTARY, positions, cosines, sines, p CLATTN_SCORE_ARGUMENTS);
}

KERNEL clattn_append_v(__global const void *from, __global void *to, __global const int *positions,
                       __global const float *cosines, __global const float *sines,
                       const clattn_append_params p CLATTN_SCORE_PARAMETERS)
{
    append_key(from, to, CLATTN_V_TYPE, CLATTN_D_V, 0, positions, cosines, sines, p CLATTN_SCORE_ARGUMENTS);
}

/* Rows of Q stay where they are in their sequence. */
KERNEL clattn_append_q(__global const void *from, __global void *to, __global const int *positions,
                       __global const float *cosines, __global const float *sines,
                       const clattn_append_params p CLATTN_SCORE_PARAMETERS)
{
    const int bh = (int)get_group_id(0) / p.n_q, b = bh / p.heads, h = bh - b * p.heads;
    const clattn_view view = clattn_open(b, h, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
    const append_row row = append_place(positions, p, CLATTN_ROTARY, &view);
    const long i = view.row_base + row.i;
    if (row.position >= 0)
        append_copy(clattn_place(CLATTN_DTYPE, from, clattn_at(p.from, b, h, i)),
                    (__global void *)clattn_place(CLATTN_Q_TYPE, to, clattn_at(p.to, b, h, i)), CLATTN_Q_TYPE,
                    CLATTN_D, CLATTN_ROTARY, row.position, cosines, sines, p);
}
