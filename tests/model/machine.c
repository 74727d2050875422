/* SPDX-License-Identifier: BSD-2-Clause */
#define _GNU_SOURCE
#include "model/machine_state.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct machine machine;

static void wait_as(enum wait wait)
{
    struct lane *const lane = machine.now;
    lane->wait = wait;
    lane->attempt = lane->warp->attempt;
    machine_leave(lane);
}

/* Chance. */
uint32_t machine_random(uint32_t below)
{
    machine.random = machine.random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((machine.random >> 33) * below >> 31);
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
    if (machine.now->warp->kind->lanes == 1 && machine_random(2) == 0)
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

bool machine_barrier_is_complete(const struct group *group, uint32_t at, uint32_t parity)
{
    return (group->barriers[at / 8].completed & 1) != (parity & 1);
}

void machine_await(uint32_t at, uint32_t parity)
{
    struct lane *const lane = machine.now;
    barrier_at(lane->group, at);
    if (machine_barrier_is_complete(lane->group, at, parity) && !lane->warp->pauses)
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

void machine_send(uint32_t from, void *to, int bytes, uint32_t (*take)(const unsigned char *, int),
                  void (*give)(void *, uint32_t, bool), bool adds)
{
    struct copy *const copy = new_copy();
    copy->to = from;
    copy->outside = to;
    copy->take = take;
    copy->bytes = bytes;
    copy->give = give;
    copy->adds = adds;
    machine.now->copies++;
    machine.now->unread++;
}

bool machine_copies_are_done(const struct lane *lane)
{
    return lane->read_alone ? lane->unread == 0 : lane->copies == 0;
}

void machine_copies_wait(bool read_alone)
{
    machine.now->read_alone = read_alone;
    if (!machine_copies_are_done(machine.now))
        wait_as(COPIES);
}

/* One of those under way takes a step. */
void machine_step_copy(void)
{
    const int n = (int)machine_random((uint32_t)machine.copy_count);
    struct copy *const copy = &machine.copies[n];
    if (copy->take && !copy->taken) {
        if (!copy->group->runs || copy->group->id != copy->id)
            fault_outside("group %d has ended before what it sends is read", copy->id);
        copy->word = copy->take(copy->group->local + copy->to, copy->bytes);
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
bool machine_word_is(const struct lane *lane)
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
    if (!machine_word_is(lane))
        wait_as(DEVICE);
    return machine_word_is(lane);
}
