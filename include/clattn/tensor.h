/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TENSOR_H
#define CLATTN_TENSOR_H

#include <clattn/export.h>
#include <clattn/opencl.h>
#include <stdint.h>

CLATTN_BEGIN_DECLS

/* Where the element (batch b, head h, row i, column c) of a tensor lies: at offset + b*batch + h*head + i*row +
 * c*column, counted in elements of the tensor's type from the start of its buffer or array. Strides are not negative.
 * All four strides 0 is the default: dense [batch, heads, n, d], in that order. Strides of inputs may be 0 (broadcast)
 * or overlap; an output must have a place of its own for each element. */
struct clattn_layout {
    int64_t offset;
    int64_t batch;
    int64_t head;
    int64_t row;
    int64_t column;
    int64_t strided; /* 1: the strides are what they say, even if all four are 0: one element, broadcast. 0: as above */
    uint64_t reserved[2]; /* 0: clattn/version.h */
};

/* The dense layouts of [batch, heads, n, d] and [batch, n, heads, d]. Strides beyond 64 bits are INT64_MAX, which is an
 * error in a call. Any thread. */
CLATTN_API struct clattn_layout clattn_layout_bhnd(int64_t heads, int64_t n, int64_t d);
CLATTN_API struct clattn_layout clattn_layout_bnhd(int64_t heads, int64_t n, int64_t d);

/* A tensor on the device: a buffer of the plan's context and where in it the elements lie. */
struct clattn_tensor {
    cl_mem buffer;
    struct clattn_layout layout;
    uint64_t reserved[3]; /* 0: clattn/version.h */
};

CLATTN_END_DECLS

#endif
