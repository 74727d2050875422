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

/* Whether what an array leaves out, or has 1 of, counts for all: the library is told a layout. */
static bool is_broadcast(const struct cla_feature_tensor *row)
{
    return row->layout != 0;
}

/* "(4, 8) or (2, 4, 8)": the last `least` to `most` of the lengths, which begin with the last one. */
static void shapes_text(const int64_t *wanted, int least, int most, char *text, size_t size)
{
    size_t used = 0;
    for (int count = least; count <= most; count++) {
        used += (size_t)snprintf(text + used, size - used, "%s(", count == least ? "" : count == most ? " or " : ", ");
        for (int i = count - 1; i >= 0; i--)
            used += (size_t)snprintf(text + used, size - used, "%" PRId64 "%s", wanted[i],
                                     i            ? ", "
                                     : count == 1 ? ",)"
                                                  : ")");
    }
}

/* An array of the last `least` to `most` dimensions, of which each may be 1: the stride of each, the last one first, 0
 * where it is broadcast. */
static int match_dimensions(const struct score_entry *entry, const int64_t *wanted, int least, int most,
                            int64_t strides[4])
{
    const struct cla_feature_tensor *row = score_row(entry);
    bool fits = entry->header->dimensions >= least && entry->header->dimensions <= most;
    int64_t stride = 1;
    for (int i = 0; i < most; i++) {
        const int64_t length = score_length_at(entry->header, i);
        fits = fits && ((length == 1 && is_broadcast(row)) || length == wanted[i]);
        strides[i] = length == 1 && wanted[i] != 1 ? 0 : stride;
        stride *= length;
    }
    if (fits)
        return STATUS_OK;
    char shapes[192], right[256];
    shapes_text(wanted, least, most, shapes, sizeof shapes);
    snprintf(right, sizeof right, "%s%s", shapes, is_broadcast(row) ? "; each may be 1" : ", all of it");
    return score_wrong_shape(entry, right);
}

/* An array over pairs, [batch, heads, rows, columns] or its last two or three dimensions. */
static int match_pairs(const struct score_entry *entry, int64_t rows, int64_t columns)
{
    const struct clattn_shape *shape = &entry->arrays->shape;
    const int64_t wanted[] = {columns, rows, shape->heads, shape->batch};
    int64_t strides[4];
    const int status = match_dimensions(entry, wanted, 2, 4, strides);
    entry->score->layouts[entry->which] = (struct clattn_layout){
        .batch = strides[3], .head = strides[2], .row = strides[1], .column = strides[0], .strided = 1};
    return status;
}

/* An array over keys, [batch, heads, keys] or its last one or two dimensions. */
static int match_each_key(const struct score_entry *entry)
{
    const struct clattn_shape *shape = &entry->arrays->shape;
    const int64_t wanted[] = {shape->n_kv, shape->heads, shape->batch};
    int64_t strides[4];
    const int status = match_dimensions(entry, wanted, 1, 3, strides);
    entry->score->layouts[entry->which] =
        (struct clattn_layout){.batch = strides[2], .head = strides[1], .row = strides[0], .column = 1, .strided = 1};
    return status;
}

/* Words of bits. */
static int match_tree(const struct score_entry *entry, int64_t keys)
{
    const int status = match_pairs(entry, entry->arrays->shape.n_q, (keys + 31) / 32);
    return status ? status : score_take_words(entry);
}

static int check_flags(const struct score_entry *entry)
{
    return entry->header->type == NPY_BOOL || entry->header->type == NPY_UINT8
               ? STATUS_OK
               : score_wrong_type(entry, "'|b1' (bool) or '|u1' (uint8)");
}

static int match_blocks(const struct score_entry *entry, const struct option_number *block)
{
    const struct clattn_shape *shape = &entry->arrays->shape;
    return match_pairs(entry, (shape->n_q + block->whole[0] - 1) / block->whole[0],
                       (shape->n_kv + block->whole[1] - 1) / block->whole[1]);
}

