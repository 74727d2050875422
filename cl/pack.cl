/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Copies a tensor of any type and layout to rows of floats, and O back.
 *
 * Baked constants, besides that of types.clh (all required)
 *   CLATTN_WORK_GROUP_SIZE  >= 1: work-items that share a row. With 1, the choice for a CPU, dense rows are copied in
 *                           vectors of CLATTN_VECTOR_WIDTH elements, 4, 8 or 16.
 *
 * The floats are [batch, heads, rows, columns] from float_offset on, each row float_row after the one before.
 *
 * NDRange: batch * heads * rows work-groups.
 */
#include "common/types.clh"
#include "common/vectors.clh"

#if !defined(CLATTN_WORK_GROUP_SIZE) || CLATTN_WORK_GROUP_SIZE < 1
#error "CLATTN_WORK_GROUP_SIZE must be positive"
#endif

/* Where this work-group's row of the tensor starts. */
CLATTN_INLINE long tensor_row(clattn_layout layout, int heads, int rows)
{
    const int row = (int)get_group_id(0);
    const int head = row / rows;
    return layout.offset + head / heads * layout.batch + head % heads * layout.head + row % rows * layout.row;
}

__kernel __attribute__((reqd_work_group_size(CLATTN_WORK_GROUP_SIZE, 1, 1))) void
clattn_pack(__global const clattn_storage *tensor, __global float *floats, const clattn_layout layout, const int heads,
            const int rows, const int columns, const long float_offset, const long float_row)
{
    __global const clattn_storage *const in = tensor + tensor_row(layout, heads, rows);
    __global float *const out = floats + float_offset + (long)get_group_id(0) * float_row;
    int x = (int)get_local_id(0);
#if CLATTN_WORK_GROUP_SIZE == 1
    for (; layout.column == 1 && x + CLATTN_VECTOR_WIDTH <= columns; x += CLATTN_VECTOR_WIDTH)
        CLATTN_CONCAT(vstore, CLATTN_VECTOR_WIDTH)
        (CLATTN_CONCAT(clattn_read, CLATTN_VECTOR_WIDTH)(CLATTN_DTYPE, in, x), 0, out + x);
#endif
    for (; x < columns; x += CLATTN_WORK_GROUP_SIZE)
        out[x] = clattn_load(in + x * layout.column);
}

/* floats NULL: every element becomes 0. */
__kernel __attribute__((reqd_work_group_size(CLATTN_WORK_GROUP_SIZE, 1, 1))) void
clattn_unpack(__global clattn_output *tensor, __global const float *floats, const clattn_layout layout,
              const int heads, const int rows, const int columns, const long float_offset, const long float_row)
{
    __global clattn_output *const out = tensor + tensor_row(layout, heads, rows);
    __global const float *const in = floats + float_offset + (long)get_group_id(0) * float_row;
    int x = (int)get_local_id(0);
#if CLATTN_WORK_GROUP_SIZE == 1
    for (; floats && layout.column == 1 && x + CLATTN_VECTOR_WIDTH <= columns; x += CLATTN_VECTOR_WIDTH)
        CLATTN_CONCAT(clattn_write, CLATTN_VECTOR_WIDTH)
        (CLATTN_O_TYPE, CLATTN_CONCAT(vload, CLATTN_VECTOR_WIDTH)(0, in + x), out, x);
#endif
    for (; x < columns; x += CLATTN_WORK_GROUP_SIZE)
        clattn_put_output(floats ? in[x] : 0.0f, out + x * layout.column);
}
