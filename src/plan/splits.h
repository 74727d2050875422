/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_SPLITS_H
#define CLA_SPLITS_H

#include "plan/skeleton.h"

/* Into how many splits the keys of a forward pass are cut (cl/common/splits.clh), where its blocks of rows are too few
 * to keep all compute units busy. */
struct cla_split_rule {
    int64_t slots;             /* work-groups that run at a time */
    int64_t units;             /* compute units, which run as many with nothing beside them */
    int64_t b_r, b_c;          /* of the configuration; where sub-groups share keys, b_c is what they have together */
    int joins;                 /* as the skeleton says (plan/skeleton.h) */
    enum clattn_causal causal; /* of the problem */
    bool tiled;                /* K and V pass through local memory to NVIDIA's tensor cores */
    bool persistent;           /* causal blocks go in pairs, the longest with the shortest, or all together, or one to a
                                * work-group */
    int64_t key_bytes;         /* of K and V, of each key of a head */
    bool windowed;             /* rows may see no more than a tile, however many keys there are */
    int pack;                  /* heads to a packed one (plan/packing.h), of the expected sizes or of a call; 0 as 1 */
    int64_t split_keys;        /* keys of each split, whatever the shape is; 0: as `splits` says */
    int splits;                /* as in the problem: CLATTN_SPLITS_BY_SHAPE, or how many in every call */
};

/* The rule for a problem (resolved), and which kernels calls can need. */
struct cla_split_rule cla_split_rule(const struct clattn_capabilities *capabilities,
                                     const struct clattn_problem *problem, const struct cla_skeleton *skeleton,
                                     const struct cla_config *config);
static inline bool cla_may_split(const struct cla_split_rule *rule)
{
    return rule->splits != 1;
}
static inline bool cla_must_split(const struct cla_split_rule *rule)
{
    return rule->splits > 1 || rule->split_keys;
}

/* The problem's split_keys, in whole tiles; 0 where it says nothing of them. */
int64_t cla_split_keys(const struct clattn_problem *problem, const struct cla_config *config);

/* Blocks of rows of all heads. */
int64_t cla_split_blocks(const struct cla_split_rule *rule, int64_t heads, int64_t n_q);

/* The splits of a call; 1: none. `heads`: of all batch elements. */
int cla_splits_of(const struct cla_split_rule *rule, int64_t heads, int64_t n_q, int64_t n_kv);

/* Whether a call of the shape (resolved: its sizes are below 2^31) would be split where the problem leaves it to the
 * library and its shape is known. */
bool cla_would_split(const struct cla_split_rule *rule, const struct clattn_shape *shape);

/* The model: what so many splits take, in keys that a block of rows meets. */
double cla_split_cost(const struct cla_split_rule *rule, int64_t heads, int64_t n_q, int64_t n_kv, int splits);

#endif
