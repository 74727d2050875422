/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_LAUNCH_H
#define CLA_LAUNCH_H

#include "device/pointers.h"
#include <pthread.h>

/* A kernel that several threads may launch: OpenCL forbids setting arguments of one kernel object from two threads, so
 * arguments and enqueue happen under the kernel's lock, which is held for no longer than that. */
struct cla_kernel {
    cl_kernel kernel;
    pthread_mutex_t lock;
};

/* value NULL with size sizeof(cl_mem): a NULL buffer. With `set` it is an address that *value holds, and that is how a
 * kernel gets to know it. */
struct cla_argument {
    size_t size;
    const void *value;
    cla_pointer_setter set;
};

clattn_status cla_kernel_init(struct cla_kernel *kernel, cl_program program, const char *name, struct cla_error *error);
void cla_kernel_finish(struct cla_kernel *kernel); /* accepts one that is all zero */

/* Sets the arguments and enqueues groups * work_group_size work-items in one dimension. */
clattn_status cla_kernel_launch(struct cla_kernel *kernel, cl_command_queue queue, const struct cla_argument *arguments,
                                cl_uint argument_count, size_t groups, size_t work_group_size, cl_uint wait_count,
                                const cl_event *wait_list, cl_event *event, struct cla_error *error);

#endif
