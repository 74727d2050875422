/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_SHARES_H
#define CLA_SHARES_H

#include <stdint.h>

/* What persistent work-groups of a backward pass have to do: `blocks` blocks of keys, of so many heads of K and V.
 * Their longest has `longest` tiles of rows, of all heads that share it, and all together `tiles`; of `tile_products`
 * multiply-adds each; `groups` work-groups at once; and the bytes of dK and dV that a share of a block leaves. */
struct cla_share_work {
    int64_t blocks, heads, groups, share_bytes;
    double longest, tiles, tile_products;
};

/* Between how many work-groups each block of keys is shared out. With few blocks, or uneven ones, some work-groups have
 * nothing left to do while others are at theirs; but each share takes time to begin, and its part of dK and dV has to
 * be added to the others'. A function of the shape and the device alone, so that the same call gives the same bits. */
int32_t cla_shares(const struct cla_share_work *work);

#endif
