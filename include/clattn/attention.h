/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_ATTENTION_H
#define CLATTN_ATTENTION_H

#include <clattn/device.h>
#include <clattn/plan.h>
#include <clattn/problem.h>

CLATTN_BEGIN_DECLS

/* The device level: attention on the caller's buffers and queues.
 *
 * A plan is compiled once for a problem and serves any sizes and strides. Making it does everything that is slow or can
 * fail for want of resources; enqueueing allocates nothing, never blocks and never waits for the device.
 *
 * Threads: a plan does not change once made. Any number of threads may enqueue from one plan at the same time, on the
 * same queue or on different ones; destroying it must be the last use. Determinism: the same plan on the same device
 * gives the same bits.
 *
 * An example: causal attention of 8 heads of 64 columns, 2 heads of keys, on dense fp32 buffers [1, heads, n, 64]. (A
 * test compiles and runs it.)
 *
 *     #include <clattn/clattn.h>
 *     #include <stdio.h>
 *
 *     int attend(cl_context cl, cl_device_id device, cl_command_queue queue, int64_t n,
 *                cl_mem q, cl_mem k, cl_mem v, cl_mem o)
 *     {
 *         const struct clattn_context_params params = {.context = cl, .device = device};
 *         const struct clattn_problem problem = {.d = 64, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT};
 *         struct clattn_forward_args args = {
 *             .shape = {.batch = 1, .heads = 8, .kv_heads = 2, .n_q = n, .n_kv = n},
 *             .q.buffer = q, .k.buffer = k, .v.buffer = v, .o.buffer = o};
 *         clattn_context *context = NULL;
 *         clattn_plan *plan = NULL;
 *         cl_int code = CL_SUCCESS;
 *
 *         clattn_status status = clattn_context_create(&context, &params); // once for a device
 *         if (!status)
 *             status = clattn_plan_create(&plan, context, &problem); // once for a problem: compiles
 *         if (!status)
 *             status = clattn_plan_workspace_bytes(plan, &args.shape, &args.workspace_bytes);
 *         if (!status && args.workspace_bytes)
 *             args.workspace = clCreateBuffer(cl, CL_MEM_READ_WRITE, args.workspace_bytes, NULL, &code);
 *         if (!status && !code)
 *             status = clattn_forward_enqueue(plan, queue, &args, 0, NULL, NULL);
 *         if (status)
 *             fprintf(stderr, "%s\n", clattn_error_message());
 *         else if (!code)
 *             code = clFinish(queue);
 *         if (args.workspace)
 *             clReleaseMemObject(args.workspace);
 *         clattn_plan_destroy(&plan);
 *         clattn_context_destroy(&context);
 *         return status || code ? -1 : 0;
 *     }
 */
typedef struct clattn_plan clattn_plan;

/* Plans, compiles (or finds the compiled program in the context's caches) and proves that the kernel fits the device;
 * where the compiler's answer shows that it does not, the next smaller block sizes are taken and the plan's steps say
 * so. *plan is set on success alone. The context must outlive the plan.
 *
 * Errors: those of clattn_plan_preview; CLATTN_BUILD_FAILED with the compiler's log; OpenCL's own. */
CLATTN_API clattn_status clattn_plan_create(clattn_plan **plan, clattn_context *context,
                                            const struct clattn_problem *problem);

/* Sets *plan to NULL; accepts NULL and a handle that is NULL. Commands already enqueued are not disturbed,
 * unless a user event still holds them back on NVIDIA's driver (580.159), which then crashes. */
CLATTN_API void clattn_plan_destroy(clattn_plan **plan);

/* Errors: CLATTN_INVALID_ARGUMENT. */
CLATTN_API clattn_status clattn_plan_get_info(const clattn_plan *plan, struct clattn_plan_info *info);

