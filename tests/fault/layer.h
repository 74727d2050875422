/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_FAULT_LAYER_H
#define TEST_FAULT_LAYER_H

#include <clattn/opencl.h>
#include <stdbool.h>
#include <stdint.h>

/* What the layer counts: references that the program holds, by kind of object. */
enum fault_object {
    FAULT_CONTEXT,
    FAULT_DEVICE,
    FAULT_QUEUE,
    FAULT_BUFFER,
    FAULT_PROGRAM,
    FAULT_KERNEL,
    FAULT_EVENT,
    FAULT_OBJECTS
};

/* The layer's side of the conversation, exported as the object `fault_control`: the program finds it with dlsym(). */
struct fault_control {
    /* From the next call on, makes call number `nth` fail with `code`, and with `sticky` every call after it too. A
     * code above 0 is a number in the list of those that OpenCL allows the entry point (fault/codes.h), counted from 1
     * on and beyond the end from its start again. */
    void (*arm)(long nth, bool sticky, cl_int code);
    /* The same for events: the command number `nth` of those that give one is run, and its event ends in `code`. Of
     * sticky faults, commands that wait for such an event end so too, as the specification has it for user events; else
     * they run, as with drivers that leave it there. */
    void (*arm_event)(long nth, bool sticky, cl_int code);
    /* Lets calls through, uncounted, until resume(): for what the program itself has to call. */
    void (*pause)(void);
    void (*resume)(void);
    long (*calls)(void);          /* since arm */
    unsigned long (*trace)(void); /* a hash of their names in their order */
    long (*injected)(void);       /* how many of them failed because of the layer */
    const char *(*victim)(void);  /* the entry point of the first of those */
    bool (*gave)(cl_int code);    /* whether one of them failed with this code */
    void (*references)(long counts[FAULT_OBJECTS]);
    void (*watch_bytes)(void);    /* from now on, counts bytes of buffers that are made and still there */
    uint64_t (*peak_bytes)(void); /* the most that there were at a time */
    /* Makes the `nth` blocking clEnqueueReadBuffer from now on succeed with wrong data; 0: none. */
    void (*corrupt_read)(long nth);
    /* Puts 1 where the next clEnqueueReadBuffer of one word reads, as a kernel does that gives up waiting. */
    void (*give_up)(void);
};

/* The same from the start of a program that does not know the layer: an environment variable, the number of the read.
 */
#define FAULT_CORRUPT_READ "CLATTN_FAULT_CORRUPT_READ"

/* Seconds that each build of a program takes longer; an environment variable, too. */
#define FAULT_SLOW_BUILD "CLATTN_FAULT_SLOW_BUILD"

#endif
