/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_CASES_H
#define TEST_CASES_H

#include "support/forward.h"

/* The features and the user's functions, as bits: enum clattn_feature, then these two. */
enum { CASE_SCORE_MOD = 1 << 10, CASE_MASK_MOD = 1 << 11, CASE_FEATURES = 12 };

/* The seed of what is drawn at random: CLATTN_TEST_SEED, or a fixed one. Printed, so that a failure can be had
 * again. */
uint64_t case_seed(void);

/* A case with these features; type, mask, lengths (of FlashAttention's tests), head dimensions, grouping, layouts and
 * the values of the features are by chance. `most_work` bounds n_q * n_kv * (d + d_v) of one head. */
struct forward_case case_random(struct random *random, unsigned features, int64_t most_work);

/* Another case of the same kernel, which costs far less than one that is to be compiled: other lengths, heads, layouts
 * and values. */
void case_vary(struct random *random, int64_t most_work, struct forward_case *forward);

/* `count` different bits of `of`. */
unsigned case_random_features(struct random *random, int count, unsigned of);

/* Sets the features of a case, with their texts and block sizes. */
void case_set_features(struct forward_case *forward, unsigned features);

#endif
