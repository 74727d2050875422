/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Measures how many float multiply-adds a device retires: the roof that every other figure is a share of.
 *
 * Baked constants (all required)
 *   CLATTN_VECTOR_WIDTH     1, 2, 4, 8 or 16: lanes of the vectors; 16 on a CPU, 1 or 4 on a GPU.
 *   CLATTN_ACCUMULATORS     1..32: chains that do not depend on each other; at least latency times issue rate
 *                           (8 on most CPUs), fewer than the registers. 12 is a good start.
 *   CLATTN_WORK_GROUP_SIZE  >= 1: work-items of a group; 1 on a CPU.
 *
 * One launch does global_size * iterations * CLATTN_ACCUMULATORS * CLATTN_VECTOR_WIDTH * 2 floating-point operations.
 * out holds one float for each work-item.
 */
#if !defined(CLATTN_VECTOR_WIDTH) || !(CLATTN_VECTOR_WIDTH == 1 || CLATTN_VECTOR_WIDTH == 2 ||                  \
                                       CLATTN_VECTOR_WIDTH == 4 || CLATTN_VECTOR_WIDTH == 8 ||                  \
                                       CLATTN_VECTOR_WIDTH == 16)
#error "CLATTN_VECTOR_WIDTH must be 1, 2, 4, 8 or 16"
#endif
#if !defined(CLATTN_ACCUMULATORS) || CLATTN_ACCUMULATORS < 1 || CLATTN_ACCUMULATORS > 32
#error "CLATTN_ACCUMULATORS must be in 1..32"
#endif
#if !defined(CLATTN_WORK_GROUP_SIZE) || CLATTN_WORK_GROUP_SIZE < 1
#error "CLATTN_WORK_GROUP_SIZE must be positive"
#endif

#define CLATTN_PEAK_JOIN_(a, b) a##b
#define CLATTN_PEAK_JOIN(a, b) CLATTN_PEAK_JOIN_(a, b)
#if CLATTN_VECTOR_WIDTH == 1
typedef float clattn_peak_vector;
#else
typedef CLATTN_PEAK_JOIN(float, CLATTN_VECTOR_WIDTH) clattn_peak_vector;
#endif

__kernel __attribute__((reqd_work_group_size(CLATTN_WORK_GROUP_SIZE, 1, 1))) void clattn_peak_fma(
    __global float *out, const int iterations, const float factor, const float term)
{
    /* The operands come from the host, so that no compiler can fold the chain. |factor| < 1 keeps it bounded. */
    const clattn_peak_vector a = (clattn_peak_vector)(factor);
    const clattn_peak_vector b = (clattn_peak_vector)(term);
    clattn_peak_vector x[CLATTN_ACCUMULATORS];
    #pragma unroll
    for (int i = 0; i < CLATTN_ACCUMULATORS; ++i)
        x[i] = (clattn_peak_vector)(term * (float)((int)get_global_id(0) + i));
    for (int n = 0; n < iterations; ++n) {
        #pragma unroll
        for (int i = 0; i < CLATTN_ACCUMULATORS; ++i)
            x[i] = x[i] * a + b;
    }
    clattn_peak_vector sum = x[0];
    #pragma unroll
    for (int i = 1; i < CLATTN_ACCUMULATORS; ++i)
        sum += x[i];
#if CLATTN_VECTOR_WIDTH == 1
    out[get_global_id(0)] = sum;
#else
    float lanes[CLATTN_VECTOR_WIDTH];
    CLATTN_PEAK_JOIN(vstore, CLATTN_VECTOR_WIDTH)(sum, 0, lanes);
    float total = 0.0f;
    for (int i = 0; i < CLATTN_VECTOR_WIDTH; ++i)
        total += lanes[i];
    out[get_global_id(0)] = total;
#endif
}
