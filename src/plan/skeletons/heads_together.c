/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/skeletons/heads_together.h"
#include "plan/checked.h"
#include "plan/sizes.h"

/* How many heads the device takes at once. */
static int64_t least_of(const struct cla_together *work, int64_t blocks)
{
    const int64_t once = cla_ceil_div(work->groups, blocks), twice = (4 * work->groups + blocks) / (2 * blocks);
    return cla_larger(work->uneven ? cla_larger(once, twice) : once, 1);
}

int32_t cla_heads_together(const struct cla_together *work)
{
    const int64_t blocks = cla_larger(work->blocks, 1),
                  kept = cla_together_sizes.backward_hopper_bytes / cla_larger(work->bytes, 1),
                  most = cla_larger(cla_ceil_div(2 * work->groups, blocks), cla_together_sizes.backward_hopper_heads),
                  least = least_of(work, blocks), wanted = cla_smaller(kept, most);
    /* in equal numbers: of no more than are wanted, but of the least at least */
    const int64_t times = wanted < least && work->uneven ? cla_larger(work->heads / least, 1)
                                                         : cla_ceil_div(work->heads, cla_larger(wanted, least));
    return work->heads ? (int32_t)cla_ceil_div(work->heads, times) : 0;
}
