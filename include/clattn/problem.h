/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_PROBLEM_H
#define CLATTN_PROBLEM_H

#include <clattn/export.h>
#include <clattn/score.h>
#include <stddef.h>
#include <stdint.h>

CLATTN_BEGIN_DECLS

/* How Q, K, V and O are stored. Arithmetic, and the softmax vectors m, l and LSE, are always fp32. */
enum clattn_dtype {
    CLATTN_FP32 = 0, /* IEEE 754 binary32 */
    CLATTN_FP16 = 1, /* IEEE 754 binary16 */
    CLATTN_BF16 = 2  /* the upper half of a binary32 */
};

/* How one operand is stored. */
enum clattn_operand_type {
    CLATTN_AS_DTYPE = 0, /* as the problem's dtype says */
    CLATTN_AS_FP32 = 1,  /* IEEE 754 binary32 */
    CLATTN_AS_FP16 = 2,  /* IEEE 754 binary16 */
    CLATTN_AS_BF16 = 3,  /* the upper half of a binary32 */

    /* K and V alone, in forward passes and CLATTN_ACCUMULATE. Elements of a row lie in blocks of so many (1 where no
     * number is said) that take so many bytes. x is what is stored; scale and zero are those of the element
     * (struct clattn_kv_scales).
     *
     *     name        elements  bytes  value
     *     INT8               1      1  (x - zero) * scale, x from -128 to 127
     *     INT4               2      1  (x - zero) * scale, x from -8 to 7, two's complement; the first element is the
     *                                  lower half of the byte (as ONNX's int4)
     *     FP8_E4M3           1      1  x * scale, x of OCP's OFP8 E4M3: no infinities, NaN 0x7f and 0xff, up to 448
     *     FP8_E5M2           1      1  x * scale, x of OCP's OFP8 E5M2: the upper half of a binary16
     *     Q8_0              32     34  x * d: d, a binary16, then 32 bytes from -128 to 127 (ggml's block_q8_0)
     *     Q4_0              32     18  (x - 8) * d: d, a binary16, then 16 bytes: x of element e, 0 to 15, is the lower
     *                                  half of byte e, that of element e + 16 its upper half (ggml's block_q4_0)
     *
     * A row begins with a block: offset and strides of such an operand, which count elements, are multiples of a block,
     * and the column stride is 1. The dense layout's rows are whole blocks. Bytes of a block behind d are not looked
     * at. d of ggml's blocks lies at a multiple of 2 bytes. Values are computed in fp32. Skeletons on matrix units copy
     * elements as they are, and are not planned: the plan's steps say so. */
    CLATTN_AS_INT8 = 4,
    CLATTN_AS_INT4 = 5,
    CLATTN_AS_FP8_E4M3 = 6,
    CLATTN_AS_FP8_E5M2 = 7,
    CLATTN_AS_Q8_0 = 8,
    CLATTN_AS_Q4_0 = 9
};

/* For `zero_points`. */
enum clattn_zero_points { CLATTN_K_ZEROS = 1, CLATTN_V_ZEROS = 2 };

/* Which keys a query row may see. With n_q rows and n_kv keys, row i sees key j if */
enum clattn_causal {
    CLATTN_FULL = 0,                /* always */
    CLATTN_CAUSAL_BOTTOM_RIGHT = 1, /* j <= i + n_kv - n_q: the last row sees every key (FlashAttention since 2.1) */
    CLATTN_CAUSAL_TOP_LEFT = 2      /* j <= i: the first row sees the first key (PyTorch's is_causal) */
};

/* What a plan computes. */
enum clattn_pass {
    CLATTN_FORWARD = 0,            /* O and LSE: clattn_forward_enqueue */
    CLATTN_BACKWARD = 1,           /* the gradients: clattn_backward_enqueue */
    CLATTN_ACCUMULATE = 2,         /* O, m and l in device memory, keys chunk by chunk: clattn/state.h */
    CLATTN_BACKWARD_ACCUMULATE = 3 /* the gradients, keys chunk by chunk: clattn_backward_enqueue */
};

