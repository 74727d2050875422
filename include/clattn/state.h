/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_STATE_H
#define CLATTN_STATE_H

#include <clattn/attention.h>

CLATTN_BEGIN_DECLS

/* Attention over keys that arrive in pieces: FlashAttention's Algorithm 1 (arXiv:2205.14135) with its outer loop, over
 * blocks of keys, in the caller's hands. Between two pieces the state of each row, its running maximum m, its running
 * sum l and its un-normalised output O, lies in device memory in fp32:
 *
 *     begin                m = -inf, l = 0, O = 0
 *     accumulate(K_j, V_j) the rows meet some more keys
 *     merge                two states over disjoint keys become one:
 *                          m = max(m1, m2), l = l1 e^(m1 - m) + l2 e^(m2 - m), O alike
 *     finish               O / l in the problem's type, and LSE = m + ln l
 *
 * So K and V may be larger than device memory, prefixes may be shared, and devices may each take some of the keys. In
 * whatever chunks the keys come, the result is that of clattn_forward_enqueue up to rounding, and the same chunks in
 * the same order give the same bits. The plan's pass is CLATTN_ACCUMULATE for all four.
 *
 * A state is clattn_state_bytes of one cl_mem: m, then l [batch, heads, n_q], then O [batch, heads, n_q, d_v], fp32,
 * dense, each from a multiple of 64 bytes on. With CLATTN_VARLEN n_q counts the rows of the longest sequence. It may be
 * an address of SVM or USM: state_memory says so, and to begin and merge those there are functions of their own.
 *
 * Threads, events and errors: as clattn_forward_enqueue. Begin, merge and finish are one command each, so that their
 * event covers the whole call. */

/* Exactly the bytes of a state. Errors: CLATTN_INVALID_ARGUMENT, CLATTN_INVALID_SHAPE, CLATTN_TOO_LARGE. */
CLATTN_API clattn_status clattn_state_bytes(const clattn_plan *plan, const struct clattn_shape *shape, size_t *bytes);

/* `shape` is that of the whole problem, in all four calls; n_kv counts all keys of the sequence, seen or still to come,
 * since the alignment of causal masks and windows depends on it. */
CLATTN_API clattn_status clattn_state_begin_enqueue(const clattn_plan *plan, cl_command_queue queue,
                                                    const struct clattn_shape *shape, cl_mem state, cl_uint wait_count,
                                                    const cl_event *wait_list, cl_event *event);

CLATTN_API clattn_status clattn_state_begin_memory_enqueue(const clattn_plan *plan, cl_command_queue queue,
                                                           const struct clattn_shape *shape, cl_mem state,
                                                           enum clattn_memory state_memory, cl_uint wait_count,
                                                           const cl_event *wait_list, cl_event *event);

struct clattn_accumulate_args {
    struct clattn_shape shape;
    /* The chunk: keys first_key to first_key + key_count - 1; with CLATTN_VARLEN of the packed keys, so that it may
     * hold the end of one sequence and the beginning of another. */
    int64_t first_key, key_count;
    struct clattn_tensor q;
    struct clattn_tensor k, v; /* [batch, kv_heads, key_count, ...]: the chunk alone */
    cl_mem state;
    struct clattn_score_args score; /* as for the whole: bias, mask and block mask cover all keys */
    cl_mem workspace;               /* clattn_plan_workspace_bytes */
    size_t workspace_bytes;
    cl_event *first_event; /* as in struct clattn_forward_args */

    int64_t state_memory, workspace_memory; /* enum clattn_memory: what they are */

    uint64_t reserved[62]; /* 0: clattn/version.h */
};

CLATTN_API clattn_status clattn_state_accumulate_enqueue(const clattn_plan *plan, cl_command_queue queue,
                                                         const struct clattn_accumulate_args *args, cl_uint wait_count,
                                                         const cl_event *wait_list, cl_event *event);

/* into = into and from. The two must not overlap. */
CLATTN_API clattn_status clattn_state_merge_enqueue(const clattn_plan *plan, cl_command_queue queue,
                                                    const struct clattn_shape *shape, cl_mem into, cl_mem from,
                                                    cl_uint wait_count, const cl_event *wait_list, cl_event *event);
CLATTN_API clattn_status clattn_state_merge_memory_enqueue(const clattn_plan *plan, cl_command_queue queue,
                                                           const struct clattn_shape *shape, cl_mem into,
                                                           enum clattn_memory into_memory, cl_mem from,
                                                           enum clattn_memory from_memory, cl_uint wait_count,
                                                           const cl_event *wait_list, cl_event *event);

/* The results of the state, which stays as it is. lse, m and l are optional. Of `score` only what sinks, dropout and
 * variable lengths need is looked at: sinks, dropout_p, cu_seqlens_q, query_lengths. */
struct clattn_finish_args {
    struct clattn_shape shape;
    cl_mem state;
    struct clattn_tensor o, lse, m, l;
    struct clattn_score_args score;

    int64_t state_memory; /* enum clattn_memory: what `state` is */

    uint64_t reserved[31]; /* 0: clattn/version.h */
};

CLATTN_API clattn_status clattn_state_finish_enqueue(const clattn_plan *plan, cl_command_queue queue,
                                                     const struct clattn_finish_args *args, cl_uint wait_count,
                                                     const cl_event *wait_list, cl_event *event);

CLATTN_END_DECLS

#endif
