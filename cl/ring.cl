/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a ring adds up: sums in fp32 of gradients that several devices give, or several calls on one, which are rounded
 * at last; and states (clattn/state.h), which rows join that have met keys by themselves.
 *
 * Baked constants, besides that of types.clh (required)
 *   CLATTN_WORK_GROUP_SIZE  >= 1: work-items that share a block of elements; 1 is the choice for a CPU.
 *
 * Types are those of types.clh, as numbers that are told at launch: one program serves all.
 */
#include "common/types.clh"

#if !defined(CLATTN_WORK_GROUP_SIZE) || CLATTN_WORK_GROUP_SIZE < 1
#error "CLATTN_WORK_GROUP_SIZE must be positive"
#endif

#define CLATTN_BLOCK 4096 /* elements of a work-group: BLOCK of src/ring/sums.c */

/* NDRange: a work-group for each block of `count` elements, which lie from sums_at and from from_at on. */
__kernel __attribute__((reqd_work_group_size(CLATTN_WORK_GROUP_SIZE, 1, 1))) void
clattn_ring_add(__global float *sums, __global const void *from, const long sums_at, const long from_at,
                const long count, const int type)
{
    const long first = (long)get_group_id(0) * CLATTN_BLOCK, end = min(first + CLATTN_BLOCK, count);
    for (long i = first + (long)get_local_id(0); i < end; i += CLATTN_WORK_GROUP_SIZE)
        sums[sums_at + i] += clattn_read(type, from, from_at + i);
}

/* NDRange: likewise, of all elements. */
__kernel __attribute__((reqd_work_group_size(CLATTN_WORK_GROUP_SIZE, 1, 1))) void
clattn_ring_round(__global void *to, __global const float *sums, const long count, const int type)
{
    const long first = (long)get_group_id(0) * CLATTN_BLOCK, end = min(first + CLATTN_BLOCK, count);
    for (long i = first + (long)get_local_id(0); i < end; i += CLATTN_WORK_GROUP_SIZE)
        clattn_write(type, sums[i], to, i);
}

/* m, l and O of rows that met some more keys, O in fp32 and normalised, join a state of the same rows: as
 * clattn_state_merge (state.cl), whose O is not normalised. NDRange: a work-group for each `together` rows. */
__kernel __attribute__((reqd_work_group_size(CLATTN_WORK_GROUP_SIZE, 1, 1))) void
clattn_ring_join(__global float *state, __global const float *o, __global const float *m, __global const float *l,
                 const long l_at, const long o_at, const int rows, const int columns, const int together)
{
    const int first = (int)get_group_id(0) * together, end = min(first + together, rows), lid = (int)get_local_id(0);
    for (int i = lid; i < (end - first) * columns; i += CLATTN_WORK_GROUP_SIZE) {
        const int row = first + i / columns;
        const long at = (long)first * columns + i;
        const float top = fmax(state[row], m[row]);
        const float old = state[row] == top ? 1.0f : exp(state[row] - top);
        const float new = m[row] == top ? l[row] : l[row] * exp(m[row] - top);
        state[o_at + at] = state[o_at + at] * old + o[at] * new;
    }
    barrier(CLK_GLOBAL_MEM_FENCE); /* m and l have been read */
    for (int row = first + lid; row < end; row += CLATTN_WORK_GROUP_SIZE) {
        const float top = fmax(state[row], m[row]);
        const float old = state[row] == top ? 1.0f : exp(state[row] - top);
        const float new = m[row] == top ? l[row] : l[row] * exp(m[row] - top);
        state[l_at + row] = state[l_at + row] * old + new;
        state[row] = top;
    }
}