/* What attention is to be computed, apart from the sizes that may change from call to call:
 *
 *     S = modified(scale * Q K^T),  P = softmax(S) over the keys that the row sees,  O = P V
 *
 * A zero field means its default. Q and K have head dimension d, V and O have d_v, each from 1 to CLATTN_MAX_D. In
 * CLATTN_FORWARD and CLATTN_ACCUMULATE d may be up to CLATTN_MAX_LATENT_D, as that of latent attention (MLA): V may be
 * a part of K's buffer there, as inputs may overlap.
 *
 * Gradients belong to a forward pass. The plans of the two have in common (CLATTN_LSE_GRADIENT aside)
 *     dtype, q_type, k_type, v_type, o_type, bias_type, d, d_v, causal, scale, features, block_q, block_kv,
 *     score_mod, mask_mod
 * and their calls the shape, the inputs and all of struct clattn_score_args (for dropout the same p, seed and offset).
 * Each plan's own are pass, score_mod_grad, dropout_p, rng_state, unordered, splits, all that is expected, and the
 * choices taken out of the planner's hands. The library cannot see whether a pair fits: gradients of another problem
 * are no error. */
#define CLATTN_MAX_D        512
#define CLATTN_MAX_LATENT_D 576

/* For `splits`. */
#define CLATTN_SPLITS_BY_SHAPE (-1)
#define CLATTN_MAX_SPLITS      256

enum clattn_packing {
    CLATTN_PACKING_PLANNED = 0, /* where the expected sizes, which must all be known, gain by it */
    CLATTN_PACKING_NEVER = 1,
    CLATTN_PACKING_ALWAYS = 2
};

struct clattn_problem {
    enum clattn_pass pass;
    enum clattn_dtype dtype; /* of each operand that has no type of its own: q_type and its kind, below */
    int d;
    int d_v; /* 0: d */
    enum clattn_causal causal;
    float scale; /* 0: 1 / sqrt(d); finite */

    unsigned features; /* enum clattn_feature, or-ed together */

    /* With CLATTN_BLOCK_MASK: rows and keys of a block, each a multiple of 16. */
    int block_q, block_kv;

    /* With CLATTN_DROPOUT: the share that every call drops, where it is known, which is compiled into the kernels then:
     * up to 6 % faster (cl/forward_hopper.cl, d 64). A call with another is CLATTN_INVALID_ARGUMENT. 0:
     * each call's own. What is dropped is the same. */
    float dropout_p;

    /* The user's own modifications, as OpenCL C text that defines the function of the field's name (and whatever else
     * it needs); NULL for none. They are compiled into the kernels and called for pairs of a row i and a key j that
     * exist:
     *
     *     float score_mod(float score, int b, int h, int i, int j, __global const float *data)
     *         the score after scale, softcap, alibi and bias -> the score to use; -INFINITY hides the pair
     *     float score_mod_grad(float score, int b, int h, int i, int j, __global const float *data)
     *         its derivative by `score`: needed with score_mod in both backward passes
     *     bool mask_mod(int b, int h, int i, int j, __global const float *data)
     *         whether row i sees key j
     *
     * b is the batch element (with CLATTN_VARLEN: the sequence), h the query head, `data` the buffer of struct
     * clattn_score_args. The same (b, h, i, j) must always get the same answer. Names that start with clattn or CLATTN
     * are the library's: a text that has one, outside comments and strings, is CLATTN_INVALID_ARGUMENT. Any other is
     * free, for functions, types and macros alike; a macro that the texts define or undefine is behind them as it was
     * before (not so one of a file that they include). Text that does not compile is CLATTN_BUILD_FAILED, and so is a
     * function of another type; the log counts lines of the text itself, under the field's name. A byte order mark is
     * skipped. The texts are copied: they need not outlive the call. */
    const char *score_mod;
    const char *score_mod_grad;
    const char *mask_mod;

    /* How O is stored: what forward passes write, and backward passes read. dO stays of the problem's dtype. Where Q, K
     * and V are fp16 or bf16, CLATTN_AS_FP32 makes gradients exact where a row sees few keys: see struct
     * clattn_backward_args. */
    enum clattn_operand_type o_type;

