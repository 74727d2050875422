/* SPDX-License-Identifier: BSD-2-Clause */
#define _GNU_SOURCE
#include "model/machine.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

/* Stacks are changed by a few instructions, which keep what a call has to keep; where there are none for the processor,
 * or a sanitizer wants to know of it, by calls of the system, which take a hundred times as long. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !(defined(__x86_64__) || defined(__aarch64__))
#define SLOW_SWITCH 1
#else
#define SLOW_SWITCH 0
void machine_switch(void **from, void *to); /* *from = the present stack's pointer; goes on on that of `to` */
#if defined(__x86_64__)
__asm__(".text\n.globl machine_switch\n.type machine_switch, @function\nmachine_switch:\n\t"
        "pushq %rbp\n\tpushq %rbx\n\tpushq %r12\n\tpushq %r13\n\tpushq %r14\n\tpushq %r15\n\t"
        "movq %rsp, (%rdi)\n\tmovq %rsi, %rsp\n\t"
        "popq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbx\n\tpopq %rbp\n\tret\n"
        ".size machine_switch, .-machine_switch\n");
#else
__asm__(".text\n.globl machine_switch\n.type machine_switch, %function\nmachine_switch:\n\t"
        "sub sp, sp, #160\n\tstp x19, x20, [sp]\n\tstp x21, x22, [sp, #16]\n\tstp x23, x24, [sp, #32]\n\t"
        "stp x25, x26, [sp, #48]\n\tstp x27, x28, [sp, #64]\n\tstp x29, x30, [sp, #80]\n\t"
        "stp d8, d9, [sp, #96]\n\tstp d10, d11, [sp, #112]\n\tstp d12, d13, [sp, #128]\n\tstp d14, d15, [sp, #144]\n\t"
        "mov x9, sp\n\tstr x9, [x0]\n\tmov sp, x1\n\t"
        "ldp x19, x20, [sp]\n\tldp x21, x22, [sp, #16]\n\tldp x23, x24, [sp, #32]\n\t"
        "ldp x25, x26, [sp, #48]\n\tldp x27, x28, [sp, #64]\n\tldp x29, x30, [sp, #80]\n\t"
        "ldp d8, d9, [sp, #96]\n\tldp d10, d11, [sp, #112]\n\tldp d12, d13, [sp, #128]\n\tldp d14, d15, [sp, #144]\n\t"
        "add sp, sp, #160\n\tret\n.size machine_switch, .-machine_switch\n");
#endif
#endif

enum {
    STACK_BYTES = 64 * 1024,
    MOST_WARPS = 20,
    MOST_LANES = 200, /* of a group: items that run */
    NAMED = 16,
    MOST_COPIES = 4096
};

enum wait { READY, AWAIT, SYNC, MEET, BALLOT, PAUSE, DEVICE, COPIES, OVER };
static const char *const wait_names[] = {"ready",    "a barrier's phase", "a named barrier",         "the group",
                                         "its warp", "nothing",           "a word of device memory", "its copies",
                                         "over"};

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
    uint32_t (*take)(const unsigned char *);
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

