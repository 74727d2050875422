/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/heads_together.h"
#include "plan/checked.h"
#include "plan/sizes.h"

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int32_t cla_heads_together(const struct cla_together *work)
{
    const int64_t blocks = larger(work->blocks, 1),
                  kept = cla_together_sizes.backward_hopper_bytes / larger(work->bytes, 1),
                  least = larger(cla_ceil_div(work->groups, blocks), 1),
                  most = larger(cla_ceil_div(2 * work->groups, blocks), cla_together_sizes.backward_hopper_heads);
    const int64_t wanted = larger(smaller(kept, most), least), times = cla_ceil_div(work->heads, wanted);
    return times ? (int32_t)cla_ceil_div(work->heads, times) : 0;
}