    /* 1: a backward pass may add up dQ in any order, which is faster on some devices; the same call then gives results
     * that differ in their last bits from run to run. 0: always in the same order. */
    int unordered;

    /* The sizes that the calls will have, as far as they are known; expected_heads counts those of all batch elements
     * (batch * heads). They move the choice of block sizes, and whether keys may be split: a plan serves any sizes.
     * 0: unknown, planned for long sequences and many heads. */
    int64_t expected_n_q;
    int64_t expected_n_kv;
    int64_t expected_heads;

    /* With CLATTN_BLOCK_MASK: the share of its blocks that are not hidden, as far as it is known. It is a hint to the
     * planner: masks of any share may come. Below three quarters, tiles are no larger than the blocks of the mask, so
     * that hidden blocks can be skipped. From there on, kernels that would lose more than that gains keep their tiles,
     * and dQ is added up in one sum.
     * 0: unknown, planned for masks that hide many. */
    float expected_density;

    /* Whether the keys of one block of rows may be split between work-groups (Flash-Decoding), which keeps all compute
     * units busy where blocks of rows are too few: one step of decoding, one sequence of few heads. The parts wait in
     * the workspace (clattn_plan_workspace_bytes) until all are there; a second kernel, or the work-group that is last
     * with one, puts them together. In CLATTN_FORWARD alone, else 0 or 1.
     *
     *     0                       into as many as the model takes for the shape of each call, if at the expected sizes,
     *                             which must all be known, that is more than one; else, and with CLATTN_WINDOW
     *                             (whose width is a call's), never
     *     CLATTN_SPLITS_BY_SHAPE  the same, whatever is expected: both kernels are compiled
     *     1                       never
     *     2 to CLATTN_MAX_SPLITS  into so many, in every call
     */
    int splits;

    /* Choices taken out of the planner's hands, for comparing and for tuning: the name of a skeleton ("forward_simt",
     * "forward_cpu", "decode_cpu", "forward_matrix", "forward_hopper", "backward_simt", "backward_cpu",
     * "backward_matrix", "backward_hopper", "backward_fused"), block sizes, work-items per work-group, and the
     * skeleton's own knobs as clattn_plan_info and tuning records have them ("micro=8 row_vectors=2"; needs `skeleton`;
     * what is not named is planned). NULL and 0: planned. What does not fit the device is an error
     * (CLATTN_NOTHING_FITS), never quietly replaced. Where nothing is forced, tuning records may answer in the model's
     * place: see clattn/tuning.h. */
    const char *skeleton;
    int b_r;
    int b_c;
    int work_group_size;
    const char *knobs;

    /* With CLATTN_BIAS: how score.bias is stored, whatever the other operands are: enum clattn_operand_type. d_bias
     * stays of the problem's dtype. */
    int64_t bias_type;

    /* As expected_heads, of K and V (batch * kv_heads); 0: unknown, as many as of Q. */
    int64_t expected_kv_heads;

    /* Whether query heads that share a head of K and V go through the kernel together (CLATTN_FORWARD and
     * CLATTN_ACCUMULATE; in other passes 0 or CLATTN_PACKING_NEVER): it then reads K and V once for all of them, and
     * blocks of rows are full where n_q is small. The kernel serves calls with any numbers of heads. Not with
     * CLATTN_DROPOUT. enum clattn_packing. */
    int64_t packing;

    /* How Q, K and V are stored, each by itself: enum clattn_operand_type. dQ, dK and dV are stored as they are; dO and
     * whatever else has no type of its own stay of the problem's dtype. Skeletons without matrix units convert elements
     * as they load them. Those on matrix units multiply elements of one 16-bit type, and are planned where Q, K and V
     * (with gradients dO, too) are of one; where not, the plan's steps say so. Of few rows (expected_n_q, with packed
     * heads up to 16) "forward_matrix" takes K and V in formats, too. What they stand for is rounded to the problem's
     * dtype there, but for INT8 and FP8 with a scale a row and no zero points, whose bytes are multiplied as they are.
     */
    int64_t q_type;
    int64_t k_type;
    int64_t v_type;

