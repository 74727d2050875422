/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/matrix_cost.h"
#include "plan/sizes.h"
#include <math.h>

static double together(double a, double b, double overlap)
{
    return isinf(overlap) ? fmax(a, b) : pow(pow(a, overlap) + pow(b, overlap), 1 / overlap);
}

static double vector_clocks(const struct cla_matrix_rates *rates, int lanes, const struct cla_matrix_work *work)
{
    const double weights = work->weights * 256 / lanes;
    const double slabs = work->slabs + rates->stale * work->stale_slabs;
    return rates->vector * (rates->weight * weights + rates->chunk * work->chunks + rates->slab * slabs +
                            rates->tile * work->tiles) +
           rates->power * weights;
}

/* What each unit is busy with. */
static double busy_clocks(const struct cla_matrix_rates *rates, int lanes, const struct cla_matrix_work *work)
{
    const double products = rates->product * work->products, vector = vector_clocks(rates, lanes, work);
    const double busy = rates->by_vector_unit ? products + vector : together(products, vector, rates->overlap);
    const double moved = together(busy, work->words * lanes / rates->port * rates->port_schedulers, rates->overlap);
    return together(moved, rates->traffic * work->chunks, rates->overlap);
}

/* A sub-group goes through its products and weights one after the other: while it waits, others of the scheduler go
 * on. */
double cla_matrix_clocks(const struct cla_matrix_rates *rates, int lanes, const struct cla_matrix_work *work,
                         double sub_groups)
{
    const double busy = busy_clocks(rates, lanes, work);
    const double waits = rates->slab_wait * work->slab_waits + rates->chained_wait * work->chained +
                         rates->tile_wait * work->tiles + rates->late_wait * work->late_tiles;
    return together(busy, (rates->alone * busy + waits) / sub_groups, rates->hiding);
}

double cla_matrix_excess(const struct clattn_problem *problem, int b_r, int b_c)
{
    const double n_q = (double)problem->expected_n_q, n_kv = (double)problem->expected_n_kv;
    const double rows = n_q > 0 ? ceil(n_q / b_r) * b_r / n_q : 1, seen = n_kv - n_q / 2;
    return problem->causal != CLATTN_FULL && seen > 0 ? rows * (1 + (b_r + b_c) / 2.0 / seen) : rows;
}

const struct cla_matrix_rates *cla_matrix_rates_of(enum cla_family family, int level)
{
    const struct cla_matrix_rates *rates = cla_matrix_rates;
    while (rates->family != CLA_ANY_FAMILY && (rates->family != family || (rates->level && rates->level != level)))
        rates++;
    return rates;
}
