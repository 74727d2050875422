/* SPDX-License-Identifier: BSD-2-Clause */
#include "files/text_file.h"
#include "score/entry.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int check_float(const struct score_entry *entry)
{
    return entry->header->type == NPY_FLOAT32 ? STATUS_OK : score_wrong_type(entry, "'<f4'");
}

/* An array over pairs, [batch, heads, rows, columns] or its last two or three dimensions, of which each may be 1. */
static int match_pairs(const struct score_entry *entry, int64_t rows, int64_t columns)
{
    const struct clattn_shape *shape = &entry->arrays->shape;
    const int64_t wanted[] = {columns, rows, shape->heads, shape->batch};
    bool fits = entry->header->dimensions >= 2;
    int64_t strides[4], stride = 1;
    for (int i = 0; i < 4; i++) {
        const int64_t length = score_length_at(entry->header, i);
        fits = fits && (length == 1 || length == wanted[i]);
        strides[i] = length == 1 && wanted[i] != 1 ? 0 : stride;
        stride *= length;
    }
    if (fits) {
        entry->score->layouts[entry->which] = (struct clattn_layout){
            .batch = strides[3], .head = strides[2], .row = strides[1], .column = strides[0], .strided = 1};
        return STATUS_OK;
    }
    char right[192];
    snprintf(right, sizeof right,
             "(%" PRId64 ", %" PRId64 "), (%" PRId64 ", %" PRId64 ", %" PRId64 ") or (%" PRId64 ", %" PRId64
             ", %" PRId64 ", %" PRId64 "); each may be 1",
             rows, columns, shape->heads, rows, columns, shape->batch, shape->heads, rows, columns);
    return score_wrong_shape(entry, right);
}

static int check_flags(const struct score_entry *entry)
{
    return entry->header->type == NPY_BOOL || entry->header->type == NPY_UINT8
               ? STATUS_OK
               : score_wrong_type(entry, "'|b1' (bool) or '|u1' (uint8)");
}

static int match_bias(const struct score_entry *entry)
{
    static const char *const wanted[] = {"'<f4', as Q", "'<f2', as Q", "'<u2' (bf16), as Q"};
    const struct arrays *arrays = entry->arrays;
    if ((int)entry->header->type != (int)arrays->dtype) /* npy_type has the same order */
        return score_wrong_type(entry, wanted[arrays->dtype]);
    return match_pairs(entry, arrays->shape.n_q, arrays->shape.n_kv);
}

static int match_mask(const struct score_entry *entry)
{
    const int status = check_flags(entry);
    return status ? status : match_pairs(entry, entry->arrays->shape.n_q, entry->arrays->shape.n_kv);
}

static int match_block_mask(const struct score_entry *entry, const struct option_list *block)
{
    const struct clattn_shape *shape = &entry->arrays->shape;
    const int status = check_flags(entry);
    return status ? status
                  : match_pairs(entry, (shape->n_q + block->values[0] - 1) / block->values[0],
                                (shape->n_kv + block->values[1] - 1) / block->values[1]);
}

static int match_alibi(const struct score_entry *entry)
{
    const struct clattn_shape *shape = &entry->arrays->shape;
    const int64_t heads = score_length_at(entry->header, 0), batch = score_length_at(entry->header, 1);
    const int status = check_float(entry);
    if (status)
        return status;
    if (entry->header->dimensions > 2 || heads != shape->heads || (batch != 1 && batch != shape->batch)) {
        char right[96];
        snprintf(right, sizeof right, "(%" PRId64 ",) or (%" PRId64 ", %" PRId64 "), one slope for each head",
                 shape->heads, shape->batch, shape->heads);
        return score_wrong_shape(entry, right);
    }
    entry->score->layouts[SCORE_ALIBI] = (struct clattn_layout){.batch = batch == 1 ? 0 : heads, .head = 1};
    return STATUS_OK;
}

static int match_sinks(const struct score_entry *entry)
{
    const int64_t heads = entry->arrays->shape.heads;
    const int status = check_float(entry);
    if (status)
        return status;
    if (entry->header->dimensions != 1 || entry->header->shape[0] != heads) {
        char right[64];
        snprintf(right, sizeof right, "(%" PRId64 ",), one logit for each head", heads);
        return score_wrong_shape(entry, right);
    }
    entry->score->layouts[SCORE_SINKS] = (struct clattn_layout){.head = 1};
    return STATUS_OK;
}

