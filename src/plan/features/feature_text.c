/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/features/feature.h"
#include "plan/kernel_params.h"
#include <limits.h>
#include <string.h>

unsigned cla_features_known(void)
{
    unsigned known = 0;
    for (int i = 0; i < cla_feature_count; i++)
        known |= cla_features[i].bit;
    return known & ~(CLA_FEATURE_RNG_STATE | CLA_FEATURE_SCALES | CLA_FEATURE_SCORE_MOD | CLA_FEATURE_MASK_MOD);
}

unsigned cla_features_that_stand(unsigned features)
{
    unsigned stand = features;
    for (int i = 0; i < cla_feature_count; i++)
        if (cla_features[i].of & ~features)
            stand &= ~cla_features[i].bit;
    return stand;
}

unsigned cla_features_with_their_own(unsigned features)
{
    unsigned all = features;
    for (int i = 0; i < cla_feature_count; i++)
        if (cla_features[i].bit & features)
            all |= cla_features[i].of;
    return all;
}

unsigned cla_features_with(unsigned hooks)
{
    unsigned with = 0;
    for (int i = 0; i < cla_feature_count; i++)
        if (cla_features[i].hooks & hooks)
            with |= cla_features[i].bit;
    return with;
}

unsigned cla_features_of_pass(unsigned features, bool backward)
{
    return backward ? features : features & ~cla_features_with(CLA_OF_GRADIENTS);
}

const struct cla_feature_tensor *cla_feature_tensor_after(const struct cla_feature_tensor *last,
                                                          const struct cla_feature **of)
{
    const int next = last ? (int)(last - (*of)->tensors) + 1 : 0;
    if (last && next < CLA_FEATURE_TENSORS && last[1].name)
        return last + 1;
    for (*of = last ? *of + 1 : cla_features; *of < cla_features + cla_feature_count; ++*of)
        if ((*of)->tensors[0].name)
            return (*of)->tensors;
    return NULL;
}

const struct cla_feature_tensor *cla_feature_tensor(int number, const struct cla_feature **of)
{
    const struct cla_feature_tensor *row = cla_feature_tensor_after(NULL, of);
    while (row && number-- > 0)
        row = cla_feature_tensor_after(row, of);
    return row;
}

const struct cla_feature_number *cla_feature_number_after(const struct cla_feature_number *last,
                                                          const struct cla_feature **of)
{
    const int next = last ? (int)(last - (*of)->numbers) + 1 : 0;
    if (last && next < CLA_FEATURE_NUMBERS && last[1].name)
        return last + 1;
    for (*of = last ? *of + 1 : cla_features; *of < cla_features + cla_feature_count; ++*of)
        if ((*of)->numbers[0].name)
            return (*of)->numbers;
    return NULL;
}

const struct cla_feature_number *cla_feature_number(int number, const struct cla_feature **of)
{
    const struct cla_feature_number *row = cla_feature_number_after(NULL, of);
    while (row && number-- > 0)
        row = cla_feature_number_after(row, of);
    return row;
}

const struct cla_feature_number *cla_feature_setting(int number, const struct cla_feature **of)
{
    for (const struct cla_feature *feature = cla_features; feature < cla_features + cla_feature_count; feature++) {
        for (int i = 0; i < CLA_FEATURE_SETTINGS && feature->settings[i].name; i++) {
            if (number-- > 0)
                continue;
            *of = feature;
            return &feature->settings[i];
        }
    }
    return NULL;
}

/* What kernels have of a tensor: words of 8 bytes in their parameters, these as a struct's members, what a view of a
 * head holds of it, and how that is found; with packed rows (cl/score/view.clh), what it holds beside that and how, and
 * how another head's is found. $ stands for the tensor's name in kernels, @ for the type of its elements, # for how
 * many numbers each head has.
 * Without rows there may be no heads either, and no values of them. */
