/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/heads_together.h"
#include "plan/checked.h"

/* By what was measured on an H100 (tests/data/measured/h200-backward-hopper-notes.md): so many at least that the device
 * is busy twice over, if they are not fewer than 8. */
enum { BUSY = 8, CACHE_BYTES = 36 << 20 };

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
    const int64_t blocks = larger(work->blocks, 1), kept = CACHE_BYTES / larger(work->bytes, 1),
                  least = larger(cla_ceil_div(work->groups, blocks), 1),
                  most = larger(cla_ceil_div(2 * work->groups, blocks), BUSY);
    const int64_t wanted = larger(smaller(kept, most), least), times = cla_ceil_div(work->heads, wanted);
    return times ? (int32_t)cla_ceil_div(work->heads, times) : 0;
}
