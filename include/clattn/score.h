/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_SCORE_H
#define CLATTN_SCORE_H

#include <clattn/tensor.h>

CLATTN_BEGIN_DECLS

/* What else happens to scores and weights. A problem says which of these there are, since they are compiled into its
 * kernels; their values come with each call, in struct clattn_score_args, which says what each one is. Any combination
 * is allowed, in every pass, but CLATTN_BIAS_SLOPES without CLATTN_BIAS. */
enum clattn_feature {
    CLATTN_WINDOW = 1,      /* row i sees keys near its own place only */
    CLATTN_SOFTCAP = 2,     /* softcap * tanh(s / softcap) */
    CLATTN_ALIBI = 4,       /* - slope * distance (arXiv:2108.12409) */
    CLATTN_BIAS = 8,        /* + bias[b][h][i][j] */
    CLATTN_MASK = 16,       /* hidden where mask[b][h][i][j] is 0 */
    CLATTN_BLOCK_MASK = 32, /* the same for blocks of pairs; hidden blocks cost nothing (FlashAttention, Algorithm 5) */
    CLATTN_KEY_LENGTHS = 64,     /* batch element b has only key_lengths[b] keys */
    CLATTN_VARLEN = 128,         /* sequences of different lengths, packed end to end */
    CLATTN_SINKS = 256,          /* each head has a logit without a value, that takes weight from the keys */
    CLATTN_DROPOUT = 512,        /* weights are dropped at random, the others scaled up */
    CLATTN_PAGES = 1024,         /* K and V lie in pages that a table names; not in backward passes */
    CLATTN_LSE_GRADIENT = 2048,  /* the loss depends on LSE, too; in backward passes alone */
    CLATTN_ROW_SHIFTS = 4096,    /* each batch element says how its rows are aligned with keys */
    CLATTN_QUERY_LENGTHS = 8192, /* batch element b has only query_lengths[b] rows */
    CLATTN_TREE_MASK = 16384,    /* bits say which of the last keys a row sees, as in speculative decoding */
    CLATTN_BIAS_SLOPES = 32768   /* with CLATTN_BIAS: + slope * bias[b][h][i][j], a slope for each head */
};

/* No limit, for struct clattn_score_args.window_left and window_right. */
#define CLATTN_UNLIMITED INT64_C(-1)

/* The scales of K and V, where they are stored as INT8, INT4 or FP8 (enum clattn_operand_type): fp32,
 * [batch, kv_heads, n_kv, groups], with groups = ceil(d / problem.k_scale_group) (of V ceil(d_v / v_scale_group)), 1
 * where that is 0. The layouts' rules are those of all tensors, so a stride of 0 makes one scale serve all keys, heads,
 * batch elements or groups, and `strided` with four strides of 0 one scale a tensor. With CLATTN_PAGES scales lie in
 * pages as K and V do, [pool_pages, kv_heads, page_keys, groups]; with CLATTN_VARLEN they are packed; with
 * CLATTN_ACCUMULATE they are the chunk's. k_zeros and v_zeros are there where problem.zero_points says so, with the
 * strides of the scales, from an offset of their own on. What is not there is all zero. */
struct clattn_kv_scales {
    struct clattn_tensor k_scales, k_zeros;
    struct clattn_tensor v_scales, v_zeros;
    uint64_t reserved[16]; /* 0: clattn/version.h */
};

/* The same with arrays in place of buffers. */
struct clattn_host_kv_scales {
    const float *k_scales, *k_zeros, *v_scales, *v_zeros;
    struct clattn_layout k_scales_layout, k_zeros_layout, v_scales_layout, v_zeros_layout;
    uint64_t reserved[16]; /* 0: clattn/version.h */
};

/* The values of features that came when struct clattn_score_args was full. */
struct clattn_score_more {
    uint64_t reserved[128]; /* 0: clattn/version.h */
};

/* The values of the problem's features. Fields of features that the problem does not have must be zero. Layouts of all
 * zero strides are dense, as everywhere, where the sizes are greater than 1; a stride of 0 among others broadcasts, so
 * one bias can serve all heads or batch elements.
 *
 * Rows and keys are aligned by shift = n_kv - n_q, with the lengths of the sequence itself (key_lengths[b],
 * query_lengths[b], cu_seqlens), so that the last row meets the last key; with CLATTN_CAUSAL_TOP_LEFT by shift = 0;
 * with CLATTN_ROW_SHIFTS by row_shifts[b]. */
