/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a device gives, as opposed to what it says. src/device/probe.c launches this with one work-group and judges what
 * it leaves in `data`.
 *
 * Baked constants
 *   CLATTN_PROBE_GROUP        items of the work-group, 1..64
 *   CLATTN_PROBE_LOCAL_BYTES  size of a __local array that the kernel declares, fills and reads back: a multiple of 4;
 *                             0: none
 *   CLATTN_PROBE_HALF         1: the conversions between half and float; 0: not
 *
 * `data`, in 32-bit words
 *     0  16 floats, from the host        16  the same number of halves, from the host (8 words)
 *    24  the halves, loaded one by one   40  and all at once, as floats
 *    56  the floats, stored one by one   64  and all at once, as halves (8 words each)
 *    72  CLATTN_PROBE_GROUP counts of words of the array that came back wrong
 */
#if !defined(CLATTN_PROBE_GROUP) || !defined(CLATTN_PROBE_LOCAL_BYTES) || !defined(CLATTN_PROBE_HALF)
#error "CLATTN_PROBE_GROUP, CLATTN_PROBE_LOCAL_BYTES and CLATTN_PROBE_HALF must be defined"
#endif

#define WORDS (CLATTN_PROBE_LOCAL_BYTES / 4)

/* A different word at each place. */
#define WORD(place) ((uint)(place)*2654435761u + salt)

__kernel __attribute__((reqd_work_group_size(CLATTN_PROBE_GROUP, 1, 1))) void clattn_probe(
    __global uint *data, uint salt)
{
    const uint item = get_local_id(0);
#if CLATTN_PROBE_HALF
    if (item == 0) {
        __global const float *floats = (__global const float *)data;
        __global const half *halves = (__global const half *)(data + 16);
        __global float *loaded = (__global float *)(data + 24);
        __global half *stored = (__global half *)(data + 56);
        for (int i = 0; i < 16; i++) {
            loaded[i] = vload_half(i, halves);
            vstore_half_rte(floats[i], i, stored);
        }
        vstore16(vload_half16(0, halves), 1, loaded);
        vstore_half16_rte(vload16(0, floats), 1, stored);
    }
#endif
    uint wrong = 0;
#if CLATTN_PROBE_LOCAL_BYTES > 0
    __local uint array[WORDS];
    for (uint place = item; place < WORDS; place += CLATTN_PROBE_GROUP)
        array[place] = WORD(place);
    barrier(CLK_LOCAL_MEM_FENCE);
    /* From the other end, so that items read what others wrote. */
    for (uint place = item; place < WORDS; place += CLATTN_PROBE_GROUP)
        wrong += array[WORDS - 1 - place] != WORD(WORDS - 1 - place);
#endif
    data[72 + item] = wrong;
}
