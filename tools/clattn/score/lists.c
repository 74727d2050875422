/* SPDX-License-Identifier: BSD-2-Clause */
#include "score/entry.h"
#include <inttypes.h>
#include <stdlib.h>

/* Takes all numbers as int32, each from `minimum` to `maximum`. */
static int take_lengths(const struct score_entry *entry, int64_t minimum, int64_t maximum)
{
    const struct npy_header *header = entry->header;
    if (header->type != NPY_INT32 && header->type != NPY_INT64)
        return score_wrong_type(entry, "'<i4' (int32) or '<i8' (int64)");
    int64_t count = 1;
    for (int i = 0; i < header->dimensions; i++)
        count *= header->shape[i];
    int32_t *numbers = malloc(((size_t)count + 1) * sizeof *numbers);
    entry->score->lengths[entry->which] = numbers;
    if (!numbers)
        return fail(entry->failure, STATUS_DEVICE, "%s: no memory for %" PRId64 " numbers", entry->path, count);
    const void *data = entry->score->files[entry->which].data;
    for (int64_t i = 0; i < count; i++) {
        const int64_t number =
            header->type == NPY_INT32 ? (int64_t)((const int32_t *)data)[i] : ((const int64_t *)data)[i];
        if (number < minimum || number > maximum)
            return fail(entry->failure, STATUS_FILE,
                        "%s: --%s: number %" PRId64 " is %" PRId64 ", but must be from %" PRId64 " to %" PRId64,
                        entry->path, score_option(entry), i, number, minimum, maximum);
        numbers[i] = (int32_t)number;
    }
    entry->score->values[entry->which] = numbers;
    return STATUS_OK;
}

int score_take_words(const struct score_entry *entry)
{
    return take_lengths(entry, INT32_MIN, INT32_MAX);
}

/* A number of each batch element: a length, or what may be any. */
int score_match_batch(const struct score_entry *entry)
{
    const struct clattn_shape *shape = &entry->arrays->shape;
    if (entry->header->dimensions != 1 || entry->header->shape[0] != shape->batch) {
        char right[64];
        snprintf(right, sizeof right, "(%" PRId64 ",), one for each batch element", shape->batch);
        return score_wrong_shape(entry, right);
    }
    const enum cla_counted counts = score_row(entry)->counts;
    if (!counts)
        return take_lengths(entry, INT32_MIN, INT32_MAX);
    return take_lengths(entry, 0, counts == CLA_COUNTS_ROWS ? shape->n_q : shape->n_kv);
}

/* Beginnings of sequences: from 0, not falling, to the total. *longest is that of the differences. */
static int match_beginnings(const struct score_entry *entry, int64_t total, int64_t *longest)
{
    if (entry->header->dimensions != 1 || entry->header->shape[0] < 1)
        return score_wrong_shape(entry, "(sequences + 1,): where each begins, and the total at last");
    const int status = take_lengths(entry, 0, total < INT32_MAX ? total : INT32_MAX);
    if (status)
        return status;
    const int32_t *at = entry->score->lengths[entry->which];
    const int64_t count = entry->header->shape[0] - 1;
    *longest = 0;
    for (int64_t i = 0; i < count; i++) {
        if (at[i + 1] < at[i])
            return fail(entry->failure, STATUS_FILE, "%s: --%s: number %" PRId64 " is %d, less than the %d before it",
                        entry->path, score_option(entry), i + 1, at[i + 1], at[i]);
        *longest = at[i + 1] - at[i] > *longest ? at[i + 1] - at[i] : *longest;
    }
    if (at[0] || at[count] != total)
        return fail(entry->failure, STATUS_FILE,
                    "%s: --%s: goes from %d to %d, but must go from 0 to %" PRId64 ", the length of %s", entry->path,
                    score_option(entry), at[0], at[count], total,
                    score_row(entry)->counts == CLA_COUNTS_ROWS ? "Q" : "K");
    return STATUS_OK;
}

int score_match_sequences(const struct score_entry *entry, struct clattn_shape *shape)
{
    int64_t longest = 0;
    const bool keys = score_row(entry)->counts == CLA_COUNTS_KEYS;
    const int64_t sequences = entry->header->shape[0] - 1;
    const int status = match_beginnings(entry, keys ? shape->n_kv : shape->n_q, &longest);
    if (status)
        return status;
    if (keys && sequences != shape->batch) {
        char right[96];
        snprintf(right, sizeof right, "(%" PRId64 ",), as --cu-seqlens-q", shape->batch + 1);
        return score_wrong_shape(entry, right);
    }
    if (keys)
        entry->score->total_kv = shape->n_kv;
    else
        entry->score->total_q = shape->n_q;
    *(keys ? &shape->n_kv : &shape->n_q) = longest;
    shape->batch = sequences;
    return STATUS_OK;
}