/* [heads], or where values may differ between batch elements [batch, heads]; each with a last dimension of so many. */
static int wrong_heads(const struct score_entry *entry, const struct cla_feature_tensor *row)
{
    const struct clattn_shape *shape = &entry->arrays->shape;
    char last[24] = "", right[192], without_batch[48] = "", with_batch[64] = "";
    const bool with = row->extent == CLA_OF_HEADS, without = !with || is_broadcast(row) || shape->batch == 1;
    if (row->each)
        snprintf(last, sizeof last, " %d", row->each);
    if (without)
        snprintf(without_batch, sizeof without_batch, "(%" PRId64 ",%s)%s", shape->heads, last, with ? " or " : "");
    if (with)
        snprintf(with_batch, sizeof with_batch, "(%" PRId64 ", %" PRId64 "%s%s)", shape->batch, shape->heads,
                 row->each ? "," : "", last);
    snprintf(right, sizeof right, "%s%s, %d number%s for each head", without_batch, with_batch,
             row->each ? row->each : 1, row->each > 1 ? "s" : "");
    return score_wrong_shape(entry, right);
}

static int match_heads(const struct score_entry *entry, const struct cla_feature_tensor *row)
{
    const struct clattn_shape *shape = &entry->arrays->shape;
    const int last = row->each > 0, most = last + 1 + (row->extent == CLA_OF_HEADS);
    const int64_t each = row->each ? row->each : 1;
    const int64_t heads = score_length_at(entry->header, last), batch = score_length_at(entry->header, last + 1);
    if (entry->header->dimensions > most || heads != shape->heads ||
        ((batch != 1 || (row->extent == CLA_OF_HEADS && !is_broadcast(row))) && batch != shape->batch) ||
        (last && score_length_at(entry->header, 0) != each))
        return wrong_heads(entry, row);
    entry->score->layouts[entry->which] =
        (struct clattn_layout){.batch = batch == 1 ? 0 : heads * each, .head = each, .row = last};
    return STATUS_OK;
}

/* As LSE is: of the shape that --lse is written in. */
static int match_rows(const struct score_entry *entry)
{
    const struct npy_header *right = &entry->arrays->row_header;
    bool same = entry->header->dimensions == right->dimensions;
    for (int i = 0; i < right->dimensions && same; i++)
        same = entry->header->shape[i] == right->shape[i];
    char text[128];
    npy_shape_text(right, text, sizeof text);
    return same ? STATUS_OK : score_wrong_shape(entry, text);
}

static bool is_of_k(enum score_file which)
{
    return which == SCORE_K_SCALES || which == SCORE_K_ZEROS;
}

/* [batch or pages, heads, rows, groups] of K or V, of which each may be 1, or fewer dimensions. */
static int match_scales(const struct score_entry *entry)
{
    const struct arrays *arrays = entry->arrays;
    const int64_t *keys = arrays->keys, d = is_of_k(entry->which) ? arrays->d : arrays->d_v;
    const int64_t groups = score_length_at(entry->header, 0), wanted[] = {groups, keys[2], keys[1], keys[0]};
    bool fits = groups > 0 && d % groups == 0;
    int64_t strides[4], stride = 1;
    for (int i = 0; i < 4; i++) {
        const int64_t length = score_length_at(entry->header, i);
        fits = fits && (length == 1 || length == wanted[i]);
        strides[i] = length == 1 ? 0 : stride;
        stride *= length;
    }
    entry->score->groups[entry->which] = groups > 1 && fits ? d / groups : 0;
    entry->score->layouts[entry->which] = (struct clattn_layout){
        .batch = strides[3], .head = strides[2], .row = strides[1], .column = strides[0], .strided = 1};
    if (fits)
        return STATUS_OK;
    char right[160];
    snprintf(right, sizeof right,
             "(%" PRId64 ", %" PRId64 ", %" PRId64 ", groups) or fewer dimensions, of which each may be 1; groups "
             "divide %" PRId64,
             keys[0], keys[1], keys[2], d);
    return score_wrong_shape(entry, right);
}

static int match_loose(const struct score_entry *entry, const struct option_number *block)
{
    if (entry->which == SCORE_BLOCK_INDICES)
        return score_match_block_indices(entry, block);
    entry->score->data_count = (int64_t)(npy_data_bytes(entry->header) / sizeof(float));
    return STATUS_OK;
}

