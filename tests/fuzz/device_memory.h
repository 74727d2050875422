/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_FUZZ_DEVICE_MEMORY_H
#define TEST_FUZZ_DEVICE_MEMORY_H

#include <clattn/opencl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Buffers on a device that works in the host's memory (PoCL): each begins or ends at a page that nobody may touch.
 * Inputs cannot be written to; outputs hold a pattern until they are. */

enum memory_role {
    MEMORY_INPUT,  /* numbers of the size that tensors hold */
    MEMORY_INDEX,  /* integers, most of them out of any range */
    MEMORY_OUTPUT, /* the pattern */
    MEMORY_SCRATCH /* a workspace or a state */
};

struct memory {
    const char *name; /* the argument, for messages */
    unsigned char *map, *first;
    size_t map_bytes, bytes;
    enum memory_role role;
    cl_mem buffer;
};

enum { MEMORY_MOST = 64 };

/* Of one call. */
struct memories {
    cl_context context;
    struct memory items[MEMORY_MOST];
    int count;
    size_t lies; /* bytes that each buffer claims beyond its own: to see that a read there is met */
};

/* A random number generator, whose course is the same everywhere. */
struct dice {
    uint64_t state;
};
void dice_seed(struct dice *dice, uint64_t seed, uint64_t stream);
uint64_t dice_roll(struct dice *dice);
int64_t dice(struct dice *dice, int64_t below); /* 0 .. below - 1 */

/* Ends the process where memory is short. `unit` is the size of an element, which the start is a multiple of. */
cl_mem memory_make(struct memories *memories, struct dice *dice, const char *name, size_t bytes, size_t unit,
                   enum memory_role role);
void memory_free(struct memories *memories);

/* Whether all outputs still hold the pattern. */
bool memory_untouched(const struct memories *memories);

/* The buffer whose pages hold an address, for the message of a signal handler; NULL: none. */
const struct memory *memory_at(const struct memories *memories, const void *address);

#endif
