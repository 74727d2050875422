/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What instructions make of v0, v1 and v2 in v3, written down a second time, otherwise than the simulator has it. */
#ifndef SIMULATED_DEFINITIONS_H
#define SIMULATED_DEFINITIONS_H

#include <stdbool.h>
#include <stdint.h>

typedef uint32_t defined(uint32_t a, uint32_t b, uint32_t c);

struct definition {
    const char *text; /* NULL ends the table */
    defined *function;
    int sources;
    int close; /* units in the last place that it may be off */
};
extern const struct definition definitions[];

/* Of scalar instructions, by the names that share a definition, without their prefix, and what stands behind these: a
 * lies in s0 or s[0:1], b in s2 or s[2:3], the result in s4 or s[4:5], which held b before. */
enum { KEEPS_FLAG = -1 };
struct outcome {
    uint64_t value;
    int flag; /* that the instruction sets; or KEEPS_FLAG */
};
typedef struct outcome scalar_defined(uint64_t a, uint64_t b, bool flag);
struct scalar_definition {
    const char *names; /* NULL ends the table */
    const char *operands;
    scalar_defined *function;
};
extern const struct scalar_definition scalar_definitions[], short_definitions[];

float definition_float(uint32_t x);
defined definition_of_half, definition_to_half;

#endif
