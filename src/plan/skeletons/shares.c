/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/skeletons/shares.h"
#include "plan/sizes.h"

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Of blocks in the order of their lengths, which fall evenly: that of one so far from the first, 1 being the last. */
static double length(const struct cla_share_work *work, int shares, double at)
{
    const double average = work->tiles / (double)work->blocks, shortest = larger(2 * average - work->longest, 0);
    return (work->longest + (shortest - work->longest) * at) / shares + cla_share_sizes.start;
}

/* When the last of all work-groups has done, in tiles of one. Whoever has done first takes the next: so the second
 * round's longest goes to who had the first's shortest, and after two rounds all have done at the same time. */
static double makespan(const struct cla_share_work *work, int shares)
{
    const double rounds = (double)work->blocks * shares / (double)work->groups;
    double time = 0, done = 0;
    for (; done + 2 <= rounds; done += 2)
        time += 2 * length(work, shares, (done + 1) / rounds);
    const double next = done < rounds ? length(work, shares, done / rounds) : 0;
    return time + (done + 1 < rounds ? larger(next, 2 * length(work, shares, (done + 1) / rounds)) : next);
}

/* How much longer a tile takes where so many work-groups add to the same sums at once. */
static double crowding(const struct cla_share_work *work, int shares)
{
    const double apart = (double)work->heads * shares, all = (double)work->blocks * shares,
                 at_once = (all < (double)work->groups ? all : (double)work->groups) / apart;
    return 1 + cla_share_sizes.crowding * larger(at_once / cla_share_sizes.crowd - 1, 0);
}

/* What it takes to add shares up. */
static double ending(const struct cla_share_work *work, int shares)
{
    const double bytes = (double)work->blocks * shares * (double)work->share_bytes,
                 bytes_of_tile = (double)work->groups * work->tile_products / cla_share_sizes.products_of_byte;
    return shares > 1 ? cla_share_sizes.launch + bytes / bytes_of_tile : 0;
}

int32_t cla_shares(const struct cla_share_work *work)
{
    int best = 1;
    double least = 0;
    for (int shares = 1; work->blocks && shares <= cla_share_sizes.most && (shares == 1 || shares <= work->longest);
         shares++) {
        const double time = makespan(work, shares) * crowding(work, shares) + ending(work, shares);
        if (shares == 1 || time < least * (best == 1 ? cla_share_sizes.worth : 1)) {
            best = shares;
            least = time;
        }
    }
    return best;
}
