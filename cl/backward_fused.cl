/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Backward attention on NVIDIA's tensor cores in one kernel, by products that one warp makes at a time (mma.sync): 5
 * matrix products where the two kernels of backward_matrix.cl spend 7. Storage is fp16 or bf16, products accumulate in
 * float.
 *
 * A work-group keeps a block of keys (K and V, and their gradients in registers) while rows of Q and dO pass,
 * CLATTN_B_R at a time, of one head after the other of those that share the keys:
 *     S = Q K^T,  dP = dO V^T,  P = e^(scale S - lse),  dS = P (dP - delta),  dV += P^T dO,  dK += dS^T Q,  dQ += dS K
 * with P and dS rounded to the storage type on their way from accumulators to operands. dQ needs all keys of a row:
 * each work-group adds what its keys bring to sums in device memory, in float, in whatever order they come; so results
 * differ by rounding from one run to the next, and only problems that say `unordered` come here. clattn_dq of
 * backward_matrix.cl turns sums into dQ.
 *
 * Warps share a tile's work in one of two shapes: common/fused_shared.clh, which reads local memory least and needs 226
 * KB of it, and common/fused_own.clh.
 *
 * What changes scores, and dropout, is computed of each pair between these products (common/fused_weights.clh).
 *
 * Weights and dP of hidden pairs are set to 0. A NaN in a result, where a hidden pair may have caused it (0 * NaN), is
 * left to others: of dK and dV a flag says so, for clattn_dk_dv_again of backward_matrix.cl; clattn_dq sees it in the
 * sums. So are rows of scores so large that their lse, which is not exact enough, is NaN.
 *
 * Launch: 1-D, CLATTN_WORK_GROUP_SIZE items a group, batch * kv_heads * ceil(n_kv / B_C) groups. Flags and sums begin
 * at 0.
 *
 * Baked constants (beside those of types.clh, view.clh, score.clh and nvidia_mma.clh)
 *   CLATTN_D, CLATTN_D_V     head dimensions, 1..128
 *   CLATTN_B_R, CLATTN_B_C   64 rows that pass at a time; 128 keys, or 64 in the shape of fused_own.clh
 *   CLATTN_COLUMNS           of the tiles: 64; or 128 where a head dimension is larger
 *   CLATTN_D_PIECES, CLATTN_V_PIECES   ceil(D / 16), ceil(D_V / 16)
 *   CLATTN_OWN_KEYS          1: the shape of fused_own.clh; 0 (128 columns only): that of fused_shared.clh
 *   CLATTN_DROPOUT_ONCE        1: with dropout in the shape of fused_own.clh, warps draw for each other, by way of
 *   local
 *                            memory
 *   CLATTN_WORK_GROUP_SIZE   a warp for each 32 keys; for each 16 with 128 columns
 *   CLATTN_LOCAL_BYTES       what the planner counts of local memory, which the kernel compares with its own
 *
 * Local memory: FUSED_LOCAL_BYTES.
 */
#include "common/types.clh"
#include "common/view.clh"
#include "common/matrix_tiles.clh"
#include "common/fused_tiles.clh"
#include "common/fused_own.clh"
#include "common/fused_shared.clh"

__kernel __attribute__((reqd_work_group_size(CLATTN_WORK_GROUP_SIZE, 1, 1))) void
clattn_dk_dv(__global const clattn_storage *q, __global const clattn_storage *k, __global const clattn_storage *v,
             __global const clattn_storage *d_o, __global float *workspace, __global clattn_storage *d_k,
             __global clattn_storage *d_v, const clattn_backward_params p CLATTN_SCORE_PARAMETERS)
{
    CLATTN_ASSERT(FUSED_LOCAL_BYTES + FUSED_SPARE == CLATTN_LOCAL_BYTES); /* what the planner counts with */
    __local uint array[(FUSED_LOCAL_BYTES + FUSED_SPARE) / 4] __attribute__((aligned(1024)));
    const unit_address memory = fused_memory(array);
    const int lid = (int)get_local_id(0), share = p.heads / p.kv_heads;
    fused_gradients all;
    FUSED_ZERO(all);
    {
        const fused_block block = fused_block_of((int)get_group_id(0), &p);
        const clattn_view any =
            clattn_open(block.b, block.kv_head * share, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
        if (block.first_key >= any.keys)
            return;
        fused_fill(clattn_open_keys(k, CLATTN_DTYPE, p.k, CLATTN_D, MATRIX_VECTOR, block.kv_head, &any),
                   block.first_key, KEYS, CLATTN_D, memory, lid);
        fused_fill(clattn_open_keys(v, CLATTN_DTYPE, p.v, CLATTN_D_V, MATRIX_VECTOR, block.kv_head, &any),
                   block.first_key, KEYS, CLATTN_D_V, memory + KEYS_BYTES, lid);
    }
    ONE_AFTER_THE_OTHER for (int n = 0; n < share; ++n)
    {
        const fused_block block = fused_block_of((int)unit_late((uint)get_group_id(0)), &p);
        const int first_key = block.first_key;
        const clattn_view view =
            clattn_open(block.b, block.kv_head * share + n, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
        const int last = min(first_key + KEYS, view.n_kv) - 1;
        const int end = last < first_key ? 0 : clattn_row_end(last, &view);
        const int begin = clattn_row_begin(first_key, &view) / ROWS * ROWS;
        fused_walk walk = fused_walk_from(begin, end, first_key);
        const int row = fused_next(&walk, begin, lid, &view);
        if (row >= end)
            continue;
        const fused_rows rows = fused_open(q, d_o, workspace, lid, &p, &view);
        barrier(CLK_LOCAL_MEM_FENCE); /* all are done with the head before */
        FUSED_HEAD(all, &rows, memory, lid, row, &walk, &view);
    }
    unit_copy_wait();
    barrier(CLK_LOCAL_MEM_FENCE); /* all are done with K and V, whose places results take */
    const int group = (int)unit_late((uint)get_group_id(0));
    const fused_block block = fused_block_of(group, &p);
    const clattn_view any = clattn_open(block.b, block.kv_head * share, p.heads, p.n_q, p.n_kv CLATTN_SCORE_ARGUMENTS);
    if (fused_leave(&all, memory, p.scale, FUSED_KEPT_SCALE(&any), lid))
        ((__global uint *)workspace)[p.flags + group] = 1;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (d_v)
        fused_write(memory, CLATTN_D_V, d_v, p.d_v, block.b, block.kv_head, any.key_base, block.first_key, any.keys,
                    lid);
    if (d_k)
        fused_write(memory + KEYS_BYTES, CLATTN_D, d_k, p.d_k, block.b, block.kv_head, any.key_base, block.first_key,
                    any.keys, lid);
}
