/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_HOST_JOB_H
#define CLA_HOST_JOB_H

#include "attention/arguments.h"
#include "attention/host_plans.h"
#include "attention/staging.h"
#include <clattn/host.h>

/* Two pieces of the keys are on the device at a time: of each K and V, and in backward passes dK and dV. */
enum { CLA_SLOTS = 2, CLA_SLOT_TENSORS = 4, CLA_BEGUN = 3 };

struct cla_host_slot {
    struct cla_device_block block;
    struct cla_host_block staged;
};

struct clattn_host {
    struct clattn_context *context;
    cl_command_queue queue;
    cl_command_queue copy_queue; /* made when keys first stream */
    struct cla_host_plans plans;
    struct cla_device_block blocks[CLA_OPERANDS];
    struct cla_host_block staged[CLA_OPERANDS];              /* for arrays that are not copied as they lie */
    struct cla_host_slot slots[CLA_SLOTS][CLA_SLOT_TENSORS]; /* where keys stream */
    bool succeeded;                                          /* once: then the following hold */
    struct clattn_plan_info last_plan;
    struct clattn_host_info last_info;
};

/* clattn_host_create() without the report. */
clattn_status cla_host_make(struct clattn_host **host, const struct clattn_host_params *params,
                            struct cla_error *error);

/* How a tensor in an array gets to the device and lies there: dimensions that broadcast are copied once. */
struct cla_piece {
    struct cla_sizes sizes;   /* 1 where a dimension broadcasts */
    struct cla_layout layout; /* on the device, from the start of a buffer */
    size_t bytes;             /* 0: there is nothing to copy */
    bool as_it_lies;
};

/* Whether the kernels, which are done, did what they should. */
struct cla_host_job;
typedef clattn_status (*cla_host_judge)(const struct cla_host_job *job, struct cla_error *error);

/* What the caller wants to hear while the call goes on, and to say. */
struct cla_host_watch {
    void (*progress)(void *user, int64_t keys_done, int64_t keys);
    int (*cancel)(void *user, int64_t keys_done, int64_t keys);
    void *user;
};

/* One call under way. */
struct cla_host_job {
    struct clattn_host *host;
    const struct clattn_plan *plan;
    struct cla_call call; /* its buffers are the arrays; inputs are only read */
    struct cla_piece pieces[CLA_OPERANDS];
    int64_t kv_chunk;             /* keys of a piece, where they stream */
    int splits;                   /* parts that the device splits the keys into */
    bool chunk_given, may_stream; /* kv_chunk is the caller's; keys can come in pieces */
    size_t state_bytes;           /* where they do, in forward passes */
    bool streamed; /* K and V, and their gradients, are not copied as a whole; dQ and d_bias are sums in float */
    struct cla_score_room *room;   /* for what arguments point to */
    cl_event copied[CLA_OPERANDS]; /* NULL where nothing was */
    cl_event begun[CLA_BEGUN];     /* of commands before the work: buffers that begin with zeros */
    cl_event started;              /* the first of the work's commands; NULL where it is timed otherwise */
    cl_event computed;
    double copy_in_ms, compute_ms, copy_out_ms; /* of what has no event here */
    const void *args;                           /* the call's, for `compute` */
    cla_host_judge judge;                       /* asked before outputs are handed over; NULL: of nobody */
    struct cla_host_watch watch;
};

/* Enqueues the work, which waits for the inputs' copies, and sets job->computed. */
typedef clattn_status (*cla_host_compute)(struct cla_host_job *job, cl_uint wait_count, const cl_event *waits,
                                          struct cla_error *error);

/* False where the tensor's bytes overflow. */
bool cla_piece_of(const struct cla_layout *layout, const struct cla_sizes *sizes, int element_bytes, bool output,
                  struct cla_piece *piece);

/* An array as the call's operands have it, and back. */
struct clattn_tensor cla_host_array(const void *array, const struct clattn_layout *layout);
char *cla_host_array_of(const struct cla_host_job *job, int which);

/* Where the operand is on the device; buffer NULL where it is not. */
struct clattn_tensor cla_host_tensor_of(const struct cla_host_job *job, int which);

/* Checks what a call on arrays must be checked for beyond its arguments, and measures the copies. */
clattn_status cla_host_measure(struct cla_host_job *job, struct cla_error *error);

/* The keys that the arrays hold: with variable lengths the packed ones. */
int64_t cla_host_keys(const struct cla_host_job *job);

/* Asks the caller whether to go on: CLATTN_CANCELLED where not. */
clattn_status cla_host_ask(const struct cla_host_job *job, int64_t keys_done, struct cla_error *error);

/* Makes room, copies in, computes, copies out. On an error the outputs are untouched. */
clattn_status cla_host_run(struct cla_host_job *job, cla_host_compute compute, struct cla_error *error);

/* What the operand takes on the device, as a whole: 0 where it streams, and more than in its array where it is a sum.
 */
size_t cla_host_device_bytes(const struct cla_host_job *job, int which);

/* The event's own time; from the start of one to the end of another. 0 where the queue does not profile. */
double cla_host_milliseconds(cl_event event);
double cla_host_between(cl_event from, cl_event to);

#endif