struct clattn_score_args {
    /* CLATTN_WINDOW: row i sees keys i + shift - window_left to i + shift + window_right. CLATTN_TOO_LARGE where a
     * reach and a length together come to 2^31 - 8192 or more; a reach longer than both lengths counts as the longer
     * one. */
    int64_t window_left, window_right;

    float softcap;              /* CLATTN_SOFTCAP: greater than 0, finite */
    struct clattn_tensor alibi; /* CLATTN_ALIBI: fp32 slopes [batch, heads]: s - slope * |i + shift - j| */
    struct clattn_tensor bias;  /* CLATTN_BIAS: of problem.bias_type, [batch, heads, n_q, n_kv] */
    struct clattn_tensor mask;  /* CLATTN_MASK: one byte each, [batch, heads, n_q, n_kv], 0 hides */

    /* CLATTN_BLOCK_MASK: one byte each, [batch, heads, ceil(n_q / block_q), ceil(n_kv / block_kv)], 0 hides; or, with
     * block_offsets.buffer not NULL, compressed rows (CSR): int32 block_offsets [batch, heads, block rows + 1] counts
     * from the start of block_columns, which holds the int32 numbers of the blocks of each row that are kept, in any
     * order. The layouts' row stride of block_offsets is 1; numbers out of range keep nothing. CSR takes workspace.
     * block_columns is what block_offsets.memory says. */
    struct clattn_tensor block_mask;
    struct clattn_tensor block_offsets;
    cl_mem block_columns;
    int64_t block_count; /* int32 numbers in block_columns */

    /* CLATTN_KEY_LENGTHS: int32 [batch], dense from layout.offset on; clamped to 0..n_kv */
    struct clattn_tensor key_lengths;

    /* CLATTN_VARLEN: int32 [batch + 1], dense from layout.offset on, not falling, from 0 to total_q (total_kv):
     * sequence b has rows (keys) cu_seqlens[b] to cu_seqlens[b + 1] - 1 of the total_q (total_kv) that the packed
     * tensors have, at most batch * n_q (batch * n_kv). Values out of range are clamped, and of a sequence that is
     * longer than n_q (n_kv) the rest does not exist. */
    struct clattn_tensor cu_seqlens_q, cu_seqlens_kv;
    int64_t total_q, total_kv;

    struct clattn_tensor sinks; /* CLATTN_SINKS: fp32 logits [heads]; -inf is none. They count in m, l and LSE */

    /* CLATTN_DROPOUT: P is dropped where a random number of 12 binary digits is below round(4096 p) (of which at most
     * 4095 is taken; a p above 0 that is rounded to 0, below 1/8192, is CLATTN_INVALID_ARGUMENT), and divided by the
     * share that is kept, so that its mean stays. l and LSE are those without dropout. The numbers depend on seed,
     * offset, b, h, i and j alone: see clattn_dropout_mask. Their digits are bits of Philox 4x32-7 (Salmon et al., SC
     * 2011), 256 pairs to a call: whether one pair is dropped says of another next to nothing (correlations are 0, few
     * up to 0.007 for p from 0.1 to 0.9, to 0.03 at 0.0125), of more of them together not quite nothing. 0 <= p < 1; a
     * problem that says it (problem.dropout_p) is computed faster. */
    float dropout_p;
    uint64_t dropout_seed;
    uint32_t dropout_offset;

    cl_mem data; /* what score_mod and mask_mod get; NULL: none. No output may lie in the same buffer */

