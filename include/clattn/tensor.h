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

/* What the `buffer` of a tensor is, and likewise each cl_mem beside which a field NAME_memory stands. The last two are
 * addresses in the place of a cl_mem:
 *
 *     .q = {.buffer = (cl_mem)address, .memory = CLATTN_SVM}
 *
 * CLATTN_SVM needs a device with shared virtual memory of any grain (CL_DEVICE_SVM_CAPABILITIES), and an OpenCL library
 * that has clSetKernelArgSVMPointer; CLATTN_USM a device with the extension cl_intel_unified_shared_memory. Else a call
 * is CLATTN_UNSUPPORTED_DEVICE. Operands of one call may each be of another kind, and what the kinds hold alike gives
 * the same bits.
 *
 * An address is a multiple of the element's size (of what lies in blocks, of 2); of a workspace of 128 bytes, as
 * clSVMAlloc and USM's allocations give it by themselves, and of a state of 64. It may lie inside an allocation.
 *
 * The caller answers for more than with a cl_mem. OpenCL does not retain the allocation, so it stays until the call's
 * event has come. Nobody can be asked how large an SVM allocation is: it holds whatever the layout reaches, which is
 * not checked. (That of a USM address is asked for and checked.) What is coarse-grained is not mapped while the call
 * runs. That an output has a place of its own is checked among addresses, and among cl_mem; an address inside a buffer
 * that was made of it (CL_MEM_USE_HOST_PTR) is the caller's to keep apart. */
enum clattn_memory {
    CLATTN_BUFFER = 0, /* a cl_mem */
    CLATTN_SVM = 1,    /* an address that clSVMAlloc gave; with fine-grained system SVM, any of the host's */
    CLATTN_USM = 2 /* an address of cl_intel_unified_shared_memory: host, device or shared; with shared system memory
                        * any of the host's */
};

/* A tensor on the device: a buffer of the plan's context and where in it the elements lie. */
struct clattn_tensor {
    cl_mem buffer;
    struct clattn_layout layout;
    int64_t memory;       /* enum clattn_memory: what `buffer` is */
    uint64_t reserved[2]; /* 0: clattn/version.h */
};

CLATTN_END_DECLS

#endif
