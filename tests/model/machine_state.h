/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the files of the machine share: machine_stacks.c (each item's own stack), machine.c (what items can do) and
 * machine_schedule.c (who does it next). */
#ifndef MODEL_MACHINE_STATE_H
#define MODEL_MACHINE_STATE_H

#include "model/machine.h"
#include <ucontext.h>

/* Stacks are changed by a few instructions, which keep what a call has to keep; where there are none for the processor,
 * or a sanitizer wants to know of it, by calls of the system, which take a hundred times as long. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !(defined(__x86_64__) || defined(__aarch64__))
#define SLOW_SWITCH 1
#else
#define SLOW_SWITCH 0
#endif

enum {
    STACK_BYTES = 64 * 1024,
    MOST_WARPS = 20,
    MOST_LANES = 200, /* of a group: items that run */
    NAMED = 16,
    MOST_COPIES = 4096
};

enum wait { READY, AWAIT, SYNC, MEET, BALLOT, PAUSE, DEVICE, COPIES, OVER };
struct context {
#if SLOW_SWITCH
    ucontext_t slow;
#else
    void *stack;
#endif
};

struct lane {
    struct context context;
    void *stack;
    bool is_made, is_stale; /* it has a stack; which is in the midst of a run that was given up */
    enum wait wait;
    unsigned attempt; /* of its warp, in which it began to wait */
    uint32_t at, parity;
    uint64_t generation;
    const volatile uint32_t *word;
    volatile uint32_t *given_up;
    bool or_more, read_alone;
    int copies, unread; /* under way */
    unsigned meetings;  /* with the lanes of its warp */
    int lid;
    struct group *group;
    struct warp *warp;
};

struct warp {
    struct lane *lanes;
    const struct machine_warp *kind;
    struct group *group;
    unsigned attempt;
    bool pauses; /* wherever it could go on from a barrier, too */
    uint32_t votes[2], arrived;
    int values[2][MACHINE_LANES];
    uint32_t rank; /* who is chosen before whom, where that is the policy */
    int number;
};

struct phase_barrier {
    int32_t arrivals, pending;
    int64_t bytes;
    uint32_t completed;
    uint32_t run; /* in which it was created */
};

struct named {
    int items, arrived;
    uint64_t generation;
};

struct copy {
    struct group *group;
    int id;            /* the group's: another may have its place by now */
    struct lane *lane; /* of machine_send */
    uint32_t at, to, word;
    int bytes;
    void (*done)(unsigned char *, uint32_t);
    void *outside;
    uint32_t (*take)(const unsigned char *, int);
    void (*give)(void *, uint32_t, bool);
    bool adds, taken;
};

struct group {
    int id, warp_count, lane_count, left, met;
    bool runs;
    uint64_t meeting;
    unsigned char *local;
    struct phase_barrier *barriers;
    struct named named[NAMED];
    struct warp warps[MOST_WARPS];
    struct lane lanes[MOST_LANES];
};

extern struct machine {
    struct group groups[MACHINE_MOST_GROUPS];
    struct copy copies[MOST_COPIES];
    int copy_count;
    struct context scheduler;
    struct lane *now;
    const struct machine_run *run;
    uint32_t run_number;
    int started;
    uint64_t random;
    int policy, slow_group, slow_warp;
    bool failed;
    char said[4096];
} machine;

/* Goes on with an item until it waits; from within one, back to the schedule. */
void machine_resume(struct lane *lane);
void machine_leave(struct lane *lane);

/* Whether what it waits for has come. */
bool machine_barrier_is_complete(const struct group *group, uint32_t at, uint32_t parity);
bool machine_copies_are_done(const struct lane *lane);
bool machine_word_is(const struct lane *lane);

/* One of the copies under way takes a step. */
void machine_step_copy(void);

#endif