    /* With CLATTN_PAGES: keys of a page, from 1 on, which are compiled into the kernels; else 0. Skeletons on matrix
     * units read keys that are contiguous, unless rows are few as above, and are not planned then: the plan's steps say
     * so. */
    int64_t page_keys;

    /* Where k_type (v_type) is INT8, INT4 or one of FP8: so many elements of a row of K (V) have one scale; 0: all of
     * the row. The last of a row may have fewer. 1 is a scale a channel. Else 0. */
    int64_t k_scale_group;
    int64_t v_scale_group;

    /* Whether scales of INT8 and INT4 come with zero points: enum clattn_zero_points, or-ed together. */
    int64_t zero_points;

    /* With CLATTN_WINDOW: what its rows are aligned by. 0: as everything else (struct clattn_score_args).
     * CLATTN_CAUSAL_BOTTOM_RIGHT or CLATTN_CAUSAL_TOP_LEFT: by that corner, whatever the causal mask is (JAX's
     * local_window_size is CLATTN_CAUSAL_TOP_LEFT). */
    int64_t window_corner;

    /* Greater than 0: the keys of a sequence are split at each multiple of so many, which is rounded up to a multiple
     * of the plan's b_c, whatever the call's shape is; `splits` is 0. Then results are batch-invariant: a plan gives a
     * sequence the same bits in whatever batch it comes, however long the others are. n_kv is at most CLATTN_MAX_SPLITS
     * times that. In CLATTN_FORWARD alone, else 0. Such a plan keeps no other for few rows (clattn/plan.h), since that
     * would depend on the shape: where calls have few, expected_n_q says so. */
    int64_t split_keys;

    /* With CLATTN_DROPOUT: 1: kernels read its seed and offset from score.rng_state, in device memory; else 0. */
    int64_t rng_state;

    /* With CLATTN_WINDOW: so many first keys of each sequence, up to 65536, which window_left does not hide (attention
     * sinks: Xiao et al., "Efficient Streaming Language Models with Attention Sinks", arXiv:2309.17453). They are
     * compiled into the kernels. In CLATTN_FORWARD and CLATTN_ACCUMULATE, else 0.
     *
     * A cache then needs room for these and the window's keys alone. With CLATTN_PAGES it is a ring: a sequence's table
     * names the pages of the first keys, then those of the window in the order of their keys, and key_lengths counts
     * the keys of these pages. Keys keep their order and the window is aligned with the last one, so nothing else
     * changes. When the last page is full, the window's oldest one becomes the table's last. (ALiBi counts distances
     * by keys that are there; rotary embedding is applied before keys are appended.) */
    int64_t sink_keys;

    uint64_t reserved[18]; /* 0: clattn/version.h */
};

/* The size of one element in bytes: 4 or 2; 0 for an unknown type. Any thread. */
CLATTN_API int clattn_dtype_size(enum clattn_dtype dtype);

/* "fp32", "fp16", "bf16"; "unknown" for any other. Static storage. Any thread. */
CLATTN_API const char *clattn_dtype_name(enum clattn_dtype dtype);

/* The sizes of one call. kv_heads divides heads: heads / kv_heads query heads share one head of K and V (grouped-query
 * attention; 1 is multi-query). Query head h reads key/value head h / (heads / kv_heads). Zero lengths are sizes like
 * any other: with n_q = 0, batch = 0 or heads = 0 nothing is written; with n_kv = 0 every row is one that sees no key.
 *
 * With CLATTN_VARLEN, `batch` counts sequences, which lie end to end in tensors of [heads, total, d], and n_q and n_kv
 * are the longest sequence's lengths, or any larger ones.
 *
 * A row that sees no key gets O = 0, LSE = -inf, m = -inf, l = 0 (with a sink: LSE and m the sink, l = 1). */
struct clattn_shape {
    int64_t batch;
    int64_t heads;
    int64_t kv_heads; /* 0: heads */
    int64_t n_q;
    int64_t n_kv;
    uint64_t reserved[3]; /* 0: clattn/version.h */
};

CLATTN_END_DECLS

#endif
