/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_HOPPER_SIZES_H
#define CLA_HOPPER_SIZES_H

#include "plan/skeleton.h"

enum {
    CLA_WARP_GROUP = 128, /* items */
    CLA_WARP_GROUP_ROWS = 64,
    CLA_HOPPER_NARROW = 64 /* up to this d_v scores and outputs leave registers for more than two consumers */
};

/* What decides, beside d_v, which configuration is fastest. */
enum cla_hopper_situation {
    CLA_HOPPER_FEW = 1,    /* blocks of rows have few tiles, or consumers lack registers */
    CLA_HOPPER_PLAIN = 2,  /* all pairs are seen, and their scores stay as they are; */
    CLA_HOPPER_CAUSAL = 4, /* the same of causal sequences; */
    CLA_HOPPER_PLAIN_LONG = 8,
    CLA_HOPPER_CAUSAL_LONG = 16, /* and both where they are long */
    CLA_HOPPER_CHANGED = 32, /* softcap alone, or the user's functions alone, do more, of head dimensions up to 64 */
    CLA_HOPPER_OTHER = 64,
    CLA_HOPPER_ANY = 127
};

enum cla_hopper_situation cla_hopper_situation_of(const struct clattn_problem *problem);

/* The rows of a block that the caller asks for; 0: any. */
int cla_hopper_forced_rows(const struct clattn_problem *problem);

/* The sizes of tiles, stages and pipelines for the situation, and what of the knobs goes with them: what was the
 * fastest, whether it fits or not. The rows of a block that the caller asks for have those that suit them. */
void cla_hopper_take_sizes(const struct clattn_problem *problem, enum cla_hopper_situation situation,
                           struct cla_config *config);

/* Several pipelines for calls of many blocks of rows that have few tiles each; false: this is none, whatever `config`
 * then has. */
bool cla_hopper_suit_few_tiles(int64_t units, const struct clattn_problem *problem, struct cla_config *config);

#endif