    /* CLATTN_PAGES: K and V are pools of pages, [pool_pages, kv_heads, problem.page_keys, d] (d_v), in any strides: the
     * batch stride of their layouts is that between pages. K and V may lie apart or in one buffer. Key j of batch
     * element b is row j % page_keys of page number pages[b][j / page_keys], an int32. The table is dense
     * [batch, ceil(n_kv / page_keys)], or has another batch stride; its row stride is 1. Or, with page_offsets.buffer
     * not NULL, it is compressed (CSR): the numbers of batch element b are pages[page_offsets[b]] to
     * pages[page_offsets[b + 1] - 1] of the page_count that pages has, and page_offsets is int32 [batch + 1], dense
     * from layout.offset on. A page whose number is not below pool_pages, or that the table does not have, is not
     * touched, and its keys are hidden. Several batch elements may share pages. With CLATTN_VARLEN rows of Q alone are
     * packed: cu_seqlens_kv and total_kv are zero, and CLATTN_KEY_LENGTHS says how many keys each sequence has. With
     * CLATTN_ACCUMULATE the pages hold the chunk alone: the table is of key_count keys, from first_key on. */
    struct clattn_tensor pages, page_offsets;
    int64_t pool_pages;
    int64_t page_count; /* of compressed tables; else 0 */

    const struct clattn_kv_scales *kv_scales; /* NULL: K and V have no scales. It need not outlive the call */

    /* CLATTN_LSE_GRADIENT: fp32 [batch, heads, n_q], the gradient of the loss by LSE (with CLATTN_VARLEN
     * [heads, total_q]). With it attention is trainable whose parts are merged by their LSE. dS of a row becomes
     * P (dP - delta + d_lse), since the derivative of LSE by a score is P. What it holds for rows that see no key,
     * whose LSE is -inf whatever the inputs are, counts for nothing. */
    struct clattn_tensor d_lse;

    /* CLATTN_ROW_SHIFTS: int32 [batch], dense from element row_shifts_offset on. Row i of batch element b has its place
     * at key i + row_shifts[b], whatever the lengths are: causal masks, windows (without a corner of their own,
     * problem.window_corner) and ALiBi follow it. So with past[b] keys before the first row of Q, which a longer cache
     * may have behind them, too, row_shifts[b] = past[b]. Values beyond -2^29 to 2^29 count as these; n_q, n_kv are
     * 2^28 at most, and a reach of a window of more than 2^30 counts as that. */
    cl_mem row_shifts;
    int64_t row_shifts_offset;

    /* CLATTN_QUERY_LENGTHS: int32 [batch], dense from element query_lengths_offset on; clamped to 0..n_q. Rows beyond
     * do not exist, as those of seqused_q in FlashAttention: nothing is read of them, and nothing is written to theirs
     * in O, LSE, m, l and dQ. So a prefill of many rows runs in one call with decodes of one. The host level sets these
     * rows to 0 in its arrays. */
    cl_mem query_lengths;
    int64_t query_lengths_offset;

    /* CLATTN_TREE_MASK: bits [batch, heads, n_q, ceil(tree_keys / 32)] of int32 words, the lowest first: whether a row
     * sees each of the last tree_keys keys of its sequence. Of bit t that is key n_kv - tree_keys + t, with the length
     * of the sequence itself; what comes before is not hidden by it. tree_keys may be more than a sequence has, as in
     * a mask of one size for all steps: bits before the first key say nothing. Strides of 0 broadcast over heads and
     * batch. It hides pairs beside what else does: with a tree the causal mask is off, or aligned so that it hides none
     * of them. */
    struct clattn_tensor tree_mask;
    int64_t tree_keys;

    /* CLATTN_BIAS_SLOPES: fp32 [heads], dense from element bias_slopes_offset on, always a cl_mem: s + bias_slopes[h] *
     * bias, so that one bias serves heads that weigh it differently, such as ALiBi's distances or ggml's mask with
     * max_bias. Greater than 0 where a bias is -inf, which then hides the pair all the same. The gradient of the bias
     * counts them in; they have none themselves. */
    cl_mem bias_slopes;
    int64_t bias_slopes_offset;

    /* With problem.rng_state, and in no other call: uint64 [2], the seed and the offset of dropout, from element
     * rng_state_offset on. Kernels read them when they run, so that commands which were recorded, or stand in a queue,
     * drop what the buffer says by then; a backward pass has to find there what its forward pass did. dropout_seed is
     * 0, and dropout_offset is added to the offset here, so that calls that share a buffer (the layers of a model) can
     * differ. The sum counts modulo 2^32. The same weights drop, and results have the same bits, as with the same seed
     * and sum by value. */
    cl_mem rng_state;
    int64_t rng_state_offset;

