/* SPDX-License-Identifier: BSD-2-Clause */
#include "verify/stage.h"
#include "reference/parts.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct clattn_layout layout_of(enum verify_layout kind, const int64_t sizes[4])
{
    struct clattn_layout layout;
    const int64_t pitch = 2 * sizes[3] + 3;
    if (kind == VERIFY_BHND)
        layout = clattn_layout_bhnd(sizes[1], sizes[2], sizes[3]);
    else if (kind == VERIFY_BNHD)
        layout = clattn_layout_bnhd(sizes[1], sizes[2], sizes[3]);
    else
        layout = (struct clattn_layout){
            .batch = sizes[1] * sizes[2] * pitch + 5, .head = sizes[2] * pitch, .row = pitch, .column = 2};
    return layout;
}

/* The case's, or where its tensors have different ones the next for each. */
static enum verify_layout kind_of(const struct verify_case *item, enum stage_tensor which)
{
    return item->mixed ? (enum verify_layout)(((int)item->layout + (int)which) % VERIFY_LAYOUTS) : item->layout;
}

/* Inputs that all batch elements or all heads have in common. */
static void share(const struct verify_case *item, enum stage_tensor which, struct clattn_layout *layout)
{
    static const signed char bits[STAGE_TENSORS] = {[STAGE_Q] = 1, [STAGE_K] = 2, [STAGE_V] = 3, [STAGE_D_O] = 4};
    const unsigned shared = bits[which] ? item->shared >> (bits[which] - 1) : 0;
    if (shared & 1)
        layout->batch = 0;
    if (shared & 1u << VERIFY_SHARED)
        layout->head = 0;
}

static enum clattn_dtype type_of(const struct reference_problem *problem, enum stage_tensor which)
{
    switch (which) {
    case STAGE_Q:
    case STAGE_D_Q:
        return reference_type(problem, REFERENCE_Q);
    case STAGE_K:
    case STAGE_D_K:
        return reference_type(problem, REFERENCE_K);
    case STAGE_V:
    case STAGE_D_V:
        return reference_type(problem, REFERENCE_V);
    case STAGE_O:
        return reference_type(problem, REFERENCE_O);
    default:
        return problem->dtype;
    }
}

/* Sizes of tensors of rows and of keys: with variable lengths all sequences are one batch element's rows. */
static void place(const struct stage *stage, enum verify_layout kind, bool keys, int64_t d, struct guarded *guarded)
{
    const struct clattn_shape *s = &stage->problem->shape;
    const struct reference_score *score = &stage->problem->score;
    const bool packed = score->features & CLATTN_VARLEN;
    guarded->dtype = stage->problem->dtype;
    guarded->sizes[0] = packed ? 1 : s->batch;
    guarded->sizes[1] = keys ? s->kv_heads : s->heads;
    guarded->sizes[2] = packed ? (keys ? score->total_kv : score->total_q) : keys ? s->n_kv : s->n_q;
    guarded->sizes[3] = d;
    guarded->layout = layout_of(kind, guarded->sizes);
    guarded->layout.offset = stage->offset;
}

static struct guarded tensor(const struct stage *stage, const char *name, enum stage_tensor which, bool keys, int64_t d)
{
    struct guarded guarded = {.name = name};
    place(stage, kind_of(stage->item, which), keys, d, &guarded);
    guarded.dtype = type_of(stage->problem, which);
    share(stage->item, which, &guarded.layout);
    return guarded;
}

static struct guarded vector(const struct stage *stage, const char *name, float *output)
{
    struct guarded guarded = {.name = name};
    place(stage, VERIFY_BHND, false, 1, &guarded);
    guarded.dtype = CLATTN_FP32;
    guarded.layout.column = 0;
    guarded.output = output;
    return guarded;
}

/* A dense array of the score modifications; the library is told where its elements are in stage_score(). */
static struct guarded array(const struct stage *stage, const char *name, enum clattn_dtype dtype, int raw_bytes,
                            size_t count, const void *input)
{
    return (struct guarded){.name = input ? name : NULL,
                            .dtype = dtype,
                            .raw_bytes = raw_bytes,
                            .sizes = {1, 1, 1, (int64_t)count},
                            .layout = {.offset = stage->offset, .batch = 1, .head = 1, .row = 1, .column = 1},
                            .input = input};
}