/* The exact device memory, in bytes, that a call of this shape needs as workspace, the sum of:
 *
 *     forward, accumulate   nothing, but:
 *       splits              where keys are split (problem.splits), d_v + 2 floats for each row and split; and where
 *                           the kernel is "forward_matrix" with the knob streams=1, 8 bytes for each block of rows,
 *                           from a multiple of 128 on
 *       tickets             where the kernel is "forward_cpu" with the knob dot=3 or dot=4, and keys are not split, 8
 *                           bytes: blocks of rows go to whichever core is free
 *       tma=1             where the kernel is "forward_hopper" with this knob, 384 bytes for each compute unit, from
 *                           a multiple of 128 on: TMA descriptors of Q, K and V for each work-group
 *     backward              always four floats for each row (delta, and what weights follow from), and:
 *       sums of dQ          where the kernel adds dQ up there ("backward_hopper", "backward_fused"), a float for each
 *                           element of Q, rows and columns rounded up to tiles, and what puts the sums in order
 *       fused=1             where the kernel is "backward_cpu" with this knob, d + 4 floats for each row and share of
 *                           the keys, d rounded up to vectors: so many shares, up to a block of keys each, that there
 *                           are eight for each compute unit, of all heads of K and V together; but of sums larger
 *                           than a quarter of max_allocation_bytes one for each unit. And a word for each head of K
 *                           and V, and two more: shares go to whichever core is free
 *       shares              where "backward_hopper" shares out blocks of keys, since they are too few or too uneven for
 *                           the device, a float for each element of K and V and share, rows and columns rounded up to
 *                           tiles; 32 shares at most, and the more the fewer blocks there are
 *     any pass              for a block mask given as CSR a byte for each block of each head, of the problem's block_q
 *                           and block_kv; counted here whenever the problem has CLATTN_BLOCK_MASK
 *
 * So a backward call always takes workspace. Kernels take vectors from it: one of CL_MEM_USE_HOST_PTR begins at a
 * multiple of 128 bytes, as OpenCL asks of such memory. Errors: CLATTN_INVALID_ARGUMENT, CLATTN_INVALID_SHAPE,
 * CLATTN_TOO_LARGE. */
CLATTN_API clattn_status clattn_plan_workspace_bytes(const clattn_plan *plan, const struct clattn_shape *shape,
                                                     size_t *bytes);

/* The arguments of a forward pass; they need not outlive the call.
 *
 *     q  [batch, heads, n_q, d]          k  [batch, kv_heads, n_kv, d]
 *     o  [batch, heads, n_q, d_v]        v  [batch, kv_heads, n_kv, d_v]
 *
 * All are of the problem's dtype, unless problem.q_type, k_type, v_type or o_type say another.
 *
 * The softmax vectors are optional (buffer NULL), fp32, [batch, heads, n_q]; their layout's column is 0. With s the
 * row's scores over the keys it sees, after all modifications: m = max s, l = sum exp(s - m), lse = m + ln l.
 *
 * With CLATTN_VARLEN the tensors are [heads, total, d] (and [heads, total]): their layouts' batch stride is not used.
 *
 * An output must not share memory with another output or with an input. Within one buffer and its sub-buffers this is
 * checked, by the span from the first to the last byte of each tensor (so an O interleaved with an input in one buffer
 * is refused); buffers that use the same host memory are the caller's to keep apart.
 *
 * Every cl_mem must be a buffer (no image) of the clattn_context's cl_context. One that a call writes to must not be
 * CL_MEM_READ_ONLY, one that it reads not CL_MEM_WRITE_ONLY; workspaces, states and sums are both. Addresses of SVM and
 * USM may stand in their places: enum clattn_memory (<clattn/tensor.h>). */
struct clattn_forward_args {
    struct clattn_shape shape;
    struct clattn_tensor q, k, v, o;
    struct clattn_tensor lse, m, l;
    struct clattn_score_args score;
    /* May be NULL where clattn_plan_workspace_bytes says 0, or counts but a block mask and that comes as bytes. Calls
     * that may run at the same time have one each. */
    cl_mem workspace;
    size_t workspace_bytes; /* the size of `workspace` */
    cl_event *first_event;  /* where not NULL, gets the event of the call's first command: see below */

    int64_t workspace_memory; /* enum clattn_memory: what `workspace` is */

    uint64_t reserved[63]; /* 0: clattn/version.h */
};

/* Enqueues a forward pass. It starts after the events of `wait_list` (wait_count of them, of the same cl_context; NULL
 * and 0 for none); *event, where `event` is not NULL, completes with it and is the caller's to release. The buffers are
 * retained by OpenCL until then.
 *
 * Time: a call may be several commands, and *event is that of the last one. Its profile alone leaves the others out. On
 * a queue with CL_QUEUE_PROFILING_ENABLE the whole call took
 *
 *     from  CL_PROFILING_COMMAND_START of *args->first_event  to  CL_PROFILING_COMMAND_END of *event
 *
 * on any queue, in order or not: no command of the call starts before the first one. Where the call is one command both
 * are the same event. *first_event is the caller's to release, too.
 *
 * Everything is checked before anything is enqueued: on an error but an OpenCL one the outputs are untouched. Sizes
 * that leave nothing to do (batch, heads or n_q of 0) succeed and give an event that waits for wait_list.
 *
 * Errors: CLATTN_INVALID_ARGUMENT, CLATTN_INVALID_SHAPE, CLATTN_INVALID_LAYOUT, CLATTN_BUFFER_TOO_SMALL,
 * CLATTN_WORKSPACE_TOO_SMALL, CLATTN_TOO_LARGE (a length of 2^31 - 4096 or more), OpenCL's own. */