static const struct extent {
    size_t words;
    const char *params, *members, *open, *packed_members, *packed_open, *of_head;
} extents[] = {
    [CLA_OF_PAIRS] = {5, "clattn_layout $;", "__global const @ *$; long $_row, $_column;",
                      "v.$ = score_$ + clattn_at(score_params.$, b, h, 0); v.$_row = score_params.$.row; "
                      "v.$_column = score_params.$.column;",
                      "long $_head;", "v.$_head = score_params.$.head;", "own.$ += head * own.$_head;"},
    [CLA_OF_BLOCKS] = {5, "clattn_layout $;", "__global const @ *$; long $_row, $_column;",
                       "v.$ = score_$ + clattn_at(score_params.$, b, h, 0); v.$_row = score_params.$.row; "
                       "v.$_column = score_params.$.column;",
                       "long $_head;", "v.$_head = score_params.$.head;", "own.$ += head * own.$_head;"},
    [CLA_OF_BLOCK_ROWS] = {0, "", "", "", "", "", ""},
    [CLA_OF_ROWS] = {5, "clattn_layout $;", "__global const @ *$; long $_row;",
                     "v.$ = score_$ + clattn_at(score_params.$, b, h, v.row_base); v.$_row = score_params.$.row;", "",
                     "", ""},
    [CLA_OF_EACH_KEY] = {5, "clattn_layout $;", "__global const @ *$; long $_row;",
                         "v.$ = score_$ + clattn_at(score_params.$, b, h, 0); v.$_row = score_params.$.row;",
                         "long $_head;", "v.$_head = score_params.$.head;", "own.$ += head * own.$_head;"},
    [CLA_OF_HEADS] = {3, "long $_offset, $_batch, $_head;", "@ $;",
                      "v.$ = v.n_q > 0 ? score_$[score_params.$_offset + b * score_params.$_batch + "
                      "h * score_params.$_head] : 0;",
                      "__global const @ *$_from; long $_step;",
                      "v.$_from = score_$ + (score_params.$_offset + b * score_params.$_batch + h * "
                      "score_params.$_head); v.$_step = score_params.$_head;",
                      "own.$ = own.n_q > 0 ? own.$_from[head * own.$_step] : 0;"},
    [CLA_OF_HEAD] = {2, "long $_offset, $_head;", "@ $;",
                     "v.$ = v.n_q > 0 ? score_$[score_params.$_offset + h * score_params.$_head] : 0;",
                     "__global const @ *$_from; long $_step;",
                     "v.$_from = score_$ + (score_params.$_offset + h * score_params.$_head); v.$_step = "
                     "score_params.$_head;",
                     "own.$ = own.n_q > 0 ? own.$_from[head * own.$_step] : 0;"},
    [CLA_OF_BATCH] = {1, "long $_offset;", "", "", "", "", ""},
    [CLA_OF_TREE] = {6, "clattn_layout $; long $_keys;", "__global const @ *$; long $_row, $_column;",
                     "v.$ = score_$ + clattn_at(score_params.$, b, h, 0); v.$_row = score_params.$.row; "
                     "v.$_column = score_params.$.column;",
                     "long $_head;", "v.$_head = score_params.$.head;", "own.$ += head * own.$_head;"},
    [CLA_OF_SEQUENCES] = {1, "long $_offset;", "", "", "", "", ""},
    [CLA_OF_PAGES] = {4, "long $_offset, $_batch, $_pool, $_listed;", "", "", "", "", ""},
    [CLA_OF_KEYS] = {5, "clattn_layout $;", "__global const @ *$; clattn_layout $_at;",
                     "v.$ = score_$; v.$_at = score_params.$;", "", "", ""},
    [CLA_BESIDE_KEYS] = {1, "long $_offset;", "__global const @ *$;", "v.$ = score_$ + score_params.$_offset;", "", "",
                         ""},
    /* Where the seed by value would be, its place is told: the parameters are those of all programs. */
    [CLA_OF_DROPOUT] = {0, "", "",
                        "const ulong $_at = score_params.seed_low | (ulong)score_params.seed_high << 32; "
                        "v.seed_low = (uint)score_$[$_at]; v.seed_high = (uint)(score_$[$_at] >> 32); "
                        "v.dropout_offset += (uint)score_$[$_at + 1];",
                        "", "", ""},
    [CLA_LOOSE] = {0, "", "__global const @ *$;", "v.$ = score_$;", "", "", ""},
};

/* Of heads with several numbers each. */
#define OF_EACH "for (int e = 0; e < #; ++e) "
static const struct extent extents_of_each[] = {
    [CLA_OF_HEADS] = {4, "long $_offset, $_batch, $_head, $_row;", "@ $[#];",
                      OF_EACH "v.$[e] = v.n_q > 0 ? score_$[score_params.$_offset + b * score_params.$_batch + "
                              "h * score_params.$_head + e * score_params.$_row] : 0;",
                      "__global const @ *$_from; long $_step, $_row;",
                      "v.$_from = score_$ + (score_params.$_offset + b * score_params.$_batch + h * "
                      "score_params.$_head); v.$_step = score_params.$_head; v.$_row = score_params.$_row;",
                      OF_EACH "own.$[e] = own.n_q > 0 ? own.$_from[head * own.$_step + e * own.$_row] : 0;"},
    [CLA_OF_HEAD] = {4, "long $_offset, $_batch, $_head, $_row;", "@ $[#];",
                     OF_EACH "v.$[e] = v.n_q > 0 ? score_$[score_params.$_offset + h * score_params.$_head + "
                             "e * score_params.$_row] : 0;",
                     "__global const @ *$_from; long $_step, $_row;",
                     "v.$_from = score_$ + (score_params.$_offset + h * score_params.$_head); v.$_step = "
                     "score_params.$_head; v.$_row = score_params.$_row;",
                     OF_EACH "own.$[e] = own.n_q > 0 ? own.$_from[head * own.$_step + e * own.$_row] : 0;"},
};

