/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/features/feature.h"
#include "plan/features/feature_check.h"
#include "plan/kernel_params.h"
#include "plan/operand.h"

#define GIVEN(member_) .name = #member_, .path = "score." #member_, .given = offsetof(struct clattn_score_args, member_)

/* Of struct clattn_score_more. */
#define MORE(member_)                                                                                                  \
    .name = #member_, .path = "score.more->" #member_, .home = CLA_IN_MORE,                                            \
    .given = offsetof(struct clattn_score_more, member_)
#define MORE_NUMBER(member_, type_)                                                                                    \
    .name = #member_, .home = CLA_IN_MORE, .given = offsetof(struct clattn_score_more, member_), ARRAY(member_),       \
    .type = CLA_NUMBER_##type_

#define LOOSE(member_) GIVEN(member_), .memory = offsetof(struct clattn_score_args, member_##_memory)
#define BARE(member_)  LOOSE(member_), .offset = offsetof(struct clattn_score_args, member_##_offset)
#define ARRAY(member_) .array = offsetof(struct clattn_host_score_args, member_)
#define LAYOUT(member_)                                                                                                \
    .layout = offsetof(struct clattn_host_score_args, member_##_layout), .layout_name = #member_ "_layout"
#define PARAMS(member_) .params = 1 + offsetof(struct cla_score_params, member_)
#define NUMBER(member_, type_)                                                                                         \
    .name = #member_, .given = offsetof(struct clattn_score_args, member_), ARRAY(member_), .type = CLA_NUMBER_##type_

/* A number of struct clattn_problem. */
#define SETTING(member_, type_)                                                                                        \
    .name = #member_, .array = offsetof(struct clattn_problem, member_), .type = CLA_NUMBER_##type_

/* An option's name, its help and whatever else its row says. */
#define OPTION(name_, ...) .option = {.name = name_, .help = __VA_ARGS__}

/* Scales, or zero points, of K or V. */
#define OF_KEYS(member_, constant_, bit_, keys_, extent_, option_, help_, needs_)                                      \
    {                                                                                                                  \
        .name = #member_, .constant = constant_, .bit = bit_, .tensors = {                                             \
            {.name = #member_,                                                                                         \
             .path = "score.kv_scales->" #member_,                                                                     \
             .home = CLA_IN_SCALES,                                                                                    \
             .keys = keys_,                                                                                            \
             .given = offsetof(struct clattn_kv_scales, member_),                                                      \
             .array = offsetof(struct clattn_host_kv_scales, member_),                                                 \
             .layout = offsetof(struct clattn_host_kv_scales, member_##_layout),                                       \
             .layout_name = #member_ "_layout",                                                                        \
             .extent = extent_,                                                                                        \
             .element = CLA_FLOAT,                                                                                     \
             OPTION(option_, help_, .needs = needs_)}                                                                  \
        }                                                                                                              \
    }

/* In the order in which they change a score. A new feature is a row at the end: score_mod comes behind them all. */
const struct cla_feature cla_features[] = {
    {.name = "window",
     .constant = "CLATTN_WINDOW",
     .bit = CLATTN_WINDOW,
     .hooks = CLA_BEGINS | CLA_ENDS,
     .numbers = {{NUMBER(window_left, INT64),
                  OPTION("window", "rows see L keys to the left of their own place and R to the right; -1: all",
                         .argument = "L,R", .example = "128,0 or -1,16", .two = true, .least = -1, .most = INT32_MAX)},
                 {NUMBER(window_right, INT64)}},
     .settings = {{SETTING(window_corner, INT64),
                   OPTION("window-corner",
                          "what the places of --window are aligned by: bottom-right or top-left (default:\n"
                          "as the causal mask)",
                          .argument = "CORNER", .corner = true, .needs = "window L,R")},
                  {SETTING(sink_keys, INT64),
                   OPTION("sink-keys", "so many first keys of a sequence, which L of --window does not hide",
                          .argument = "N", .example = "4", .least = 0, .most = CLA_MAX_SINK_KEYS,
                          .needs = "window L,R")}},
     .check = cla_check_window,
     .check_problem = cla_check_window_problem},
    {.name = "softcap",
     .constant = "CLATTN_SOFTCAP",
     .bit = CLATTN_SOFTCAP,
     .hooks = CLA_MODIFIES | CLA_SLOPES | CLA_FAST_MODIFY,
     .numbers = {{NUMBER(softcap, FLOAT), OPTION("softcap", "scores become X * tanh(score / X)", .argument = "X",
                                                 .example = "30", .above_0 = true)}},
     .check = cla_check_softcap},
    {.name = "alibi",
     .constant = "CLATTN_ALIBI",
     .bit = CLATTN_ALIBI,
     .hooks = CLA_MODIFIES | CLA_FAST_MODIFY,
     .tensors = {{GIVEN(alibi), ARRAY(alibi), LAYOUT(alibi), PARAMS(alibi_offset), .extent = CLA_OF_HEADS,
                  .element = CLA_FLOAT,
                  OPTION("alibi", "slopes [heads] or [batch, heads], fp32: scores lose slope * distance")}}},
    {.name = "bias",
     .constant = "CLATTN_BIAS",
     .bit = CLATTN_BIAS,
     .hooks = CLA_MODIFIES | CLA_FAST_MODIFY,
     .tensors = {{GIVEN(bias), ARRAY(bias), LAYOUT(bias), PARAMS(bias), .extent = CLA_OF_PAIRS, .element = CLA_AS_BIAS,
                  OPTION("bias", "added to the scores: [batch or 1, heads or 1, n_q, n_kv] or fewer\n"
                                 "dimensions, in the type of Q or of fp32")}}},
    {.name = "mask",
     .constant = "CLATTN_MASK",
     .bit = CLATTN_MASK,
     .hooks = CLA_HIDES,
     .tensors = {{GIVEN(mask), ARRAY(mask), LAYOUT(mask), PARAMS(mask), .extent = CLA_OF_PAIRS, .element = CLA_BYTE,
                  OPTION("mask", "likewise, of bool or uint8: 0 hides the pair")}}},
    {.name = "block_mask",
     .constant = "CLATTN_BLOCK_MASK",
     .bit = CLATTN_BLOCK_MASK,
     .hooks = CLA_HIDES | CLA_FAST_HIDES,
     .tensors = {{GIVEN(block_mask), ARRAY(block_mask), LAYOUT(block_mask), PARAMS(block_mask), .extent = CLA_OF_BLOCKS,
                  .element = CLA_BYTE,
                  OPTION("block-mask",
                         "[batch or 1, heads or 1, blocks of rows, blocks of keys] or fewer, of\n"
                         "bool or uint8: blocks of 0 are skipped",
                         .needs = "block-size BQ,BKV")},
                 {GIVEN(block_offsets), ARRAY(block_offsets), LAYOUT(block_offsets), .kernel = "",
                  .extent = CLA_OF_BLOCK_ROWS, .element = CLA_INT,
                  OPTION("block-indptr",
                         "the same as compressed rows (CSR): where each row of blocks begins in\n"
                         "--block-indices, and the end at last; [blocks of rows + 1], with heads\n"
                         "and batch before it or not; int32 or int64",
                         .needs = "block-indices FILE\nblock-size BQ,BKV")},
                 {GIVEN(block_columns), ARRAY(block_columns), .kernel = "", .extent = CLA_LOOSE, .element = CLA_INT,
                  OPTION("block-indices", "the numbers of the blocks of keys that are kept",
                         .needs = "block-indptr FILE")}},
     .numbers = {{NUMBER(block_count, INT64)}},
     .settings = {{SETTING(block_q, INT),
                   OPTION("block-size", "rows and keys of the mask's blocks, multiples of 16", .argument = "BQ,BKV",
                          .example = "64,64", .two = true, .least = 16, .most = 65536, .multiple = 16,
                          .needs = "block-mask FILE or --block-indptr FILE")},
                  {SETTING(block_kv, INT)}},
     .check = cla_check_block_mask,
     .check_problem = cla_check_block_mask_problem},
    {.name = "key_lengths",
     .constant = "CLATTN_KEY_LENGTHS",
     .bit = CLATTN_KEY_LENGTHS,
     .tensors = {{GIVEN(key_lengths), ARRAY(key_lengths), PARAMS(key_lengths_offset), .extent = CLA_OF_BATCH,
                  .element = CLA_INT, .counts = CLA_COUNTS_KEYS,
                  OPTION("key-lengths", "how many keys each batch element has: [batch], int32 or int64")}}},
    {.name = "varlen",
     .constant = "CLATTN_VARLEN",
     .bit = CLATTN_VARLEN,
     .tensors = {{GIVEN(cu_seqlens_q), ARRAY(cu_seqlens_q), PARAMS(cu_q_offset), .kernel = "cu_q",
                  .extent = CLA_OF_SEQUENCES, .element = CLA_INT, .counts = CLA_COUNTS_ROWS,
                  OPTION("cu-seqlens-q",
                         "sequences lie end to end in Q, [heads, total, d] or [total, d]: where\n"
                         "each begins, and the total at last; int32 or int64",
                         .needs = "cu-seqlens-kv FILE (or --kv-pages FILE)")},
                 {GIVEN(cu_seqlens_kv), ARRAY(cu_seqlens_kv), PARAMS(cu_kv_offset), .kernel = "cu_kv",
                  .extent = CLA_OF_SEQUENCES, .element = CLA_INT, .counts = CLA_COUNTS_KEYS,
                  OPTION("cu-seqlens-kv", "the same for K and V", .needs = "cu-seqlens-q FILE")}},
     .numbers = {{NUMBER(total_q, INT64)}, {NUMBER(total_kv, INT64)}},
     .check = cla_check_totals},
    {.name = "sinks",
     .constant = "CLATTN_SINKS",
     .bit = CLATTN_SINKS,
     .hooks = CLA_FINISHES,
     .tensors = {{GIVEN(sinks), ARRAY(sinks), PARAMS(sinks_offset), .extent = CLA_OF_HEAD, .element = CLA_FLOAT,
                  OPTION("sink", "a logit of each head, without a value: [heads], fp32")}}},
    {.name = "dropout",
     .constant = "CLATTN_DROPOUT",
     .bit = CLATTN_DROPOUT,
     .hooks = CLA_FINISHES,
     .numbers = {{NUMBER(dropout_p, FLOAT),
                  OPTION("dropout", "drop weights with probability P, scale the others up; needs --seed",
                         .argument = "P", .share = true, .needs = "seed N, which makes the same weights drop again")},
                 {NUMBER(dropout_seed, UINT64),
                  OPTION("seed", "of dropout", .argument = "N", .least = 0, .most = INT64_MAX, .needs = "dropout P")},
                 {NUMBER(dropout_offset, UINT32),
                  OPTION("dropout-offset", "of dropout's random numbers (default: 0)", .argument = "N", .least = 0,
                         .most = UINT32_MAX, .needs = "dropout P")}},
     .check = cla_check_dropout,
     .check_problem = cla_check_dropout_problem},
    {.name = "data",
     .constant = "score_mod or mask_mod",
     .bit = CLA_FEATURE_SCORE_MOD | CLA_FEATURE_MASK_MOD,
     .tensors = {{LOOSE(data), ARRAY(data), .extent = CLA_LOOSE, .element = CLA_FLOAT,
                  OPTION("data", "what score_mod and mask_mod get as `data`, fp32",
                         .needs = "score-mod FILE or --mask-mod FILE")}},
     .check_problem = cla_check_user_problem},
    {.name = "pages",
     .constant = "CLATTN_PAGES",
     .bit = CLATTN_PAGES,
     .hooks = CLA_HIDES | CLA_FAST_HIDES,
     .tensors = {{GIVEN(pages), ARRAY(pages), LAYOUT(pages), .extent = CLA_OF_PAGES, .element = CLA_INT,
                  OPTION("kv-pages", "K and V are pages, [pages, heads, keys of a page, d]: the numbers of each\n"
                                     "batch element's, [batch, pages of it]; int32 or int64")},
                 {GIVEN(page_offsets), ARRAY(page_offsets), .extent = CLA_OF_SEQUENCES, .element = CLA_INT,
                  OPTION("kv-page-indptr",
                         "the same as compressed rows (CSR): where each batch element begins in\n"
                         "--kv-pages, and the end at last; [batch + 1]",
                         .needs = "kv-pages FILE")}},
     .numbers = {{NUMBER(pool_pages, INT64)}, {NUMBER(page_count, INT64)}},
     .check = cla_check_pages,
     .check_problem = cla_check_pages_problem},
    OF_KEYS(k_scales, "k_type that takes scales", CLA_FEATURE_K_SCALES, CLA_K, CLA_OF_KEYS, "k-scales",
            "scales of K where it is int8, int4 or fp8, fp32: [batch, heads of K,\n"
            "n, groups of a row] or fewer dimensions, of which each may be 1",
            NULL),
    OF_KEYS(k_zeros, "CLATTN_K_ZEROS", CLA_FEATURE_K_ZEROS, CLA_K, CLA_BESIDE_KEYS, "k-zeros",
            "zero points of K where it is int8 or int4, of the scales' shape", "k-scales FILE"),
    OF_KEYS(v_scales, "v_type that takes scales", CLA_FEATURE_V_SCALES, CLA_V, CLA_OF_KEYS, "v-scales",
            "the same for V", NULL),
    OF_KEYS(v_zeros, "CLATTN_V_ZEROS", CLA_FEATURE_V_ZEROS, CLA_V, CLA_BESIDE_KEYS, "v-zeros", "likewise",
            "v-scales FILE"),
    {.name = "lse_gradient",
     .constant = "CLATTN_LSE_GRADIENT",
     .bit = CLATTN_LSE_GRADIENT,
     .hooks = CLA_OF_GRADIENTS,
     .tensors = {{GIVEN(d_lse), ARRAY(d_lse), LAYOUT(d_lse), .extent = CLA_OF_ROWS, .element = CLA_FLOAT,
                  OPTION("grad-lse", "the gradient by LSE, of its shape: the loss depends on LSE, too",
                         .needs = "grad-out FILE"),
                  .drawn_from = -2.0f, .drawn_to = 2.0f}}},
    {.name = "row_shifts",
     .constant = "CLATTN_ROW_SHIFTS",
     .bit = CLATTN_ROW_SHIFTS,
     .tensors = {{BARE(row_shifts), ARRAY(row_shifts), .extent = CLA_OF_BATCH, .element = CLA_INT,
                  OPTION("row-shifts", "row i of batch element b has its place at key i + N: [batch], int32 or\n"
                                       "int64, such as how many keys there were before"),
                  .drawn_from = 0.0f, .drawn_to = 1.0f}},
     .check = cla_check_row_shifts},
    {.name = "query_lengths",
     .constant = "CLATTN_QUERY_LENGTHS",
     .bit = CLATTN_QUERY_LENGTHS,
     .tensors = {{BARE(query_lengths), ARRAY(query_lengths), .extent = CLA_OF_BATCH, .element = CLA_INT,
                  .counts = CLA_COUNTS_ROWS,
                  OPTION("query-lengths", "how many rows each batch element has: [batch], int32 or int64"),
                  .drawn_from = 0.0f, .drawn_to = 1.0f}}},
    {.name = "tree_mask",
     .constant = "CLATTN_TREE_MASK",
     .bit = CLATTN_TREE_MASK,
     .hooks = CLA_HIDES,
     .tensors = {{GIVEN(tree_mask), ARRAY(tree_mask), LAYOUT(tree_mask), .extent = CLA_OF_TREE, .element = CLA_INT,
                  OPTION("tree-mask",
                         "which of the last keys a row sees, as bits of int32 words, the lowest first:\n"
                         "[batch or 1, heads or 1, n_q, words] or fewer dimensions; needs --tree-keys",
                         .needs = "tree-keys N"),
                  .drawn_from = 0.0f, .drawn_to = 1.0f}},
     .numbers = {{NUMBER(tree_keys, INT64),
                  OPTION("tree-keys", "how many of the last keys --tree-mask is about", .argument = "N", .least = 1,
                         .most = INT32_MAX, .needs = "tree-mask FILE")}},
     .check = cla_check_tree_mask},
    {.name = "bias_slopes",
     .constant = "CLATTN_BIAS_SLOPES",
     .bit = CLATTN_BIAS_SLOPES,
     .of = CLATTN_BIAS,
     .hooks = CLA_MODIFIES,
     .tensors = {{GIVEN(bias_slopes), .offset = offsetof(struct clattn_score_args, bias_slopes_offset),
                  ARRAY(bias_slopes), .extent = CLA_OF_HEAD, .element = CLA_FLOAT,
                  OPTION("bias-slopes", "what each head multiplies the bias by: [heads], fp32; needs --bias",
                         .needs = "bias FILE"),
                  .drawn_from = 0.125f, .drawn_to = 1.0f}}},
    {.name = "rng_state",
     .constant = "rng_state",
     .bit = CLA_FEATURE_RNG_STATE,
     .tensors = {{BARE(rng_state), ARRAY(rng_state), .extent = CLA_OF_DROPOUT, .element = CLA_WORD}},
     .check = cla_check_rng_state,
     .check_problem = cla_check_rng_state_problem},
};

const int cla_feature_count = sizeof cla_features / sizeof *cla_features;
