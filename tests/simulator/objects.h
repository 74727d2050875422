/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The simulated platform's OpenCL objects. One lock guards them all; commands run under it, one at a time, in the order
 * that queues and events allow. */
#ifndef SIMULATED_OBJECTS_H
#define SIMULATED_OBJECTS_H

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include "object.h"
#include <CL/cl.h>
#include <CL/cl_icd.h>

struct device_facts {
    struct chip chip;
    const char *name;
    cl_uint compute_units, clock, simds;
    cl_ulong global_bytes, cache_bytes;
};

/* What each object begins with. */
struct head {
    const struct _cl_icd_dispatch *dispatch;
    int kind, references;
    struct head *owner; /* holds a reference to it */
};

enum { CONTEXT = 1, QUEUE, BUFFER, PROGRAM, KERNEL_OBJECT, EVENT };

struct _cl_platform_id {
    const struct _cl_icd_dispatch *dispatch;
};

struct _cl_device_id {
    const struct _cl_icd_dispatch *dispatch;
    const struct device_facts *facts;
};

enum { MOST_DEVICES = 4 };

struct _cl_context {
    struct head head;
    cl_device_id devices[MOST_DEVICES];
    cl_uint devices_count;
};

struct _cl_command_queue {
    struct head head;
    cl_device_id device;
    cl_command_queue_properties properties;
    bool broken; /* a kernel ended in a fault */
};

struct _cl_mem {
    struct head head;
    cl_mem_flags flags;
    uint8_t *bytes;
    size_t size, offset;
    cl_mem parent; /* of a part; it holds a reference */
};

struct _cl_program {
    struct head head;
    cl_device_id device;
    char *text, *log, *options;
    uint8_t *binary;
    size_t binary_bytes;
    struct object object;
    struct program code[MOST_KERNELS]; /* decoded when it first runs */
    cl_build_status status;
};

struct _cl_kernel {
    struct head head;
    int number; /* of the program's kernels */
    uint8_t *arguments;
    cl_mem buffers[MOST_ARGUMENTS];
    uint64_t set; /* bits of the arguments that were set */
};

struct _cl_event {
    struct head head;
    cl_int status; /* CL_QUEUED ... CL_COMPLETE, or an error */
    cl_command_type type;
    cl_command_queue queue;
    cl_ulong times[4];
};

extern const struct _cl_icd_dispatch simulated_dispatch;
extern struct _cl_platform_id simulated_platform;
extern struct _cl_device_id simulated_devices[MOST_DEVICES];

void objects_lock(void);
void objects_unlock(void);
void objects_wait(void); /* until objects_changed() */
void objects_changed(void);

/* A new object that holds a reference to its owner; NULL where memory is short. */
void *object_new(size_t bytes, int kind, void *owner);
bool object_is(const void *object, int kind);
void object_retain(void *object);
void object_release(void *object);

/* What else goes with an object when its last reference does. */
void buffer_end(cl_mem buffer);
void program_end(cl_program program);
void kernel_end(cl_kernel kernel);

/* Answers a query; CL_INVALID_VALUE where the room does not suffice. */
cl_int answer(const void *value, size_t bytes, size_t room, void *to, size_t *wanted);
cl_int answer_text(const char *text, size_t room, void *to, size_t *wanted);

/* One command; see queue.c. */
struct command;
cl_int command_add(cl_command_queue queue, cl_command_type type, const struct command *command, cl_bool blocking,
                   cl_uint waits, const cl_event *list, cl_event *event);
void commands_run(void);

struct command {
    cl_int (*run)(struct command *command);
    cl_mem buffer;
    cl_kernel kernel; /* a copy of its own */
    size_t offset, size, pattern_size;
    void *host;
    uint8_t pattern[128];
    size_t global[3], local[3];
    cl_uint dimensions;
};

cl_int kernel_run(struct command *command);
/* A kernel with its arguments as they are now; NULL with *code where they are not all set. */
cl_kernel kernel_copy(cl_kernel kernel, cl_int *code);

#endif