static int64_t blocks_of(int64_t length, int64_t block)
{
    return (length + block - 1) / block;
}

int score_match_block_indices(const struct score_entry *entry, const struct option_number *block)
{
    const int64_t columns = blocks_of(entry->arrays->shape.n_kv, block->whole[1]);
    if (entry->header->dimensions != 1)
        return score_wrong_shape(entry, "(blocks,): the block columns of each row of blocks, row after row");
    if (entry->header->shape[0] && !columns)
        return score_wrong_shape(entry, "(0,), since there are no keys");
    const int status = take_lengths(entry, 0, columns - 1);
    entry->score->block_count = entry->header->shape[0];
    return status;
}

/* Beginnings in block_indices, of one head after the other: they do not fall within a head. */
static int check_rows_of_blocks(const struct score_entry *entry, int64_t rows)
{
    const int32_t *at = entry->score->lengths[entry->which];
    const int64_t heads = score_length_at(entry->header, 1) * score_length_at(entry->header, 2);
    for (int64_t head = 0; head < heads; head++)
        for (int64_t i = head * (rows + 1); i < head * (rows + 1) + rows; i++)
            if (at[i + 1] < at[i])
                return fail(entry->failure, STATUS_FILE,
                            "%s: --%s: number %" PRId64 " is %d, less than the %d before it", entry->path,
                            score_option(entry), i + 1, at[i + 1], at[i]);
    return STATUS_OK;
}

int score_match_block_indptr(const struct score_entry *entry, const struct option_number *block)
{
    const struct clattn_shape *shape = &entry->arrays->shape;
    const int64_t rows = blocks_of(shape->n_q, block->whole[0]);
    const int64_t heads = score_length_at(entry->header, 1), batch = score_length_at(entry->header, 2);
    if (entry->header->dimensions < 1 || entry->header->dimensions > 3 ||
        score_length_at(entry->header, 0) != rows + 1 || (heads != 1 && heads != shape->heads) ||
        (batch != 1 && batch != shape->batch)) {
        char right[160];
        snprintf(right, sizeof right,
                 "(%" PRId64 ",), (%" PRId64 ", %" PRId64 ") or (%" PRId64 ", %" PRId64 ", %" PRId64
                 "); all but the last may be 1",
                 rows + 1, shape->heads, rows + 1, shape->batch, shape->heads, rows + 1);
        return score_wrong_shape(entry, right);
    }
    entry->score->layouts[SCORE_BLOCK_INDPTR] =
        (struct clattn_layout){.batch = batch == 1 && shape->batch != 1 ? 0 : heads * (rows + 1),
                               .head = heads == 1 && shape->heads != 1 ? 0 : rows + 1,
                               .row = 1};
    const int status = take_lengths(entry, 0, entry->score->block_count);
    return status ? status : check_rows_of_blocks(entry, rows);
}

int score_match_page_indptr(const struct score_entry *entry)
{
    const int64_t batch = entry->arrays->shape.batch;
    if (entry->header->dimensions != 1 || entry->header->shape[0] != batch + 1) {
        char right[96];
        snprintf(right, sizeof right, "(%" PRId64 ",), where each batch element begins, and the end at last",
                 batch + 1);
        return score_wrong_shape(entry, right);
    }
    return take_lengths(entry, 0, INT32_MAX);
}

/* The most pages that a batch element has of a compressed table. */
static int64_t most_pages(const struct score_entry *entry)
{
    const int32_t *at = entry->score->lengths[SCORE_KV_PAGE_INDPTR];
    int64_t most = 0;
    for (int64_t b = 0; b < entry->arrays->shape.batch; b++)
        most = at[b + 1] - at[b] > most ? at[b + 1] - at[b] : most;
    return most;
}

int score_match_pages(const struct score_entry *entry, struct clattn_shape *shape)
{
    const bool csr = entry->score->lengths[SCORE_KV_PAGE_INDPTR];
    const int64_t last = score_length_at(entry->header, 0), batch = score_length_at(entry->header, 1);
    if (entry->header->dimensions > 2 || (csr && entry->header->dimensions != 1) || (!csr && batch != shape->batch)) {
        char right[96];
        snprintf(right, sizeof right, csr ? "(pages,)" : "(%" PRId64 ", pages of a batch element)", shape->batch);
        return score_wrong_shape(entry, right);
    }
    entry->score->page_count = csr ? last : 0;
    if (!csr)
        entry->score->layouts[SCORE_KV_PAGES] = (struct clattn_layout){.batch = last, .row = 1};
    shape->n_kv = (csr ? most_pages(entry) : last) * entry->arrays->page_keys;
    return take_lengths(entry, INT32_MIN, INT32_MAX);
}
