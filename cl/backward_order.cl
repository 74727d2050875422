/* SPDX-License-Identifier: BSD-2-Clause
 *
 * In which order backward_hopper.cl takes the blocks of keys of a head, where a mask leaves different numbers of tiles
 * of each. In any order the longest come first, so that none is left for the end. Where each tile of rows receives what
 * blocks have for it one after the other, the shortest do: who comes after another then seldom waits for it.
 *
 * A work-group has the blocks of one head of K and V: it counts what tiles of rows see of each, then finds each one's
 * position. Of equal ones the first comes first, so that the order is always the same.
 *
 * Launch: 1-D, CLATTN_WORK_GROUP_SIZE items a group, batch * kv_heads groups. At p.order of the workspace (words) a
 * group leaves as many numbers of blocks as there are, in their order; behind these what it has counted.
 *
 * Baked constants (beside those of types.clh and view.clh): CLATTN_B_R, CLATTN_B_C, CLATTN_UNORDERED,
 * CLATTN_WORK_GROUP_SIZE
 */
#include "common/types.clh"
#include "common/view.clh"
#include "common/hopper_backward_tiles.clh"

#if !defined(CLATTN_B_R) || !defined(CLATTN_B_C)
#error "CLATTN_B_R and CLATTN_B_C must be those of backward_hopper.cl"
#endif
#if !defined(CLATTN_UNORDERED) || !defined(CLATTN_WORK_GROUP_SIZE)
#error "CLATTN_UNORDERED must be 0 or 1, CLATTN_WORK_GROUP_SIZE the items of a group"
#endif
#define WG CLATTN_WORK_GROUP_SIZE
#define HALVES (CLATTN_B_C > 64 ? 2 : 1) /* of its keys, which two consumers share out */

/* What a tile costs that one consumer skips, and one that none does. */
enum { ORDER_PASSED = 3, ORDER_WHOLE = 5 };

CLATTN_INLINE uint order_cost(int row, int first_key, const clattn_view *view)
{
    int seen = 0;
    for (int n = 0; n < HALVES; ++n) {
        const int key = first_key + n * (CLATTN_B_C / HALVES);
        seen += hopper_kind_of(row, key, CLATTN_B_C / HALVES, view) != CLATTN_TILE_SKIP;
    }
    return seen == 0 ? 0 : seen == HALVES ? ORDER_WHOLE : ORDER_PASSED;
}

/* Whether a block that costs `other` comes before one that costs `own`. */
CLATTN_INLINE bool order_precedes(uint other, uint own)
{
    return CLATTN_UNORDERED ? other > own : other < own;
}

__kernel __attribute__((reqd_work_group_size(CLATTN_WORK_GROUP_SIZE, 1, 1))) void
clattn_order(__global const clattn_storage *q, __global const clattn_storage *k, __global const clattn_storage *v,
             __global const clattn_storage *d_o, __global float *workspace,
             const clattn_backward_params p CLATTN_SCORE_PARAMETERS)
{
    __local uint costs[WG]; /* of so many blocks at a time */
    const int lid = (int)get_local_id(0), head = (int)get_group_id(0), share = p.heads / p.kv_heads;
    const int blocks = (p.n_kv + CLATTN_B_C - 1) / CLATTN_B_C, tiles = (p.n_q + CLATTN_B_R - 1) / CLATTN_B_R;
    const int b = head / p.kv_heads, first_head = (head - b * p.kv_heads) * share;
    __global uint *const order = (__global uint *)workspace + p.order + (long)head * (2 * blocks), *const all_costs =
                                                                                                       order + blocks;

    for (int first = 0; first < blocks; first += WG) {
        const int count = min(WG, blocks - first);
        costs[lid] = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int h = first_head; h < first_head + share; ++h) {
            const clattn_view view = clattn_open(b, h, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
            for (int n = lid; n < count * tiles; n += WG) {
                const int tile = n / count, block = n - tile * count;
                atomic_add(&costs[block], order_cost(tile * CLATTN_B_R, (first + block) * CLATTN_B_C, &view));
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lid < count)
            all_costs[first + lid] = costs[lid];
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (int block = lid; block < blocks; block += WG) {
        const uint own = all_costs[block];
        int position = 0;
        for (int other = 0; other < blocks; ++other) {
            const uint its = all_costs[other];
            position += order_precedes(its, own) || (its == own && other < block);
        }
        order[position] = (uint)block;
    }
}
