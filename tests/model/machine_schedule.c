/* SPDX-License-Identifier: BSD-2-Clause */
#define _GNU_SOURCE
#include "model/machine_state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const wait_names[] = {"ready",    "a barrier's phase", "a named barrier",         "the group",
                                         "its warp", "nothing",           "a word of device memory", "its copies",
                                         "over"};

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

static bool is_met(const struct lane *lane)
{
    switch (lane->wait) {
    case READY:
    case PAUSE:
        return true;
    case AWAIT:
        return machine_barrier_is_complete(lane->group, lane->at, lane->parity);
    case SYNC:
        return lane->group->named[lane->at].generation != lane->generation;
    case MEET:
        return lane->group->meeting != lane->generation;
    case DEVICE:
        return machine_word_is(lane) || *lane->given_up;
    case COPIES:
        return machine_copies_are_done(lane);
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
    warp->pauses = machine_random(4) == 0;
    do {
        again = false;
        for (int n = 0; n < warp->kind->lanes && !machine.failed; n++) {
            struct lane *const lane = &warp->lanes[n];
            if (lane->wait != READY && (lane->attempt == warp->attempt || !is_met(lane)))
                continue;
            lane->wait = READY;
            machine_resume(lane);
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
        *warp = (struct warp){
            .lanes = next, .kind = &run->warps[w], .group = group, .rank = machine_random(1u << 30), .number = w};
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
    const int first = count ? (int)machine_random((uint32_t)count) : 0;
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
    if (best && machine_random(64) == 0)
        best->rank = machine_random(1u << 30);
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
    machine.policy = (int)machine_random(4);
    machine.slow_group = (int)machine_random((uint32_t)run->resident);
    machine.slow_warp = (int)machine_random((uint32_t)run->warp_count);
    for (int g = 0; g < MACHINE_MOST_GROUPS; g++)
        machine.groups[g].runs = false;
    while (fill_places() || machine.copy_count > 0) {
        const bool copies = machine.copy_count > 0 && machine_random(4) == 0;
        struct warp *const warp = copies ? NULL : choose();
        if (warp) {
            run_warp(warp);
        } else if (machine.copy_count > 0) {
            machine_step_copy();
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