static int match(const struct score_entry *entry, const struct score_options *options, struct clattn_shape *shape)
{
    switch (entry->which) {
    case SCORE_CU_SEQLENS_Q:
    case SCORE_CU_SEQLENS_KV:
        return score_match_sequences(entry, shape);
    case SCORE_KEY_LENGTHS:
        return score_match_key_lengths(entry);
    case SCORE_ALIBI:
        return match_alibi(entry);
    case SCORE_BIAS:
        return match_bias(entry);
    case SCORE_MASK:
        return match_mask(entry);
    case SCORE_BLOCK_MASK:
        return match_block_mask(entry, &options->block_size);
    case SCORE_BLOCK_INDICES:
        return score_match_block_indices(entry, &options->block_size);
    case SCORE_BLOCK_INDPTR:
        return score_match_block_indptr(entry, &options->block_size);
    case SCORE_SINKS:
        return match_sinks(entry);
    case SCORE_DATA:
        entry->score->data_count = (int64_t)(npy_data_bytes(entry->header) / sizeof(float));
        return check_float(entry);
    case SCORE_FILES:
        break;
    }
    return STATUS_OK;
}

/* What the options name, by enum score_file. */
static const char *path_of(const struct score_options *options, int which)
{
    const char *const paths[SCORE_FILES] = {options->cu_seqlens_q, options->cu_seqlens_kv, options->key_lengths,
                                            options->alibi,        options->bias,          options->mask,
                                            options->block_mask,   options->block_indices, options->block_indptr,
                                            options->sinks,        options->data};
    return paths[which];
}

static int open_arrays(const struct score_options *options, struct arrays *arrays, struct score_files *score,
                       struct failure *failure)
{
    for (int i = 0; i < SCORE_FILES; i++) {
        const char *const path = path_of(options, i);
        if (!path)
            continue;
        const struct score_entry entry = {.score = score,
                                          .arrays = arrays,
                                          .which = (enum score_file)i,
                                          .path = path,
                                          .header = &score->files[i].header,
                                          .failure = failure};
        int status = npy_open(path, &score->files[i], failure);
        if (!status)
            status = match(&entry, options, &arrays->shape);
        if (status)
            return status;
        if (!score->values[i])
            score->values[i] = score->files[i].data;
    }
    return STATUS_OK;
}

int score_files_open(const struct score_options *options, struct arrays *arrays, struct score_files *score,
                     struct failure *failure)
{
    *score = (struct score_files){.total_q = 0};
    int status = open_arrays(options, arrays, score, failure);
    if (!status)
        status = text_file_read("score-mod", options->score_mod, &score->score_mod, failure);
    if (!status)
        status = text_file_read("score-mod-grad", options->score_mod_grad, &score->score_mod_grad, failure);
    return status ? status : text_file_read("mask-mod", options->mask_mod, &score->mask_mod, failure);
}

int score_files_check(const struct score_options *options, const struct score_files *score, struct failure *failure)
{
    int status = STATUS_OK;
    for (int i = 0; i < SCORE_FILES && !status; i++)
        status = npy_check(path_of(options, i), &score->files[i], failure);
    return status;
}

void score_files_close(struct score_files *score)
{
    for (int i = 0; i < SCORE_FILES; i++) {
        npy_close(&score->files[i]);
        free(score->lengths[i]);
    }
    free(score->score_mod);
    free(score->score_mod_grad);
    free(score->mask_mod);
    *score = (struct score_files){.total_q = 0};
}

unsigned score_features(const struct score_options *options)
{
    return (options->window.count ? CLATTN_WINDOW : 0u) | (options->softcap > 0.0 ? CLATTN_SOFTCAP : 0u) |
           (options->alibi ? CLATTN_ALIBI : 0u) | (options->bias ? CLATTN_BIAS : 0u) |
           (options->mask ? CLATTN_MASK : 0u) |
           (options->block_mask || options->block_indptr ? CLATTN_BLOCK_MASK : 0u) |
           (options->key_lengths ? CLATTN_KEY_LENGTHS : 0u) | (options->cu_seqlens_q ? CLATTN_VARLEN : 0u) |
           (options->sinks ? CLATTN_SINKS : 0u) | (options->dropout >= 0.0 ? CLATTN_DROPOUT : 0u);
}

bool score_bias_repeats_pairs(const struct score_files *score)
{
    const struct clattn_layout *layout = &score->layouts[SCORE_BIAS];
    return score->values[SCORE_BIAS] && (!layout->row || !layout->column);
}
