/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Measures how fast a device copies: the other roof, for what has little arithmetic for each byte.
 *
 * Baked constants (all required)
 *   CLATTN_CONTIGUOUS       1: an item copies a stretch of its own, as CPUs like it; 0: items take turns with
 *                           neighbouring vectors, as GPUs do.
 *   CLATTN_WORK_GROUP_SIZE  >= 1: work-items of a group; 1 on a CPU.
 *
 * One launch moves 2 * 16 * count * rounds bytes. Each round starts `shift` vectors further on, so that no item meets
 * in its own cache what it had the round before; what a cache of the whole device holds stays there, as it does for a
 * kernel that is run again and again. count < 2^31, shift < count.
 */
#if !defined(CLATTN_CONTIGUOUS) || (CLATTN_CONTIGUOUS != 0 && CLATTN_CONTIGUOUS != 1)
#error "CLATTN_CONTIGUOUS must be 0 or 1"
#endif
#if !defined(CLATTN_WORK_GROUP_SIZE) || CLATTN_WORK_GROUP_SIZE < 1
#error "CLATTN_WORK_GROUP_SIZE must be positive"
#endif

__kernel __attribute__((reqd_work_group_size(CLATTN_WORK_GROUP_SIZE, 1, 1))) void clattn_peak_copy(
    __global const float4 *in, __global float4 *out, const uint count, const uint rounds, const uint shift)
{
    const uint item = (uint)get_global_id(0), items = (uint)get_global_size(0);
    uint start = 0;
    for (uint round = 0; round < rounds; ++round) {
#if CLATTN_CONTIGUOUS
        const uint each = (count + items - 1) / items, first = item * each + start;
        const uint begin = first < count ? first : first - count, mine = min(each, count - min(item * each, count));
        const uint whole = min(mine, count - min(begin, count));
        for (uint i = 0; i < whole; ++i)
            out[begin + i] = in[begin + i];
        for (uint i = whole; i < mine; ++i) /* around the end */
            out[i - whole] = in[i - whole];
#else
        for (uint i = item; i < count; i += items) {
            const uint at = i + start, j = at < count ? at : at - count;
            out[j] = in[j];
        }
#endif
        start += shift;
        start -= start < count ? 0 : count;
    }
}