    enum clattn_memory data_memory, row_shifts_memory, query_lengths_memory, rng_state_memory; /* what they are */

    /* CLATTN_DROPOUT, with CLATTN_ACCUMULATE and CLATTN_BACKWARD_ACCUMULATE alone: row i drops what row
     * dropout_row + i would, so that calls of some rows each drop what one of all rows does. A multiple of 16. With
     * CLATTN_VARLEN it is of the sequence that the first packed row belongs to; others begin with their row 0. */
    int64_t dropout_row;

    const struct clattn_score_more *more; /* NULL: all of it is 0. It need not outlive the call */
};

/* The values of the problem's features: struct clattn_score_args with arrays in place of buffers, and the same rules.
 * Fields of features that the problem does not have must be zero. What the arrays hold is checked too, where the device
 * level clamps. A layout with a stride of 0 broadcasts, and the elements are copied to the device once. */
struct clattn_host_score_args {
    int64_t window_left, window_right; /* CLATTN_WINDOW */
    float softcap;                     /* CLATTN_SOFTCAP */
    const float *alibi;                /* CLATTN_ALIBI: [batch, heads] */
    const void *bias;                  /* CLATTN_BIAS: [batch, heads, n_q, n_kv], of problem.bias_type */
    const uint8_t *mask;               /* CLATTN_MASK: [batch, heads, n_q, n_kv] */
    const uint8_t *block_mask; /* CLATTN_BLOCK_MASK: [batch, heads, blocks of rows, blocks of keys], or in its place */
    const int32_t *block_offsets; /*   [batch, heads, blocks of rows + 1], from 0 to block_count and not falling, and */
    const int32_t *block_columns; /*   [block_count], from 0 to the blocks of keys - 1 */
    int64_t block_count;
    struct clattn_layout alibi_layout, bias_layout, mask_layout, block_mask_layout, block_offsets_layout;

    const int32_t *key_lengths; /* CLATTN_KEY_LENGTHS: [batch], from 0 to n_kv */

    /* CLATTN_VARLEN: [batch + 1], from 0 to the total, not falling, each sequence of n_q rows (n_kv keys) or fewer. */
    const int32_t *cu_seqlens_q, *cu_seqlens_kv;
    int64_t total_q, total_kv;

    const float *sinks; /* CLATTN_SINKS: [heads] */
    float dropout_p;    /* CLATTN_DROPOUT */
    uint64_t dropout_seed;
    uint32_t dropout_offset;
    const float *data; /* what score_mod and mask_mod get: data_count floats; NULL and 0: none */
    int64_t data_count;

    /* CLATTN_PAGES: [batch, ceil(n_kv / page_keys)]; or page_count numbers, where page_offsets is not NULL. Numbers of
     * pages that hold keys (key_lengths) are from 0 to pool_pages - 1. */
    const int32_t *pages, *page_offsets;
    struct clattn_layout pages_layout;
    int64_t pool_pages;
    int64_t page_count;

    const struct clattn_host_kv_scales *kv_scales; /* NULL: K and V have no scales */

    const float *d_lse; /* CLATTN_LSE_GRADIENT: [batch, heads, n_q]; with CLATTN_VARLEN [heads, total_q] */
    struct clattn_layout d_lse_layout;

    const int32_t *row_shifts;    /* CLATTN_ROW_SHIFTS: [batch] */
    const int32_t *query_lengths; /* CLATTN_QUERY_LENGTHS: [batch], from 0 to n_q; rows beyond become 0 in outputs */
    const int32_t *tree_mask;     /* CLATTN_TREE_MASK: [batch, heads, n_q, ceil(tree_keys / 32)] */
    struct clattn_layout tree_mask_layout;
    int64_t tree_keys;

    const float *bias_slopes;  /* CLATTN_BIAS_SLOPES: [heads] */
    const uint64_t *rng_state; /* with problem.rng_state: the seed and the offset of dropout, [2] */

    uint64_t reserved[28]; /* 0: clattn/version.h */
};

CLATTN_END_DECLS

#endif
