/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/report.h"
#include "plan/checked.h"
#include "plan/error.h"
#include <clattn/ring.h>
#include <math.h>
#include <stdbool.h>

static struct clattn_ring_part share_evenly(enum clattn_ring_sharing sharing, int64_t count, int64_t grain, int ranks,
                                            int rank)
{
    const bool zigzag = sharing == CLATTN_RING_ZIGZAG;
    const int64_t pieces = (int64_t)ranks * (zigzag ? 2 : 1);
    const int64_t grains = cla_ceil_div(cla_ceil_div(count, grain), pieces);
    const int64_t length = grains > count / grain ? count : grains * grain;
    const int64_t numbers[] = {rank, pieces - 1 - rank};
    struct clattn_ring_part part = {0};
    for (int i = 0; i < (zigzag ? 2 : 1); i++) {
        const int64_t first = length && numbers[i] > count / length ? count : numbers[i] * length;
        part.first[i] = first < count ? first : count;
        part.count[i] = length < count - part.first[i] ? length : count - part.first[i];
    }
    return part;
}

/* Where rank `rank` begins among so many grains, if each has as its weight says. */
static int64_t begin_of(const double *weights, int ranks, int rank, int64_t grains)
{
    double before = 0, all = 0;
    for (int i = 0; i < ranks; i++) {
        all += weights[i];
        before += i < rank ? weights[i] : 0;
    }
    return rank == ranks ? grains : (int64_t)(before / all * (double)grains + 0.5);
}

static void set_run(struct clattn_ring_part *part, int run, int64_t first, int64_t end, int64_t grain, int64_t count)
{
    const int64_t at = first > count / grain ? count : first * grain, last = end > count / grain ? count : end * grain;
    part->first[run] = at < last ? at : last;
    part->count[run] = last - part->first[run];
}

static struct clattn_ring_part share_by(const double *weights, enum clattn_ring_sharing sharing, int64_t count,
                                        int64_t grain, int ranks, int rank)
{
    const bool zigzag = sharing == CLATTN_RING_ZIGZAG;
    const int64_t grains = cla_ceil_div(count, grain), early = zigzag ? grains / 2 : grains;
    const int64_t begin = begin_of(weights, ranks, rank, early), end = begin_of(weights, ranks, rank + 1, early);
    struct clattn_ring_part part = {0};
    set_run(&part, 0, begin, end, grain, count);
    if (zigzag) /* an odd grain in the middle is the last rank's */
        set_run(&part, 1, rank == ranks - 1 ? early : grains - end, grains - begin, grain, count);
    return part;
}

static bool are_weights(const double *weights, int ranks)
{
    double all = 0;
    for (int i = 0; i < ranks; i++) {
        if (!(weights[i] >= 0) || !isfinite(weights[i]))
            return false;
        all += weights[i];
    }
    return all > 0 && isfinite(all);
}

clattn_status clattn_ring_share(enum clattn_ring_sharing sharing, int64_t count, int64_t grain, int ranks, int rank,
                                const double *weights, struct clattn_ring_part *part)
{
    struct cla_error error;
    if ((int)sharing < 0 || sharing > CLATTN_RING_ZIGZAG || count < 0 || grain < 1 || ranks < 1 || rank < 0 ||
        rank >= ranks || !part) {
        cla_fail(&error, CLATTN_INVALID_ARGUMENT,
                 "sharing is %d, count %lld, grain %lld, ranks %d, rank %d, part %p: count is 0 or more, grain and "
                 "ranks 1 or more, and rank below ranks",
                 (int)sharing, (long long)count, (long long)grain, ranks, rank, (void *)part);
        return cla_report(NULL, &error);
    }
    if (weights && !are_weights(weights, ranks)) {
        cla_fail(&error, CLATTN_INVALID_ARGUMENT,
                 "weights: each of the %d is 0 or more and finite, one at least not 0, or weights is NULL", ranks);
        return cla_report(NULL, &error);
    }
    *part = weights ? share_by(weights, sharing, count, grain, ranks, rank)
                    : share_evenly(sharing, count, grain, ranks, rank);
    return CLATTN_SUCCESS;
}
