/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_HEADS_TOGETHER_H
#define CLA_HEADS_TOGETHER_H

#include <stdbool.h>
#include <stdint.h>

/* Of a backward pass with persistent work-groups that add up dQ (backward_hopper): `heads` of K and V of `blocks`
 * blocks of keys each, `groups` work-groups at once, and the bytes of what all blocks of a head read and add to (Q and
 * dO, and sums of dQ). `uneven`: a head's blocks come the longest first, and the last are short. */
struct cla_together {
    int64_t heads, blocks, groups, bytes;
    bool uneven;
};

/* How many heads take turns, so that blocks of one head follow each other with some distance: blocks that add to the
 * same sums then do so one after the other. But no more than whose bytes the cache keeps, unless blocks of so few were
 * less than the device takes at once; and equal numbers of them, for blocks of a few that were left would wait for each
 * other. Of uneven blocks the device takes as many at once twice over, or the short ones of the last heads would be too
 * few to go on with beside the long ones. 0: there is no head. */
int32_t cla_heads_together(const struct cla_together *work);

#endif
