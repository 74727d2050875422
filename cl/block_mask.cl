/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A block mask that comes as compressed rows becomes bytes, so that the attention kernels can look a block up.
 *
 * Baked constants, besides those of types.clh (CLATTN_DTYPE is not used; all required)
 *   CLATTN_WORK_GROUP_SIZE  from 1 to 1024: work-items that share a row of blocks.
 *
 * offsets holds, at `at`, rows + 1 numbers for each batch element and head, which count in columns[0 .. count - 1].
 * Whatever they are, nothing outside the arrays is touched. dense is [batch, heads, rows, column_count] bytes from
 * dense_offset on.
 *
 * NDRange: batch * heads * rows work-groups.
 */
#include "common/types.clh"

#if !defined(CLATTN_WORK_GROUP_SIZE) || CLATTN_WORK_GROUP_SIZE < 1 || CLATTN_WORK_GROUP_SIZE > 1024
#error "CLATTN_WORK_GROUP_SIZE must be in 1..1024"
#endif

__kernel __attribute__((reqd_work_group_size(CLATTN_WORK_GROUP_SIZE, 1, 1))) void
clattn_expand(__global const int *offsets, __global const int *columns, __global uchar *dense, const clattn_layout at,
              const long dense_offset, const int heads, const int rows, const int column_count, const int count)
{
    const int group = (int)get_group_id(0), self = (int)get_local_id(0);
    const int bh = group / rows;
    const int row = group - bh * rows;
    const int b = bh / heads;
    const int h = bh - b * heads;
    __global const int *const run = offsets + clattn_at(at, b, h, row);
    __global uchar *const out = dense + dense_offset + (long)group * column_count;
    const int begin = clamp(run[0], 0, count), end = clamp(run[1], begin, count);
    for (int c = self; c < column_count; c += CLATTN_WORK_GROUP_SIZE)
        out[c] = 0;
#if CLATTN_WORK_GROUP_SIZE > 1
    barrier(CLK_GLOBAL_MEM_FENCE);
#endif
    for (int i = begin + self; i < end; i += CLATTN_WORK_GROUP_SIZE) {
        const int c = columns[i];
        if (c >= 0 && c < column_count)
            out[c] = 1;
    }
}