static void describe_inputs(struct stage *stage, const struct verify_data *data)
{
    const struct reference_problem *problem = stage->problem;
    struct guarded *t = stage->tensors;
    t[STAGE_Q] = tensor(stage, "q", STAGE_Q, false, problem->d);
    t[STAGE_K] = tensor(stage, "k", STAGE_K, true, problem->d);
    t[STAGE_V] = tensor(stage, "v", STAGE_V, true, problem->d_v);
    t[STAGE_Q].input = data->q;
    t[STAGE_K].input = data->k;
    t[STAGE_V].input = data->v;
}

/* Bytes of K or V, or their scales, dense; in blocks of so many bytes. */
static void place_raw(const struct stage *stage, const char *name, int64_t columns, int bytes, const void *input,
                      struct guarded *guarded)
{
    *guarded = (struct guarded){.name = name};
    place(stage, VERIFY_BHND, true, columns, guarded);
    guarded->raw_bytes = bytes;
    guarded->input = input;
}

static const enum stage_tensor stored_in[VERIFY_PAGED] = {STAGE_K,       STAGE_V,        STAGE_K_SCALES,
                                                          STAGE_K_ZEROS, STAGE_V_SCALES, STAGE_V_ZEROS};

/* K and V where they have formats, and their scales. */
static void describe_formats(struct stage *stage)
{
    static const char *const names[] = {"k", "v", "k_scales", "k_zeros", "v_scales", "v_zeros"};
    struct guarded *t = stage->tensors;
    for (int i = 0; i < VERIFY_FORMATS; i++) {
        const struct verify_stored *stored = &stage->stored[i];
        const int scales = VERIFY_PAGED_K_SCALES + 2 * i;
        if (!stored->rows)
            continue;
        place_raw(stage, names[i], (int64_t)stored->row_bytes / stored->block_bytes, stored->block_bytes, stored->rows,
                  &t[stored_in[i]]);
        if (stored->groups)
            place_raw(stage, names[scales], stored->groups, sizeof(float), stored->scales, &t[stored_in[scales]]);
        if (stored->way.zeros)
            place_raw(stage, names[scales + 1], stored->groups, sizeof(float), stored->zeros,
                      &t[stored_in[scales + 1]]);
    }
}

/* What there is of each key, as the pool of its pages. */
static bool lay_pages(struct stage *stage, enum verify_paged which)
{
    const enum stage_tensor tensor = stored_in[which];
    struct guarded *guarded = &stage->tensors[tensor];
    const int64_t sizes[] = {stage->pages.pool, stage->problem->shape.kv_heads, stage->pages.keys, guarded->sizes[3]};
    const size_t bytes = guarded->raw_bytes ? (size_t)guarded->raw_bytes : sizeof(float);
    if (!guarded->name)
        return true;
    memcpy(guarded->sizes, sizes, sizeof sizes);
    guarded->layout = layout_of(guarded->raw_bytes ? VERIFY_BHND : kind_of(stage->item, tensor), guarded->sizes);
    guarded->layout.offset = stage->offset;
    if (!verify_pages_lay(stage->problem, which, guarded->input, (size_t)sizes[3] * bytes, &stage->pages))
        return false;
    guarded->input = stage->pages.rows[which];
    return true;
}

static bool describe_pages(struct stage *stage)
{
    const struct reference_problem *problem = stage->problem;
    struct verify_pages *pages = &stage->pages;
    struct guarded *t = stage->tensors;
    if (!verify_pages_make(problem, stage->item->page_keys, stage->item->compressed, pages))
        return false;
    for (int i = 0; i < VERIFY_PAGED; i++)
        if (!lay_pages(stage, (enum verify_paged)i))
            return false;
    t[STAGE_PAGES] = array(stage, "pages", CLATTN_FP32, 4, (size_t)pages->pool, pages->table);
    t[STAGE_PAGE_OFFSETS] =
        array(stage, "page_offsets", CLATTN_FP32, 4, (size_t)(problem->shape.batch + 1), pages->offsets);
    return true;
}

static void describe_forward(struct stage *stage, const struct verify_data *data)
{
    struct guarded *t = stage->tensors;
    t[STAGE_O] = tensor(stage, "o", STAGE_O, false, stage->problem->d_v);
    t[STAGE_O].output = data->o;
    t[STAGE_LSE] = vector(stage, "lse", data->lse);
    t[STAGE_M] = vector(stage, "m", data->m);
    t[STAGE_L] = vector(stage, "l", data->l);
}

