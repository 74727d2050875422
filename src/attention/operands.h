/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_OPERANDS_H
#define CLA_OPERANDS_H

#include "device/launch.h"
#include "plan/kernel_params.h"
#include "plan/operand.h"
#include "plan/problem.h"
#include <clattn/attention.h>

/* A call, and the tensors and buffers that it touches: where each lies, and whether it may lie there. What they are
 * given as is above (attention/arguments.h), and so are the score modifications (attention/score.h). */

/* Of what buffer a sub-buffer is a part, and which; of NULL: it is none, or OpenCL has not been asked. */
struct cla_part {
    cl_mem of;
    size_t from, bytes;
};

struct cla_operand {
    cl_mem buffer;
    enum clattn_memory memory; /* what that is */
    cla_pointer_setter set;    /* of an address, how a kernel gets it: known once buffers are checked */
    struct cla_part part;
    struct cla_sizes sizes;
    struct cla_layout layout;
    int64_t end; /* one past the last element touched, from the start of the buffer; 0: none is */
    int element_bytes;
    int block; /* of K and V: elements that lie together, where they do, and then count as one; else 1 or 0 */
    bool output;
    bool whole; /* what is read of the buffer is not known: all of it may be */
};

/* Where the tensors of a call are. */
enum cla_source {
    CLA_BUFFERS, /* in device memory */
    CLA_ARRAYS,  /* in host memory: a `buffer` is an array's address, compared with NULL and nothing else */
    CLA_LAYOUTS  /* nowhere yet: only shapes and layouts are looked at */
};

struct cla_call {
    const struct clattn_problem *problem; /* resolved */
    unsigned features;                    /* cla_problem_features */
    enum cla_source source;
    struct clattn_shape shape;
    int64_t first_key, key_count; /* the keys that k and v hold */
    int64_t pool_pages;           /* with CLATTN_PAGES, pages of k and v; */
    int64_t tree_keys;            /* with CLATTN_TREE_MASK, keys that it is about */
    int64_t page_count;           /* numbers in a compressed table; -1: it is not compressed */
    struct cla_operand operands[CLA_OPERANDS];
    struct cla_score_params score;
    size_t workspace_bytes; /* what this very call needs */
    size_t csr_offset;      /* where in the workspace a block mask that comes as CSR is expanded to */
    size_t recipe_byte;     /* where in it the regions of a backward pass's recipe begin (plan/recipe.h) */
    cl_event *first_event;  /* NULL, or what gets the event of the call's first command */
    bool empty;             /* there are no rows to write */
};

/* A tensor that lies as a resolved layout says. */
struct clattn_tensor cla_tensor_of(cl_mem buffer, const struct cla_layout *layout);

/* As the caller knows it: "q", "score.bias". */
const char *cla_operand_name(int which);

/* Whether it is a bare cl_mem among the arguments, not a struct clattn_tensor. */
bool cla_operand_is_bare(int which);

/* Takes over one tensor of the call: sizes, layout, buffer. An input must be there if it has elements; an output where
 * the buffer is NULL is not wanted, unless it is required. Asks OpenCL nothing. */
enum { CLA_INPUT = 0, CLA_OUTPUT = 1, CLA_OPTIONAL = 2 };
clattn_status cla_call_place(struct cla_call *call, int which, const struct clattn_tensor *tensor, int how,
                             struct cla_error *error);

/* The same for memory that is used from its start on. */
struct cla_bytes {
    cl_mem buffer;
    int64_t memory; /* enum clattn_memory, as the caller gave it */
    size_t bytes;
};
clattn_status cla_call_place_bytes(struct cla_call *call, int which, struct cla_bytes given, bool output,
                                   struct cla_error *error);

/* Whether the caller's workspace is as large as call->workspace_bytes; places it. */
clattn_status cla_call_place_workspace(struct cla_call *call, struct cla_bytes given, struct cla_error *error);

/* Of one operand the memory for another. */
void cla_operand_share(struct cla_operand *operand, const struct cla_operand *from);

/* It as the argument of a kernel, which it must outlive. */
struct cla_argument cla_operand_argument(const struct cla_operand *operand);

/* Whether an output shares bytes with anything else: within one cl_mem, and as far as the operands' parts are known. */
clattn_status cla_check_overlap(const struct cla_call *call, struct cla_error *error);

#endif