CLATTN_API clattn_status clattn_forward_enqueue(const clattn_plan *plan, cl_command_queue queue,
                                                const struct clattn_forward_args *args, cl_uint wait_count,
                                                const cl_event *wait_list, cl_event *event);

/* The arguments of a backward pass: the gradients of a scalar loss, from that by O.
 *
 *     q, k, v, o        as the forward pass had and gave them         d_o  [batch, heads, n_q, d_v]
 *     m and l, or lse   as the forward pass gave them: m and l together, or lse alone. If all three are given, m and l
 *                       count
 *     d_q, d_k, d_v     as q, k, v: outputs, of the problem's type; each may be left out (buffer NULL)
 *     d_bias            as score.bias, with a stride of 0 where that broadcasts over batch, heads or rows: the sum
 *                       over these. Optional; its column stride is not 0 where there are more columns
 *     d_sinks           fp32 [heads]: the sum over batch and rows. Optional
 *
 * Scores and weights are computed again from Q, K and what is known of each row's softmax, tile by tile
 * (FlashAttention-2, Algorithm 2): neither is ever in device memory. Sums are made in a fixed order, without atomics:
 * the same plan on the same device gives the same bits.
 *
 * With m and l a weight is P = exp(s - m) / l. It is exact up to rounding whatever offset a row's scores share, since
 * that falls out of s - m, which is formed first. With lse alone P = exp(s - lse), and lse = m + ln l has one float for
 * both parts: rounding it moves all weights of the row by up to |lse| 2^-24 of themselves. So a row is as exact as it
 * can be while |lse| is below some 10 (fp32), 500 (fp16) or 4000 (bf16); from 2^24 ln l on, l is lost, and P = 1 for
 * each of the row's largest scores. P never exceeds 1, in its type, in either case. A forward pass that is asked for m
 * or l may take a little longer than one that is not: then lse is what to ask for, where scores are known to be small.
 *
 * 16-bit types take weights from m + ln l as one float, too, while that is exact enough for them: |m| up to 512 (fp16)
 * or 4096 (bf16). The skeletons on matrix units compute tiles with larger ones of these types a second time, carefully.
 *
 * With CLATTN_LSE_GRADIENT the loss depends on LSE, too: score.d_lse (clattn/score.h).
 *
 * delta = rowsum(dO * O) is subtracted from each dP = dO . v. Where a row sees one key or few, the two are nearly the
 * same, and what remains of them is no more exact than O. An O of 16 bits is rounded by up to 2^-11 (fp16) or 2^-8
 * (bf16) of each element, and so dS is off by about that share of |dO| |O|, however small it ought to be. With
 * problem.o_type CLATTN_AS_FP32, in the forward pass and in this one, that error is gone. The skeletons on matrix units
 * round weights of 16-bit types to 16 bits before they multiply V, whatever O is stored as, so that part of it may
 * stay; a weight of 1, which the largest of a row mostly is there, is exact. They round dP and delta of 16-bit types
 * apart from each other, too: a dS below some 2^-22 of |dO| |v| is lost on them.
 *
 * fp32 on NVIDIA's tensor cores, which a caller has to name (clattn/clattn.h, Numbers): scores are off by up to 2^-22
 * of |q| |k|, in each pass in its own way, and so weights by that much of themselves. Where scores are in the hundreds
 * that is more than the error rule allows. Name them for both passes or for none: weights that one pass forms from the
 * other's m and l are further off where the two differ.
 *
 * Where Q, K, V or dO have a value that is not finite, what does not see it has the gradients that it would have, and
 * of what sees it some are infinite or NaN: those that the value is a term of on backward_simt and backward_cpu, on
 * matrix units all columns of a row or key.
 *
 * backward_simt, backward_cpu, and in fp32 backward_matrix mend delta. Arithmetic of the first two is fp32 for all
 * types, except that backward_cpu rounds P and dS to bf16 where it multiplies pairs (the knob dot). Their kernel of dQ
 * adds up P (dP - delta) over each row. The sum should be 0, and what it is instead goes to delta, for all gradients of
 * the row. They are then as exact as if delta had been the sum of P dP. Blocks of rows where that matters to dQ have it
 * computed twice. The kernel runs for d_k, d_bias and d_sinks even where d_q is left out. Where one kernel of
 * backward_cpu forms dQ, dK and dV (the knob fused), a head of K and V where that matters has all three computed twice;
 * elsewhere these take delta as it was, which is off by at most 2^-18 of the block's largest sum of |P (dP - delta)| in
 * fp32. Delta stays as it is in chunks of keys (CLATTN_BACKWARD_ACCUMULATE), and in rows whose m and l are of more keys
 * than k has. A row counts as one of these where the other keys have more than 2^-19 of its weight.
 *
 * The workspace (clattn_plan_workspace_bytes) begins with four floats for each row: delta = rowsum(dO * O), and what
 * weights follow from. */
