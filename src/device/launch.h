/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_LAUNCH_H
#define CLA_LAUNCH_H

#include "device/pointers.h"
#include <pthread.h>

/* A kernel that several threads may launch: OpenCL forbids setting arguments of one kernel object from two threads, so
 * arguments and enqueue happen under the kernel's lock, which is held for no longer than that. */
struct cla_kernel {
    cl_kernel kernel;
    cl_program program; /* which the kernel retains, */
    const char *name;   /* and its name there; static storage */
    uint64_t addresses; /* a bit for each argument that was last set to an address, not to a buffer or a value */
    pthread_mutex_t lock;
};

/* Where a command goes, what it waits for, and what tells of its end. A call has one, and each of its kernels. */
struct cla_recorder;
struct cla_dispatch {
    cl_command_queue queue;        /* NULL with a recorder */
    struct cla_recorder *recorder; /* NULL: it is enqueued; else recorded (device/recorder.h) */
    cl_uint wait_count;
    const cl_event *wait_list;  /* where it is enqueued */
    const cl_uint *wait_points; /* where it is recorded: sync points */
    cl_event *event;            /* each NULL, or where the end's event is put, or its sync point */
    cl_uint *point;
    bool own; /* queue, events and buffers are the library's, so OpenCL need not be asked what they are */
};

struct cla_dispatch cla_to_queue(cl_command_queue queue, cl_uint wait_count, const cl_event *wait_list,
                                 cl_event *event);

/* value NULL with size sizeof(cl_mem): a NULL buffer. With `set` it is an address that *value holds, and that is how a
 * kernel gets to know it. */
struct cla_argument {
    size_t size;
    const void *value;
    cla_pointer_setter set;
};

clattn_status cla_kernel_init(struct cla_kernel *kernel, cl_program program, const char *name, struct cla_error *error);
void cla_kernel_finish(struct cla_kernel *kernel); /* accepts one that is all zero */

/* Sets the arguments and enqueues or records groups * work_group_size work-items in one dimension. What is recorded
 * gets a kernel object of its own. At most 64 arguments. */
clattn_status cla_kernel_launch(struct cla_kernel *kernel, const struct cla_dispatch *to,
                                const struct cla_argument *arguments, cl_uint argument_count, size_t groups,
                                size_t work_group_size, struct cla_error *error);

#endif
