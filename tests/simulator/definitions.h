/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What instructions make of v0, v1 and v2 in v3, written down a second time, otherwise than the simulator has it. */
#ifndef SIMULATED_DEFINITIONS_H
#define SIMULATED_DEFINITIONS_H

#include <stdint.h>

typedef uint32_t defined(uint32_t a, uint32_t b, uint32_t c);

struct definition {
    const char *text; /* NULL ends the table */
    defined *function;
    int sources;
    int close; /* units in the last place that it may be off */
};
extern const struct definition definitions[];

float definition_float(uint32_t x);
defined definition_of_half, definition_to_half;

#endif
