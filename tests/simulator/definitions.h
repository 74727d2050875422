/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What instructions make of v0, v1 and v2 in v3, written down a second time, otherwise than the simulator has it. */
#ifndef SIMULATED_DEFINITIONS_H
#define SIMULATED_DEFINITIONS_H

#include <stdbool.h>
#include <stddef.h>
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

/* Of vector instructions that have more than three words and one result. By the names that share a definition, without
 * their prefix, and what stands behind these: a lies in v0 or v[0:1] (a0, s0), b in v2 or v[2:3], c in v4 or v[4:5], a
 * mask in s[10:11] (and vcc); the result in v20 or v[20:21] (a20, s20), which held `old`, a mask in s[12:13]. */
struct given {
    uint64_t a, b, c, old;
    bool in; /* the lane's bit of the mask */
};
struct made {
    uint64_t value;
    bool flag; /* the lane's bit of the mask that is written */
};
typedef struct made vector_defined(struct given of);
struct vector_definition {
    const char *names; /* NULL ends the table */
    const char *operands;
    vector_defined *function;
};
extern const struct vector_definition vector_definitions[];

/* Name number `n` of several; false where there are fewer. */
bool definition_name(const char *names, int n, char *name, size_t size);

float definition_float(uint32_t x);
__float128 definition_fused(double a, double b, double c); /* a * b + c, which rounds right to a float */
defined definition_of_half, definition_to_half;

#endif
