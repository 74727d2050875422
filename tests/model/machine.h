/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A machine for models of kernels whose work-groups, or whose warps, wait for each other: it runs the kernel's own
 * text, an item at a time, and changes from one to another wherever one waits, in an order that a seed says. What it
 * has of a Hopper device: barriers in local memory that count arrivals and bytes (mbarrier), named barriers (bar.sync,
 * bar.arrive), ballots, copies that arrive when they like, words in device memory that are waited for, and no more
 * work-groups at a time than there is room for.
 *
 * Of a warp either all lanes run (LANES), as one agent that is chosen together, or one item alone, whose arrivals stand
 * for those of others that do the same. */
#ifndef MODEL_MACHINE_H
#define MODEL_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

enum { MACHINE_LANES = 32, MACHINE_LOCAL_BYTES = 232448, MACHINE_MOST_GROUPS = 4 };

/* Warps of each work-group: the first item's number; the items that run, LANES or 1; for how many an arrival of one
 * stands. */
struct machine_warp {
    int first_lid, lanes, weight;
};

struct machine_run {
    const struct machine_warp *warps;
    int warp_count;
    int groups, resident; /* that are launched; that have room at a time, up to MACHINE_MOST_GROUPS */
    void (*entry)(void);  /* what each item runs */
    bool gives_up;        /* where all wait for ever, one that waits for a word of device memory does no longer */
    uint64_t seed;
};

/* What comes of a schedule. STUCK: all that are left wait for ever; FAULT: machine_fault was called. */
enum machine_end { MACHINE_ENDED, MACHINE_STUCK, MACHINE_FAULT };
enum machine_end machine_run(const struct machine_run *run);
const char *machine_said(void); /* of STUCK, who waits for what; of FAULT, the text */

/* From here on: for the item that runs. */
int machine_lid(void);
int machine_group(void);
int machine_groups(void);
int machine_slot(void); /* which of the places for work-groups this one's is in */
int machine_warp(void); /* the place of the item's warp in the table */
unsigned char *machine_local(uint32_t address);
uint32_t machine_random(uint32_t below);
void machine_maybe_pause(void); /* others may come first */
_Noreturn void machine_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));

void machine_meet(void);                          /* all items of the group */
void machine_sync(int id, int items, bool waits); /* a named barrier */
uint32_t machine_ballot(bool vote);               /* of the warp's lanes */
int machine_from_lane(int x, int lane);

void machine_barrier_create(uint32_t at, int arrivals);
void machine_arrive(uint32_t at, int count); /* times the warp's weight, if that is not 0 */
void machine_arrive_alone(uint32_t at);      /* once, whatever the weight */
void machine_expect(uint32_t at, int bytes); /* once, and as many bytes more */
void machine_await(uint32_t at, uint32_t parity);

/* A copy to the barrier's bytes; `done`, with its two words, is called when it comes. */
void machine_copy(uint32_t at, int bytes, void (*done)(unsigned char *to, uint32_t word), uint32_t to, uint32_t word);

/* A copy of so many bytes from local memory to a place outside: `take` is called when local memory is read, with what
 * lies there; `give` when the result is there for others. machine_copies_wait waits for the item's own copies: until
 * they are read, or there. */
void machine_send(uint32_t from, void *to, int bytes, uint32_t (*take)(const unsigned char *from, int bytes),
                  void (*give)(void *to, uint32_t taken, bool adds), bool adds);
void machine_copies_wait(bool read_alone);

/* Until there is x, or more; false: that, or another's like it, has been given up, as *given_up then says. */
bool machine_device_await(const volatile uint32_t *word, uint32_t x, bool or_more, volatile uint32_t *given_up);

#endif