struct clattn_backward_args {
    struct clattn_shape shape;
    struct clattn_tensor q, k, v, o, d_o;
    struct clattn_tensor lse, m, l; /* fp32 [batch, heads, n_q], as in struct clattn_forward_args */
    struct clattn_tensor d_q, d_k, d_v;
    struct clattn_tensor d_bias, d_sinks;
    struct clattn_score_args score;
    cl_mem workspace; /* always needed; calls that may run at the same time have one each */
    size_t workspace_bytes;
    cl_event *first_event; /* as in struct clattn_forward_args: a backward call is several commands */

    /* CLATTN_BACKWARD_ACCUMULATE alone, else 0: the call is on one chunk of the keys, first_key to first_key +
     * key_count - 1 (with CLATTN_VARLEN of the packed keys, across sequences).
     *
     *     k, v, d_k, d_v    hold the chunk alone: [batch, kv_heads, key_count, ...]; d_k and d_v are complete
     *     d_q, d_bias       fp32, whatever the problem's type: sums over chunks that the call adds to, so they are set
     *                       to 0 before the first; the same chunks in the same order give the same bits
     *     d_sinks           of all keys: each chunk gives the same, and may leave it out
     *
     * o, m, l, lse and score are those of the whole; shape.n_kv counts all keys. */
    int64_t first_key, key_count;

    int64_t workspace_memory; /* enum clattn_memory: what `workspace` is */

    uint64_t reserved[63]; /* 0: clattn/version.h */
};

/* As clattn_forward_enqueue, with a plan of pass CLATTN_BACKWARD or CLATTN_BACKWARD_ACCUMULATE. The commands depend on
 * each other through the queue's order, or through events where it has none. */
CLATTN_API clattn_status clattn_backward_enqueue(const clattn_plan *plan, cl_command_queue queue,
                                                 const struct clattn_backward_args *args, cl_uint wait_count,
                                                 const cl_event *wait_list, cl_event *event);

/* Whether a backward pass did all that it should. Work-groups of "backward_hopper" wait for each other by words of the
 * workspace. Should one wait in vain, which is a fault of the library or the device, the kernel does not stay for ever:
 * after 2^28 looks at such a word, which take 20 seconds or more of the kernel's own time, it gives up, and so do all
 * others. The pass then ends with wrong gradients, and a word of the workspace says so, until the next pass on it.
 *
 * Takes the arguments of the clattn_backward_enqueue before, the workspace as that has left it; reads the word when the
 * events of `wait_list` have come, in the queue's order, and blocks until then. CLATTN_SUCCESS, at once, where the
 * plan's kernels wait for no other work-group. The host level asks by itself, and leaves its arrays as they were.
 *
 * Errors: CLATTN_KERNEL_STUCK; those of clattn_backward_enqueue. */
CLATTN_API clattn_status clattn_backward_check(const clattn_plan *plan, cl_command_queue queue,
                                               const struct clattn_backward_args *args, cl_uint wait_count,
                                               const cl_event *wait_list);

/* Which pairs dropout keeps, computed on the host: mask[r * key_count + c] = 1 where row first_row + r of head h of
 * batch element b keeps key first_key + c, else 0. The same for every device, plan and chunking. `heads` is the number
 * of query heads. With problem.rng_state `seed` is that of score.rng_state, and `offset` the sum of the one there and
 * score.dropout_offset. Errors: CLATTN_INVALID_ARGUMENT. Any thread. */
CLATTN_API clattn_status clattn_dropout_mask(float p, uint64_t seed, uint32_t offset, int64_t heads, int64_t b,
                                             int64_t h, int64_t first_row, int64_t row_count, int64_t first_key,
                                             int64_t key_count, uint8_t *mask);

CLATTN_END_DECLS

#endif
