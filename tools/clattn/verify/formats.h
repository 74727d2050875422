/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_VERIFY_FORMATS_H
#define CLATTN_TOOL_VERIFY_FORMATS_H

#include "random.h"
#include "reference/formats.h"
#include "reference/reference.h"

/* K and V of a case in formats (enum clattn_operand_type). */

enum { VERIFY_FORMATS = 2 }; /* K's, V's */

/* The format of an operand; type 0: it has none. */
struct verify_format {
    int type, group; /* group 0: a scale a row */
    bool zeros;
};

/* An operand as it is stored; rows NULL: as floats. */
struct verify_stored {
    struct formats_way way;
    int block, block_bytes;
    size_t row_bytes;
    uint8_t *rows;         /* of [batch, kv_heads, n_kv], or of packed keys; */
    float *scales, *zeros; /* groups of each, or NULL */
    int64_t groups;
};

/* Any of them for either operand. */
void verify_formats_draw(struct random *random, struct verify_format formats[VERIFY_FORMATS]);
bool verify_formats_any(const struct verify_format formats[VERIFY_FORMATS]);

/* Tells the plan. */
void verify_formats_say(const struct verify_format formats[VERIFY_FORMATS], struct clattn_problem *problem);

/* ", k int8 by 16 with zeros, v q4_0". */
void verify_formats_text(const struct verify_format formats[VERIFY_FORMATS], char *text, size_t size);

/* Stores rows of floats, which then become what is stored. False without memory. */
bool verify_formats_store(const struct verify_format *format, int columns, size_t count, float *values,
                          struct verify_stored *stored);
void verify_formats_free(struct verify_stored *stored);

#endif
