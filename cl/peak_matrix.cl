/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Measures how many multiply-adds a device's matrix units retire: the roof of what runs on these.
 *
 * Baked constants (beside those of types.clh and the matrix header)
 *   CLATTN_ACCUMULATORS     1..16: products in flight that do not depend on each other.
 *   CLATTN_WORK_GROUP_SIZE  items of a work-group, a multiple of UNIT_LANES.
 *
 * One launch does global_size / UNIT_LANES * iterations * CLATTN_ACCUMULATORS * 2 * 16^3 floating-point operations.
 * out holds one float for each work-item.
 */
#include "common/types.clh"
#include "unit/contract.clh"

#if !defined(CLATTN_ACCUMULATORS) || CLATTN_ACCUMULATORS < 1 || CLATTN_ACCUMULATORS > 16
#error "CLATTN_ACCUMULATORS must be in 1..16"
#endif
#if !defined(CLATTN_WORK_GROUP_SIZE) || CLATTN_WORK_GROUP_SIZE % UNIT_LANES
#error "CLATTN_WORK_GROUP_SIZE must be a multiple of UNIT_LANES"
#endif

__kernel UNIT_KERNEL __attribute__((reqd_work_group_size(CLATTN_WORK_GROUP_SIZE, 1, 1))) void clattn_peak_matrix(
    __global float *out, const int iterations, const float factor, const float term)
{
    /* The operands come from the host, so that no compiler can fold the products; they are small, and sums stay
     * finite. */
#if UNIT_SCRATCH_BYTES
    __local uint scratch[CLATTN_WORK_GROUP_SIZE / UNIT_LANES * UNIT_SCRATCH_BYTES / 4];
#else
    __local uint *const scratch = 0;
#endif
    const int lid = (int)get_local_id(0);
    const unit_lane lane = UNIT_LANE_OF(lid, scratch + lid / UNIT_LANES * (UNIT_SCRATCH_BYTES / 4));
    unit_accumulator x[CLATTN_ACCUMULATORS], seed;
    unit_operand a, b;
    UNIT_UNROLL for (int e = 0; e < UNIT_ELEMENTS; ++e) seed.x[e] = term * (float)(e % 4);
    unit_to_left(lane, &a, &seed);
    UNIT_UNROLL for (int e = 0; e < UNIT_ELEMENTS; ++e) seed.x[e] = term * factor;
    unit_to_left(lane, &b, &seed);
    UNIT_UNROLL for (int i = 0; i < CLATTN_ACCUMULATORS; ++i) UNIT_UNROLL for (int e = 0; e < UNIT_ELEMENTS; ++e) x[i]
        .x[e] = term * (float)(i + e);
    for (int n = 0; n < iterations; ++n)
        UNIT_UNROLL for (int i = 0; i < CLATTN_ACCUMULATORS; ++i) unit_multiply(lane, &x[i], &a, &b);
    float sum = 0.0f;
    UNIT_UNROLL for (int i = 0; i < CLATTN_ACCUMULATORS; ++i) UNIT_UNROLL for (int e = 0; e < UNIT_ELEMENTS; ++e) sum +=
        x[i].x[e];
    out[get_global_id(0)] = sum;
}
