/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Whether unit/cpu_dot.clh or unit/cpu_amx.clh can be used with the processor's instructions: a product whose numbers
 * are whole and small, so that it must come out exact. `salt` (see probe.cl) keeps the compiler from knowing them.
 * Launched with one work-group of one item.
 *
 * data: see probe.cl; word 72 counts what is wrong.
 */
#include "unit/cpu_amx.clh" /* of these two one has a text */
#include "unit/cpu_dot.clh"

#define PROBE_WRONG 72
#define PROBE_STEPS W

/* Elements of the operands: whole numbers from -3 to 3. */
CLATTN_INLINE int probe_left(int row, int k, uint salt)
{
    return (int)((row * 5 + k * 3 + salt % 7) % 7) - 3;
}
CLATTN_INLINE int probe_right(int column, int k, uint salt)
{
    return (int)((column * 2 + k + salt % 5) % 5) - 2;
}

CLATTN_INLINE uint probe_pair(int first, int second)
{
    return as_uint((float)first) >> 16 | (as_uint((float)second) & 0xffff0000u);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void clattn_probe(__global uint *data, uint salt)
{
    cpu_cell left_rows[MICRO * PROBE_STEPS / W];
    cpu_item *const left = (cpu_item *)left_rows;
    cpu_cell right[PROBE_STEPS * RV];
    vec sums[MICRO * RV];
    for (int i = 0; i < MICRO * PROBE_STEPS; ++i) {
        const int row = i / PROBE_STEPS, k = 2 * (i % PROBE_STEPS);
        left[i] = probe_pair(probe_left(row, k, salt), probe_left(row, k + 1, salt));
    }
    for (int i = 0; i < PROBE_STEPS * RV * W; ++i) {
        const int column = i % (RV * W), k = 2 * (i / (RV * W));
        ((uint *)right)[i] = probe_pair(probe_right(column, k, salt), probe_right(column, k + 1, salt));
    }
    cpu_open_unit();
    cpu_products(sums, left, PROBE_STEPS, right, PROBE_STEPS);
    cpu_close_unit();
    uint wrong = 0;
    for (int i = 0; i < MICRO * RV * W; ++i) {
        int sum = 0;
        for (int k = 0; k < 2 * PROBE_STEPS; ++k)
            sum += probe_left(i / (RV * W), k, salt) * probe_right(i % (RV * W), k, salt);
        wrong += ((const float *)sums)[i] != (float)sum;
    }
    data[PROBE_WRONG] = wrong;
}