static const struct extent *extent_of(const struct cla_feature_tensor *tensor)
{
    return tensor->each ? &extents_of_each[tensor->extent] : &extents[tensor->extent];
}

static const char *const elements[] = {[CLA_FLOAT] = "float",
                                       [CLA_AS_BIAS] = "clattn_bias",
                                       [CLA_BYTE] = "uchar",
                                       [CLA_INT] = "int",
                                       [CLA_WORD] = "ulong"};

static const char *kernel_name(const struct cla_feature_tensor *tensor)
{
    return tensor->kernel ? tensor->kernel : tensor->name;
}

bool cla_feature_tensor_is_argument(int number)
{
    const struct cla_feature *of;
    return *kernel_name(cla_feature_tensor(number, &of)) != '\0';
}

size_t cla_feature_tensor_bytes(int number)
{
    const struct cla_feature *of;
    return sizeof(int64_t) * extent_of(cla_feature_tensor(number, &of))->words;
}

static size_t bytes_behind(const struct cla_feature_tensor *tensor)
{
    return tensor->params || !*kernel_name(tensor) ? 0 : sizeof(int64_t) * extent_of(tensor)->words;
}

size_t cla_feature_tensor_at(int number)
{
    const struct cla_feature *of;
    size_t at = offsetof(struct cla_score_params, more);
    const struct cla_feature_tensor *tensor = NULL;
    for (int i = 0; (tensor = cla_feature_tensor_after(tensor, &of)) && i < number; i++)
        at += bytes_behind(tensor);
    return tensor && tensor->params ? tensor->params - 1 : at;
}

/* Behind the tensors, 8 bytes each. */
size_t cla_feature_number_at(int number)
{
    const struct cla_feature *of;
    size_t at = offsetof(struct cla_score_params, more);
    const struct cla_feature_tensor *tensor = NULL;
    const struct cla_feature_number *other;
    for (int i = 0; (tensor = cla_feature_tensor_after(tensor, &of)); i++)
        at += bytes_behind(tensor);
    for (int i = 0; i < number && (other = cla_feature_number_after(i ? other : NULL, &of)); i++)
        at += other->range ? sizeof(int64_t) : 0;
    return at;
}

size_t cla_score_params_bytes(void)
{
    return cla_feature_number_at(INT_MAX);
}

/* A template with the names in place. */
static void add(struct cla_text *text, const char *template, const char *name, const char *element, int each)
{
    for (const char *at = template; *at; at++) {
        if (*at == '$')
            cla_text_add(text, name, strlen(name));
        else if (*at == '@')
            cla_text_add(text, element, strlen(element));
        else if (*at == '#')
            cla_text_printf(text, "%d", each);
        else
            cla_text_add(text, at, 1);
    }
}

/* A macro of what the tensors of the program's features ask for. */
static void define_of_tensors(const char *macro, unsigned features, const char *(*template_of)(const struct extent *),
                              const char *constant, struct cla_text *text)
{
    const struct cla_feature *of;
    const struct cla_feature_tensor *tensor = NULL;
    cla_text_printf(text, "#define %s", macro);
    for (int i = 0; (tensor = cla_feature_tensor_after(tensor, &of)); i++) {
        if (!(of->bit & features) || !*kernel_name(tensor))
            continue;
        cla_text_add(text, " ", 1);
        add(text, constant ? constant : template_of(extent_of(tensor)), kernel_name(tensor), elements[tensor->element],
            tensor->each);
    }
}

static const char *members_of(const struct extent *extent)
{
    return extent->members;
}

static const char *open_of(const struct extent *extent)
{
    return extent->open;
}

static const char *packed_members_of(const struct extent *extent)
{
    return extent->packed_members;
}

static const char *packed_open_of(const struct extent *extent)
{
    return extent->packed_open;
}

static const char *of_head_of(const struct extent *extent)
{
    return extent->of_head;
}

static void define_of_numbers(unsigned features, const char *template, struct cla_text *text)
{
    const struct cla_feature *of;
    const struct cla_feature_number *number;
    for (int i = 0; (number = cla_feature_number_after(i ? number : NULL, &of)); i++) {
        if (!(of->bit & features) || !number->range)
            continue;
        cla_text_add(text, " ", 1);
        add(text, template, number->name, "float", 0);
    }
    cla_text_add(text, "\n", 1);
}