static void describe_d_bias(struct stage *stage, const struct verify_data *data)
{
    const struct clattn_shape *s = &stage->problem->shape;
    const struct clattn_layout *bias = &stage->problem->score.bias_at;
    struct guarded *d_bias = &stage->tensors[STAGE_D_BIAS];
    *d_bias = (struct guarded){
        .name = "d_bias",
        .dtype = stage->problem->dtype,
        .sizes = {bias->batch ? s->batch : 1, bias->head ? s->heads : 1, bias->row ? s->n_q : 1, s->n_kv},
        .output = data->d_bias};
    d_bias->layout = layout_of(VERIFY_BHND, d_bias->sizes);
    d_bias->layout.offset = stage->offset;
}

static void describe_backward(struct stage *stage, const struct verify_data *data)
{
    const struct reference_problem *problem = stage->problem;
    struct guarded *t = stage->tensors;
    t[STAGE_O] = tensor(stage, "o", STAGE_O, false, problem->d_v);
    t[STAGE_O].input = data->o;
    t[STAGE_M] = vector(stage, "m", NULL);
    t[STAGE_M].input = data->m;
    t[STAGE_L] = vector(stage, "l", NULL);
    t[STAGE_L].input = data->l;
    t[STAGE_D_O] = tensor(stage, "d_o", STAGE_D_O, false, problem->d_v);
    t[STAGE_D_O].input = data->d_o;
    t[STAGE_D_Q] = tensor(stage, "d_q", STAGE_D_Q, false, problem->d);
    t[STAGE_D_Q].output = data->d_q;
    t[STAGE_D_K] = tensor(stage, "d_k", STAGE_D_K, true, problem->d);
    t[STAGE_D_K].output = data->d_k;
    t[STAGE_D_V] = tensor(stage, "d_v", STAGE_D_V, true, problem->d_v);
    t[STAGE_D_V].output = data->d_v;
    if (problem->score.features & CLATTN_BIAS)
        describe_d_bias(stage, data);
    if (problem->score.features & CLATTN_SINKS) {
        t[STAGE_D_SINKS] = array(stage, "d_sinks", CLATTN_FP32, 0, (size_t)problem->shape.heads, data->d_sinks);
        t[STAGE_D_SINKS].input = NULL;
        t[STAGE_D_SINKS].output = data->d_sinks;
    }
}

/* Arrays of the score features that the judge knows by name (reference/reference.h). */
static void describe_named(struct stage *stage, const struct verify_data *data)
{
    const struct reference_score *score = &stage->problem->score;
    const struct verify_counts *n = &data->counts;
    struct guarded *t = stage->tensors;
    t[STAGE_ALIBI] = array(stage, "alibi", CLATTN_FP32, 0, n->alibi, score->alibi);
    t[STAGE_BIAS] = array(stage, "bias", reference_type(stage->problem, REFERENCE_BIAS), 0, n->bias, score->bias);
    t[STAGE_MASK] = array(stage, "mask", CLATTN_FP32, 1, n->mask, score->mask);
    t[STAGE_BLOCK_MASK] =
        array(stage, "block_mask", CLATTN_FP32, 1, n->block_mask, data->csr.offsets ? NULL : score->block_mask);
    t[STAGE_BLOCK_OFFSETS] = array(stage, "block_offsets", CLATTN_FP32, 4, data->csr.offset_count, data->csr.offsets);
    t[STAGE_BLOCK_COLUMNS] = array(stage, "block_columns", CLATTN_FP32, 4, data->csr.column_count, data->csr.columns);
    t[STAGE_KEY_LENGTHS] = array(stage, "key_lengths", CLATTN_FP32, 4, n->lengths, score->key_lengths);
    t[STAGE_CU_SEQLENS_Q] = array(stage, "cu_seqlens_q", CLATTN_FP32, 4, n->lengths + 1, score->cu_seqlens_q);
    t[STAGE_CU_SEQLENS_KV] = array(stage, "cu_seqlens_kv", CLATTN_FP32, 4, n->lengths + 1, score->cu_seqlens_kv);
    t[STAGE_SINKS] = array(stage, "sinks", CLATTN_FP32, 0, n->sinks, score->sinks);
    t[STAGE_DATA] = array(stage, "data", CLATTN_FP32, 4, n->data, score->data);
    stage->score_at[STAGE_ALIBI - STAGE_SCORE] = score->alibi_at;
    stage->score_at[STAGE_BIAS - STAGE_SCORE] = score->bias_at;
    stage->score_at[STAGE_MASK - STAGE_SCORE] = score->mask_at;
    stage->score_at[STAGE_BLOCK_MASK - STAGE_SCORE] = score->block_mask_at;
    stage->score_at[STAGE_BLOCK_OFFSETS - STAGE_SCORE] = data->csr.at;
}

