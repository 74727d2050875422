/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_HOST_H
#define CLATTN_HOST_H

#include <clattn/attention.h>

CLATTN_BEGIN_DECLS

/* The host level: attention on plain arrays. The library manages the device buffers of Q, K, V, O, of the softmax
 * vectors m, l and LSE, of the gradients and of what the score modifications need, stages the copies, and keeps buffers
 * and plans from call to call, growing them as needed.
 *
 * Threads: one call at a time on one clattn_host; different ones, also of the same context, at the same time. */
typedef struct clattn_host clattn_host;

struct clattn_host_params {
    clattn_context *context; /* must outlive the clattn_host */
    cl_command_queue queue;  /* NULL: the library makes one, in order, and owns it. Else retained. */
    uint64_t reserved[8];    /* 0: clattn/version.h */
};

/* *host is set on success alone. Errors: CLATTN_INVALID_ARGUMENT, OpenCL's own. */
CLATTN_API clattn_status clattn_host_create(clattn_host **host, const struct clattn_host_params *params);

/* Releases buffers, plans and queue. Sets *host to NULL; accepts NULL and a handle that is NULL. */
CLATTN_API void clattn_host_destroy(clattn_host **host);

/* The arrays of one forward pass, with their sizes as in struct clattn_forward_args. Layouts count elements from the
 * array's start, as on the device; all strides 0 is dense [batch, heads, n, d], where `strided` does not say otherwise.
 * lse, m and l may be NULL. Elements of the output arrays that the layout skips keep their values.
 *
 * The library does not know how large an array is: that shapes and layouts stay within it is the caller's to see to.
 * What no array can reach (2^57 bytes, or the end of the address space) is CLATTN_INVALID_LAYOUT. */
struct clattn_host_forward_args {
    struct clattn_shape shape;
    const void *q, *k, *v;
    void *o; /* of fp32 where problem.o_type is CLATTN_AS_FP32 */
    struct clattn_layout q_layout, k_layout, v_layout, o_layout;
    float *lse, *m, *l; /* dense [batch, heads, n_q]; with CLATTN_VARLEN [heads, total_q] */
    struct clattn_host_score_args score;

    /* 0: K and V are on the device as a whole, where one allocation each and its memory can hold them. Else, and where
     * they are larger than that, they stream through it in pieces of so many keys (clattn/state.h; 0: as many as fit),
     * two pieces at a time, the copy of one beside the work on the other. The result is the same up to rounding. With
     * CLATTN_VARLEN the pieces are of the packed keys. Keys in pages and quantised ones come all at once: 0 there.
     * `progress`, where not NULL, is called from within the call as keys are done, the last time with all of them. */
    int64_t kv_chunk;
    void (*progress)(void *user, int64_t keys_done, int64_t keys);
    void *progress_user;

    /* Where not NULL, asked whether to go on: 0 says yes, anything else ends the call with CLATTN_CANCELLED. It is
     * asked before the first command is enqueued, when the plan has been made; behind each piece of the keys; and when
     * all is computed, before anything is handed over. So keys that come all at once are one launch, which is not
     * interrupted; a kv_chunk makes pieces. The library then waits for what it has enqueued, the piece under way and
     * the one behind it. The output arrays are untouched, nothing is kept but buffers and plans, and the clattn_host
     * may be used again at once.
     *
     * This one and `progress` are called by the thread that made the call, with progress_user. They must not use this
     * clattn_host. */
    int (*cancel)(void *user, int64_t keys_done, int64_t keys);

    /* The most device memory, in bytes, that the clattn_host holds for this call: arrays, workspace, a state, and what
     * stays of earlier calls, of which all goes first that would be in the way. 0: what the device has. Where the call
     * takes more and kv_chunk is 0, keys stream in pieces as large as fit. Where not even pieces of one key do, where
     * keys come all at once for another reason, or where a kv_chunk that is given does not fit, it is CLATTN_TOO_LARGE:
     * the message says how many bytes would do, and nothing has been allocated. Programs, queues and what a driver
     * takes beside buffers are not counted. (A clattn_host_cache has max_bytes, for its keys.) */
    uint64_t max_device_bytes;

    uint64_t reserved[62]; /* 0: clattn/version.h */
};

/* The arrays of one backward pass, as struct clattn_backward_args has them; d_q, d_k, d_v, d_bias and d_sinks may each
 * be NULL. problem.pass is CLATTN_BACKWARD. */
struct clattn_host_backward_args {
    struct clattn_shape shape;
    const void *q, *k, *v, *o, *d_o;
    const float *lse, *m, *l; /* dense; m and l, which are exact, or lse alone: struct clattn_backward_args */
    void *d_q, *d_k, *d_v, *d_bias;
    float *d_sinks; /* [heads] */
    struct clattn_layout q_layout, k_layout, v_layout, o_layout, d_o_layout;
    struct clattn_layout d_q_layout, d_k_layout, d_v_layout, d_bias_layout;
    struct clattn_host_score_args score;

    /* As in struct clattn_host_forward_args: K and V stream to the device, dK and dV from it. dQ and d_bias are added
     * up there in fp32, and rounded to the problem's type at last. */
    int64_t kv_chunk;
    void (*progress)(void *user, int64_t keys_done, int64_t keys);
    void *progress_user;
    int (*cancel)(void *user, int64_t keys_done, int64_t keys);
    uint64_t max_device_bytes;

    uint64_t reserved[62]; /* 0: clattn/version.h */
};

/* What the last successful call on this clattn_host took. The times are 0 where the queue is the caller's and was made
 * without CL_QUEUE_PROFILING_ENABLE. */
struct clattn_host_info {
    uint64_t device_bytes; /* device memory held for the arrays, for a workspace and for a state */
    int64_t kv_chunk;      /* keys of a piece, where K and V streamed; else 0 */
    int splits;            /* parts that the device split the keys into (splits of struct clattn_problem); 1: none */
    double copy_in_ms;     /* host to device */
    double compute_ms; /* the kernels, by the device's own clock: from the first one's start to the last one's end */
    double copy_out_ms;
    uint64_t reserved[16]; /* 0: clattn/version.h */
};

/* Computes attention and returns when the outputs are in the arrays. Where problem.splits is 0, this call's own shape
 * says whether keys are split. Inputs are copied before anything is written, so they may
 * share memory with each other and with an output; outputs must not overlap each other.
 *
 * On an error the output arrays are untouched: outputs pass through an array of the library's own.
 *
 * Errors: those of clattn_plan_create and clattn_forward_enqueue; CLATTN_TOO_LARGE where another array than K and
 * V exceeds what the device can allocate, or the call max_device_bytes; CLATTN_CANCELLED. */
CLATTN_API clattn_status clattn_host_forward(clattn_host *host, const struct clattn_problem *problem,
                                             const struct clattn_host_forward_args *args);

/* The gradients, in the same way. Errors: those of clattn_plan_create and clattn_backward_enqueue; CLATTN_TOO_LARGE;
 * CLATTN_CANCELLED. */
CLATTN_API clattn_status clattn_host_backward(clattn_host *host, const struct clattn_problem *problem,
                                              const struct clattn_host_backward_args *args);

/* The plan that the last successful call used, and what it took. Either pointer may be NULL. Errors:
 * CLATTN_INVALID_ARGUMENT where host is NULL or no call has succeeded. */
CLATTN_API clattn_status clattn_host_last(const clattn_host *host, struct clattn_plan_info *plan,
                                          struct clattn_host_info *info);

CLATTN_END_DECLS

#endif
