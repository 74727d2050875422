/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_SCORE_FILES_H
#define CLATTN_TOOL_SCORE_FILES_H

#include "files/arrays.h"
#include "run/options.h"

/* The files of `clattn run` that say how scores are modified. */

struct score_files {
    struct npy_file files[SCORE_FILES];
    const void *values[SCORE_FILES]; /* NULL: not given. Lengths as int32, the others as their files have them */
    struct clattn_layout layouts[SCORE_FILES]; /* with stride 0 where an array is broadcast */
    int32_t *lengths[SCORE_FILES];             /* memory of those */
    char *score_mod, *score_mod_grad, *mask_mod;
    int64_t total_q, total_kv;   /* of packed sequences */
    int64_t data_count;          /* floats of SCORE_DATA */
    int64_t block_count;         /* numbers of SCORE_BLOCK_INDICES */
    int64_t groups[SCORE_FILES]; /* of scales: elements of a row that have one; 0: all */
    int64_t page_count;          /* numbers of SCORE_KV_PAGES, where they are compressed */
};

/* Opens what `options` name and checks it against the arrays of Q, K and V. For packed sequences it turns
 * arrays->shape, of totals until then, into that of the sequences. score_files_close() also after a failure. */
int score_files_open(const struct score_options *options, struct arrays *arrays, struct score_files *score,
                     struct failure *failure);
void score_files_close(struct score_files *score);

/* npy_check() of all of them. */
int score_files_check(const struct score_options *options, const struct score_files *score, struct failure *failure);

/* The bits of enum clattn_feature that the options make. */
unsigned score_features(const struct score_options *options);

/* The bias has no column for each key that a gradient could be written to. */
bool score_bias_repeats_keys(const struct score_files *score);

#endif