/* And those of later features. What is loose begins at its buffer's start. */
static void describe_score(struct stage *stage, const struct verify_data *data)
{
    const struct reference_score *score = &stage->problem->score;
    const struct cla_feature *of;
    const struct cla_feature_tensor *row;
    describe_named(stage, data);
    for (int i = 0; (row = cla_feature_tensor(i, &of)); i++) {
        struct guarded *const guarded = &stage->tensors[STAGE_SCORE + i];
        if (score->more[i] && cla_features_of_pass(of->bit, stage->backward)) {
            *guarded = array(stage, row->name, CLATTN_FP32, row->element == CLA_INT ? 4 : 0, data->counts.more[i],
                             score->more[i]);
            stage->score_at[i] = score->more_at[i];
        }
        if (row->extent == CLA_LOOSE)
            guarded->layout.offset = 0;
    }
}

/* Gradients that chunks of keys add to: fp32, and 0 before. */
static bool begin_sums(struct stage *stage, struct verify_result *result)
{
    struct guarded *const sums[] = {&stage->tensors[STAGE_D_Q], &stage->tensors[STAGE_D_BIAS]};
    size_t most = 0;
    for (int i = 0; i < 2; i++) {
        const int64_t *n = sums[i]->sizes;
        const size_t count = sums[i]->name ? (size_t)(n[0] * n[1] * n[2] * n[3]) : 0;
        most = count > most ? count : most;
    }
    stage->zeros = calloc(most + 1, sizeof *stage->zeros);
    for (int i = 0; i < 2; i++) {
        sums[i]->dtype = CLATTN_FP32;
        sums[i]->input = stage->zeros;
    }
    return stage->zeros || verify_error(result, "no memory for %zu numbers", most);
}

bool stage_open(const struct session *session, const struct verify_case *item, const struct reference_problem *problem,
                enum clattn_pass pass, struct verify_data *data, struct stage *stage, struct verify_result *result)
{
    *stage = (struct stage){.problem = problem,
                            .item = item,
                            .csr = &data->csr,
                            .stored = data->stored,
                            .offset = item->aligned ? ALIGNED_GUARD : GUARD};
    stage->backward = pass == CLATTN_BACKWARD || pass == CLATTN_BACKWARD_ACCUMULATE;
    describe_inputs(stage, data);
    describe_formats(stage);
    if (stage->backward)
        describe_backward(stage, data);
    else
        describe_forward(stage, data);
    describe_score(stage, data);
    if (item->page_keys && !describe_pages(stage))
        return verify_error(result, "no memory for its pages");
    bool good = pass != CLATTN_BACKWARD_ACCUMULATE || begin_sums(stage, result);
    for (int i = 0; good && i < STAGE_TENSORS; i++)
        good = !stage->tensors[i].name || guarded_upload(session, &stage->tensors[i], result);
    stage->scales = (struct clattn_kv_scales){.k_scales = stage_tensor(stage, STAGE_K_SCALES),
                                              .k_zeros = stage_tensor(stage, STAGE_K_ZEROS),
                                              .v_scales = stage_tensor(stage, STAGE_V_SCALES),
                                              .v_zeros = stage_tensor(stage, STAGE_V_ZEROS)};
    return good;
}

/* Rows that do not exist are as they were, poisoned or begun with 0: then 0, as the reference has them. */
static bool settle_row(struct guarded *guarded, size_t row, struct verify_result *result)
{
    const size_t columns = (size_t)guarded->sizes[3];
    for (size_t i = row * columns; i < (row + 1) * columns; i++) {
        if (!isnan(guarded->output[i]) && guarded->output[i] != 0.0f)
            return verify_fail(result, "%s: row %zu, beyond the sequence's length, was written", guarded->name, row);
        guarded->output[i] = 0.0f;
    }
    return true;
}

static bool settle_rows_beyond(struct stage *stage, struct verify_result *result)
{
    static const enum stage_tensor outputs[] = {STAGE_O, STAGE_LSE, STAGE_M, STAGE_L, STAGE_D_Q};
    const size_t rows = reference_row_count(stage->problem);
    bool *there = calloc(rows + 1, sizeof *there), good = there || verify_error(result, "no memory for %zu rows", rows);
    for (size_t n = 0; good && n < reference_head_count(stage->problem); n++) {
        const struct reference_head head = reference_head_at(stage->problem, n);
        for (int64_t i = 0; i < head.n_q; i++)
            there[head.rows + (size_t)i] = true;
    }
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++)
        for (size_t row = 0; good && stage->tensors[outputs[i]].output && row < rows; row++)
            good = there[row] || settle_row(&stage->tensors[outputs[i]], row, result);
    free(there);
    return good;
}

