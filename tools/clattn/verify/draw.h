/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_VERIFY_DRAW_H
#define CLATTN_TOOL_VERIFY_DRAW_H

#include "random.h"
#include "verify/case.h"

/* Random cases: three to all features at once, and everything else at random too. */

/* What a case has, as bits: those of enum clattn_feature, below the others, then these. */
enum verify_trait {
    VERIFY_FIRST_MOD = 24,
    VERIFY_WITH_SCORE_MOD = 1 << VERIFY_FIRST_MOD,
    VERIFY_WITH_MASK_MOD = 2 << VERIFY_FIRST_MOD,
    VERIFY_WITH_CSR = 4 << VERIFY_FIRST_MOD,     /* its block mask is given as compressed rows */
    VERIFY_ORDERED = 8 << VERIFY_FIRST_MOD,      /* a backward pass that adds up dQ in a fixed order, */
    VERIFY_UNORDERED = 16 << VERIFY_FIRST_MOD,   /* or in any */
    VERIFY_WITH_TYPES = 32 << VERIFY_FIRST_MOD,  /* an operand has a type of its own */
    VERIFY_WITH_FORMATS = 64 << VERIFY_FIRST_MOD /* K or V is quantised */
};

/* How many features there are, the user's functions among them; the bit of number i; all of them, and those without the
 * user's functions. */
int verify_feature_count(void);
unsigned verify_feature(int i);
unsigned verify_all_features(void);
unsigned verify_plain_features(unsigned traits);

/* Those that have come since seeds were first written down, which name cases for good. */
unsigned verify_later_features(void);

/* Their names, as options and files have them: "block_mask". The same list at each call. */
const struct option_word *verify_trait_words(void);

/* So many different features, at random, later ones not among them. */
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
