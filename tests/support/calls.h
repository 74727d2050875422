/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_SUPPORT_CALLS_H
#define TEST_SUPPORT_CALLS_H

#include <clattn/attention.h>

/* The tensors of a forward and a backward call, as places in an array of buffers; a test's own come after them. */
enum call_tensor { Q, K, V, O, D_O, D_Q, D_K, D_V, LSE, WORKSPACE, CALL_TENSORS };

/* Arguments of calls on such buffers, all dense. */
static inline struct clattn_forward_args call_forward(const struct clattn_shape *shape, const cl_mem *buffers,
                                                      size_t workspace_bytes)
{
    return (struct clattn_forward_args){.shape = *shape,
                                        .q.buffer = buffers[Q],
                                        .k.buffer = buffers[K],
                                        .v.buffer = buffers[V],
                                        .o.buffer = buffers[O],
                                        .lse.buffer = buffers[LSE],
                                        .workspace = buffers[WORKSPACE],
                                        .workspace_bytes = workspace_bytes};
}

static inline struct clattn_backward_args call_backward(const struct clattn_shape *shape, const cl_mem *buffers,
                                                        size_t workspace_bytes)
{
    return (struct clattn_backward_args){.shape = *shape,
                                         .q.buffer = buffers[Q],
                                         .k.buffer = buffers[K],
                                         .v.buffer = buffers[V],
                                         .o.buffer = buffers[O],
                                         .d_o.buffer = buffers[D_O],
                                         .lse.buffer = buffers[LSE],
                                         .d_q.buffer = buffers[D_Q],
                                         .d_k.buffer = buffers[D_K],
                                         .d_v.buffer = buffers[D_V],
                                         .workspace = buffers[WORKSPACE],
                                         .workspace_bytes = workspace_bytes};
}

#endif