bool stage_collect(const struct session *session, struct stage *stage, struct verify_result *result)
{
    bool good = true;
    for (int i = 0; good && i < STAGE_TENSORS; i++)
        good = !stage->tensors[i].name || guarded_download(session, &stage->tensors[i], result);
    if (good && (stage->problem->score.features & CLATTN_QUERY_LENGTHS))
        good = settle_rows_beyond(stage, result);
    return good;
}

void stage_close(struct stage *stage)
{
    for (int i = 0; i < STAGE_TENSORS; i++)
        guarded_free(&stage->tensors[i]);
    free(stage->zeros);
    stage->zeros = NULL;
    verify_pages_free(&stage->pages);
}

struct clattn_tensor stage_tensor(const struct stage *stage, enum stage_tensor which)
{
    struct clattn_tensor tensor = {.buffer = stage->tensors[which].buffer, .layout = stage->tensors[which].layout};
    const struct clattn_layout *bias = &stage->problem->score.bias_at;
    const struct verify_stored *stored = &stage->stored[which == STAGE_V];
    if ((which == STAGE_K || which == STAGE_V) && stored->rows) { /* the layout is in blocks */
        tensor.layout.offset *= stored->block;
        tensor.layout.batch *= stored->block;
        tensor.layout.head *= stored->block;
        tensor.layout.row *= stored->block;
    }
    if (which == STAGE_D_BIAS) { /* broadcast as the bias is */
        tensor.layout.batch = bias->batch ? tensor.layout.batch : 0;
        tensor.layout.head = bias->head ? tensor.layout.head : 0;
        tensor.layout.row = bias->row ? tensor.layout.row : 0;
    }
    return tensor;
}

/* Tensors of the features, and of pages, which are the case's. */
static void give_tensors(const struct stage *stage, struct clattn_score_args *args)
{
    const unsigned absent = cla_features_known() & ~stage->problem->score.features & ~(unsigned)CLATTN_PAGES;
    const struct cla_feature *of;
    const struct cla_feature_tensor *row;
    for (int i = 0; (row = cla_feature_tensor(i, &of)); i++) {
        struct clattn_tensor tensor = {.buffer = stage->tensors[STAGE_SCORE + i].buffer, .layout = stage->score_at[i]};
        tensor.layout.offset += stage->offset;
        if (tensor.buffer && row->home != CLA_IN_SCALES && !(of->bit & absent))
            cla_feature_give(row, tensor, args);
    }
}

/* Numbers of later features. */
static void give_numbers(const struct stage *stage, struct clattn_score_args *args)
{
    const struct reference_score *score = &stage->problem->score;
    const struct cla_feature *of;
    const struct cla_feature_number *number;
    for (int i = 0; (number = cla_feature_number(i, &of)); i++)
        if (number->range && (score->features & of->bit))
            cla_feature_give_number(number, 0, score->more_numbers[i], args);
}

struct clattn_score_args stage_score(struct stage *stage)
{
    const struct reference_score *score = &stage->problem->score;
    struct clattn_score_args args = {
        .kv_scales = &stage->scales, .more = &stage->more, .block_count = (int64_t)stage->csr->column_count};
    give_tensors(stage, &args);
    give_numbers(stage, &args);
    if (score->features & CLATTN_WINDOW) {
        args.window_left = score->window_left;
        args.window_right = score->window_right;
    }
    if (score->features & CLATTN_SOFTCAP)
        args.softcap = (float)score->softcap;
    if (score->features & CLATTN_VARLEN) {
        args.total_q = score->total_q;
        args.total_kv = score->total_kv;
    }
    if (score->features & CLATTN_DROPOUT) {
        args.dropout_p = (float)score->dropout_p;
        args.dropout_seed = score->dropout_seed;
        args.dropout_offset = score->dropout_offset;
    }
    args.tree_keys = score->features & CLATTN_TREE_MASK ? score->tree_keys : 0;
    if (stage->pages.keys) {
        args.pool_pages = stage->pages.pool;
        args.page_count = stage->pages.offsets ? stage->pages.each * stage->problem->shape.batch : 0;
    }
    return args;
}
