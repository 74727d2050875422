/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_HOST_H
#define CLATTN_HOST_H

#include <clattn/attention.h>

CLATTN_BEGIN_DECLS

/* The host level: attention on plain arrays. The library manages the device buffers of Q, K, V, O and of the softmax
 * vectors m, l and LSE, stages the copies, and keeps buffers and plans from call to call, growing them as needed.
 *
 * Threads: one call at a time on one clattn_host; different ones, also of the same context, at the same time. */
typedef struct clattn_host clattn_host;

struct clattn_host_params {
    clattn_context *context; /* must outlive the clattn_host */
    cl_command_queue queue;  /* NULL: the library makes one, in order, and owns it. Else retained. */
};

/* *host is set on success alone. Errors: CLATTN_INVALID_ARGUMENT, OpenCL's own. */
CLATTN_API clattn_status clattn_host_create(clattn_host **host, const struct clattn_host_params *params);

/* Releases buffers, plans and queue. Sets *host to NULL; accepts NULL and a handle that is NULL. */
CLATTN_API void clattn_host_destroy(clattn_host **host);

/* The arrays of one forward pass, with their sizes as in struct clattn_forward_args. Layouts count elements from the
 * array's start, as on the device; all strides 0 is dense [batch, heads, n, d]. lse, m and l may be NULL. Elements of the
 * output arrays that the layout skips keep their values. */
struct clattn_host_forward_args {
    struct clattn_shape shape;
    const void *q, *k, *v;
    void *o;
    struct clattn_layout q_layout, k_layout, v_layout, o_layout;
    float *lse, *m, *l; /* dense [batch, heads, n_q] */
};

/* What the last successful call on this clattn_host took. The times are 0 where the queue is the caller's and was made without
 * CL_QUEUE_PROFILING_ENABLE. */
struct clattn_host_info {
    uint64_t device_bytes; /* device memory held for Q, K, V, O, m, l and LSE */
    double copy_in_ms;     /* host to device */
    double compute_ms;     /* the kernel, by the device's own clock */
    double copy_out_ms;
};

/* Computes attention and returns when the outputs are in the arrays. Inputs are copied before anything is written, so they may
 * share memory with each other and with an output; outputs must not overlap each other.
 *
 * On an error the output arrays are untouched: outputs pass through an array of the library's own.
 *
 * Errors: those of clattn_plan_create and clattn_forward_enqueue; CLATTN_TOO_LARGE where an array exceeds what the device can allocate. */
CLATTN_API clattn_status clattn_host_forward(clattn_host *host, const struct clattn_problem *problem,
                                             const struct clattn_host_forward_args *args);

/* The plan that the last successful call used, and what it took. Either pointer may be NULL. Errors:
 * CLATTN_INVALID_ARGUMENT where host is NULL or no call has succeeded. */
CLATTN_API clattn_status clattn_host_last(const clattn_host *host, struct clattn_plan_info *plan,
                                          struct clattn_host_info *info);

CLATTN_END_DECLS

#endif