/* Members of the kernels' struct of parameters: of all features, so that it is the same in all programs. */
static void define_params(struct cla_text *text)
{
    const struct cla_feature *of;
    const struct cla_feature_tensor *tensor = NULL;
    cla_text_printf(text, "#define CLATTN_SCORE_PARAMS_BYTES %d\n", (int)cla_score_params_bytes());
    cla_text_printf(text, "#define CLATTN_MORE_PARAMS");
    for (int i = 0; (tensor = cla_feature_tensor_after(tensor, &of)); i++) {
        cla_text_add(text, " ", 1);
        if (bytes_behind(tensor))
            add(text, extent_of(tensor)->params, kernel_name(tensor), elements[tensor->element], tensor->each);
    }
    define_of_numbers(UINT_MAX, "float $, $_spare;", text);
}

/* A macro that calls X with each feature that has the hook and none of the others, and with its derivative. */
static void define_hooks(const char *macro, unsigned features, unsigned hook, unsigned without, struct cla_text *text)
{
    int count = 0;
    cla_text_printf(text, "#define CLATTN_EACH_%s(X)", macro);
    for (int i = 0; i < cla_feature_count; i++) {
        const struct cla_feature *feature = &cla_features[i];
        if (!(feature->bit & features) || !(feature->hooks & hook) || (feature->hooks & without))
            continue;
        cla_text_printf(text, " X(%s, %s)", feature->name, feature->hooks & CLA_SLOPES ? "SLOPES" : "EVEN");
        count++;
    }
    cla_text_printf(text, "\n#define CLATTN_HAS_%s %d\n", macro, count);
}

/* Whether there is what is not the caller's to name among features. */
static void define_own(unsigned features, struct cla_text *text)
{
    const struct cla_define defines[] = {
        {"K_SCALES", (features & CLA_FEATURE_K_SCALES) != 0},   {"K_ZEROS", (features & CLA_FEATURE_K_ZEROS) != 0},
        {"SCORE_MOD", (features & CLA_FEATURE_SCORE_MOD) != 0}, {"MASK_MOD", (features & CLA_FEATURE_MASK_MOD) != 0},
        {"V_SCALES", (features & CLA_FEATURE_V_SCALES) != 0},   {"V_ZEROS", (features & CLA_FEATURE_V_ZEROS) != 0}};
    cla_text_define(text, defines, sizeof defines / sizeof *defines);
}

void cla_features_define(unsigned features, struct cla_text *text)
{
    const unsigned known = cla_features_known();
    for (int i = 0; i < cla_feature_count; i++)
        if (cla_features[i].bit & known)
            cla_text_printf(text, "#define %s %d\n", cla_features[i].constant, (features & cla_features[i].bit) != 0);
    define_own(features, text);
    define_of_tensors("CLATTN_BUFFER_PARAMETERS", features, NULL, ", __global const @ *score_$", text);
    cla_text_add(text, "\n", 1);
    define_of_tensors("CLATTN_BUFFER_ARGUMENTS", features, NULL, ", score_$", text);
    cla_text_add(text, "\n", 1);
    define_params(text);
    define_of_tensors("CLATTN_VIEW_MEMBERS", features, members_of, NULL, text);
    define_of_numbers(features, "float $;", text);
    define_of_tensors("CLATTN_VIEW_OPEN", features, open_of, NULL, text);
    define_of_numbers(features, "v.$ = score_params.$;", text);
    define_of_tensors("CLATTN_VIEW_PACKED_MEMBERS", features, packed_members_of, NULL, text);
    cla_text_add(text, "\n", 1);
    define_of_tensors("CLATTN_VIEW_PACKED_OPEN", features, packed_open_of, NULL, text);
    cla_text_add(text, "\n", 1);
    define_of_tensors("CLATTN_VIEW_OF_HEAD", features, of_head_of, NULL, text);
    cla_text_add(text, "\n", 1);
    define_hooks("PLAIN_MODIFY", features, CLA_MODIFIES, CLA_FAST_MODIFY, text);
    define_hooks("PLAIN_SLOPE", features, CLA_SLOPES, CLA_FAST_MODIFY, text);
    define_hooks("PAIR_HIDE", features, CLA_HIDES, CLA_FAST_HIDES, text);
    define_hooks("BEGIN", features, CLA_BEGINS, 0, text);
    define_hooks("END", features, CLA_ENDS, 0, text);
    define_hooks("FINISH", features, CLA_FINISHES, 0, text);
}
