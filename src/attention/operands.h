/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_OPERANDS_H
#define CLA_OPERANDS_H

#include "plan/feature.h"
#include "plan/kernel_params.h"
#include "plan/problem.h"
#include <clattn/attention.h>

/* A call, and the tensors and buffers that it touches: where each lies, and whether it may lie there. What they are
 * given as is above (attention/arguments.h), and so are the score modifications (attention/score.h). */

/* Everything that a call may read or write. Those before CLA_FORWARD_OPERANDS are in the order of the forward kernels'
 * arguments, from CLA_LSE on vectors. */
enum {
    CLA_Q,
    CLA_K,
    CLA_V,
    CLA_O,
    CLA_LSE,
    CLA_M,
    CLA_L,
    CLA_FORWARD_OPERANDS,
    CLA_D_O = CLA_FORWARD_OPERANDS,
    CLA_D_Q,
    CLA_D_K,
    CLA_D_V,
    CLA_BIAS_GRAD,
    CLA_SINKS_GRAD,
    CLA_SCORE, /* the tensors of the score features, in the order of their table (plan/feature.h) */
    CLA_BIAS = CLA_SCORE + 1,
    CLA_MASK,
    CLA_BLOCK_MASK,
    CLA_BLOCK_OFFSETS,
    CLA_BLOCK_COLUMNS,
    CLA_KEY_LENGTHS,
    CLA_CU_Q,
    CLA_CU_KV,
    CLA_SINKS,
    CLA_DATA,
    CLA_SCORE_END = CLA_SCORE + CLA_SCORE_TENSORS,
    CLA_STATE = CLA_SCORE_END,
    CLA_FROM, /* the state that is merged into the other */
    CLA_WORKSPACE,
    CLA_OPERANDS
};

/* Of what buffer a sub-buffer is a part, and which; of NULL: it is none, or OpenCL has not been asked. */
struct cla_part {
    cl_mem of;
    size_t from, bytes;
};

struct cla_operand {
    cl_mem buffer;
    struct cla_part part;
    struct cla_sizes sizes;
    struct cla_layout layout;
    int64_t end; /* one past the last element touched, from the start of the buffer; 0: none is */
    int element_bytes;
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
    struct cla_operand operands[CLA_OPERANDS];
    struct cla_score_params score;
    size_t workspace_bytes; /* what this very call needs */
    size_t csr_offset;      /* where in the workspace a block mask that comes as CSR is expanded to */
    size_t sums_byte;       /* where in it the sums of dQ begin (attention/sums.h) */
    int64_t maps;           /* where in it those of a forward kernel lie (attention/forward.h) */
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

/* The same for a buffer that is used from its start on. */
clattn_status cla_call_place_bytes(struct cla_call *call, int which, cl_mem buffer, size_t bytes, bool output,
                                   struct cla_error *error);

/* Whether the caller's workspace is as large as call->workspace_bytes; places it. */
clattn_status cla_call_place_workspace(struct cla_call *call, cl_mem workspace, size_t bytes, struct cla_error *error);

/* Whether an output shares bytes with anything else: within one cl_mem, and as far as the operands' parts are known. */
clattn_status cla_check_overlap(const struct cla_call *call, struct cla_error *error);

#endif
