/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_APPEND_H
#define CLATTN_APPEND_H

#include <clattn/attention.h>

CLATTN_BEGIN_DECLS

/* Appending to a cache of keys on the device: new rows of K and V go to where clattn_forward_enqueue then reads them,
 * by the same shape and the same struct clattn_score_args. On the way they are converted to the cache's types, and rows
 * of K, and of Q where that is given, are rotated (RoPE, arXiv:2104.09864).
 *
 *     problem.k_type, v_type, q_type   how the cache and the rotated Q are stored; k_type and v_type may be a format
 *     CLATTN_PAGES                     K and V are pools of pages, and score.pages says which ones a sequence has
 *     CLATTN_VARLEN                    the new rows are packed, [heads, total_q, d]; with CLATTN_PAGES alone
 *     CLATTN_KEY_LENGTHS               score.key_lengths says how many keys each sequence has, the new ones counted in
 *     CLATTN_QUERY_LENGTHS             score.query_lengths says how many new rows each sequence has; those beyond are
 *                                      not looked at
 *     CLATTN_ROW_SHIFTS                score.row_shifts says how many keys each sequence had before
 *
 * Row i of a sequence becomes the key at
 *     positions[b][i]                  where positions are given
 *     i + shift                        else, as masks are aligned (struct clattn_score_args): by row_shifts[b], or so
 *                                      that the last new row becomes the last key of its sequence
 *
 * A row whose position is not one of the n_kv keys of the shape, is beyond the tables of the rotation, or lies in a
 * page that is not there, is not written anywhere, whatever the arrays hold: -1 leaves a row out. Rows of one sequence
 * that have one position leave one of them there.
 *
 * Formats (enum clattn_operand_type): rows are quantised on the way. INT8, INT4 and FP8 have scales, and zero points
 * where problem.zero_points says so, in score.kv_scales. Those that each key has of its own are made, the least that
 * reach the largest value of their group, and written; where one serves several keys (a row stride of 0), it is used as
 * it is, and what is beyond its reach becomes the largest element. q8_0 and q4_0 follow ggml's rule. Values that are
 * not finite count as 0.
 *
 * Threads: an appender does not change once made. Any number of threads may enqueue from one at the same time. */
typedef struct clattn_appender clattn_appender;

struct clattn_append_params {
    /* That of the forward pass which reads the cache. Of its features those above count. */
    const struct clattn_problem *problem;
    int64_t new_type; /* enum clattn_operand_type: how the new rows, and q, are stored */

    /* The first rotary_d columns of K and Q are rotated: an even number, up to d; 0: none. With c and s the cosine and
     * the sine of row `position` and column i of the tables, i from 0 to rotary_d / 2 - 1, pair (x, y) becomes
     *
     *     x c - y s,  y c + x s
     *
     * each operation rounded to fp32. The pair is columns (i, i + rotary_d / 2), or with `interleaved` 1 columns
     * (2 i, 2 i + 1). */
    int64_t rotary_d;
    int64_t interleaved;

    uint64_t reserved[16]; /* 0: clattn/version.h */
};

/* Compiles the kernels, or finds them in the context's caches. *appender is set on success alone. The context must
 * outlive it. Errors: CLATTN_INVALID_ARGUMENT, those of clattn_plan_preview for the problem, CLATTN_BUILD_FAILED,
 * OpenCL's own. */
CLATTN_API clattn_status clattn_appender_create(clattn_appender **appender, clattn_context *context,
                                                const struct clattn_append_params *params);

/* Sets *appender to NULL; accepts NULL and a handle that is NULL. */
CLATTN_API void clattn_appender_destroy(clattn_appender **appender);

/* The arguments; they need not outlive the call. n_q is how many new rows each sequence has (with CLATTN_VARLEN at
 * most), n_kv how many keys the cache may have of each: all rows of a contiguous one, or those that the table of pages
 * is for.
 *
 *     k_new, k   [batch, kv_heads, n_q, d],   [batch, kv_heads, n_kv, d] or pages
 *     v_new, v   [batch, kv_heads, n_q, d_v], [batch, kv_heads, n_kv, d_v] or pages
 *     q          [batch, heads, n_q, d], as q_rotated, which may be the same tensor where the types are the same
 *
 * Each of the three pairs may be left out (both buffers NULL), not all. K and V may lie among each other in one buffer,
 * such as pages that hold both: the elements are then the caller's to keep apart. Else outputs have a place of their
 * own, as in struct clattn_forward_args. */
struct clattn_append_args {
    struct clattn_shape shape;
    struct clattn_tensor k_new, v_new, k, v;
    struct clattn_tensor q, q_rotated;

    /* int32 [batch, n_q], with CLATTN_VARLEN [total_q]; buffer NULL: the last places. */
    struct clattn_tensor positions;

    /* With rotary_d fp32 [rope_rows, rotary_d / 2] each, by position. Layouts: row and column. */
    struct clattn_tensor rope_cos, rope_sin;
    int64_t rope_rows;

    /* As in the forward call that follows; of it are looked at: key_lengths, query_lengths, row_shifts,
     * cu_seqlens_q, total_q, pages, page_offsets, pool_pages, page_count, kv_scales. */
    struct clattn_score_args score;
    cl_event *first_event; /* as in struct clattn_forward_args */

    uint64_t reserved[64]; /* 0: clattn/version.h */
};

/* Enqueues it. Events, checks and errors are as with clattn_forward_enqueue; a forward call that reads what was
 * appended waits for *event, or comes behind it on an in-order queue. */
CLATTN_API clattn_status clattn_append_enqueue(const clattn_appender *appender, cl_command_queue queue,
                                               const struct clattn_append_args *args, cl_uint wait_count,
                                               const cl_event *wait_list, cl_event *event);

CLATTN_END_DECLS

#endif
