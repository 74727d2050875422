/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_REFERENCE_FORMATS_H
#define CLATTN_TOOL_REFERENCE_FORMATS_H

#include <clattn/problem.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Formats of K and V (enum clattn_operand_type) on the host, by their definitions, element by element. `type` is
 * CLATTN_AS_INT8 to CLATTN_AS_Q4_0. */

/* The bytes of a row of so many elements: whole blocks. */
size_t formats_row_bytes(int type, int64_t columns);

/* What is stored of element x of a row, without scales and zero points that lie apart. */
float formats_stored(int type, const uint8_t *row, int64_t x);

/* How rows are made of values: groups of `group` elements have a scale and, with `zeros`, a zero point, as
 * problem.k_scale_group and zero_points say; q8_0 and q4_0 have theirs in the row. */
struct formats_way {
    int type;
    int64_t columns, group; /* group 0: the row */
    bool zeros;
};

/* The groups of a row that have scales apart. */
int64_t formats_groups(const struct formats_way *way);

/* Rounds a row of values to the format. Its scales, groups of them, are the least that reach its largest value; `zeros`
 * may be NULL where the way has none. What is not finite becomes 0. */
void formats_quantise(const struct formats_way *way, const float *values, uint8_t *row, float *scales, float *zeros);

/* The values that a row holds. */
void formats_expand(const struct formats_way *way, const uint8_t *row, const float *scales, const float *zeros,
                    float *values);

#endif
