/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The tables of instructions. A row names an instruction without its prefix (v_, s_, ds_ ...) and suffix (_e32, _e64),
 * its function, and its operands in the order of the text:
 *     result  v, V   a vector register, a pair           S, D   a scalar register, a pair
 *             M      a mask of lanes                     -      none
 *     sources f, h   32-bit, 16-bit float                u      32-bit integer
 *             w      16-bit integer                      q      64 bits
 *             s, d   a scalar, a pair                    m      a mask of lanes
 *             r      registers as many as the text says
 *             +      the result's old value, which the text does not repeat
 *             %      the mask in vcc, likewise
 * A second result's letter stands behind the first's. */
#ifndef SIMULATED_OPERATIONS_H
#define SIMULATED_OPERATIONS_H

#include "machine.h"

struct operation {
    const char *name;
    run_function *run;
    const char *operands;
};

/* Each ended by a row without a name. */
extern const struct operation float_operations[], integer_operations[], conversion_operations[], packed_operations[],
    wide_operations[], cross_lane_operations[], scalar_operations[], matrix_operations[];

/* v_cmp and v_cmpx; false where there is none of that name (without the prefix). */
bool compare_find(const char *name, struct operation *operation, bool *sets_exec);

#endif