static struct {
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

/* Stacks. */
static void switch_to(struct context *from, struct context *to)
{
#if SLOW_SWITCH
    swapcontext(&from->slow, &to->slow);
#else
    machine_switch(&from->stack, to->stack);
#endif
}

static void leave(struct lane *lane)
{
    switch_to(&lane->context, &machine.scheduler);
}

static void live(void)
{
    for (;;) {
        struct lane *const lane = machine.now;
        machine.run->entry();
        lane->wait = OVER;
        leave(lane);
    }
}

/* From the beginning, on a stack of its own. */
static void begin(struct lane *lane)
{
#if SLOW_SWITCH
    getcontext(&lane->context.slow);
    lane->context.slow.uc_stack.ss_sp = lane->stack;
    lane->context.slow.uc_stack.ss_size = STACK_BYTES;
    lane->context.slow.uc_link = NULL;
    makecontext(&lane->context.slow, live, 0);
#elif defined(__x86_64__)
    uintptr_t *const top = (uintptr_t *)((char *)lane->stack + STACK_BYTES - 64); /* a multiple of 16 */
    memset(top - 8, 0, 8 * sizeof *top);
    top[-2] = (uintptr_t)live; /* where the switch returns to, as if it had been called from 0 */
    lane->context.stack = top - 8;
#else
    uintptr_t *const top = (uintptr_t *)((char *)lane->stack + STACK_BYTES - 160);
    memset(top, 0, 160);
    top[11] = (uintptr_t)live; /* x30 */
    lane->context.stack = top;
#endif
    lane->is_made = true;
    lane->is_stale = false;
}

static void resume(struct lane *lane)
{
    machine.now = lane;
    if (!lane->is_made || lane->is_stale)
        begin(lane);
    switch_to(&machine.scheduler, &lane->context);
    machine.now = NULL;
}

static void wait_as(enum wait wait)
{
    struct lane *const lane = machine.now;
    lane->wait = wait;
    lane->attempt = lane->warp->attempt;
    leave(lane);
}

/* Chance. */
static uint32_t draw(uint32_t below)
{
    machine.random = machine.random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((machine.random >> 33) * below >> 31);
}

uint32_t machine_random(uint32_t below)
{
    return draw(below);
}

int machine_lid(void)
{
    return machine.now->lid;
}
int machine_group(void)
{
    return machine.now->group->id;
}
int machine_groups(void)
{
    return machine.run->groups;
}
int machine_slot(void)
{
    return (int)(machine.now->group - machine.groups);
}
int machine_warp(void)
{
    return machine.now->warp->number;
}

unsigned char *machine_local(uint32_t address)
{
    if (address >= MACHINE_LOCAL_BYTES)
        machine_fault("local memory at %u", address);
    return machine.now->group->local + address;
}

static void fail(const char *format, va_list list)
{
    const int length = machine.now ? snprintf(machine.said, sizeof machine.said,
                                              "group %d, item %d: ", machine.now->group->id, machine.now->lid)
                                   : 0;
    vsnprintf(machine.said + length, sizeof machine.said - (size_t)length, format, list);
    machine.failed = true;
}

void machine_fault(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fail(format, list);
    va_end(list);
    wait_as(PAUSE); /* from which it does not return */
    abort();
}

/* Of what goes on outside of items. */
static void fault_outside(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fail(format, list);
    va_end(list);
}

void machine_maybe_pause(void)
{
    if (machine.now->warp->kind->lanes == 1 && draw(2) == 0)
        wait_as(PAUSE);
}

/* Barriers. */
static struct phase_barrier *barrier_at(struct group *group, uint32_t at)
{
    struct phase_barrier *const barrier = &group->barriers[at / 8];
    if (at % 8 || at >= MACHINE_LOCAL_BYTES || barrier->run != machine.run_number)
        machine_fault("there is no barrier at %u", at);
    return barrier;
}

static void settle(struct phase_barrier *barrier)
{
    if (barrier->pending == 0 && barrier->bytes == 0) {
        barrier->completed++;
        barrier->pending = barrier->arrivals;
    }
}

void machine_barrier_create(uint32_t at, int arrivals)
{
    if (at % 8 || at >= MACHINE_LOCAL_BYTES)
        machine_fault("a barrier at %u", at);
    machine.now->group->barriers[at / 8] = (struct phase_barrier){arrivals, arrivals, 0, 0, machine.run_number};
}

static void arrive(uint32_t at, int count)
{
    struct phase_barrier *const barrier = barrier_at(machine.now->group, at);
    if (barrier->pending < count)
        machine_fault("%d arrive at the barrier at %u, which awaits %d", count, at, barrier->pending);
    barrier->pending -= count;
    settle(barrier);
}

void machine_arrive(uint32_t at, int count)
{
    arrive(at, count * machine.now->warp->kind->weight);
}
void machine_arrive_alone(uint32_t at)
{
    arrive(at, 1);
}
void machine_expect(uint32_t at, int bytes)
{
    barrier_at(machine.now->group, at)->bytes += bytes;
    arrive(at, 1);
}

static bool is_complete(const struct group *group, uint32_t at, uint32_t parity)
{
    return (group->barriers[at / 8].completed & 1) != (parity & 1);
}

void machine_await(uint32_t at, uint32_t parity)
{
    struct lane *const lane = machine.now;
    barrier_at(lane->group, at);
    if (is_complete(lane->group, at, parity) && !lane->warp->pauses)
        return;
    lane->at = at;
    lane->parity = parity;
    wait_as(AWAIT);
}

void machine_sync(int id, int items, bool waits)
{
    struct lane *const lane = machine.now;
    struct named *const named = &lane->group->named[id];
    if (id <= 0 || id >= NAMED || (named->arrived && named->items != items))
        machine_fault("%d items at barrier %d, of %d", items, id, named->items);
    named->items = items;
    lane->at = (uint32_t)id;
    lane->generation = named->generation;
    named->arrived += lane->warp->kind->weight;
    if (named->arrived > items)
        machine_fault("%d items come to barrier %d, of %d", named->arrived, id, items);
    if (named->arrived == items) {
        named->arrived = 0;
        named->generation++;
    } else if (waits) {
        wait_as(SYNC);
    }
}

void machine_meet(void)
{
    struct lane *const lane = machine.now;
    struct group *const group = lane->group;
    lane->generation = group->meeting;
    if (++group->met == group->lane_count) {
        group->met = 0;
        group->meeting++;
    } else {
        wait_as(MEET);
    }
}

/* Lanes. */
static void rendezvous(void)
{
    struct warp *const warp = machine.now->warp;
    const uint32_t all = warp->kind->lanes == MACHINE_LANES ? ~0u : 1u;
    warp->arrived |= 1u << machine.now->lid % MACHINE_LANES % warp->kind->lanes;
    if (warp->arrived != all) {
        wait_as(BALLOT);
        return;
    }
    warp->arrived = 0;
    for (int n = 0; n < warp->kind->lanes; n++)
        if (&warp->lanes[n] != machine.now)
            warp->lanes[n].wait = READY;
}

/* Two places take turns: who is first at the next meeting leaves alone what others have yet to read of this one. */
uint32_t machine_ballot(bool vote)
{
    struct warp *const warp = machine.now->warp;
    const unsigned turn = machine.now->meetings++ % 2;
    if (warp->arrived == 0)
        warp->votes[turn] = 0;
    warp->votes[turn] |= vote ? 1u << machine.now->lid % MACHINE_LANES % warp->kind->lanes : 0;
    rendezvous();
    return warp->votes[turn];
}

int machine_from_lane(int x, int lane)
{
    struct warp *const warp = machine.now->warp;
    if (warp->kind->lanes == 1)
        return x;
    const unsigned turn = machine.now->meetings++ % 2;
    warp->values[turn][machine.now->lid % MACHINE_LANES] = x;
    rendezvous();
    return warp->values[turn][lane & (MACHINE_LANES - 1)];
}

/* Copies. */
static struct copy *new_copy(void)
{
    if (machine.copy_count == MOST_COPIES)
        machine_fault("more than %d copies under way", MOST_COPIES);
    struct copy *const copy = &machine.copies[machine.copy_count++];
    *copy = (struct copy){.group = machine.now->group, .id = machine.now->group->id, .lane = machine.now};
    return copy;
}

void machine_copy(uint32_t at, int bytes, void (*done)(unsigned char *, uint32_t), uint32_t to, uint32_t word)
{
    struct copy *const copy = new_copy();
    copy->at = at;
    copy->bytes = bytes;
    copy->done = done;
    copy->to = to;
    copy->word = word;
}

void machine_send(uint32_t from, void *to, uint32_t (*take)(const unsigned char *),
                  void (*give)(void *, uint32_t, bool), bool adds)
{
    struct copy *const copy = new_copy();
    copy->to = from;
    copy->outside = to;
    copy->take = take;
    copy->give = give;
    copy->adds = adds;
    machine.now->copies++;
    machine.now->unread++;
}

static bool copies_are_done(const struct lane *lane)
{
    return lane->read_alone ? lane->unread == 0 : lane->copies == 0;
}

void machine_copies_wait(bool read_alone)
{
    machine.now->read_alone = read_alone;
    if (!copies_are_done(machine.now))
        wait_as(COPIES);
}

/* One of those under way takes a step. */
static void step_copy(void)
{
    const int n = (int)draw((uint32_t)machine.copy_count);
    struct copy *const copy = &machine.copies[n];
    if (copy->take && !copy->taken) {
        if (!copy->group->runs || copy->group->id != copy->id)
            fault_outside("group %d has ended before what it sends is read", copy->id);
        copy->word = copy->take(copy->group->local + copy->to);
        copy->taken = true;
        copy->lane->unread--;
        return;
    }
    if (copy->take) {
        copy->give(copy->outside, copy->word, copy->adds);
        if (copy->group->id == copy->id)
            copy->lane->copies--;
    } else {
        struct phase_barrier *const barrier = &copy->group->barriers[copy->at / 8];
        if (copy->done)
            copy->done(copy->group->local + copy->to, copy->word);
        barrier->bytes -= copy->bytes;
        settle(barrier);
    }
    *copy = machine.copies[--machine.copy_count];
}

/* Device memory. */
static bool word_is(const struct lane *lane)
{
    return lane->or_more ? *lane->word >= lane->parity : *lane->word == lane->parity;
}

bool machine_device_await(const volatile uint32_t *word, uint32_t x, bool or_more, volatile uint32_t *given_up)
{
    struct lane *const lane = machine.now;
    lane->word = word;
    lane->given_up = given_up;
    lane->parity = x;
    lane->or_more = or_more;
    if (!word_is(lane))
        wait_as(DEVICE);
    return word_is(lane);
}

/* One of those who wait gives up; false: none does. */
static bool give_up(void)
{
    for (int g = 0; g < machine.run->resident && machine.run->gives_up; g++)
        for (int n = 0; machine.groups[g].runs && n < machine.groups[g].lane_count; n++) {
            const struct lane *const lane = &machine.groups[g].lanes[n];
            if (lane->wait == DEVICE && !*lane->given_up) {
                *lane->given_up = 1;
                return true;
            }
        }
    return false;
}

/* The schedule. */
static bool is_met(const struct lane *lane)
{
    switch (lane->wait) {
    case READY:
    case PAUSE:
        return true;
    case AWAIT:
        return is_complete(lane->group, lane->at, lane->parity);
    case SYNC:
        return lane->group->named[lane->at].generation != lane->generation;
    case MEET:
        return lane->group->meeting != lane->generation;
    case DEVICE:
        return word_is(lane) || *lane->given_up;
    case COPIES:
        return copies_are_done(lane);
    default:
        return false;
    }
}

static bool can_run(const struct warp *warp)
{
    for (int n = 0; n < warp->kind->lanes; n++)
        if (is_met(&warp->lanes[n]))
            return true;
    return false;
}

static void run_warp(struct warp *warp)
{
    bool again;
    warp->attempt++;
    warp->pauses = draw(4) == 0;
    do {
        again = false;
        for (int n = 0; n < warp->kind->lanes && !machine.failed; n++) {
            struct lane *const lane = &warp->lanes[n];
            if (lane->wait != READY && (lane->attempt == warp->attempt || !is_met(lane)))
                continue;
            lane->wait = READY;
            resume(lane);
            if (lane->wait == OVER && !machine.failed && --warp->group->left == 0)
                warp->group->runs = false;
            again = true;
        }
    } while (again && !machine.failed);
}

static void start_group(struct group *group)
{
    const struct machine_run *run = machine.run;
    struct lane *next = group->lanes;
    if (!group->local) {
        group->local = calloc(1, MACHINE_LOCAL_BYTES);
        group->barriers = calloc(MACHINE_LOCAL_BYTES / 8, sizeof *group->barriers);
    }
    if (!group->local || !group->barriers || run->warp_count > MOST_WARPS)
        abort();
    group->id = machine.started++;
    group->warp_count = run->warp_count;
    group->met = 0;
    group->meeting = 0;
    group->runs = true;
    memset(group->named, 0, sizeof group->named);
    for (int w = 0; w < run->warp_count; w++) {
        struct warp *const warp = &group->warps[w];
        *warp =
            (struct warp){.lanes = next, .kind = &run->warps[w], .group = group, .rank = draw(1u << 30), .number = w};
        for (int n = 0; n < run->warps[w].lanes; n++, next++) {
            if (next == group->lanes + MOST_LANES)
                abort();
            if (!next->stack && !(next->stack = aligned_alloc(64, STACK_BYTES)))
                abort();
            next->is_stale = next->is_made && next->wait != OVER; /* given up in the midst */
            next->wait = READY;
            next->attempt = 0;
            next->copies = next->unread = 0;
            next->meetings = 0;
            next->lid = run->warps[w].first_lid + n;
            next->group = group;
            next->warp = warp;
        }
    }
    group->left = group->lane_count = (int)(next - group->lanes);
}

/* Whether it comes after all others. */
static bool is_slow(const struct warp *warp)
{
    return machine.policy == 2 ? warp->group == &machine.groups[machine.slow_group]
                               : machine.policy == 3 && warp->number == machine.slow_warp;
}

/* The warp that is next; NULL: none can run. */
static struct warp *choose(void)
{
    struct warp *all[MACHINE_MOST_GROUPS * MOST_WARPS], *slow = NULL, *best = NULL;
    int count = 0;
    for (int g = 0; g < machine.run->resident; g++)
        for (int w = 0; machine.groups[g].runs && w < machine.groups[g].warp_count; w++)
            all[count++] = &machine.groups[g].warps[w];
    const int first = count ? (int)draw((uint32_t)count) : 0;
    for (int n = 0; n < count; n++) {
        struct warp *const warp = all[(first + n) % count];
        if (!can_run(warp))
            continue;
        if (machine.policy == 0)
            return warp;
        if (is_slow(warp))
            slow = warp;
        else if (machine.policy > 1)
            return warp;
        else if (!best || warp->rank > best->rank)
            best = warp;
    }
    if (best && draw(64) == 0)
        best->rank = draw(1u << 30);
    return best ? best : slow;
}

static void tell_who_waits(void)
{
    int length = 0;
    for (int g = 0; g < machine.run->resident; g++)
        for (int w = 0; machine.groups[g].runs && w < machine.groups[g].warp_count; w++) {
            const struct lane *const lane = machine.groups[g].warps[w].lanes;
            if (lane->wait != OVER && length < (int)sizeof machine.said - 128)
                length += snprintf(machine.said + length, sizeof machine.said - (size_t)length,
                                   "group %d, item %d waits for %s (%u, %u); ", machine.groups[g].id, lane->lid,
                                   wait_names[lane->wait], lane->at, lane->parity);
        }
}

/* Starts what has room. */
static bool fill_places(void)
{
    bool any = false;
    for (int g = 0; g < machine.run->resident; g++) {
        if (!machine.groups[g].runs && machine.started < machine.run->groups)
            start_group(&machine.groups[g]);
        any = any || machine.groups[g].runs;
    }
    return any;
}

enum machine_end machine_run(const struct machine_run *run)
{
    machine.run = run;
    machine.run_number++;
    machine.copy_count = machine.started = 0;
    machine.failed = false;
    machine.said[0] = '\0';
    machine.random = run->seed * 0x9e3779b97f4a7c15u + 1;
    machine.policy = (int)draw(4);
    machine.slow_group = (int)draw((uint32_t)run->resident);
    machine.slow_warp = (int)draw((uint32_t)run->warp_count);
    for (int g = 0; g < MACHINE_MOST_GROUPS; g++)
        machine.groups[g].runs = false;
    while (fill_places() || machine.copy_count > 0) {
        const bool copies = machine.copy_count > 0 && draw(4) == 0;
        struct warp *const warp = copies ? NULL : choose();
        if (warp) {
            run_warp(warp);
        } else if (machine.copy_count > 0) {
            step_copy();
        } else if (!give_up()) {
            tell_who_waits();
            return MACHINE_STUCK;
        }
        if (machine.failed)
            return MACHINE_FAULT;
    }
    return MACHINE_ENDED;
}

const char *machine_said(void)
{
    return machine.said;
}
