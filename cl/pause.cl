/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Keeps the device at work while the host enqueues what is to be timed behind it: so many steps, each of which needs
 * the one before.
 *
 * Launch: one item.
 */
__kernel void clattn_pause(__global uint *out, const uint steps)
{
    uint x = steps;
#pragma unroll 1
    for (uint i = 0; i < steps; ++i)
        x = x * 1664525u + 1013904223u;
    out[0] = x;
}
