/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Vector instructions in which lanes see each other. */
#include "valu.h"

/* Lanes that are on but differ are a fault: the compiler means a value that all have in common. */
static void read_first(struct wave *wave, const struct instruction *i)
{
    uint32_t room[MOST_LANES];
    const uint32_t *x = lanes_of(wave, &i->source[0], 0, room);
    const int first = wave->exec ? __builtin_ctzll(wave->exec) : 0;
    for (int l = first; l < LANES(wave); l++)
        if (wave->mask[l] && x[l] != x[first])
            fault(wave, i, "lanes %d and %d differ (0x%x, 0x%x) in what is read from the first", first, l, x[first],
                  x[l]);
    put_scalar(wave, &i->to, x[first]);
}

static void read_lane(struct wave *wave, const struct instruction *i)
{
    uint32_t room[MOST_LANES];
    const uint32_t *x = lanes_of(wave, &i->source[0], 0, room);
    put_scalar(wave, &i->to, x[scalar_of(wave, &i->source[1]) % (uint32_t)wave->lanes]);
}

static void write_lane(struct wave *wave, const struct instruction *i)
{
    const uint32_t lane = scalar_of(wave, &i->source[1]) % (uint32_t)wave->lanes;
    wave->v[i->to.first][lane] = scalar_of(wave, &i->source[0]);
}

/* Lane l takes a lane of its row of 16, or of the neighbouring one: four bits of the selectors say which. It may be off
 * where the first bit of op_sel says so. */
static void permute_row(struct wave *wave, const struct instruction *i, int other)
{
    uint32_t room[MOST_LANES], result[MOST_LANES];
    const uint32_t *x = lanes_of(wave, &i->source[0], 0, room);
    const uint64_t selectors = scalar_of(wave, &i->source[1]) | (uint64_t)scalar_of(wave, &i->source[2]) << 32;
    for (int l = 0; l < LANES(wave); l++) {
        const int from = ((l & ~15) ^ other) | (int)(selectors >> 4 * (l & 15) & 15);
        if (wave->mask[l] && !wave->mask[from] && !(i->op_sel & 1))
            fault(wave, i, "lane %d takes what lane %d has, which is off", l, from);
        result[l] = x[from];
    }
    put_lanes(wave, i, 0, result);
}

static void permute_own(struct wave *wave, const struct instruction *i)
{
    permute_row(wave, i, 0);
}

static void permute_other(struct wave *wave, const struct instruction *i)
{
    permute_row(wave, i, 16);
}

/* How many bits below the lane's own are set, added to a number. */
static void count_below(struct wave *wave, const struct instruction *i, int first)
{
    uint32_t room[2][MOST_LANES], result[MOST_LANES];
    const uint32_t *bits = lanes_of(wave, &i->source[0], 0, room[0]),
                   *added = lanes_of(wave, &i->source[1], 0, room[1]);
    for (int l = 0; l < LANES(wave); l++) {
        const int below = l - first < 0 ? 0 : l - first > 32 ? 32 : l - first;
        const uint32_t mask = (uint32_t)((1ull << below) - 1);
        result[l] = added[l] + (uint32_t)__builtin_popcount(bits[l] & mask);
    }
    put_lanes(wave, i, 0, result);
}

static void count_below_low(struct wave *wave, const struct instruction *i)
{
    count_below(wave, i, 0);
}

static void count_below_high(struct wave *wave, const struct instruction *i)
{
    count_below(wave, i, 32);
}

const struct operation cross_lane_operations[] = {
    {"readfirstlane_b32", read_first, "Su"},       {"readlane_b32", read_lane, "Sus"},
    {"writelane_b32", write_lane, "vss"},          {"permlane16_b32", permute_own, "vuss"},
    {"permlanex16_b32", permute_other, "vuss"},    {"mbcnt_lo_u32_b32", count_below_low, "vuu"},
    {"mbcnt_hi_u32_b32", count_below_high, "vuu"}, {NULL, NULL, NULL},
};
