/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/steady.h"
#include "statistics.h"
#include <math.h>
#include <string.h>

/* Of the rows kept in tests/data/measured, repetitions of 95 % on a GPU and of 80 % on a shared CPU lie closer. */
static const double most_disagreement = 0.05;

static double median_of(const double *values, int count)
{
    double sorted[STEADY_MOST_REPETITIONS];
    memcpy(sorted, values, (size_t)count * sizeof *values);
    return statistics_of(sorted, (size_t)count).median;
}

static double median_distance(const double *times, int count, double median)
{
    double distances[STEADY_MOST_REPETITIONS];
    for (int i = 0; i < count; i++)
        distances[i] = fabs(times[i] - median);
    return statistics_of(distances, (size_t)count).median;
}

double steady_disagreement(const double *times, int count)
{
    const double median = count < STEADY_FROM ? 0.0 : median_of(times, count);
    if (median <= 0.0)
        return -1.0;
    const int half = count / 2;
    const double halves = half < 2 ? 0.0 : fabs(median_of(times, half) - median_of(times + count - half, half));
    return fmax(median_distance(times, count, median), halves) / median;
}

bool steady_is_disturbed(double disagreement)
{
    return disagreement > most_disagreement;
}

int steady_measure(const struct steady_rounds *rounds, int again, int *taken)
{
    double least = HUGE_VAL, disagreement = HUGE_VAL;
    int status = 0;
    for (*taken = 0; !status && *taken <= again && steady_is_disturbed(disagreement); ++*taken) {
        status = rounds->take(rounds->context, &disagreement);
        if (status || disagreement >= least)
            continue;
        least = disagreement;
        rounds->keep(rounds->context);
    }
    return status;
}
