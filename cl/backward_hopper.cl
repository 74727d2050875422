/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Backward attention on Hopper's tensor cores in one kernel: 5 matrix products where the two of backward_matrix.cl
 * spend 7, and FlashAttention-3's division of labour. Storage is fp16 or bf16, products accumulate in float.
 *
 * A work-group keeps a block of keys (K and V) while rows of Q and dO pass, CLATTN_TILE_ROWS at a time. Its first warp
 * group is the producer, which loads tiles into whichever stage is free; the two others are consumers. For each tile of
 * rows they form, transposed, keys by rows,
 *     S = K Q^T,  dP = V dO^T,  P = e^(scale S - lse),  dS = P (dP - delta),  dV += P dO,  dK += dS Q
 * with P and dS rounded to the storage type on their way from accumulators to operands. Where registers hold its dK and
 * dV, each consumer has 64 keys of its own (common/hopper_own_keys.clh); else two share 64
 * (common/hopper_shared_keys.clh). dQ needs all keys of a row: dS is left in local memory, and each consumer multiplies
 * a part of
 *     dQ = dS^T K,  or, where tiles have other than 64 rows or there are more columns, dQ^T = K^T dS,
 * which an item of the producer adds to sums in device memory, in bulk, laid out as registers hold them; clattn_dq of
 * backward_matrix.cl turns these into dQ.
 *
 * Sums of floats depend on their order. Unless CLATTN_UNORDERED, a tile of rows receives what blocks of keys have for
 * it in the order in which these are taken, by ticket, so that none waits for one that has not begun: its counter says
 * by which block that has been done last. A mask leaves different numbers of tiles of each, and those with fewer would
 * wait at a tile: they come in an order of their own (CLATTN_ORDERS_BLOCKS), and with CLATTN_DQ_SUMS sums of each tile,
 * each for one block in so many, they wait for fewer others. The first to come stores in place of adding (for
 * it alone others wait with CLATTN_UNORDERED): a counter of 0 stands for sums of 0.
 *
 * Where blocks of keys are too few for the device, or too uneven, each is shared out between p.shares work-groups.
 * These leave their parts of dK and dV in the workspace as floats: clattn_shares of backward_shares.cl adds them up.
 *
 * With a mask whose blocks are shorter than a block of keys, a consumer skips tiles of which its 64 keys see
 * nothing. It leaves dS = 0, and only its part of dQ is still formed. With CLATTN_UNORDERED the producer has such tiles
 * of one consumer follow those of the other, so that both are at work.
 *
 * A NaN in a result, where a pair that weighs nothing may have caused it (0 * NaN), is left to others: of dK and dV a
 * flag says so, for clattn_dk_dv of backward_matrix.cl to compute the block of keys again; clattn_dq sees it in the
 * sums. So are rows of scores so large that their lse, which is not exact enough, is NaN.
 *
 * Launch: 1-D, CLATTN_WORK_GROUP_SIZE items a group, any number of groups. Tickets, counters and flags begin at 0; sums
 * may hold anything. Behind the word of tickets is one, 0 at first, that is 1 if an item has given up waiting
 * (hopper_reduce_dq).
 *
 * Baked constants (beside those of types.clh, view.clh, score.clh and nvidia_mma.clh)
 *   CLATTN_D, CLATTN_D_V     head dimensions, 1..256
 *   CLATTN_B_C               128; 64: consumers share them, as they must where D_PIECES + V_PIECES is more than 20
 *   CLATTN_TILE_ROWS         rows that pass at a time: a multiple of 16 (TURNED); 64 where keys are shared or tiles
 *                            skipped, and with dropout
 *   CLATTN_ROW_PIECES, CLATTN_D_PIECES, CLATTN_V_PIECES   ceil(TILE_ROWS / 16), ceil(D / 16), ceil(D_V / 16), and
 *   CLATTN_PART_PIECES       of a consumer's part of dQ: 4 where D_PIECES is more, else half of these; turned, half of
 *                            ROW_PIECES for each panel of D. All as literal numbers from 1 to 16
 *   CLATTN_LATE_D_V          1: a tile's dV begins behind its dS, for which fewer registers do; 0: before, mostly
 *   CLATTN_STAGES, CLATTN_KV_STAGES   stages of Q, 2 or more (3 where consumers skip tiles: each is at its own while
 *                            the next comes); of K and V, 1 or 2
 *   CLATTN_DO_STAGES         of dO: as many as of Q, or 1, as where keys are shared
 *   CLATTN_SUM_STAGES        stages of what is to be added to the sums: 1; or 2, where a tile's dQ comes in two passes
 *   CLATTN_DQ_SUMS           sums of each tile, each for one block of keys in so many, with a counter of its own; in
 *                            any order 1
 *   CLATTN_ORDERS_BLOCKS     1: blocks of keys come in the order that backward_order.cl has found; 0: in their own
 *   CLATTN_PRODUCER_REGISTERS, CLATTN_CONSUMER_REGISTERS   what items of each have
 *   CLATTN_LOADERS           96: three of the producer's warps load tiles, an item of the fourth adds dQ; 64: two do,
 *                            and an item of each of the others
 *   CLATTN_TMA             1: see hopper_tiles.clh; consumers publish nothing
 *   CLATTN_UNORDERED         1: sums of dQ in any order; 0: always in the same
 *   CLATTN_WORK_GROUP_SIZE   384
 *   CLATTN_LOCAL_BYTES       what the planner counts of local memory, which the kernel compares with its own
 *
 * Which tiles a block of keys has something for is in common/hopper_backward_tiles.clh, which blocks and tiles a
 * work-group has in hopper_backward_walk.clh, the producer's side in hopper_backward_produce.clh. Who waits for whom is
 * modelled in tests/model.
 */
