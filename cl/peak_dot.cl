/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Measures how many multiply-adds of pairs of bf16 a CPU retires: products as forward_cpu and backward_cpu have them
 * (unit/cpu_dot.clh, unit/cpu_amx.clh), on operands that stay in the first cache. The constants are those of the unit.
 *
 * One launch does global_size * iterations * PEAK_STEPS * MICRO * ROW_VECTORS * VECTOR_WIDTH * 4 floating-point
 * operations. out holds one float for each work-item.
 */
#include "unit/cpu_amx.clh" /* of these two one has a text */
#include "unit/cpu_dot.clh"

#define PEAK_STEPS 64

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void clattn_peak_dot(__global float *out, const int iterations,
                                                                             const float factor, const float term)
{
    cpu_cell left_rows[MICRO * PEAK_STEPS / W];
    cpu_item *const left = (cpu_item *)left_rows;
    cpu_cell right[PEAK_STEPS * RV];
    vec sums[MICRO * RV];
    /* The operands come from the host, so that no compiler can fold the sums. */
    for (int i = 0; i < MICRO * PEAK_STEPS; ++i)
        left[i] = as_uint(factor);
    for (int i = 0; i < PEAK_STEPS * RV; ++i)
        right[i] = (cpu_cell)(as_uint(term));
    cpu_open_unit();
    for (int n = 0; n < iterations; ++n) {
        cpu_products(sums, left, PEAK_STEPS, right, PEAK_STEPS);
        left[n % PEAK_STEPS] = as_uint(((const float *)sums)[0] * 0.0f + factor);
    }
    cpu_close_unit();
    out[get_global_id(0)] = ((const float *)sums)[W];
}
