/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Whether a matrix unit does what unit/contract.clh says, on one tile of whole numbers, all of whose products and sums
 * are exact: a plan trusts no unit on a device where it does not. `salt` (see probe.cl) keeps the compiler from knowing
 * the numbers. Launched with one sub-group.
 *
 * Baked constants: those of types.clh and of the unit's header.
 *
 * data: see probe.cl; word 72 + lane counts what is wrong.
 */
#include "unit/contract.clh"

#define PROBE_WRONG 72
#define PITCH       48 /* bytes of a tile's row, as kernels have it: an odd number of 16-byte chunks */
#define TILE        (UNIT_PIECE * PITCH / (int)sizeof(uint4))

/* Elements of the operands: from -3 to 3. */
CLATTN_INLINE int probe_left(int row, int k, uint salt)
{
    return (int)((row * 5 + k * 3 + salt % 7) % 7) - 3;
}
CLATTN_INLINE int probe_right(int row, int column, uint salt)
{
    return (int)((row * 3 + column * 2 + row * column + salt % 5) % 5) - 2;
}
CLATTN_INLINE int probe_sum(int row, int column, bool transposed, uint salt)
{
    int sum = 0;
    for (int k = 0; k < UNIT_PIECE; ++k)
        sum += probe_left(row, k, salt) * (transposed ? probe_right(column, k, salt) : probe_right(k, column, salt));
    return sum;
}

/* A small whole number in the storage type; without the half functions, which are probed apart. */
CLATTN_INLINE ushort probe_stored(int value)
{
    const uint bits = as_uint((float)value);
#if CLATTN_DTYPE == 1
    return value ? (ushort)(bits >> 16 & 0x8000u | ((bits >> 23 & 255u) - 112u) << 10 | (bits >> 13 & 0x3ffu)) : 0;
#else
    return (ushort)(bits >> 16);
#endif
}

CLATTN_INLINE void probe_fill(unit_address left, unit_address right, int lane, uint salt)
{
    for (int i = lane; i < UNIT_PIECE * UNIT_PIECE; i += UNIT_LANES) {
        const int row = i / UNIT_PIECE, column = i % UNIT_PIECE;
        unit_put(left + row * PITCH + 2 * column, probe_stored(probe_left(row, column, salt)));
        unit_put(right + row * PITCH + 2 * column, probe_stored(probe_right(row, column, salt)));
    }
}

/* Both kinds of products, added to what the accumulator has. */
CLATTN_INLINE uint probe_products(unit_lane lane, unit_address left, unit_address right, uint salt)
{
    unit_operand a, b;
    uint wrong = 0;
    for (int transposed = 0; transposed < 2; ++transposed) {
        unit_accumulator c;
        UNIT_UNROLL for (int e = 0; e < UNIT_ELEMENTS; ++e) c.x[e] =
            (float)(unit_row(lane, UNIT_SLOT(e)) - 2 * unit_column(lane, e));
        unit_load_a(&a, left + unit_lane_a(lane, PITCH), PITCH);
        if (transposed)
            unit_load_bt(&b, right + unit_lane_bt(lane, PITCH), PITCH);
        else
            unit_load_b(&b, right + unit_lane_b(lane, PITCH), PITCH);
        unit_multiply(lane, &c, &a, &b);
        UNIT_UNROLL for (int e = 0; e < UNIT_ELEMENTS; ++e)
        {
            const int row = unit_row(lane, UNIT_SLOT(e)), column = unit_column(lane, e);
            wrong += c.x[e] != (float)(row - 2 * column + probe_sum(row, column, transposed, salt));
        }
    }
    return wrong;
}

/* An accumulator as left operand: in a product, and written to a tile. */
CLATTN_INLINE uint probe_exchange(unit_lane lane, unit_address right, unit_address to, int item, uint salt)
{
    unit_operand a, b;
    unit_accumulator p, c;
    uint wrong = 0;
    UNIT_UNROLL for (int e = 0; e < UNIT_ELEMENTS; ++e)
    {
        p.x[e] = (float)probe_left(unit_row(lane, UNIT_SLOT(e)), unit_column(lane, e), salt);
        c.x[e] = 0.0f;
    }
    unit_to_left(lane, &a, &p);
    unit_load_b(&b, right + unit_lane_b(lane, PITCH), PITCH);
    unit_multiply(lane, &c, &a, &b);
    UNIT_UNROLL for (int e = 0; e < UNIT_ELEMENTS; ++e) wrong +=
        c.x[e] != (float)probe_sum(unit_row(lane, UNIT_SLOT(e)), unit_column(lane, e), false, salt);
    unit_store(to, PITCH, lane, &a);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = item; i < UNIT_PIECE * UNIT_PIECE; i += UNIT_LANES) {
        const int row = i / UNIT_PIECE, column = i % UNIT_PIECE;
        wrong += unit_get(to + row * PITCH + 2 * column) != probe_stored(probe_left(row, column, salt));
    }
    return wrong;
}

/* What lanes that share a row know together. */
CLATTN_INLINE uint probe_rows(unit_lane lane, uint salt)
{
    uint wrong = 0;
    for (int slot = 0; slot < UNIT_SLOTS; ++slot) {
        const int row = unit_row(lane, slot);
        float sum = 0.0f, most = -INFINITY, all = 0.0f, largest = -INFINITY;
        UNIT_UNROLL for (int n = 0; n < UNIT_ELEMENTS / UNIT_SLOTS; ++n)
        {
            const float x = (float)probe_left(row, unit_column(lane, UNIT_SLOT_ELEMENT(slot, n)), salt);
            sum += x;
            most = fmax(most, x);
        }
        for (int column = 0; column < UNIT_PIECE; ++column) {
            all += (float)probe_left(row, column, salt);
            largest = fmax(largest, (float)probe_left(row, column, salt));
        }
        wrong += unit_row_sum(lane, sum) != all;
        wrong += unit_row_max(lane, most) != largest;
    }
    return wrong;
}

__kernel UNIT_KERNEL __attribute__((reqd_work_group_size(UNIT_LANES, 1, 1))) void clattn_probe(
    __global uint *data, uint salt)
{
#if UNIT_SCRATCH_BYTES
    __local uint scratch[UNIT_SCRATCH_BYTES / 4];
#else
    __local uint *const scratch = 0;
#endif
    __local uint4 tiles[3 * TILE];
    const int item = (int)get_local_id(0);
    const unit_lane lane = UNIT_LANE_OF(item, scratch);
    const unit_address left = unit_address_of(tiles), right = unit_address_of(tiles + TILE),
                       to = unit_address_of(tiles + 2 * TILE);
    probe_fill(left, right, item, salt);
    barrier(CLK_LOCAL_MEM_FENCE);
    uint wrong = probe_products(lane, left, right, salt);
    wrong += probe_exchange(lane, right, to, item, salt);
    wrong += probe_rows(lane, salt);
    data[PROBE_WRONG + item] = wrong;
}