#include "unit/nvidia_wgmma.clh"
#include "common/types.clh"
#include "common/view.clh"
#include "source/hopper_tma.clh"
#include "common/hopper_backward_walk.clh"
#include "common/hopper_backward_work.clh"
#include "common/hopper_backward_produce.clh"
#include "common/hopper_own_keys.clh"
#include "common/hopper_shared_keys.clh"

__kernel __attribute__((reqd_work_group_size(CLATTN_WORK_GROUP_SIZE, 1, 1))) void
clattn_dk_dv(__global const clattn_storage *q, __global const clattn_storage *k, __global const clattn_storage *v,
             __global const clattn_storage *d_o, __global float *workspace, __global clattn_storage *d_k,
             __global clattn_storage *d_v, const clattn_backward_params p CLATTN_SCORE_PARAMETERS)
{
    __local uint array[HOPPER_LOCAL_BYTES / 4] __attribute__((aligned(1024)));
    const unit_address memory = unit_address_of(array);
    const int lid = (int)get_local_id(0);
    const hopper_inputs in = {q, k, v, d_o, workspace};
    __global uint *const words = (__global uint *)workspace;
    const hopper_outputs out = {d_k,
                                d_v,
                                workspace + p.sums,
                                words + p.counters,
                                words + p.flags,
                                workspace + p.share_sums,
                                words + p.tickets + 1};
    hopper_loads loads;
    if (lid < CLATTN_LOADERS)
        loads = hopper_find_loads(
            in, words + p.descriptors + get_group_id(0) * ((HOPPER_D_O + 1) * HOPPER_DESCRIPTOR_WORDS), lid,
            p CLATTN_SCORE_ARGUMENTS);
    if (lid == 0) {
        const int arrivals = loads.alone ? 1 : CLATTN_LOADERS;
        for (int stage = 0; stage < 2; ++stage) {
            hopper_barrier_create(memory + BLOCK_FULL(stage), 1);
            hopper_barrier_create(memory + BLOCK_EMPTY(stage), 4 * CONSUMERS);
        }
        for (int stage = 0; stage < CLATTN_KV_STAGES; ++stage) {
            hopper_barrier_create(memory + K_FULL(stage), arrivals);
            hopper_barrier_create(memory + V_FULL(stage), arrivals);
            hopper_barrier_create(memory + KV_EMPTY(stage), 4 * CONSUMERS);
        }
        for (int stage = 0; stage < CLATTN_STAGES; ++stage) {
            hopper_barrier_create(memory + Q_FULL(stage), 2 * arrivals);
            hopper_barrier_create(memory + Q_EMPTY(stage), 4 * CONSUMERS);
        }
        for (int stage = 0; stage < DO_STAGES; ++stage) {
            hopper_barrier_create(memory + DO_FULL(stage), arrivals);
            hopper_barrier_create(memory + DO_EMPTY(stage), 4 * CONSUMERS);
        }
        for (int n = 0; n < 2; ++n) {
            hopper_barrier_create(memory + DS_FULL(n), SHARED_KEYS ? 4 : 4 * CONSUMERS);
            hopper_barrier_create(memory + DS_EMPTY(n), 4 * CONSUMERS);
        }
        for (int stage = 0; stage < CLATTN_SUM_STAGES; ++stage) {
            for (int which = 0; which < REDUCERS; ++which)
                hopper_barrier_create(memory + DQ_FULL(which, stage), 4 * CONSUMERS);
            hopper_barrier_create(memory + DQ_EMPTY(stage), 1);
        }
        if (SHARED_KEYS) {
            hopper_barrier_create(memory + FACTORS_FULL, 4);
            hopper_barrier_create(memory + FACTORS_EMPTY, 4);
        }
        hopper_publish();
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const int warp = hopper_uniform(lid / UNIT_LANES);
    if (warp < HOPPER_ITEMS / UNIT_LANES) {
        HOPPER_GIVE_REGISTERS(CLATTN_PRODUCER_REGISTERS);
        if (warp < CLATTN_LOADERS / UNIT_LANES)
            hopper_produce(in, loads, words + p.tickets, words + p.order, memory, warp, lid, p CLATTN_SCORE_ARGUMENTS);
        else if (lid == CLATTN_LOADERS)
            hopper_reduce_dq(out, memory, 0);
        else if (REDUCERS == 2 && lid == CLATTN_LOADERS + UNIT_LANES)
            hopper_reduce_dq(out, memory, REDUCERS - 1);
    } else {
        HOPPER_TAKE_REGISTERS(CLATTN_CONSUMER_REGISTERS);
        hopper_consume(out, memory, lid, p CLATTN_SCORE_ARGUMENTS);
    }
}
