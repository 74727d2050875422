/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Whether unit/nvidia_wgmma.clh can be used: two products of 64 x 64 by 64 x 16 elements, one with its left operand
 * from local memory and one with it from registers, whose numbers are whole and small, so that they must come out
 * exact. `salt` (see probe.cl) keeps the compiler from knowing them. Launched with one work-group of 128 items.
 *
 * data: see probe.cl; words 72 to 135 count, for two items each, what is wrong.
 */
#include "unit/nvidia_wgmma.clh"

#define PROBE_WRONG 72
#define PROBE_ROWS 64

/* Elements of the operands: whole numbers from -3 to 3. */
CLATTN_INLINE int probe_left(int row, int k, uint salt)
{
    return (int)((row * 5 + k * 3 + salt % 7) % 7) - 3;
}
CLATTN_INLINE int probe_right(int column, int k, uint salt)
{
    return (int)((column * 2 + k + salt % 5) % 5) - 2;
}

CLATTN_INLINE ushort probe_half(int x)
{
    return (ushort)unit_pack2((float)x, 0.0f);
}

CLATTN_INLINE unit_address probe_place(unit_address panel, int row, int k)
{
    return panel + row * 128 + (k / 8 ^ row % 8) * (8 * 2) + k % 8 * 2;
}

__kernel __attribute__((reqd_work_group_size(HOPPER_ITEMS, 1, 1))) void clattn_probe(__global uint *data, uint salt)
{
    __local uint panels[(2 * PROBE_ROWS + UNIT_PIECE) * (HOPPER_ROW_BYTES / 4)] __attribute__((aligned(1024)));
    __local uint wrong[HOPPER_ITEMS];
    const int lid = (int)get_local_id(0), lane = lid % UNIT_LANES, first = lid / UNIT_LANES * UNIT_PIECE;
    const unit_address left = unit_address_of(panels), right = left + PROBE_ROWS * 128,
                       lying = right + UNIT_PIECE * 128;
    for (int n = lid; n < PROBE_ROWS * 64; n += HOPPER_ITEMS)
        unit_put(probe_place(left, n / 64, n % 64), probe_half(probe_left(n / 64, n % 64, salt)));
    for (int n = lid; n < UNIT_PIECE * 64; n += HOPPER_ITEMS)
        unit_put(probe_place(right, n / 64, n % 64), probe_half(probe_right(n / 64, n % 64, salt)));
    for (int n = lid; n < 64 * UNIT_PIECE; n += HOPPER_ITEMS) /* the same as it lies: k by column */
        unit_put(probe_place(lying, n / UNIT_PIECE, n % UNIT_PIECE),
                 probe_half(probe_right(n % UNIT_PIECE, n / UNIT_PIECE, salt)));
    hopper_publish();
    barrier(CLK_LOCAL_MEM_FENCE);

    HOPPER_TAKE_REGISTERS(240);
    unit_accumulator a[1], b[1];
    unit_operand operand[4];
    UNIT_UNROLL for (int x = 0; x < 4; ++x)
    {
        UNIT_UNROLL for (int w = 0; w < 4; ++w)
        {
            const int row = first + unit_row(lane, UNIT_SLOT(2 * w)), k = UNIT_PIECE * x + unit_column(lane, 2 * w);
            operand[x].x[w] = unit_pack2((float)probe_left(row, k, salt), (float)probe_left(row, k + 1, salt));
        }
    }
    UNIT_UNROLL for (int e = 0; e < UNIT_ELEMENTS; ++e) b[0].x[e] = 0.0f;
    HOPPER_FENCE(1, b);
    HOPPER_FIRST_PRODUCT(1, a, hopper_rows(left), hopper_rows(right));
    UNIT_UNROLL for (int x = 1; x < 4; ++x)
        HOPPER_PRODUCT(1, a, hopper_rows(left) + (ulong)(2 * x), hopper_rows(right) + (ulong)(2 * x));
    UNIT_UNROLL for (int x = 0; x < 4; ++x)
        HOPPER_PRODUCT_AS_IT_LIES(1, b, operand[x], hopper_columns(lying, 0) + HOPPER_STEPS(x * HOPPER_PIECE_ROWS));
    hopper_commit();
    HOPPER_WAIT_AFTER(0, 1, a, 1, b);

    uint count = 0;
    UNIT_UNROLL for (int e = 0; e < UNIT_ELEMENTS; ++e)
    {
        const int row = first + unit_row(lane, UNIT_SLOT(e)), column = unit_column(lane, e);
        int sum = 0;
        for (int k = 0; k < 64; ++k)
            sum += probe_left(row, k, salt) * probe_right(column, k, salt);
        count += (a[0].x[e] == (float)sum ? 0 : 1) + (b[0].x[e] == (float)sum ? 0 : 1);
    }
    wrong[lid] = count;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lid < HOPPER_ITEMS / 2)
        data[PROBE_WRONG + lid] = wrong[lid] + wrong[lid + HOPPER_ITEMS / 2];
}
