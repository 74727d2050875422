/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_VERIFY_SCORE_H
#define CLATTN_TOOL_VERIFY_SCORE_H

#include "verify/case.h"

/* Values for the score modifications of a case. */

enum { VERIFY_SCORE_ARRAYS = 11 + CLA_SCORE_TENSORS };

struct verify_score {
    struct verify_counts counts;
    struct verify_csr csr;
    void *memory[VERIFY_SCORE_ARRAYS];
    bool failed; /* for want of memory */
};

/* Makes them up from the seed, for the features that the case's problem names and for its `mods` and `csr`, and points
 * the problem to them. With variable lengths the case's lengths are those of the first sequence. */
bool verify_score_create(struct verify_case *item, uint64_t seed, struct verify_score *score);
void verify_score_destroy(struct verify_score *score);

/* The user's functions, as OpenCL C: what the problem's pointers are to the reference. */
extern const char verify_score_mod[], verify_score_mod_grad[], verify_mask_mod[];

#endif