static int match_element(const struct score_entry *entry, enum cla_element element)
{
    const struct arrays *arrays = entry->arrays;
    switch (element) {
    case CLA_FLOAT:
        return check_float(entry);
    case CLA_BYTE:
        return check_flags(entry);
    case CLA_AS_BIAS: /* numbers that are said to be bf16 are all that is */
        if (entry->header->type <= (arrays->dtype == CLATTN_BF16 ? NPY_UINT16 : NPY_FLOAT16))
            return STATUS_OK;
        return score_wrong_type(entry,
                                arrays->dtype == CLATTN_BF16 ? "'<f4', '<f2' or '<u2' (bf16)" : "'<f4' or '<f2'");
    case CLA_WORD: /* dropout's, which has an option of its own */
    case CLA_INT:  /* two types will do: those who take the numbers look at it */
        break;
    }
    return STATUS_OK;
}

static int match_extent(const struct score_entry *entry, const struct cla_feature_tensor *row,
                        const struct score_options *options, struct clattn_shape *shape)
{
    const struct option_number *block = &options->features.settings[SCORE_BLOCK_SIZE];
    switch (row->extent) {
    case CLA_OF_PAIRS:
        return match_pairs(entry, shape->n_q, shape->n_kv);
    case CLA_OF_BLOCKS:
        return match_blocks(entry, block);
    case CLA_OF_BLOCK_ROWS:
        return score_match_block_indptr(entry, block);
    case CLA_OF_ROWS:
        return match_rows(entry);
    case CLA_OF_EACH_KEY:
        return match_each_key(entry);
    case CLA_OF_HEADS:
    case CLA_OF_HEAD:
        return match_heads(entry, row);
    case CLA_OF_BATCH:
        return score_match_batch(entry);
    case CLA_OF_TREE:
        return match_tree(entry, options->features.numbers[SCORE_TREE_KEYS].whole[0]);
    case CLA_OF_SEQUENCES:
        return row->counts ? score_match_sequences(entry, shape) : score_match_page_indptr(entry);
    case CLA_OF_PAGES:
        return score_match_pages(entry, shape);
    case CLA_OF_KEYS:
    case CLA_BESIDE_KEYS:
        return match_scales(entry);
    case CLA_OF_DROPOUT:
    case CLA_LOOSE:
        break;
    }
    return match_loose(entry, block);
}

static int match(const struct score_entry *entry, const struct score_options *options, struct clattn_shape *shape)
{
    const struct cla_feature_tensor *row = score_row(entry);
    const int status = match_element(entry, row->element);
    return status ? status : match_extent(entry, row, options, shape);
}

static int open_array(int which, const struct score_options *options, struct arrays *arrays, struct score_files *score,
                      struct failure *failure)
{
    const char *const path = options->features.files[which];
    if (!path)
        return STATUS_OK;
    const struct score_entry entry = {.score = score,
                                      .arrays = arrays,
                                      .which = (enum score_file)which,
                                      .path = path,
                                      .header = &score->files[which].header,
                                      .failure = failure};
    int status = npy_open(path, &score->files[which], failure);
    if (!status)
        status = match(&entry, options, &arrays->shape);
    if (!status && !score->values[which])
        score->values[which] = score->files[which].data;
    return status;
}

/* The shapes of the others follow from the first two; and the beginnings of rows count in the indices before them. */
static int open_arrays(const struct score_options *options, struct arrays *arrays, struct score_files *score,
                       struct failure *failure)
{
    static const int first[] = {SCORE_CU_SEQLENS_Q, SCORE_CU_SEQLENS_KV, SCORE_KV_PAGE_INDPTR, SCORE_KV_PAGES,
                                SCORE_BLOCK_INDICES};
    int status = STATUS_OK;
    for (size_t i = 0; i < sizeof first / sizeof *first && !status; i++)
        status = open_array(first[i], options, arrays, score, failure);
    for (int i = 0; i < SCORE_FILES && !status; i++)
        if (!score->values[i])
            status = open_array(i, options, arrays, score, failure);
    return status;
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
        status = npy_check(options->features.files[i], &score->files[i], failure);
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
    const struct cla_feature *of;
    unsigned features = 0;
    for (int i = 0; cla_feature_tensor(i, &of); i++)
        features |= options->features.files[i] ? of->bit : 0;
    for (int i = 0; cla_feature_number(i, &of); i++)
        features |= options->features.numbers[i].given ? of->bit : 0;
    return features & cla_features_known();
}

bool score_bias_repeats_keys(const struct score_files *score)
{
    const struct clattn_layout *layout = &score->layouts[SCORE_BIAS];
    return score->values[SCORE_BIAS] && !layout->column;
}
