/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Measures how fast a device reads: the roof of what reads far more than it writes, as decoding does.
 *
 * Baked constants (all required)
 *   CLATTN_CONTIGUOUS       1: an item reads a stretch of its own, as CPUs like it; 0: items take turns with
 *                           neighbouring vectors, as GPUs do.
 *   CLATTN_WORK_GROUP_SIZE  >= 1: work-items of a group; 1 on a CPU.
 *
 * One launch reads 64 * count bytes of `in` once, then 64 * more_count of `more`; of each every item has a multiple of
 * four vectors. What is read is combined, so that it has to be; out has a number for each item. Counts are below 2^30.
 */
#if !defined(CLATTN_CONTIGUOUS) || (CLATTN_CONTIGUOUS != 0 && CLATTN_CONTIGUOUS != 1)
#error "CLATTN_CONTIGUOUS must be 0 or 1"
#endif
#if !defined(CLATTN_WORK_GROUP_SIZE) || CLATTN_WORK_GROUP_SIZE < 1
#error "CLATTN_WORK_GROUP_SIZE must be positive"
#endif

/* A CPU reads lines; of a GPU's items, each with 16 bytes, neighbours read a line together, four of them at a time. */
#if CLATTN_CONTIGUOUS
typedef int16 peak_vector;
#define EACH_LINE 1
#else
typedef int4 peak_vector;
#define EACH_LINE 4
#endif

/* What an item reads of a buffer, combined. */
static inline peak_vector peak_read_one(__global const peak_vector *in, const uint count)
{
    const uint item = (uint)get_global_id(0), items = (uint)get_global_size(0);
    const uint each = count * EACH_LINE / items / 4 * 4;
    peak_vector a = (peak_vector)(0), b = (peak_vector)(0), c = (peak_vector)(0), d = (peak_vector)(0);
#if CLATTN_CONTIGUOUS
    const uint first = item * each, step = 1;
#else
    const uint first = item, step = items;
#endif
    for (uint i = 0; i < each; i += 4) {
        a ^= in[first + i * step];
        b ^= in[first + (i + 1) * step];
        c ^= in[first + (i + 2) * step];
        d ^= in[first + (i + 3) * step];
    }
    return a ^ b ^ c ^ d;
}

__kernel __attribute__((reqd_work_group_size(CLATTN_WORK_GROUP_SIZE, 1, 1))) void
clattn_peak_read(__global const peak_vector *in, __global const peak_vector *more, __global int *out, const uint count,
                 const uint more_count)
{
    peak_vector a = peak_read_one(in, count) ^ peak_read_one(more, more_count);
#if CLATTN_CONTIGUOUS
    a.lo ^= a.hi;
    a.s0123 ^= a.s4567;
#endif
    out[get_global_id(0)] = a.s0 ^ a.s1 ^ a.s2 ^ a.s3;
}
