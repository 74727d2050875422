/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_VERIFY_DRAW_H
#define CLATTN_TOOL_VERIFY_DRAW_H

#include "random.h"
#include "verify/case.h"

/* Random cases: three to all features at once, and everything else at random too. */

/* What a case has, as bits: those of enum clattn_feature, then these. */
enum verify_trait {
    VERIFY_PLAIN_FEATURES = 10,
    VERIFY_WITH_SCORE_MOD = 1 << VERIFY_PLAIN_FEATURES,
    VERIFY_WITH_MASK_MOD = 2 << VERIFY_PLAIN_FEATURES,
    VERIFY_FEATURES = VERIFY_PLAIN_FEATURES + 2,
    VERIFY_ALL_FEATURES = (1 << VERIFY_FEATURES) - 1,
    VERIFY_WITH_CSR = 1 << VERIFY_FEATURES, /* its block mask is given as compressed rows */
    VERIFY_ORDERED = 2 << VERIFY_FEATURES,  /* a backward pass that adds up dQ in a fixed order, */
    VERIFY_UNORDERED = 4 << VERIFY_FEATURES /* or in any */
};

/* Their names, as options and files have them: "block_mask". */
extern const struct option_word verify_trait_words[];

/* So many different features, at random. */
unsigned verify_choose(struct random *random, int count);
int verify_count_features(unsigned traits);

/* A seed names a case for good: seeds that differ in their last decimal digit alone are of cases with one program. The
 * skeleton (NULL: the planner's choice, forward) decides between a forward and a backward case and leaves out what its
 * kind never serves, such as fp32 on matrix units. */
enum { VERIFY_PER_PROGRAM = 10 };
void verify_draw(uint64_t seed, const char *skeleton, struct verify_case *item);

/* Takes these features out of a case that was drawn; what else it has stays. */
void verify_leave_out(struct verify_case *item, unsigned traits);

unsigned verify_traits_of(const struct verify_case *item);

#endif
