/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_POINTERS_H
#define CLA_POINTERS_H

#include "plan/error.h"
#include <clattn/device.h>
#include <clattn/tensor.h>
#include <stdbool.h>
#include <stddef.h>

/* Addresses in the place of buffers (enum clattn_memory). What takes them is younger than OpenCL 1.2 or of an
 * extension, so that it is found when a context is made, and called by its address. */

/* Sets a kernel's argument: clSetKernelArgSVMPointer, clSetKernelArgMemPointerINTEL. */
typedef cl_int(CL_API_CALL *cla_pointer_setter)(cl_kernel kernel, cl_uint index, const void *pointer);

/* Copies memory to or from such addresses: clEnqueueSVMMemcpy, clEnqueueMemcpyINTEL. */
typedef cl_int(CL_API_CALL *cla_pointer_copy)(cl_command_queue queue, cl_bool blocks, void *to, const void *from,
                                              size_t bytes, cl_uint wait_count, const cl_event *wait_list,
                                              cl_event *event);

/* clGetMemAllocInfoINTEL. */
typedef cl_int(CL_API_CALL *cla_usm_query)(cl_context context, const void *pointer, cl_uint name, size_t size,
                                           void *value, size_t *answered);

struct cla_pointer_calls {
    cla_pointer_setter set; /* NULL: the device takes no such addresses */
    cla_pointer_copy copy;
};

struct cla_pointers {
    struct cla_pointer_calls svm, usm;
    cla_usm_query usm_query;
    bool usm_of_system; /* USM may be memory that OpenCL knows nothing of */
};

void cla_pointers_find(struct cla_pointers *pointers, cl_device_id device,
                       const struct clattn_capabilities *capabilities);

/* What sets arguments of this kind; NULL: the device has it not. */
cla_pointer_setter cla_pointers_setter(const struct cla_pointers *pointers, enum clattn_memory memory);

/* Enqueues to read some bytes. */
clattn_status cla_pointers_read(const struct cla_pointers *pointers, enum clattn_memory memory, cl_command_queue queue,
                                const void *from, size_t bytes, void *to, cl_uint wait_count, const cl_event *wait_list,
                                cl_event *event, struct cla_error *error);

/* The allocation that an address of USM lies in; of `bytes` 0 where OpenCL knows none. */
struct cla_allocation {
    uintptr_t from;
    size_t bytes;
};
clattn_status cla_pointers_allocation(const struct cla_pointers *pointers, cl_context context, const void *pointer,
                                      struct cla_allocation *allocation, struct cla_error *error);

#endif
