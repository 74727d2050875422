/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_SCORE_ENTRY_H
#define CLATTN_TOOL_SCORE_ENTRY_H

#include "score/files.h"

/* One file of the score modifications being looked at, and what it is to fit. */
struct score_entry {
    struct score_files *score;
    const struct arrays *arrays;
    enum score_file which;
    const char *path;
    const struct npy_header *header;
    struct failure *failure;
};

/* Its row in the table of features, and the option that names it, without its dashes. */
const struct cla_feature_tensor *score_row(const struct score_entry *entry);
const char *score_option(const struct score_entry *entry);

/* Fail with what it has and what it must have. */
int score_wrong_shape(const struct score_entry *entry, const char *right);
int score_wrong_type(const struct score_entry *entry, const char *right);

/* The length of dimension `from_last`, counted from the last; 1 where there is none. */
int64_t score_length_at(const struct npy_header *header, int from_last);

/* Lists of whole numbers, which become int32. */
int score_match_batch(const struct score_entry *entry);
int score_take_words(const struct score_entry *entry);
int score_match_block_indices(const struct score_entry *entry, const struct option_number *block);
int score_match_block_indptr(const struct score_entry *entry, const struct option_number *block);

/* The pages of each batch element, which say how many keys the shape has at most. */
int score_match_pages(const struct score_entry *entry, struct clattn_shape *shape);
int score_match_page_indptr(const struct score_entry *entry);

/* The sequences make up the batch; until the second file has been looked at, the shape counts the packed rows. */
int score_match_sequences(const struct score_entry *entry, struct clattn_shape *shape);

#endif
