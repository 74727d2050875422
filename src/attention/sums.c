/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/sums.h"
#include "plan/checked.h"
#include "plan/kernel_params.h"

enum {
    WORD = 4,
    LINE = 128, /* bytes: what a place begins on a multiple of, so that none shares a cache line with another */
    MAPS = 4,   /* in which a work-group says where its inputs lie */
    ORDER = 2   /* words for a block of keys: which of them has its turn, and what it costs */
};

/* Adds `count` words to *at, which then is a multiple of LINE again. */
static bool add_words(int64_t count, int64_t *at)
{
    int64_t bytes;
    return cla_multiply(count, WORD, &bytes) && cla_add(*at, bytes, at) && cla_add(*at, LINE - 1, at) &&
           (*at -= *at % LINE, true);
}

static bool locate(const struct clattn_plan *plan, const struct clattn_shape *shape, int64_t at, struct cla_sums *sums)
{
    int64_t row_blocks, key_blocks, floats;
    if (!cla_multiply(shape->batch, shape->heads, &row_blocks) ||
        !cla_multiply(row_blocks, cla_ceil_div(shape->n_q, plan->info.b_r), &row_blocks) ||
        !cla_multiply(shape->batch, shape->kv_heads, &key_blocks) ||
        !cla_multiply(key_blocks, cla_ceil_div(shape->n_kv, plan->info.b_c), &key_blocks) ||
        !cla_multiply(row_blocks, plan->chains, &row_blocks) || !cla_multiply(row_blocks, plan->sum_floats, &floats) ||
        row_blocks > INT32_MAX || key_blocks > INT32_MAX - INT16_MAX || !add_words(0, &at))
        return false;
    sums->tickets = at / WORD;
    sums->given_up = sums->tickets + 1;
    if (!add_words(2, &at))
        return false;
    sums->counters = at / WORD;
    if (!add_words(row_blocks, &at))
        return false;
    sums->flags = at / WORD;
    if (!add_words(key_blocks, &at))
        return false;
    sums->maps = at / WORD;
    sums->cleared = (struct cla_words){sums->tickets, sums->maps - sums->tickets};
    if (!add_words(MAPS * CLA_MAP_WORDS * (int64_t)plan->most_groups, &at))
        return false;
    sums->order = at / WORD;
    if (plan->orders_blocks && !add_words(ORDER * key_blocks, &at))
        return false;
    sums->sums = at / WORD;
    if (!add_words(floats, &at) || (uint64_t)at > SIZE_MAX)
        return false;
    if (plan->clears_sums)
        sums->cleared.count = at / WORD - sums->tickets;
    sums->end_byte = (size_t)at;
    return true;
}

clattn_status cla_sums_locate(const struct clattn_plan *plan, const struct clattn_shape *shape, size_t first,
                              struct cla_sums *sums, struct cla_error *error)
{
    const uint64_t start = first;
    *sums = (struct cla_sums){.end_byte = first};
    if (!plan->sum_floats || (start <= INT64_MAX && locate(plan, shape, (int64_t)start, sums)))
        return CLATTN_SUCCESS;
    return cla_fail(error, CLATTN_TOO_LARGE,
                    "shape: sums of dQ for batch %lld x heads %lld x n_q %lld are more than can be counted: split the "
                    "batch, or take problem.skeleton = \"backward_matrix\"",
                    (long long)shape->batch, (long long)shape->heads, (long long)shape->n_q);
}
