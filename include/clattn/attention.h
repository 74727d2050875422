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
 * Threads: a plan does not change once made. Any number of threads may enqueue from one plan at the same time, on the same
 * queue or on different ones; destroying it must be the last use. Determinism: the same plan on the same device gives the same bits. */
typedef struct clattn_plan clattn_plan;

/* Plans, compiles (or finds the compiled program in the context's caches) and proves that the kernel fits the device; where
 * the compiler's answer shows that it does not, the next smaller block sizes are taken and the plan's steps say so. *plan is set
 * on success alone. The context must outlive the plan.
 *
 * Errors: those of clattn_plan_preview; CLATTN_BUILD_FAILED with the compiler's log; OpenCL's own. */
CLATTN_API clattn_status clattn_plan_create(clattn_plan **plan, clattn_context *context,
                                            const struct clattn_problem *problem);

/* Sets *plan to NULL; accepts NULL and a handle that is NULL. Commands already enqueued are not disturbed. */
CLATTN_API void clattn_plan_destroy(clattn_plan **plan);

/* Errors: CLATTN_INVALID_ARGUMENT. */
CLATTN_API clattn_status clattn_plan_get_info(const clattn_plan *plan, struct clattn_plan_info *info);

/* The exact device memory, in bytes, that a forward pass of this shape needs as workspace. The present skeletons keep all
 * intermediate results on the chip and answer 0. Errors: CLATTN_INVALID_ARGUMENT, CLATTN_INVALID_SHAPE, CLATTN_TOO_LARGE. */
CLATTN_API clattn_status clattn_plan_workspace_bytes(const clattn_plan *plan, const struct clattn_shape *shape,
                                                     size_t *bytes);

/* A tensor on the device: a buffer of the plan's context and where in it the elements lie. */
struct clattn_tensor {
    cl_mem buffer;
    struct clattn_layout layout;
};

/* The arguments of a forward pass; they need not outlive the call.
 *
 *     q  [batch, heads, n_q, d]          k  [batch, kv_heads, n_kv, d]
 *     o  [batch, heads, n_q, d_v]        v  [batch, kv_heads, n_kv, d_v]
 *
 * The softmax vectors are optional (buffer NULL), fp32, [batch, heads, n_q]; their layout's column is 0. With s the row's
 * scaled scores over the keys it sees: m = max s, l = sum exp(s - m), lse = m + ln l.
 *
 * An output must not share memory with another output or with an input. Within one cl_mem this is checked, by the span from
 * the first to the last byte of each tensor (so an O interleaved with an input in one buffer is refused); two sub-buffers of one
 * buffer are the caller's to keep apart. */
struct clattn_forward_args {
    struct clattn_shape shape;
    struct clattn_tensor q, k, v, o;
    struct clattn_tensor lse, m, l;
    cl_mem workspace;       /* may be NULL where clattn_plan_workspace_bytes says 0 */
    size_t workspace_bytes; /* the size of `workspace` */
};

/* Enqueues a forward pass. It starts after the events of `wait_list` (wait_count of them; NULL and 0 for none); *event,
 * where `event` is not NULL, completes with it and is the caller's to release. The buffers are retained by OpenCL until then.
 *
 * Everything is checked before anything is enqueued: on an error but an OpenCL one the outputs are untouched. Sizes that leave nothing
 * to do (batch, heads or n_q of 0) succeed and give an event that waits for wait_list.
 *
 * Errors: CLATTN_INVALID_ARGUMENT, CLATTN_INVALID_SHAPE, CLATTN_INVALID_LAYOUT, CLATTN_BUFFER_TOO_SMALL,
 * CLATTN_WORKSPACE_TOO_SMALL, CLATTN_TOO_LARGE (a length of 2^31 - 4096 or more), OpenCL's own. */
CLATTN_API clattn_status clattn_forward_enqueue(const clattn_plan *plan, cl_command_queue queue,
                                                const struct clattn_forward_args *args, cl_uint wait_count,
                                                const cl_event *wait_list, cl_event *event);

CLATTN_END_DECLS

#endif
