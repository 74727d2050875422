/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_MATRIX_COST_H
#define CLA_MATRIX_COST_H

#include "plan/machine.h"
#include <clattn/problem.h>
#include <stdbool.h>

/* What a kernel on matrix units executes for 16 x 16 pairs of rows and keys, of one sub-group: the counts of
 * tests/simulator/rates.py, by formula. */
struct cla_matrix_work {
    double products;    /* of 16 x 16 x 16 */
    double weights;     /* how often a pair becomes something else than it was, by a power */
    double words;       /* of a lane, that pass local memory's port */
    double chunks;      /* of 16 bytes, that a lane brings to local memory */
    double slabs;       /* stretches of keys whose scores are held, where bounds of each are looked for, */
    double stale_slabs; /* and where those of the tile before are tried first */
    double tiles;       /* stretches of keys that arrive together, for a sub-group's rows */
    double late_tiles;  /* of these, that are asked for when the one before is done with */
    double slab_waits;  /* slabs for a sub-group's rows: scores come before their weights, and these before P V */
    double chained;     /* products of a slab's scores that each wait for the one before */
};

/* What these take on a family of devices, in clocks of one of a compute unit's schedulers. */
struct cla_matrix_rates {
    enum cla_family family;           /* CLA_ANY_FAMILY: all others */
    int level;                        /* of the unit (config->level); 0: any */
    double product;                   /* clocks of a product, */
    bool by_vector_unit;              /* which the vector unit does */
    double vector, power;             /* of a vector instruction; and of one that takes powers */
    double weight, chunk, slab, tile; /* vector instructions for each: of a weight, for each element of a lane */
    double stale;                     /* the part of a slab's that it takes with bounds of the tile before */
    double port;                      /* lanes whose words pass local memory's port in a clock */
    int port_schedulers;              /* that have it in common */
    double traffic;                   /* clocks until the cache that all units share has brought a chunk of each lane */
    double overlap; /* exponent of the norm that joins what units do: 1: none overlaps, large: all does */
    double slab_wait, tile_wait, late_wait, chained_wait; /* clocks of a sub-group, for each of these */
    double alone;     /* how much longer a sub-group takes that has a scheduler alone, beside these */
    double hiding;    /* exponent of the norm that joins what units do and what the scheduler's sub-groups wait for */
    double one_group; /* how much longer a unit takes that has one work-group, whose barriers all wait at together */
    double spills;    /* how much longer a work-group takes whose registers do not hold all, */
    double spilled;   /* and for each word that they do not */
    const char *source;
};

/* Clocks of a scheduler for a sub-group's 16 x 16 pairs, of which so many sub-groups take turns there. */
double cla_matrix_clocks(const struct cla_matrix_rates *rates, int lanes, const struct cla_matrix_work *work,
                         double sub_groups);

/* Pairs that blocks of b_r rows and tiles of b_c keys compute for each that is wanted, at the expected sizes: rows
 * beyond the last, and keys that are hidden from a block's first rows. */
double cla_matrix_excess(const struct clattn_problem *problem, int b_r, int b_c);

/* The rows of plan/sizes.c: the first that applies. */
const struct cla_matrix_rates *cla_matrix_rates_of(enum cla_family family, int level);

#endif
